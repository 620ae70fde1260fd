"""ImageNet-size selection on a GPU: the calls that users make, share of the hardware's limit, exactness, memory.

python -m benchmarks.gpu --output benchmarks/results/gpu.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import gmmatch as gm
from gmmatch.backends.cuda.groups import DeviceGroups
from gmmatch.backends.cuda.medians import grouped_medians
from gmmatch.backends.cuda.picks import grouped_picks
from gmmatch.matching.reference import reference_picks

GROUPS, ROWS, COLUMNS, PICKS = 1000, 1280, 512, 128
EPS = 1e-6


def median_seconds(work, repeats=7, warmups=2):
    """Wall-clock of calls that end with results on the host; the median, and the spread."""
    for _ in range(warmups):
        work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return float(np.median(times)), float(min(times)), float(max(times))


def copy_bandwidth():
    """Bytes read and written per second by a large device-to-device copy."""
    source = torch.randn(1 << 30, device="cuda")
    target = torch.empty_like(source)
    seconds, _, _ = median_seconds(lambda: target.copy_(source))
    return 2 * source.nbytes / seconds


def matrix_rate():
    """Float32 multiply-adds per second of a large product, without TF32."""
    torch.backends.cuda.matmul.allow_tf32 = False
    a = torch.randn(8192, 8192, device="cuda")
    seconds, _, _ = median_seconds(lambda: a @ a, repeats=3)
    return 2 * 8192**3 / seconds


def make_data(sizes, dtype, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)
    n = int(sum(sizes))
    data = torch.randn((n, COLUMNS), generator=generator, device="cuda")
    # Classes differ in their centre and in the size of their columns, and a third of their rows is off.
    scale = torch.rand((1, COLUMNS), generator=generator, device="cuda") + 0.5
    label = torch.repeat_interleave(
        torch.arange(len(sizes), device="cuda"), torch.tensor(sizes, device="cuda")
    )
    centers = torch.randn((len(sizes), COLUMNS), generator=generator, device="cuda")
    for first in range(0, n, 1 << 17):  # in pieces: the peak of memory is measured later
        part = slice(first, first + (1 << 17))
        data[part] *= scale
        data[part] += centers[label[part]]
        wrong = (torch.arange(first, min(n, first + (1 << 17)), device="cuda") % 3 == 0)[:, None]
        data[part] += wrong * (2.0 * scale)
    return data.to(dtype)


def many_groups(name, sizes, dtype, bandwidth, flops):
    data = make_data(sizes, dtype, seed=len(name))
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    rows = [np.arange(bounds[g], bounds[g + 1]) for g in range(len(sizes))]
    groups = DeviceGroups.of(data, rows)
    quotas = np.full(len(sizes), PICKS)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    state = {}

    def both():
        state["medians"] = grouped_medians(groups, eps=EPS)
        state["picks"] = grouped_picks(groups, state["medians"].points, quotas)

    total = median_seconds(both)
    peak = torch.cuda.max_memory_allocated() - before
    medians = median_seconds(lambda: state.update(medians=grouped_medians(groups, eps=EPS)))
    picks = median_seconds(lambda: grouped_picks(groups, state["medians"].points, quotas))
    result, chosen = state["medians"], state["picks"]
    passes = result.iterations.double()
    read = (
        float((passes.cpu() * torch.tensor(np.array(sizes, dtype=float))).sum())
        * COLUMNS
        * data.element_size()
    )
    products = float(np.sum(np.array(sizes, dtype=float) ** 2)) * COLUMNS * 2
    wrong, checked = 0, np.random.default_rng(0).choice(len(sizes), 12, replace=False)
    for g in checked:
        wide = data[rows[g]].double().cpu().numpy()
        expected = reference_picks(wide, result.points[g].cpu().numpy(), PICKS)
        wrong += int((expected != chosen.order[chosen.offsets[g] : chosen.offsets[g + 1]]).sum())
    return {
        "workload": name,
        "dtype": str(dtype).split(".")[1],
        "groups": len(sizes),
        "rows": int(sum(sizes)),
        "columns": COLUMNS,
        "picks_per_group": PICKS,
        "seconds": total[0],
        "seconds_min_max": total[1:],
        "median_seconds": medians[0],
        "median_passes_mean": float(passes.mean()),
        "median_passes_max": int(passes.max()),
        "largest_certified_gap": float(result.gaps.max()),
        "median_share_of_copy_bandwidth": read / medians[0] / bandwidth,
        "pick_seconds": picks[0],
        "pick_share_of_float32_product": products / 2 / picks[0] / flops,
        "picks_decided_by_exact_scores": chosen.rescored,
        "groups_checked_against_float64": len(checked),
        "picks_that_differ": wrong,
        "extra_memory_bytes": int(peak),
        "input_bytes": int(data.nbytes),
    }


def one_large_group(dtype, bandwidth, n=1_280_000, k=1000):
    data = make_data([n], dtype, seed=7)
    groups = DeviceGroups.of(data, [np.arange(n)])
    target = grouped_medians(groups, eps=EPS).points
    seconds, least, most = median_seconds(
        lambda: grouped_picks(groups, target, np.array([k])), repeats=3, warmups=1
    )
    picks = grouped_picks(groups, target, np.array([k]))
    theta = target[0].clone()
    free = torch.ones(n, dtype=torch.bool, device="cuda")
    wrong = 0
    for t in range(min(k, 50)):  # the reference in float64, a block at a time
        scores = torch.cat([(data[b : b + 65536].double() * theta).sum(1) for b in range(0, n, 65536)])
        best = int(torch.where(free, scores, -torch.inf).argmax())
        wrong += int(best != picks.order[t])
        free[best] = False
        theta += target[0] - data[best].double()
    one_read = data.nbytes / bandwidth
    return {
        "workload": "one group",
        "dtype": str(dtype).split(".")[1],
        "rows": n,
        "columns": COLUMNS,
        "picks": k,
        "seconds": seconds,
        "seconds_min_max": (least, most),
        "seconds_per_pick": seconds / k,
        "times_one_read_at_copy_bandwidth": seconds / k / one_read,
        "picks_checked_against_float64": min(k, 50),
        "picks_that_differ": wrong,
    }


# What users call, on rows sorted by class and on shuffled ones.
CALLS = (
    ("gm-matching", {}),
    ("gm-matching", {"normalize": True}),
    ("herding", {}),
    ("easy", {}),
    ("moderate", {}),
    ("hard", {}),
    ("random", {"random_state": 0}),
    ("kernel-herding", {}),
    ("self-supervised", {"random_state": 0}),
    ("robust", {"random_state": 0}),
)

FIRST_CALL = """
import sys, time
import numpy as np, torch
import gmmatch as gm
X = torch.randn({rows}, {columns}, device="cuda")
y = np.repeat(np.arange({groups}), {rows} // {groups})
torch.cuda.synchronize()
method = gm.GMMatching(k=0.1)
begin = time.perf_counter()
method.select(X, y)
print(time.perf_counter() - begin)
"""


def calls():
    """Time ``gm.select`` on a float32 tensor, labels on the host, until the selection is there."""
    data = make_data([ROWS] * GROUPS, torch.float32, seed=1)
    labels = np.repeat(np.arange(GROUPS), ROWS)
    mixed = np.random.default_rng(0).permutation(labels)
    found = []
    for method, options in CALLS:
        # K-means takes its time on the first call as on any other.
        repeats, warmups = {"self-supervised": (1, 0), "robust": (2, 1)}.get(method, (5, 1))
        one = {"method": method, "options": options}
        for name, y in (("seconds", labels), ("seconds_shuffled", mixed)):

            def work(y=y, method=method, options=options, one=one):
                selection = gm.select(data, y=y, k=0.1, method=method, **options)
                one["devices"] = sorted({about["device"] for about in selection.provenance["groups"]})

            one[name], *one[f"{name}_min_max"] = median_seconds(work, repeats, warmups)
        found.append(one)
    return found


def first_calls():
    """Time the first call of a process: where nothing is compiled yet, and where Triton finds its kernels on disk."""
    program = FIRST_CALL.format(rows=GROUPS * ROWS, columns=COLUMNS, groups=GROUPS)
    with tempfile.TemporaryDirectory() as folder:
        found = [
            float(
                subprocess.run(
                    [sys.executable, "-c", program],
                    env={**os.environ, "TRITON_CACHE_DIR": folder},
                    capture_output=True, text=True, check=True,
                ).stdout
            )
            for _ in range(2)
        ]  # fmt: skip
    return {"seconds_compiling": found[0], "seconds_in_a_new_process": found[1]}


def kernels():
    """Time medians and picks alone, beside what the device can do."""
    bandwidth, flops = copy_bandwidth(), matrix_rate()
    ragged = np.random.default_rng(0).integers(732, 1301, GROUPS).tolist()
    workloads = []
    for dtype in (torch.float32, torch.bfloat16):
        workloads.append(many_groups("equal groups", [ROWS] * GROUPS, dtype, bandwidth, flops))
        workloads.append(many_groups("ragged groups", ragged, dtype, bandwidth, flops))
        workloads.append(one_large_group(dtype, bandwidth))
    return {
        "copy_bandwidth_bytes_per_second": bandwidth,
        "float32_product_flops_per_second": flops,
        "workloads": workloads,
    }


PARTS = {
    "first_call": lambda: {"first_call": first_calls()},
    "calls": lambda: {"rows": GROUPS * ROWS, "columns": COLUMNS, "classes": GROUPS, "calls": calls()},
    "kernels": kernels,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/gpu.json"))
    parser.add_argument("--only", choices=PARTS, help="measure this part, and keep the others of the file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device.")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(options.output.read_text()) if options.only and options.output.exists() else {}
    results |= {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    for name, measure in PARTS.items():
        if options.only in (None, name):
            results |= measure()
            options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(options.output.read_text())


if __name__ == "__main__":
    main()
