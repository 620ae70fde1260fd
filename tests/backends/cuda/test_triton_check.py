"""Where Triton does not work, plain torch operations do the work of its kernels, with one warning that says why.

A tensor that says of itself that it is on CUDA takes the way of one that is; its numbers are the CPU's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gmmatch as gm  # noqa: E402
from gmmatch.backends.cuda import triton_check  # noqa: E402
from gmmatch.backends.cuda.blocks import TensorSource  # noqa: E402
from gmmatch.backends.cuda.medians import uses_triton  # noqa: E402
from gmmatch.backends.cuda.triton_check import TritonWarning, triton_works  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
CPU = torch.device("cpu")
NO_COMPILER = "Failed to find C compiler. Please specify via CC environment variable."


class SaysCuda(torch.Tensor):
    is_cuda = property(lambda self: True)


@pytest.fixture(autouse=True)
def nothing_is_known():
    def forget():
        triton_check._failure_on.cache_clear()
        triton_check._warn_of.cache_clear()

    forget()
    yield
    forget()


def break_triton(monkeypatch):
    """Let Triton fail from now on, as it does without a C compiler; return the list of trials to come."""
    trials = []

    def fail(numbers):
        trials.append(numbers.device)
        raise RuntimeError(NO_COMPILER)

    triton_check._failure_on.cache_clear()
    monkeypatch.setattr(triton_check, "_double", fail)
    return trials


@pytest.fixture
def no_compiler(monkeypatch):
    return break_triton(monkeypatch)


def labelled(n=400, s=6):
    random = np.random.default_rng(0)
    return (random.standard_normal((n, s)) + 1.0).astype(np.float32), random.integers(0, 3, n)


def says_cuda(X):
    return torch.from_numpy(X).as_subclass(SaysCuda)


def test_the_warning_says_why_and_what_would_be_right_and_comes_once(no_compiler):
    with pytest.warns(TritonWarning) as given:
        assert [triton_works(CPU) for _ in range(3)] == [False] * 3
    assert len(given) == len(no_compiler) == 1
    text = str(given[0].message)
    assert "RuntimeError: Failed to find C compiler" in text
    assert "install a C compiler, for example gcc" in text
    assert "CC" in text
    assert given[0].filename == __file__


def test_devices_that_fail_alike_give_one_warning(no_compiler):
    with pytest.warns(TritonWarning) as given:
        assert not triton_works(CPU)
        assert not triton_works(torch.device("cpu", 0))
    assert (len(given), len(no_compiler)) == (1, 2)


def test_a_warning_made_an_error_is_one_each_time(no_compiler):
    for _ in range(2):
        with pytest.raises(TritonWarning):  # pytest makes it one
            triton_works(CPU)


def test_a_kernel_that_leaves_the_numbers_as_they_are_does_not_work(monkeypatch):
    monkeypatch.setattr(triton_check, "_double", lambda numbers: None)
    with pytest.warns(TritonWarning, match="doubles numbers did not"):
        assert not triton_works(CPU)


def test_without_triton_the_warning_says_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.delitem(sys.modules, "gmmatch.backends.cuda.picks_triton", raising=False)
    with pytest.warns(TritonWarning, match=r"ModuleNotFoundError.*install Triton"):
        assert not triton_works(CPU)


def test_kernels_are_used_where_the_trial_succeeds(monkeypatch):
    monkeypatch.setattr(triton_check, "_double", lambda numbers: numbers.mul_(2.0))
    assert uses_triton(says_cuda(labelled()[0]))
    assert not uses_triton(torch.zeros(3, 2))
    assert not uses_triton(torch.zeros(3, 5000).as_subclass(SaysCuda))


def test_what_needs_no_kernels_makes_no_trial(no_compiler):
    X, y = labelled()
    found = gm.Moderate(k=30).select(TensorSource(says_cuda(X)), y)
    assert np.array_equal(found.order, gm.Moderate(k=30).select(X, y).order)
    assert not uses_triton(says_cuda(X), wanted=False)
    assert no_compiler == []


@pytest.mark.parametrize("selector", [gm.GMMatching, gm.Herding])
@pytest.mark.parametrize("batches", [None, 3])
def test_linear_picks_are_those_of_plain_torch(no_compiler, selector, batches):
    X, y = labelled()
    method = selector(k=60, batches=batches, random_state=0)
    with pytest.warns(TritonWarning, match="Failed to find C compiler"):
        found = method.select(TensorSource(says_cuda(X)), y)
    plain = method.select(TensorSource(torch.from_numpy(X)), y)
    assert np.array_equal(found.order, plain.order)
    assert found.residual == plain.residual
    assert found.provenance["groups"] == plain.provenance["groups"]


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
@pytest.mark.parametrize("selector", [gm.GMMatching, gm.KernelHerding])
def test_picks_in_a_kernels_space_are_those_of_the_cpu(no_compiler, selector, kernel):
    X, y = labelled()
    with pytest.warns(TritonWarning, match="the CPU for matching in a kernel's space"):
        found = selector(k=60, kernel=kernel).select(TensorSource(says_cuda(X)), y)
    host = selector(k=60, kernel=kernel).select(X, y)
    assert np.array_equal(found.order, host.order)
    assert found.residual == host.residual


@needs_gpu
def test_on_a_gpu_the_trial_succeeds_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert triton_works(torch.device("cuda", torch.cuda.current_device()))


@needs_gpu
@pytest.mark.parametrize("options", [{"method": "herding"}, {"method": "gm-matching", "eps": 1e-13}])
def test_on_a_gpu_picks_are_the_same_with_and_without_kernels(monkeypatch, options):
    X, y = labelled(3000, 64)
    rows = torch.from_numpy(X).cuda()
    fused = gm.select(rows, y=y, k=200, **options)
    break_triton(monkeypatch)
    with pytest.warns(TritonWarning, match="Failed to find C compiler"):
        plain = gm.select(rows, y=y, k=200, **options)
    # Two medians differ by rounding, which may move a pick.
    assert np.mean(fused.order == plain.order) > (0.99 if "eps" in options else 0.999)
    assert plain.residual == pytest.approx(fused.residual, abs=1e-6)
    assert all(group["device"].startswith("cuda") for group in plain.provenance["groups"])


@needs_gpu
def test_on_a_gpu_a_kernels_space_goes_to_the_cpu(no_compiler):
    X, y = labelled()
    with pytest.warns(TritonWarning, match="the CPU for matching in a kernel's space"):
        found = gm.select(torch.from_numpy(X).cuda(), y=y, k=60, kernel="rbf", method="gm-matching")
    assert np.array_equal(found.order, gm.select(X, y=y, k=60, kernel="rbf", method="gm-matching").order)


PROGRAM = """
import json, sys, warnings
import numpy as np, torch
import gmmatch as gm
with warnings.catch_warnings(record=True) as given:
    warnings.simplefilter("always")
    picks = gm.select(torch.from_numpy(np.load(sys.argv[1])).cuda(), k=20, method="herding").order
print(json.dumps([picks.tolist(), [str(one.message) for one in given]]))
"""


@needs_gpu
@pytest.mark.slow
def test_on_a_gpu_without_a_compiler_and_without_kernels_on_disk(tmp_path):
    X, _ = labelled()
    np.save(tmp_path / "rows.npy", X)
    nowhere = {"CC": str(tmp_path / "no-compiler"), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "rows.npy")],
        env={**os.environ, **nowhere}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    picks, given = json.loads(done.stdout)
    assert picks == gm.select(X, k=20, method="herding").order.tolist()
    ours = [text for text in given if "Triton's kernels do not run" in text]
    assert len(ours) == 1
    assert "no-compiler" in ours[0]
