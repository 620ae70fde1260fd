"""What `gmmatch corrupt` does: which corruption, on what, written by whom, and the mask beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.files import check_output, same_place, written
from gmmatch.errors import InvalidInputError
from gmmatch.files import csv_bytes, set_aside
from gmmatch.frames import arrow_column

if TYPE_CHECKING:
    from gmmatch.data.source import BaseSource

_SUFFIXES = {"parquet": ".parquet", "json": ".jsonl", "csv": ".csv", "npy": ".npy", "npz": ".npz"}

Advance = Callable[[int], Any]
"""Called now and then with how many rows are done."""


@dataclass(frozen=True)
class Touched:
    """What a writer did: one entry per row of the copy, in the copy's order."""

    ids: Sequence[Any]
    mask: Any
    kinds: Any
    labels: Sequence[Any] | None = None
    original_labels: Sequence[Any] | None = None
    source_ids: Sequence[Any] | None = None


@dataclass(frozen=True)
class Job:
    """Everything checked, nothing written yet."""

    source: BaseSource
    output: Path
    mask_path: Path
    corruption: Any
    link: bool

    @classmethod
    def prepare(
        cls,
        source: str,
        output: Path,
        mask_path: Path | None,
        corruption: Any,
        columns: dict[str, Any],
        *,
        link: bool = False,
        force: bool = False,
    ) -> Job:
        """Open the source and refuse early what cannot be done."""
        from gmmatch.data import open_source
        from gmmatch.data.files import is_store

        if is_store(source):
            raise InvalidInputError(
                f"{source} is a store of embeddings: corrupt what it was made from, or vectors in a .npy file."
            )
        opened = open_source(source, **columns)
        if not opened.n_rows:
            raise InvalidInputError(f"{source} has no rows, or is a stream: there is nothing to corrupt.")
        _check_kind(opened, corruption)
        _check_place(opened, output, link=link, force=force)
        beside = mask_path or output.with_name(f"{output.name}.mask.parquet")
        if beside.suffix.lower() not in (".parquet", ".csv"):
            raise InvalidInputError(f"--mask {beside}: expected a file that ends in .parquet or .csv.")
        check_output(beside, force=force, option="--mask")
        if same_place(beside, output) or any(same_place(beside, file) for file in _files(opened)):
            raise InvalidInputError(f"--mask {beside} lies within the data: choose another name.")
        return cls(opened, output, beside, corruption, link)

    @property
    def n_rows(self) -> int:
        """How many rows the source has."""
        return len(self.source)

    def run(self, advance: Advance = lambda done: None) -> dict[str, Any]:
        """Write the copy and its mask; return what was done, in what JSON can hold."""
        began = time.perf_counter()
        write = self._writer()
        with written(self.mask_path) as temporary:
            with set_aside(self.mask_path):
                touched = write(self.source, self.corruption, self.output, advance)
            facts = self.describe(touched)
            write_mask(temporary, self.mask_path.suffix.lower(), touched, facts)
        return {**facts, "seconds": round(time.perf_counter() - began, 3)}

    def _writer(self) -> Callable[[Any, Any, Path, Advance], Touched]:
        from gmmatch.data.images import ImageFolder
        from gmmatch_paper.commands import corrupting_images
        from gmmatch_paper.corruption.images import ImageCorruption
        from gmmatch_paper.corruption.labels import LabelNoise

        on_pixels = isinstance(self.corruption, ImageCorruption)
        if isinstance(self.source, ImageFolder):
            write = corrupting_images.corrupt_folder if on_pixels else corrupting_images.move_images
            return partial(write, link=self.link)
        if on_pixels:
            return corrupting_images.corrupt_parquet
        if isinstance(self.corruption, LabelNoise):
            from gmmatch_paper.commands.corrupting_labels import turn_labels

            return turn_labels
        from gmmatch_paper.commands.corrupting_vectors import replace_vectors

        return replace_vectors

    def describe(self, touched: Touched) -> dict[str, Any]:
        """Return the facts of a run in what JSON can hold."""
        from collections import Counter

        corruption = self.corruption
        return {
            "n_rows": len(touched.ids),
            "corrupted": int(touched.mask.sum()),
            "counts": dict(sorted(Counter(touched.kinds[touched.mask].tolist()).items())),
            "rate": getattr(corruption, "rate", None),
            "severity": getattr(corruption, "severity", None),
            "seed": int(corruption.seed),
            "source": self.source.describe(),
        }


def write_mask(temporary: Path, suffix: str, touched: Touched, facts: dict[str, Any]) -> None:
    """Write a row per row of the copy; a Parquet file also carries how it came about."""
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = [kind or None for kind in touched.kinds.tolist()]
    columns: dict[str, Any] = {"id": arrow_column(list(touched.ids)), "corrupted": pa.array(touched.mask)}
    columns["kind"] = pa.array(kinds, type=pa.string())
    for name in ("labels", "original_labels", "source_ids"):
        values = getattr(touched, name)
        if values is not None:
            columns[name.removesuffix("s")] = arrow_column(list(values))
    table = pa.table(columns)
    if suffix == ".csv":
        temporary.write_bytes(csv_bytes([columns, *zip(*table.to_pydict().values(), strict=True)]))
        return
    note = {b"gmmatch_corruption": json.dumps(facts).encode()}
    pq.write_table(table.replace_schema_metadata(note), temporary)


def _check_kind(source: BaseSource, corruption: Any) -> None:
    """Raise unless the corruption is for what the source holds."""
    from gmmatch_paper.corruption.images import ImageCorruption
    from gmmatch_paper.corruption.labels import LabelNoise

    held = {"image": "images", "text": "texts", "embedding": "vectors"}[source.kind]
    if isinstance(corruption, LabelNoise):
        if not source.has_labels:
            remedy = (
                "name their column by --label-column" if hasattr(source, "columns") else "choose another kind"
            )
            raise InvalidInputError(f"{source.location} has no labels that could be corrupted: {remedy}.")
        return
    wanted = "image" if isinstance(corruption, ImageCorruption) else "embedding"
    if source.kind != wanted:
        needed = {"image": "images", "embedding": "vectors"}[wanted]
        raise InvalidInputError(
            f"--kind is for {needed}, but {source.location} holds {held}: `gmmatch corrupt --help` lists other kinds."
        )


def _check_place(source: BaseSource, output: Path, *, link: bool, force: bool) -> None:
    """Raise unless a copy of this source can be written there."""
    from gmmatch.data.images import ImageFolder
    from gmmatch.data.opening import format_of

    if isinstance(source, ImageFolder):
        from gmmatch.cli.io.files import check_folder

        check_folder(output, source.folder, force=force)
        return
    if link:
        raise InvalidInputError(
            f"--link is for folders of images, and {source.location} is not one: leave it out."
        )
    files = _files(source)
    wanted = format_of(files[0]) if files else None
    if wanted not in _SUFFIXES:
        raise InvalidInputError(
            f"{source.location} is a {source.format}, of which no copy can be written: give a folder of images, or "
            "Parquet, CSV, JSON lines, .npy or .npz files."
        )
    if format_of(output) != wanted:
        raise InvalidInputError(
            f"--output {output}: {source.location} has the format {source.format}, so end it in {_SUFFIXES[wanted]}."
        )
    check_output(output, force=force)
    if any(same_place(output, file) for file in files):
        raise InvalidInputError(f"--output {output} is the source itself: choose another name.")


def _files(source: BaseSource) -> list[Path]:
    """The files of a source, or its folder; none if it cannot be copied anyway."""
    if hasattr(source, "folder"):
        return [source.folder]
    if hasattr(source, "files"):
        return list(source.files)
    if hasattr(source, "path"):
        return [source.path]
    return [Path(source.location)] if source.format == ".npy file" else []
