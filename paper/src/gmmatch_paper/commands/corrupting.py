"""What ``gmmatch corrupt`` does: it names a corruption, and writes a copy with the mask that describes it."""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch.cli.io.files import check_output
from gmmatch.data import ImageBytes, load_image, open_source
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, first_line, unknown_name
from gmmatch.files import explain_failure, overlap, replacing, replacing_folder, save_table
from gmmatch_paper.arrays import Mask
from gmmatch_paper.corruption import (
    Corrupted,
    GrossCorruption,
    ImageCorruption,
    MeanAttack,
    PairFlip,
    SymmetricNoise,
    TransitionNoise,
    adversaries,
    image_kinds,
)
from gmmatch_paper.corruption.adversaries import adversary_class
from gmmatch_paper.corruption.kinds import distortion_class
from gmmatch_paper.corruption.labels import LabelNoise

LABEL_KINDS = {"symmetric": SymmetricNoise, "pair-flip": PairFlip, "transition": TransitionNoise}
FORMATS = (".parquet", ".csv", ".tsv", ".jsonl", ".npy")
# Hidden from readers of image folders. Its presence is what lets --force delete a folder.
_MARK = ".gmmatch-copy.json"
_USUAL_NAMES = {
    "labels": ("label", "labels", "class", "category", "target"),
    "images": ("image", "img", "picture", "photo"),
    "vectors": ("embedding", "embeddings", "vector", "features"),
}
# Formats that can be written without loss, and JPEG at a quality that adds next to none.
_LOSSLESS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True},
    **{name: {} for name in ("PNG", "BMP", "TIFF", "PPM")},
}

Progress = Callable[[int, int], None]


def build_corruption(
    kind: str, rate: float | None, severity: int | None, seed: int, matrix: Path | None, settings: Sequence[str]
) -> Any:  # fmt: skip
    """Return the corruption that the options describe.

    Examples
    --------
    >>> build_corruption("fog", 0.4, None, 0, None, ["brightness=1.0"]).distortions[0].brightness
    1.0
    """
    kinds = (*image_kinds(), *LABEL_KINDS, *adversaries(), "mean-attack")
    if kind not in kinds:
        raise unknown_name("--kind", kind, kinds, "there is no such corruption; there are")
    if kind in ("transition", "mean-attack") and rate is not None:
        raise InvalidInputError(f"--rate {rate}: {kind} has no rate of its own; leave it out.")
    if severity is not None and kind not in image_kinds():
        raise InvalidInputError(f"--severity {severity}: only images have severities; leave it out.")
    if (matrix is not None) != (kind == "transition"):
        raise InvalidInputError("--matrix FILE goes with --kind transition, and each needs the other.")
    options, share = dict(map(_parse_setting, settings)), 0.2 if rate is None else rate
    if kind in image_kinds():
        if options and ("mixture" in kind or kind == "xia"):
            raise InvalidInputError(f"--set: {kind} has no settings; give them to one of its kinds, alone.")
        chosen = _made(distortion_class(kind), kind, options) if options else kind
        return ImageCorruption(kind=chosen, rate=share, severity=severity or 3, seed=seed)
    if matrix is not None:
        try:
            lines = matrix.read_text(encoding="utf-8").split()
            shares = np.array([line.split(",") for line in lines], dtype=np.float64)
            return _made(TransitionNoise, kind, options, matrix=shares, seed=seed)
        except (ValueError, OSError) as error:
            raise InvalidInputError(f"--matrix {matrix}: {first_line(error).rstrip('.')}.") from None
    if kind in LABEL_KINDS:
        return _made(LABEL_KINDS[kind], kind, options, rate=share, seed=seed)
    if kind == "mean-attack":
        where = {} if "target" in options else {"distance": 10.0}
        return _made(MeanAttack, kind, {**where, **options}, seed=seed)
    return GrossCorruption(rate=share, adversary=_made(adversary_class(kind), kind, options), seed=seed)


def _made(cls: type[Any], kind: str, options: dict[str, Any], **fixed: Any) -> Any:
    known = {
        field.name: field.default for field in fields(cls) if field.name not in ("rate", "seed", "matrix")
    }
    for name, value in options.items():
        if name not in known:
            raise unknown_name("--set", name, known, f"{kind} has no such setting; it has")
        if isinstance(known[name], (int, float)) and isinstance(value, str):
            raise InvalidInputError(f"--set {name}={value}: expected a number, such as {known[name]}.")
    try:
        return cls(**fixed, **options)
    except InvalidInputError as error:
        given = str(error).startswith(tuple(f"{name}=" for name in options))
        raise InvalidInputError(f"--set {error}" if given else str(error)) from None


def _parse_setting(text: str) -> tuple[str, Any]:
    """Return a setting that was given as ``name=value``; the value is a Python literal, or else text."""
    name, equals, value = text.partition("=")
    name = name.strip().replace("-", "_")
    if not equals or not name.isidentifier():
        raise InvalidInputError(f"--set {text}: write name=value, such as --set distance=50.")
    with suppress(ValueError, SyntaxError):
        return name, ast.literal_eval(value.strip())
    return name, value.strip()


@dataclass(frozen=True)
class Copy:
    """A corrupted copy of a folder of images or of one file, and its mask.

    ``column`` is the one to change, and ``link`` whether images that stay as they are, are linked.
    """

    source: Path
    output: Path
    mask: Path
    corruption: Any
    column: str | None = None
    link: bool = False

    @property
    def contents(self) -> str:
        """What the corruption is for."""
        if isinstance(self.corruption, ImageCorruption):
            return "images"
        return "labels" if isinstance(self.corruption, LabelNoise) else "vectors"

    def check(self, *, force: bool) -> None:
        """Raise unless the copy can be made, before any work."""
        if not self.source.exists():
            raise DataFileNotFoundError(f"{self.source}: there is no such file or folder.")
        if overlap(self.output, self.source):
            what = "lies within, or holds, the source" if self.source.is_dir() else "is the source itself"
            raise InvalidInputError(f"--output {self.output} {what} {self.source}: choose another name.")
        if self.source.is_dir():
            check_output(self.output, force=force, folder=True)
            if self.contents == "vectors":
                raise InvalidInputError(f"--kind is for vectors, but {self.source} holds images.")
            if self.output.is_dir() and any(self.output.iterdir()) and not (self.output / _MARK).is_file():
                raise InvalidInputError(
                    f"--output {self.output} holds files that gmmatch did not write, so not even --force replaces "
                    "it: choose another folder."
                )
            return
        suffix = self.source.suffix.lower()
        formats = {"images": (".parquet",), "vectors": (".npy", ".parquet"), "labels": FORMATS[:-1]}
        if suffix not in formats[self.contents]:
            known = ", ".join(formats[self.contents])
            raise InvalidInputError(
                f"--kind is for {self.contents}, of which {self.source} has none that can be copied: give a file "
                f"that ends in {known}{', or a folder of images' if self.contents != 'vectors' else ''}."
            )
        if self.link:
            raise InvalidInputError(
                f"--link is for folders of images, and {self.source} is not one: leave it out."
            )
        if self.output.suffix.lower() != suffix:
            raise InvalidInputError(
                f"--output {self.output}: end it in {suffix}, as {self.source.name} does."
            )
        check_output(self.output, force=force)

    def write(self, update: Progress) -> dict[str, Any]:
        """Write the copy and its mask; return what was done."""
        # The mask is replaced last, and an older one goes just before the copy that it would not describe.
        with explain_failure(self.output), replacing(self.mask) as [mask]:
            if self.source.is_dir():
                with replacing_folder(self.output) as folder:
                    facts, table = self._fill(folder, update)
                    (folder / _MARK).write_text(
                        json.dumps({"source": str(self.source)}) + "\n", encoding="utf-8"
                    )
                    save_table(table, mask, self.mask.suffix)
                    self.mask.unlink(missing_ok=True)
                return facts
            with replacing(self.output) as [temporary]:
                try:
                    values, save = open_column(self.source, self.contents, self.column)
                except (ValueError, LookupError, AttributeError) as error:
                    if isinstance(error, InvalidInputError):
                        raise
                    reason = first_line(error).rstrip(".")
                    raise InvalidInputError(f"{self.source} cannot be read: {reason}.") from None
                result = self._corrupt(values)
                save(list(result.data) if self.source.suffix.lower() != ".npy" else result.data, temporary)
                facts, table = self._describe(range(len(values)), result, values)
                save_table(table, mask, self.mask.suffix)
                self.mask.unlink(missing_ok=True)
            return facts

    def _corrupt(self, values: Any) -> Corrupted:
        """Return the values of a column with some of them corrupted."""
        if self.contents != "images":
            dtype = object if self.contents == "labels" else None
            corrupted: Corrupted = self.corruption.apply(np.array(values, dtype=dtype))
            return corrupted
        mask, data, kinds = self.corruption.choose(len(values)), list(values), [""] * len(values)
        for row in np.flatnonzero(mask).tolist():
            value, name = data[row], f"row {row} of {self.source}"
            content = value["bytes"] if isinstance(value, dict) else value
            if content is None:
                raise InvalidInputError(f"{name} names a file: only images within it can be corrupted.")
            encoded, kinds[row] = corrupt_picture(ImageBytes(content, name), name, row, self.corruption)
            data[row] = {**value, "bytes": encoded} if isinstance(value, dict) else encoded
        return Corrupted(data, mask, np.array(kinds))

    def _fill(self, folder: Path, update: Progress) -> tuple[dict[str, Any], Any]:
        """Write every image of a folder: the corrupted ones, or all of them, some in the folder of another class."""
        opened = open_source(str(self.source))
        names, labels = list(map(str, opened.ids)), list(opened.labels or [])
        if opened.kind != "image" or (self.contents == "labels" and not opened.has_labels):
            raise InvalidInputError(f"{self.source} has no {self.contents} that could be corrupted.")
        if self.contents == "labels":
            result = self._corrupt(labels)
            targets = moved_names(names, labels, result.data.tolist(), result.mask)
        else:
            result, targets = Corrupted(None, self.corruption.choose(len(names)), np.array([])), names

        def write(row: int) -> str:
            path, target = self.source / names[row], folder / targets[row]
            if self.contents == "images" and result.mask[row]:
                content, kind = corrupt_picture(path, names[row], row, self.corruption)
                target.write_bytes(content)
                return kind
            _link(path, target) if self.link else shutil.copy2(path, target)
            return ""

        for parent in {(folder / name).parent for name in targets}:
            parent.mkdir(parents=True, exist_ok=True)
        kinds = []
        with ThreadPoolExecutor() as pool:
            for kind in pool.map(write, range(len(names))):
                kinds.append(kind)
                update(len(kinds), len(names))
        if self.contents == "images":
            return self._describe(names, Corrupted(None, result.mask, np.array(kinds)), labels)
        facts, table = self._describe(targets, result, labels)
        return facts, table.append_column("source_id", [names])

    def _describe(self, ids: Any, result: Corrupted, before: Any) -> tuple[dict[str, Any], Any]:
        """Return what was done in short, and the mask: a row per row of the copy."""
        import pyarrow as pa

        facts = {
            "n_rows": len(ids),
            "corrupted": int(result.mask.sum()),
            "counts": result.counts,
            **{name: getattr(self.corruption, name, None) for name in ("rate", "severity", "seed")},
            "source": str(self.source),
        }
        columns = {
            "id": list(ids),
            "corrupted": result.mask,
            "kind": [kind or None for kind in result.kinds.tolist()],
        }
        if self.contents == "labels":
            columns |= {"label": _one_type(result.data.tolist()), "original_label": _one_type(before)}
        note = {b"gmmatch_corruption": json.dumps(facts).encode()}
        return facts, pa.table(columns).replace_schema_metadata(note)


def open_column(path: Path, contents: str, column: str | None) -> tuple[Any, Callable[[Any, Path], None]]:
    """Return the values of a file's column, and a function that writes a copy with other values in it."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return np.load(path), _save_array
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        position = table.column_names.index(_find_column(path, contents, column, table.column_names))
        field = table.schema.field(position)

        def save_parquet(values: Any, target: Path) -> None:
            plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            pq.write_table(
                table.set_column(position, field, pa.array(values, plain).cast(field.type)), target
            )

        return table[position].to_pylist(), save_parquet
    text = path.read_bytes().decode("utf-8-sig")
    if not text.strip():
        raise InvalidInputError(f"{path} is empty: there is nothing to corrupt.")
    if suffix == ".jsonl":
        lines = [line for line in text.split("\n") if line.strip()]
        records = [json.loads(line) for line in lines]
        name = _find_column(path, contents, column, list(records[0]))

        def save_lines(values: Any, target: Path) -> None:
            new = [
                line if record[name] == value else json.dumps({**record, name: value}, ensure_ascii=False)
                for line, record, value in zip(lines, records, values, strict=True)
            ]
            target.write_bytes("".join(f"{line}\n" for line in new).encode())

        return [record.get(name) for record in records], save_lines
    header = text.partition("\n")[0]
    delimiter = max((",", ";", "\t", "|"), key=header.count)
    names, *rows = filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    place = names.index(_find_column(path, contents, column, names))

    def save_csv(values: Any, target: Path) -> None:
        changed = [[*row[:place], value, *row[place + 1 :]] for row, value in zip(rows, values, strict=True)]
        ending = "\r\n" if header.endswith("\r") else "\n"
        with target.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter, lineterminator=ending).writerows([names, *changed])

    return [row[place] for row in rows], save_csv


def _find_column(path: Path, contents: str, given: str | None, names: list[str]) -> str:
    """Return the column that was given, or the one with a usual name."""
    by_name = {name.lower(): name for name in reversed(names)}
    usual = [by_name[name] for name in _USUAL_NAMES[contents] if name in by_name]
    name = given or next(iter(usual), "")
    if name not in names:
        what = f"no column {given!r}" if given else f"no column of {contents} with a usual name"
        raise InvalidInputError(
            f"{path} has {what}: name the one to change by --column; it has {', '.join(names)}."
        )
    return name


def _save_array(values: Any, target: Path) -> None:
    with target.open("wb") as file:
        np.save(file, values)


def corrupt_picture(item: Any, name: str, row: int, corruption: ImageCorruption) -> tuple[bytes, str]:
    """Return a corrupted image as the bytes of a file of its own format, and the kind of corruption."""
    from PIL import Image

    picture = load_image(item)
    with Image.open(item if isinstance(item, Path) else io.BytesIO(item.data)) as opened:
        mode, format = opened.mode, str(opened.format)
    if format not in _LOSSLESS:
        raise InvalidInputError(
            f"{name} would be corrupted, but {format} cannot be written without loss: convert it to .png first."
        )
    gray = mode in ("1", "L", "LA", "La", "F") or mode.startswith("I")
    corrupted, kind = corruption.corrupt(picture.convert("L") if gray else picture, row)
    file = io.BytesIO()
    corrupted.save(file, format=format, **_LOSSLESS[format])
    return file.getvalue(), kind


def moved_names(names: list[str], before: list[Any], after: list[Any], mask: Mask) -> list[str]:
    """Return where images go whose labels change: to the same name below the folder of their new class.

    A name that the source has already gets its old class and row number appended.

    Examples
    --------
    >>> mask = np.array([True, False])
    >>> moved_names(["cat/1.png", "dog/1.png"], ["cat", "dog"], ["dog", "dog"], mask)
    ['dog/1-from-cat-0.png', 'dog/1.png']
    """
    taken, targets = set(names), list(names)
    for row in np.flatnonzero(mask).tolist():
        folders = names[row].split("/")
        # Classes may lie below the folders of splits.
        folders[folders.index(str(before[row]))] = str(after[row])
        target = Path(*folders)
        if target.as_posix() in taken:
            target = target.with_name(f"{target.stem}-from-{before[row]}-{row}{target.suffix}")
        targets[row] = target.as_posix()
        taken.add(targets[row])
    return targets


def _link(image: Path, target: Path) -> None:
    """Link to an image; where the file system refuses a hard link, by a symbolic one."""
    try:
        target.hardlink_to(image.resolve())
    except OSError:
        os.symlink(image.resolve(), target)  # noqa: PTH211


def _one_type(values: Any) -> list[Any]:
    """Return values that a column of a table can hold: as text where they are of several types."""
    kinds = {type(value) for value in values if value is not None}
    return list(values) if len(kinds) < 2 else [None if value is None else str(value) for value in values]
