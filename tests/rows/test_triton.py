"""The Triton kernels: by the interpreter, by the compiler, and on a GPU where there is one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

import gmmatch as gm  # noqa: E402
from gmmatch._triton import MOST_COLUMNS, TritonWarning, has_kernels, triton_runs  # noqa: E402
from gmmatch.rows import GreedyTask  # noqa: E402
from tests.rows import kernel_checks as checks  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
each_dtype = pytest.mark.parametrize("dtype", checks.DTYPES)
each_way = pytest.mark.parametrize("scan", [False, True], ids=["gram", "scan"])


@pytest.mark.slow
def test_kernels_by_the_interpreter():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("interpreted.py"))],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


# Kernels and their compile-time constants.
KERNELS = {
    "evaluate_tiles": {"BLOCK_ROWS": 2, "COLUMNS": 512},
    "merge_tiles": {"TILES": 64, "COLUMNS": 64},
    "write_distances": {"ROWS": 256, "BLOCK_ROWS": 2, "COLUMNS": 512},
    "score_rows": {"BLOCK_ROWS": 2, "COLUMNS": 512},
    "multiply_rows": {"CENTERED": True, "BLOCK": 128, "DEPTH": 32, "PRECISION": "tf32x3"},
    "pick_by_gram": {"REPLACEMENT": False, "BLOCK": 256, "COLUMNS": 64, "FEW": 16},
    "scan_tiles": {"BLOCK_ROWS": 8, "COLUMNS": 512},
    "take_best": {"TILES": 1024, "ROWS": 512, "COLUMNS": 512, "REPLACEMENT": False},
}
# The types of arguments that are no pointers to float64.
INDICES = "rows table slots firsts active starts members gram_starts quotas order order_starts n_picks codes"
NUMBERS = "n_rows n_features stride plain side"
TYPES = {
    **dict.fromkeys(INDICES.split(), "*i64"),
    **dict.fromkeys(NUMBERS.split(), "i32"),
    "gram": "*fp32",
    "entry_error": "fp32",
    "available": "*i8",
}


@pytest.mark.slow
@pytest.mark.parametrize("data", ["*fp32", "*bf16"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_a_gpu(name, data, tmp_path, monkeypatch):
    """Without one: the interpreter knows no types, the compiler does."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from gmmatch.median.triton import write_distances
    from gmmatch.rows import triton_median, triton_picks

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = {**vars(triton_median), **vars(triton_picks), "write_distances": write_distances}
    kernel, constants = kernels[name], KERNELS[name]
    types = {**TYPES, "data": data, "block": data, "centers": "*fp32" if name == "multiply_rows" else "*fp64"}
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, "*fp64")
        for argument in kernel.arg_names
    }
    exact = name in ("pick_by_gram", "take_best")
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    options = {"enable_fp_fusion": not exact, "num_warps": 4}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert compiled.asm["cubin"]
    # Scores that decide are rounded as on the CPU.
    assert not (exact and "fma.rn.f64" in compiled.asm["ptx"])


@pytest.fixture
def broken_triton(monkeypatch):
    """Let Triton fail as it does without a C compiler; nothing is known of any device."""
    from gmmatch import _triton_trial

    class Broken:
        def __getitem__(self, grid):
            raise RuntimeError("Failed to find C compiler.\nPlease specify CC.")

    monkeypatch.setattr(_triton_trial, "double", Broken())
    triton_runs.cache_clear()
    yield
    triton_runs.cache_clear()


def test_without_a_compiler_torch_does_the_work_with_a_warning(broken_triton, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    rows, plain, codes = checks.make_rows((20, 9), 3, "float64")
    with pytest.warns(TritonWarning, match="Failed to find C compiler.*plain torch operations"):
        means = rows.group_means(codes, np.ones(29), 2)
    np.testing.assert_allclose(means, plain.group_means(codes, np.ones(29), 2))
    task = GreedyTask(codes, np.array([5, 3]), means, means, np.ones(29, dtype=bool))
    assert rows.greedy_picks(task)[0].tolist() == plain.greedy_picks(task)[0].tolist()


def test_wide_rows_and_rows_on_the_cpu_need_no_triton(broken_triton, monkeypatch):
    assert not has_kernels(torch.zeros(3, 2))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert not has_kernels(torch.zeros(3, MOST_COLUMNS + 1))


@needs_gpu
@each_dtype
def test_medians_on_a_gpu(dtype):
    checks.check_terms("cuda", dtype, sizes=(3, 700, 0, 90), s=33)
    checks.check_medians("cuda", dtype, sizes=(1, 2, 3000, 7), s=100)
    checks.check_medians("cuda", dtype, delta=0.1)


@needs_gpu
@each_dtype
@each_way
@pytest.mark.parametrize("replacement", [False, True])
def test_picks_on_a_gpu(dtype, scan, replacement):
    sizes, quotas = (1, 900, 300, 40), (1, 200, 300, 17)
    checks.check_picks("cuda", dtype, sizes, 64, quotas, replacement=replacement, scan=scan)
    checks.check_picks("cuda", dtype, sizes, 64, quotas, offset=1000.0, scan=scan)


@needs_gpu
@each_way
def test_ties_on_a_gpu(scan):
    checks.check_ties("cuda", scan=scan)
    checks.check_ties("cuda", scan=scan, few=0)


@needs_gpu
def test_layouts_distances_and_residuals_on_a_gpu():
    checks.check_layouts("cuda")
    checks.check_distances("cuda")
    checks.check_residuals("cuda")


@needs_gpu
@pytest.mark.parametrize("method", ["gm-matching", "herding", "robust", "easy", "moderate"])
def test_selections_on_a_gpu_are_those_of_the_cpu(method):
    random = np.random.default_rng(0)
    X = random.standard_normal((12_000, 32)).astype(np.float32)
    y = np.where(np.arange(12_000) < 9000, 0, random.integers(1, 4, 12_000))
    X[:, :4] += 5 * np.eye(4, dtype=np.float32)[y]
    options = {"y": y, "k": 300, "method": method, "random_state": 0}
    selections = [gm.select(rows, **options) for rows in (torch.from_numpy(X).cuda(), X)]
    assert selections[0].order.tolist() == selections[1].order.tolist()
    assert gm.select(torch.from_numpy(X).cuda(), **options).order.tolist() == selections[0].order.tolist()
