"""What ``gmmatch corrupt`` does: check everything, write the copy, and the mask that describes it."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.data import open_source
from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Mask
from gmmatch_paper.commands.outputs import check_folder, check_output, overlap, writing
from gmmatch_paper.corruption.images import ImageCorruption
from gmmatch_paper.corruption.labels import LabelNoise
from gmmatch_paper.files import setting_aside

FORMATS = (".parquet", ".csv", ".tsv", ".jsonl", ".npy", ".npz")
_CONTENTS = {"image": "images", "text": "texts", "embedding": "vectors"}

Advance = Callable[[int], Any]
"""Called now and then with how many rows are done."""


@dataclass(frozen=True)
class Changes:
    """What was changed: one entry per row of the copy, in the copy's order."""

    ids: Sequence[Any]
    mask: Mask
    kinds: Any
    labels: Sequence[Any] | None = None
    original_labels: Sequence[Any] | None = None
    source_ids: Sequence[Any] | None = None


@dataclass(frozen=True)
class Job:
    """Everything checked, nothing written yet."""

    source: Any
    path: Path
    output: Path
    mask_path: Path
    corruption: Any
    columns: Mapping[str, str | None]
    link: bool

    @classmethod
    def prepare(
        cls,
        source: str,
        output: Path,
        mask_path: Path | None,
        corruption: Any,
        columns: Mapping[str, str | None],
        *,
        link: bool = False,
        force: bool = False,
    ) -> Job:
        """Open the source and refuse early what cannot be done."""
        named: dict[str, Any] = dict(columns)
        opened: Any = open_source(source, **named)
        if not opened.n_rows:
            raise InvalidInputError(f"{source} has no rows, or is a stream: there is nothing to corrupt.")
        path = Path(source).expanduser()
        job = cls(opened, path, output, mask_path or default_mask(output), corruption, columns, link)
        job._check_kind()
        job._check_output(force=force)
        if job.mask_path.suffix.lower() not in (".parquet", ".csv"):
            raise InvalidInputError(f"--mask {job.mask_path}: expected a file that ends in .parquet or .csv.")
        check_output(job.mask_path, force=force, option="--mask")
        if overlap(job.mask_path, output) or overlap(job.mask_path, path):
            raise InvalidInputError(f"--mask {job.mask_path} lies within the data: choose another name.")
        return job

    @property
    def n_rows(self) -> int:
        """How many rows the source has."""
        return int(self.source.n_rows)

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder of images."""
        return (
            self.path.is_dir()
            and self.source.kind == "image"
            and (self.path / str(self.source.ids[0])).is_file()
        )

    def run(self, advance: Advance = lambda done: None) -> dict[str, Any]:
        """Write the copy and its mask; return what was done, as JSON can hold it."""
        start = time.perf_counter()
        with writing(self.mask_path) as temporary:
            with setting_aside(self.mask_path):  # an older mask would describe another copy
                changes = self._write(advance)
            facts = self._describe(changes)
            write_mask(temporary, self.mask_path.suffix.lower(), changes, facts)
        return {**facts, "seconds": round(time.perf_counter() - start, 3)}

    def _write(self, advance: Advance) -> Changes:
        from gmmatch_paper.commands import corrupting_images, corrupting_tables

        if self.is_folder:
            on_pixels = isinstance(self.corruption, ImageCorruption)
            write = corrupting_images.corrupt_folder if on_pixels else corrupting_images.move_images
            return write(self, advance)
        return corrupting_tables.corrupt_file(self, advance)

    def _describe(self, changes: Changes) -> dict[str, Any]:
        return {
            "n_rows": len(changes.ids),
            "corrupted": int(changes.mask.sum()),
            "counts": dict(sorted(Counter(changes.kinds[changes.mask].tolist()).items())),
            "rate": getattr(self.corruption, "rate", None),
            "severity": getattr(self.corruption, "severity", None),
            "seed": int(self.corruption.seed),
            "source": self.source.describe(),
        }

    def _check_kind(self) -> None:
        """Raise unless the corruption is for what the source holds."""
        if isinstance(self.corruption, LabelNoise):
            if not self.source.has_labels:
                remedy = (
                    "choose another kind"
                    if self.path.suffix == ".npy"
                    else "name their column by --label-column"
                )
                raise InvalidInputError(f"{self.path} has no labels that could be corrupted: {remedy}.")
            return
        wanted = "image" if isinstance(self.corruption, ImageCorruption) else "embedding"
        if self.source.kind != wanted:
            raise InvalidInputError(
                f"--kind is for {_CONTENTS[wanted]}, but {self.path} holds {_CONTENTS[self.source.kind]}: `gmmatch "
                "corrupt --help` lists other kinds."
            )

    def _check_output(self, *, force: bool) -> None:
        """Raise unless a copy of this source can be written to the output."""
        if self.is_folder:
            check_folder(self.output, self.path, force=force)
            return
        if self.link:
            raise InvalidInputError(
                f"--link is for folders of images, and {self.path} is not one: leave it out."
            )
        suffix = file_format(self.path)
        if not self.path.is_file() or suffix not in FORMATS:
            raise InvalidInputError(
                f"No copy can be written of {self.path}: give a folder of images, or one file that ends in "
                f"{', '.join(FORMATS)}."
            )
        if file_format(self.output) != suffix:
            raise InvalidInputError(f"--output {self.output}: end it in {suffix}, as {self.path.name} does.")
        check_output(self.output, force=force)
        if overlap(self.output, self.path):
            raise InvalidInputError(f"--output {self.output} is the source itself: choose another name.")


def default_mask(output: Path) -> Path:
    """Return where the mask is written by default: next to the copy.

    Examples
    --------
    >>> default_mask(Path("noisy.csv")).name
    'noisy.csv.mask.parquet'
    """
    return output.with_name(f"{output.name}.mask.parquet")


def file_format(path: Path) -> str:
    """Return the ending of a file without that of its compression.

    Examples
    --------
    >>> file_format(Path("a/texts.jsonl.gz")), file_format(Path("x.NPY"))
    ('.jsonl', '.npy')
    """
    return path.with_suffix("").suffix.lower() if path.suffix == ".gz" else path.suffix.lower()


def write_mask(path: Path, suffix: str, changes: Changes, facts: dict[str, Any]) -> None:
    """Write a row per row of the copy; a Parquet file also holds the facts of the run."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {
        "id": list(changes.ids),
        "corrupted": changes.mask.tolist(),
        "kind": [kind or None for kind in changes.kinds.tolist()],
    }
    for name in ("labels", "original_labels", "source_ids"):
        values = getattr(changes, name)
        if values is not None:
            columns[name.removesuffix("s")] = np.asarray(values, dtype=object).tolist()
    if suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = zip(*columns.values(), strict=True)
            csv.writer(file, lineterminator="\n").writerows([columns, *(map(_cell, line) for line in lines)])
        return
    table = pa.table({name: _arrow_column(values) for name, values in columns.items()})
    note = {b"gmmatch_corruption": json.dumps(facts).encode()}
    pq.write_table(table.replace_schema_metadata(note), path)


def _arrow_column(values: list[Any]) -> Any:
    """Return a column of any type; as text if the values are of several types."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])


def _cell(value: Any) -> Any:
    # A spreadsheet would run such a text as a formula.
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return str(value).lower() if isinstance(value, bool) else value
