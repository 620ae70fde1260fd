"""Try what was installed from a wheel: `python -I try_wheel.py library` or `laboratory`, in an empty environment."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.datasets import load_digits

import gmmatch as gm

COMMAND = Path(sys.executable).with_name("gmmatch")


def gmmatch(*words: str, fails: bool = False) -> str:
    """Run the command as a user would, and return what it printed."""
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False)
    if (done.returncode != 0) != fails:
        sys.exit(f"gmmatch {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def try_library(folder: Path) -> None:
    """Select in Python and by the command, with nothing but the core."""
    rows, labels = load_digits(return_X_y=True)
    selection = gm.select(rows, labels, k=100, method="robust", random_state=0)
    assert len(set(selection.indices.tolist())) == 100 and selection.screening is not None
    np.save(folder / "rows.npy", rows)
    table = pa.table({"id": np.arange(len(labels)), "label": labels})
    pq.write_table(table, folder / "labels.parquet")
    files = (str(folder / "rows.npy"), "--labels", str(folder / "labels.parquet"))
    picks = ("-o", str(folder / "picks.parquet"))
    gmmatch("select", *files, "-k", "100", "--method", "robust", "--seed", "0", *picks)
    assert gm.Selection.load(folder / "picks.parquet").order.tolist() == selection.order.tolist()
    assert f"gmmatch {gm.__version__}" in gmmatch("--version")
    # What is not installed is named, with how to get it.
    page = ("-o", str(folder / "again.parquet"), "--report", str(folder / "again.html"))
    report = gmmatch("select", *files, "-k", "9", *page, fails=True)
    assert "[report]" in report, report


def try_laboratory(folder: Path) -> None:
    """Draw a report and reproduce a figure: templates, styles and the laboratory's commands are there."""
    rows, labels = load_digits(return_X_y=True)
    selection = gm.select(rows, labels, k=50, method="robust", random_state=0)
    selection.report(folder / "picks.html", rows, labels)
    assert "<style>" in (folder / "picks.html").read_text(encoding="utf-8")
    for command in ("reproduce", "corrupt"):
        assert command in gmmatch("--help")
        gmmatch(command, "--help")


if __name__ == "__main__":
    assert "site-packages" in gm.__file__, gm.__file__
    with tempfile.TemporaryDirectory() as made:
        {"library": try_library, "laboratory": try_laboratory}[sys.argv[1]](Path(made))
    print(f"gmmatch {gm.__version__} works as installed ({sys.argv[1]}).")
