"""ImageNet-size selection on a GPU: time, share of the hardware's limit, exactness, memory.

python -m benchmarks.gpu --output benchmarks/results/gpu.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device.")
    bandwidth, flops = copy_bandwidth(), matrix_rate()
    results = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "copy_bandwidth_bytes_per_second": bandwidth,
        "float32_product_flops_per_second": flops,
        "workloads": [],
    }
    ragged = np.random.default_rng(0).integers(732, 1301, GROUPS).tolist()
    for dtype in (torch.float32, torch.bfloat16):
        results["workloads"].append(many_groups("equal groups", [ROWS] * GROUPS, dtype, bandwidth, flops))
        results["workloads"].append(many_groups("ragged groups", ragged, dtype, bandwidth, flops))
        results["workloads"].append(one_large_group(dtype, bandwidth))
    text = json.dumps(results, indent=1)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
