"""Near-duplicates: are all found, how fast, in how much memory; and what a training set shares with its test set.

``python -m benchmarks.duplicates DATA.npz`` reads embeddings of a data set (``rows``, and ``test_rows`` for
``--leaks``), as :mod:`benchmarks.screening` does. For more rows than there are, rows are drawn between real rows and
their neighbours.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from benchmarks import machine

Matrix = NDArray[np.float32]
COMMAND = "python -m benchmarks.duplicates DATA.npz --json benchmarks/results/duplicates.json"


def unit(rows: NDArray[Any]) -> Matrix:
    """Return rows of length 1."""
    wide = rows.astype(np.float32)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def brute_force(rows: Matrix, threshold: float) -> tuple[set[tuple[int, int]], float]:
    """Return all pairs, by all products, and the seconds of all cores that took."""
    began = time.process_time()
    points, found = unit(rows), set()
    for first in range(0, len(points), 1000):
        i, j = np.nonzero(points[first : first + 1000] @ points[first:].T >= threshold - 1e-5)
        i, j = i[i < j] + first, j[i < j] + first
        left, right = rows[i].astype(np.float64), rows[j].astype(np.float64)
        lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        near = np.einsum("ij,ij->i", left, right) / lengths >= threshold - 1e-7
        found |= set(zip(i[near].tolist(), j[near].tolist(), strict=True))
    return found, time.process_time() - began


def faiss_pairs(rows: Matrix, threshold: float, probes: int) -> tuple[set[tuple[int, int]], float]:
    """Return the pairs that an inverted file of faiss finds, and the seconds of all cores that took."""
    import faiss

    began = time.process_time()
    points = unit(rows)
    cells = round(4 * np.sqrt(len(points)))
    quantizer = faiss.IndexFlatIP(points.shape[1])
    index = faiss.IndexIVFFlat(quantizer, points.shape[1], cells, faiss.METRIC_INNER_PRODUCT)
    index.train(points[:: max(1, len(points) // (50 * cells))])
    index.add(points)
    index.nprobe = probes
    limits, _, others = index.range_search(points, threshold - 1e-7)
    lines = np.repeat(np.arange(len(points)), np.diff(limits.astype(np.int64)))
    once = lines < others
    return set(zip(lines[once].tolist(), others[once].tolist(), strict=True)), time.process_time() - began


def recall(rows: Matrix, thresholds: Sequence[float], *, faiss_probes: Sequence[int]) -> list[dict[str, Any]]:
    """Compare with all products, and with faiss if asked."""
    runs = []
    for threshold in thresholds:
        began, busy = time.perf_counter(), time.process_time()
        copies = gm.duplicates(rows, threshold)
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        wanted, slow = brute_force(rows, threshold)
        # Of a near pair at most one row may stay, and a duplicate must be near its original.
        resolved = {pair for pair in wanted if copies.mask[list(pair)].any()}
        assigned = {
            tuple(sorted(pair))
            for pair in zip(copies.rows.tolist(), copies.original[copies.rows].tolist(), strict=True)
        }
        run: dict[str, Any] = {"rows": len(rows), "columns": rows.shape[1], "threshold": threshold}
        run |= {"pairs": len(wanted), "recall": len(resolved) / max(1, len(wanted))}
        run |= {
            "wrong": len(assigned - wanted),
            "seconds": seconds,
            "cpu_seconds": busy,
            "brute_force_cpu_seconds": slow,
        }
        for probes in faiss_probes:
            theirs, took = faiss_pairs(rows, threshold, probes)
            run[f"faiss_{probes}_probes"] = {
                "recall": len(theirs & wanted) / max(1, len(wanted)),
                "cpu_seconds": took,
            }
        runs.append(run)
        print(json.dumps(run), flush=True)
    return runs


def between_neighbours(rows: Matrix, n: int, columns: int) -> Matrix:
    """Return real rows, along the widest axes, and new ones between a row and one of its ten nearest of 5,000.

    Nine in ten of the new ones are moved by half the distance of the two rows, in a random direction; the others are
    the near-duplicates.
    """
    rows = rows.astype(np.float32)
    if rows.shape[1] > columns:
        some = rows[::7] - rows.mean(axis=0)
        rows = rows @ np.linalg.eigh(some.T @ some)[1][:, ::-1][:, :columns]
    out = np.empty((n, rows.shape[1]), dtype=np.float32)
    out[: len(rows)] = rows[:n]
    random, points = np.random.default_rng(0), unit(rows)
    near = np.empty((len(rows), 10), dtype=np.int64)
    for first in range(0, len(rows), 5_000):
        products = points[first : first + 5_000] @ points[first : first + 5_000].T
        np.fill_diagonal(products, -2.0)
        near[first : first + 5_000] = first + np.argpartition(-products, 10, axis=1)[:, :10]
    for first in range(len(rows), n, 50_000):
        count = min(50_000, n - first)
        base = random.integers(0, len(rows), count)
        other, share = near[base, random.integers(0, 10, count)], random.random((count, 1), dtype=np.float32)
        step = rows[other] - rows[base]
        moved = 0.5 * np.linalg.norm(step, axis=1) * (random.random(count, dtype=np.float32) < 0.9)
        noise = random.standard_normal(step.shape, dtype=np.float32) / np.sqrt(np.float32(step.shape[1]))
        out[first : first + count] = rows[base] + share * step + moved[:, None] * noise
    return out


def scale(rows: Matrix, threshold: float | None) -> dict[str, Any]:
    """Time one call, and measure the most memory that the process held."""
    gm.duplicates(rows[:2_000], 0.9)  # compiled before, as it is once per machine
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    began, busy = time.perf_counter(), time.process_time()
    found = gm.duplicates(rows, threshold)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    run = {
        "rows": len(rows),
        "columns": rows.shape[1],
        "dtype": str(rows.dtype),
        "threshold": found.threshold,
    }
    run |= {"on_disk": isinstance(rows, np.memmap), "estimated": found.estimated}
    run |= {"duplicates": len(found.rows), "seconds": seconds, "cpu_seconds": busy}
    run |= {"input_bytes": rows.nbytes}
    run |= {"peak_bytes": most, "peak_before_bytes": before, "peak_of_input": most / rows.nbytes}
    print(json.dumps(run), flush=True)
    return run


def on_gpu(rows: Matrix, thresholds: Sequence[float | None]) -> list[dict[str, Any]]:
    """Time the call on a tensor of half precision; the first call, which starts everything, is left out."""
    import torch

    tensor = torch.from_numpy(rows).to("cuda", torch.float16)
    gm.duplicates(tensor[:20_000], 0.9)
    runs = []
    for threshold in thresholds:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        found = gm.duplicates(tensor, threshold)
        run: dict[str, Any] = {
            "rows": len(rows),
            "columns": rows.shape[1],
            "seconds": time.perf_counter() - began,
        }
        run |= {"threshold": found.threshold, "estimated": found.estimated, "duplicates": len(found.rows)}
        run |= {"device": torch.cuda.get_device_name(), "peak_bytes": torch.cuda.max_memory_allocated()}
        runs.append(run)
        print(json.dumps(run), flush=True)
    some = tensor[:50_000]
    here, there = gm.duplicates(some, 0.98), gm.duplicates(some.cpu().numpy(), 0.98)
    runs[-1]["same_as_cpu"] = bool(np.array_equal(here.original, there.original))
    print(runs[-1]["same_as_cpu"], len(here.rows))
    return runs


def leaks(data: dict[str, Any], reference: Path | None) -> dict[str, Any]:
    """Count the test rows with a near-duplicate among the training rows, and those that people know of."""
    estimated = gm.duplicates(data["test_rows"], against=data["rows"])
    found = gm.duplicates(data["test_rows"], 0.93, against=data["rows"])
    known: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    if (
        reference is not None
    ):  # lines of test row, training row, 1 for the same picture or 2 for a similar one
        pairs = np.loadtxt(reference, delimiter=",", dtype=np.int64)
        known = np.unique(pairs[pairs[:, 2] == 1, 0])
    levels = [0.93, 0.95, 0.96, 0.97, estimated.threshold, 0.99, 0.995]
    run = {
        "test_rows": len(found),
        "rows": len(data["rows"]),
        "estimated": estimated.threshold,
        "known": len(known),
    }
    counts = []
    for level in sorted(levels):
        hits = found.similarity >= level
        counts.append(
            {"threshold": level, "test_rows": int(hits.sum()), "known_found": int(hits[known].sum())}
        )
    print(json.dumps({**run, "counts": counts}), flush=True)
    return {**run, "counts": counts}


def picture(data: dict[str, Any], images: Path, reference: Path, target: Path) -> None:
    """Draw test images beside the training images that they are near-duplicates of, by similarity."""
    from PIL import Image

    pixels = np.load(images)
    found = gm.duplicates(data["test_rows"], 0.97, against=data["rows"])
    listed = np.loadtxt(reference, delimiter=",", dtype=np.int64)[:, 0]
    random, lines = np.random.default_rng(0), []
    for low, high in ((0.99, 1.0), (0.98, 0.99), (0.97, 0.98)):
        some = np.setdiff1d(np.flatnonzero((found.similarity >= low) & (found.similarity < high)), listed)
        chosen = random.permutation(some)[:24]
        pairs = np.concatenate([pixels["x_test"][chosen], pixels["x_train"][found.original[chosen]]], axis=2)
        framed = np.pad(pairs, [(0, 0), (2, 2), (3, 3), (0, 0)], constant_values=255)
        lines += [np.concatenate(list(part), axis=1) for part in np.split(framed, 2)]
    Image.fromarray(np.concatenate(lines)).save(target)


def chart(run: dict[str, Any], target: Path) -> None:
    """Draw how many test images have a near-duplicate, and how many of the known ones are among them."""
    from matplotlib.figure import Figure

    counts, figure = run["counts"], Figure(figsize=(6.4, 3.6), layout="constrained")
    axes, cosines = figure.subplots(), [one["threshold"] for one in run["counts"]]
    axes.plot(cosines, [one["test_rows"] for one in counts], "o-", label="test images with a near-duplicate")
    label = f"of the {run['known']} that people know of"
    axes.plot(cosines, [one["known_found"] for one in counts], "s--", label=label)
    axes.axvline(run["estimated"], color="0.6", linestyle=":", label="threshold chosen from the data")
    axes.set(xlabel="cosine at least", ylabel="test images", yscale="log")
    axes.legend()
    figure.savefig(target, dpi=110)


def asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.duplicates", description=__doc__)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--json", type=Path, help="file to write, or to add to")
    parser.add_argument("--recall", type=float, nargs="*", help="thresholds to compare with all products at")
    parser.add_argument("--rows", type=int, help="use the first rows only for --recall")
    parser.add_argument("--faiss", type=int, nargs="*", default=[], help="cells that faiss looks into")
    parser.add_argument("--scale", type=int, nargs="*", default=[], help="numbers of rows to time, in memory")
    parser.add_argument("--disk", type=Path, help="with --scale: rows of float16 in this file instead")
    parser.add_argument("--gpu", type=int, help="number of rows to time on a GPU")
    parser.add_argument("--threshold", type=float, nargs="*", default=[None], help="of --scale and --gpu")
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--leaks", action="store_true", help="compare test_rows with rows")
    parser.add_argument("--chart", type=Path, help="file for a chart of what --leaks counts")
    parser.add_argument(
        "--reference", type=Path, help="CSV file of pairs known to be the same: test, train, kind"
    )
    parser.add_argument(
        "--images", type=Path, help="the images (.npz with x_train and x_test), for --picture"
    )
    parser.add_argument(
        "--picture", type=Path, help="file for a picture of pairs that are not in the reference"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and keep the JSON file up to date."""
    options = asked(arguments)
    files = [dict(np.load(path).items()) for path in options.data]
    rows = np.concatenate([file["rows"] for file in files]).astype(np.float32)
    found: dict[str, Any] = {}
    if options.recall:
        found["recall"] = recall(rows[: options.rows], options.recall, faiss_probes=options.faiss)
    for n in options.scale:
        many = between_neighbours(rows, n, options.columns)
        if options.disk is not None:
            np.save(options.disk, many.astype(np.float16))
            many = np.load(options.disk, mmap_mode="r")
        found.setdefault("scale", []).extend(scale(many, threshold) for threshold in options.threshold)
    if options.gpu:
        found["gpu"] = on_gpu(between_neighbours(rows, options.gpu, options.columns), options.threshold)
    if options.leaks:
        found["leaks"] = leaks(files[0], options.reference)
        if options.chart is not None:
            chart(found["leaks"], options.chart)
    if options.picture is not None:
        picture(files[0], options.images, options.reference, options.picture)
    if options.json is not None:
        before = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        if "scale" in found and "scale" in before:  # sizes that were not measured now stay
            sizes = [(run["rows"], run["columns"], run["on_disk"]) for run in found["scale"]]
            for run in reversed(before["scale"]["runs"]):
                if (run["rows"], run["columns"], run["on_disk"]) not in sizes:
                    found["scale"].insert(0, run)
        parts = {name: {"runs": runs, "machine": machine.describe()} for name, runs in found.items()}
        text = json.dumps({**before, "command": COMMAND, **parts}, indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
