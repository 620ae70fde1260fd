"""ImageNet-size selection on a GPU: whether the kernels are right, and how long the calls of users take.

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
from gmmatch.median.terms import combine_distances, distance_stats
from gmmatch.rows import GreedyTask
from gmmatch.rows.open import check_finite
from gmmatch.rows.tensor import TensorRows
from tests.rows import kernel_checks as checks

GROUPS, ROWS, COLUMNS, SHARE = 1000, 1280, 512, 0.1
# Methods, their options, and how often each is timed.
CALLS = (
    ("gm-matching", {}, 7),
    ("herding", {}, 5),
    ("easy", {}, 5),
    ("moderate", {}, 5),
    ("robust", {"random_state": 0}, 1),
)

FIRST_CALL = """
import time
import numpy as np, torch
import gmmatch as gm
X = torch.randn({rows}, {columns}, device="cuda")
y = np.repeat(np.arange({groups}), {rows} // {groups})
torch.cuda.synchronize()
method = gm.GMMatching(k={share})
begin = time.perf_counter()
method.select(X, y)
print(time.perf_counter() - begin)
"""


def check_kernels():
    """Run the checks of tests/rows on the device; return what failed."""
    cases = [
        (checks.check_ties, {"scan": scan, "few": few}) for scan in (False, True) for few in (None, 0, 100)
    ]
    cases += [(checks.check_layouts, {}), (checks.check_distances, {}), (checks.check_residuals, {})]
    sizes = {"sizes": (1, 900, 300, 40), "s": 64, "quotas": (1, 200, 300, 17)}
    for dtype in checks.DTYPES:
        cases += [
            (checks.check_terms, {"dtype": dtype, "sizes": (3, 700, 0, 90), "s": 33}),
            (checks.check_medians, {"dtype": dtype, "sizes": (1, 2, 3000, 7), "s": 100}),
        ]
        for scan in (False, True):
            cases.append((checks.check_picks, {"dtype": dtype, "scan": scan, **sizes}))
            cases.append((checks.check_picks, {"dtype": dtype, "scan": scan, "offset": 1000.0, **sizes}))
    failures = []
    for check, options in cases:
        try:
            check("cuda", **options)
        except Exception as error:  # what fails is reported, and the rest is still checked
            failures.append(f"{check.__name__} {options}: {type(error).__name__}: {error}"[:500])
    return {"checks": len(cases), "failures": failures}


def median_seconds(work, repeats):
    """Return the median, least and most seconds of calls that end with results in main memory."""
    work()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return [float(np.median(times)), min(times), max(times)]


def make_data(n, n_groups, seed=1):
    """Return classes that differ in their center; a third of the rows is off."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    data = torch.randn((n, COLUMNS), generator=generator, device="cuda")
    scale = torch.rand((1, COLUMNS), generator=generator, device="cuda") + 0.5
    centers = torch.randn((n_groups, COLUMNS), generator=generator, device="cuda")
    labels = np.repeat(np.arange(n_groups), n // n_groups)
    owners = torch.from_numpy(labels).cuda()
    for first in range(0, n, 1 << 17):
        part = slice(first, first + (1 << 17))
        data[part] = data[part] * scale + centers[owners[part]]
    data[::3] += 2.0 * scale
    return data, labels


def time_calls(data, labels, calls):
    """Time ``gm.select``, labels in main memory, until the selection is there."""
    return [
        {
            "method": method,
            "seconds": median_seconds(
                lambda m=method, o=options: gm.select(data, labels, k=SHARE, method=m, **o), repeats
            ),
        }
        for method, options, repeats in calls
    ]


def time_stages(data, labels):
    """Time what one gm-matching asks of the rows; the rest of its call is the work of the host."""
    rows, n = TensorRows(data), len(data)
    codes, weights, available = labels.astype(np.int64), np.ones(n), np.ones(n, dtype=bool)
    options = {"eps": 1e-8, "max_iter": 1000, "delta": 0.0}
    medians = rows.group_medians(codes, weights, GROUPS, **options)
    quotas = np.full(GROUPS, int(SHARE * ROWS))
    task = GreedyTask(codes, quotas, medians.points, medians.points, available)
    order, _ = rows.greedy_picks(task)
    stages = {
        "check_finite": lambda: check_finite(rows),
        "group_means": lambda: rows.group_means(codes, weights, GROUPS),
        "group_medians": lambda: rows.group_medians(codes, weights, GROUPS, **options),
        "distance_stats": lambda: rows.reduce_blocks(
            distance_stats, medians.points, per_row=(codes, available), combine=combine_distances
        ),
        "greedy_picks": lambda: rows.greedy_picks(task),
        "measure_residuals": lambda: rows.measure_residuals(medians.points, order, codes[order]),
    }
    seconds = {name: median_seconds(work, 5) for name, work in stages.items()}
    return {
        **seconds,
        "median_evaluations": float(medians.iterations.mean()),
        "largest_gap": float(medians.gaps.max()),
    }


def time_large_group(data, k=200):
    """Time picks from one group of all rows, and compare the first with float64 sums of torch."""
    rows, n = TensorRows(data), len(data)
    codes, available = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool)
    target = rows.group_means(codes, np.ones(n), 1)
    task = GreedyTask(codes, np.array([k]), target, target, available)
    order, _ = rows.greedy_picks(task)
    goal = torch.from_numpy(target[0]).cuda()
    theta, free, wrong = goal.clone(), torch.ones(n, dtype=torch.bool, device="cuda"), 0
    for pick in order[:20].tolist():
        scores = torch.cat([(part.double() * theta).sum(1) for part in data.split(65536)])
        wrong += int(torch.where(free, scores, -torch.inf).argmax()) != pick
        free[pick] = False
        theta += goal - data[pick].double()
    return {
        "picks": k,
        "seconds": median_seconds(lambda: rows.greedy_picks(task), 3),
        "picks_that_differ": wrong,
    }


def time_first_calls():
    """Time the first call of a process: nothing compiled yet, and with Triton's kernels on disk."""
    program = FIRST_CALL.format(rows=GROUPS * ROWS, columns=COLUMNS, groups=GROUPS, share=SHARE)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TRITON_CACHE_DIR": folder}
        seconds = [
            float(
                subprocess.run(
                    [sys.executable, "-c", program],
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for _ in range(2)
        ]
    return {"compiling": seconds[0], "kernels_on_disk": seconds[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/gpu.json"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("This benchmark needs a CUDA device.")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": check_kernels()}
    data, labels = make_data(GROUPS * ROWS, GROUPS)
    results |= {"rows": len(data), "columns": COLUMNS, "classes": GROUPS}
    parts = {
        "stages": lambda: time_stages(data, labels),
        "calls": lambda: time_calls(data, labels, CALLS[:-1]),
        "large_group": lambda: time_large_group(data),
        "first_call": time_first_calls,
        "robust": lambda: time_calls(data, labels, CALLS[-1:]),
    }
    for name, measure in parts.items():
        try:
            results[name] = measure()
        except Exception as error:  # one part that fails costs no other
            results[name] = {"error": f"{type(error).__name__}: {error}"[:2000]}
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
