"""``python -m benchmarks.screening_cost``: what ``robust`` costs beside ``gm-matching`` on the same rows.

Processor seconds of both, the least of several runs, and where ``robust``'s go; with ``--device cuda`` wall seconds
on a tensor of the GPU, where ``--synthetic 1280000x512`` draws rows of ten classes in place of files. Give BLAS one
thread (``OPENBLAS_NUM_THREADS=1``) and nothing else to do: another process on the same core makes both slower, and
not by the same factor.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import gmmatch as gm
from benchmarks import machine
from benchmarks.screening_labels import noisy_labels

METHODS = ("gm-matching", "robust")
# Parts of robust, each by the functions that do it on the host or on a device, in the module that calls them.
PARTS = {
    "geometric median": ("gmmatch.screening.screens", ("robust_center",)),
    "labels": ("gmmatch.screening.screens", ("contrast_labels",)),
    "heaps": ("gmmatch.screening.screens", ("heap_odds",)),
    "scales": ("gmmatch.screening.screens", ("scale_odds",)),
    "foreign rows": ("gmmatch.screening.screens", ("foreign_odds",)),
    # A device is still at work when the features return; their means wait for it.
    "features of the kernel": (
        "gmmatch.selectors.robust_targets",
        ("shared_means", "features_on_device", "means_on_device"),
    ),
    "picks": ("gmmatch.selectors._robust", ("match", "match_on_device")),
}


@contextmanager
def timed_parts(clock: Callable[[], float]) -> Iterator[dict[str, float]]:
    """Yield the seconds of every part, which grow while the parts run."""
    seconds = dict.fromkeys(PARTS, 0.0)

    def timed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            start = clock()
            try:
                return original(*arguments, **options)
            finally:
                seconds[name] += clock() - start

        return call

    with ExitStack() as replaced:
        for name, (module, functions) in PARTS.items():
            for function in functions:
                original = getattr(import_module(module), function)
                replaced.enter_context(patch(f"{module}.{function}", timed(name, original)))
        yield seconds


def seconds_of(method: str, rows: Any, labels: Any, k: int, clock: Callable[[], float]) -> float:
    """Return what one selection takes, in one thread."""
    start = clock()
    gm.select(rows, y=labels, k=k, method=method, random_state=0, n_jobs=1)
    return clock() - start


def measure(rows: Any, labels: Any, share: float, repeats: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Return the least seconds of both methods, run in turn, and the parts of robust's fastest run."""
    k = round(share * len(rows))
    best: dict[str, float] = {}
    parts: dict[str, float] = {}
    for _ in range(repeats):
        for method in METHODS:
            with timed_parts(clock) as found:
                seconds = seconds_of(method, rows, labels, k, clock)
            if seconds < best.get(method, np.inf):
                best[method] = seconds
                parts = found if method == "robust" else parts
    parts["everything else"] = best["robust"] - sum(parts.values())
    return {"share": share, "seconds": best, "ratio": best["robust"] / best["gm-matching"], "robust": parts}


def synthetic_rows(n: int, width: int) -> tuple[Any, Any]:
    """Return rows of ten classes on the GPU, wide in some directions, and labels of which 40% are drawn at random."""
    import torch

    generator = torch.Generator("cuda").manual_seed(0)
    options: dict[str, Any] = {"device": "cuda", "generator": generator}
    classes = torch.randint(0, 10, (n,), **options)
    centers = 1.2 * torch.randn((10, width), **options)
    scales = torch.logspace(0.5, -1.0, width, device="cuda")
    axes = torch.linalg.qr(torch.randn((width, width), **options))[0]
    rows = torch.empty((n, width), device="cuda")
    for first in range(0, n, 100_000):
        mine = classes[first : first + 100_000]
        rows[first : first + len(mine)] = (
            torch.randn((len(mine), width), **options) * scales
        ) @ axes + centers[mine]
    random = np.random.default_rng(0)
    wrong = random.random(n) < 0.4
    return rows, np.where(wrong, random.integers(0, 10, n), classes.cpu().numpy())


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_cost", description=__doc__)
    parser.add_argument("--train", type=Path, nargs="+", help=".npy files of embeddings")
    parser.add_argument("--labels", type=Path, help=".npz file with labels, train")
    parser.add_argument("--synthetic", metavar="ROWSxCOLUMNS", help="rows drawn on the GPU in place of files")
    parser.add_argument("--noise", nargs="+", default=["0.4", "0.2", "0"], help="rates of wrong labels")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.02, 0.1, 0.2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", gm.errors.GMMatchWarning)
    surroundings = machine.describe()
    if options.synthetic:
        if options.device != "cuda":
            parser.error("--synthetic rows are drawn on a GPU: add --device cuda")
        rows, given = synthetic_rows(*map(int, options.synthetic.split("x")))
        labels_of = {"0.4": given}
    elif options.train and options.labels:
        rows = np.concatenate([np.load(path).astype(np.float32) for path in options.train])
        clean = np.load(options.labels)["train"].astype(np.int64)[: len(rows)]
        labels_of = {noise: noisy_labels(clean, noise, None, 0) for noise in options.noise}
        if options.device == "cuda":
            import torch

            rows = torch.from_numpy(rows).cuda()
    else:
        parser.error("give --train and --labels, or --synthetic")
    shape = list(rows.shape)
    clock = time.perf_counter if options.device == "cuda" else time.process_time
    few = slice(0, 3000)
    for method in METHODS:  # compiles what is compiled at first use
        seconds_of(method, rows[few], next(iter(labels_of.values()))[few], 60, clock)
    cases = []
    for noise, labels in labels_of.items():
        for share in options.shares:
            cases.append({"noise": noise, **measure(rows, labels, share, options.repeats, clock)})
            print(json.dumps(cases[-1]), flush=True)
    if options.json is not None:
        source = (
            f"--synthetic {options.synthetic}"
            if options.synthetic
            else "--train TRAIN.npy --labels LABELS.npz"
        )
        content = {
            "command": f"OPENBLAS_NUM_THREADS=1 python -m benchmarks.screening_cost {source} "
            f"--device {options.device} --json {options.json.as_posix()}",
            "settings": {
                "rows": shape, "device": options.device, "repeats": options.repeats,
                "clock": "wall" if options.device == "cuda" else "processor",
                "embeddings": "drawn" if options.synthetic
                else "ResNet-50 (ImageNet), the mean of its third stage, CIFAR-10 at 96 pixels",
            },
            "cases": cases, "machine": surroundings,
        }  # fmt: skip
        options.json.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
