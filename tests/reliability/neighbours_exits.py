"""How processes end that have read a store's ids: ``python -m tests.reliability.neighbours_exits --runs 500``.

Threads of a library that are alive when the interpreter ends can abort the process, now and then. So many processes
run, some side by side, and every exit status is counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from gmmatch.store import StoreWriter
from tests.reliability.counts import parser_of, report

# What a process does with the store before it ends, at once.
READS = {
    "ids": "open_store(path).ids",
    "ids of rows": "open_store(path).ids_of(np.arange(0, 900, 7))",
    "labels and rows": "store = open_store(path); store.labels; store.to_numpy(np.arange(100))",
    "select": "gm.select(open_store(path), k=9)",
}


def make_store(folder: Path) -> Path:
    """Write a store of nine shards with text ids and labels."""
    path = folder / "exits.emb"
    rows = np.random.default_rng(0).standard_normal((900, 16))
    with StoreWriter(path, encoder="mine", encoder_fingerprint="1", rows_per_shard=100) as writer:
        for start in range(0, 900, 100):
            numbers = range(start, start + 100)
            writer.append(
                rows[start : start + 100], ids=[f"row-{i}" for i in numbers], labels=[i % 3 for i in numbers]
            )
        writer.finish()
    return path


def exit_status(path: Path, read: str) -> tuple[int, str]:
    """Run a process that reads in this way; return its exit status and what it said."""
    imports = "import numpy as np, gmmatch as gm\nfrom gmmatch.store import open_store"
    code = f"{imports}\npath = {str(path)!r}\n{read}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


def count_exits(runs: int, side_by_side: int) -> dict[str, dict[str, int]]:
    """Return how often each exit status came, by what was read."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in READS}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(side_by_side) as pool:
        path = make_store(Path(folder))
        # Few selections: to load compiled code takes longer than all else.
        names = ["select" if number % 20 == 0 else list(READS)[number % 3] for number in range(runs)]
        ends = pool.map(lambda name: exit_status(path, READS[name]), names)
        for name, (status, said) in zip(names, ends, strict=True):
            counts[name][str(status)] += 1
            if status:
                print(f"{name}: exit status {status}\n{said}", file=sys.stderr, flush=True)
    return {name: dict(count) for name, count in counts.items()}


def main() -> None:
    """Run as a command."""
    parser = parser_of("neighbours_exits", __doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument(
        "--side-by-side", type=int, default=4, help="processes at a time; more than cores is a load"
    )
    options = parser.parse_args()
    counts = count_exits(options.runs, options.side_by_side)
    report("neighbours_exits", {"runs": options.runs, "exit_statuses": counts}, options.json)
    sys.exit(any(set(count) != {"0"} for count in counts.values()))


if __name__ == "__main__":
    main()
