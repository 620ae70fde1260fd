"""What ``gmmatch corrupt`` does: it names a corruption, and writes a copy with the mask that describes it."""

from __future__ import annotations

import ast
import csv
import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from gmmatch import files
from gmmatch.cli.io.files import check_output
from gmmatch.data import load_image, open_source
from gmmatch.data.exporting import MARK, open_writer, put_image
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, unknown_name
from gmmatch.frames import arrow_column
from gmmatch_paper.corruption import Corrupted, GrossCorruption, ImageCorruption, adversaries, image_kinds
from gmmatch_paper.corruption.adversaries import adversary_class
from gmmatch_paper.corruption.gross import MeanAttack
from gmmatch_paper.corruption.kinds import distortion_class
from gmmatch_paper.corruption.labels import LabelNoise, PairFlip, SymmetricNoise, TransitionNoise

_ALONE = {
    "symmetric": SymmetricNoise, "pair-flip": PairFlip, "transition": TransitionNoise, "mean-attack": MeanAttack,
}  # fmt: skip
_FORMATS = {"images": (), "labels": (".parquet", ".csv", ".jsonl"), "vectors": (".npy", ".parquet")}
_USUAL_NAMES = {
    "labels": ("label", "labels", "class", "category", "target"),
    "vectors": ("embedding", "embeddings", "vector", "features"),
}
# Formats that can be written without loss, and JPEG at a quality that adds next to none.
_LOSSLESS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 95, "subsampling": 0},
    "WEBP": {"lossless": True},
    **{name: {} for name in ("PNG", "BMP", "TIFF", "PPM")},
}

Progress = Callable[[int, int], None]


def build_corruption(kind: str, settings: Sequence[str], **given: Any) -> Any:
    """Return the corruption of a kind; ``given`` are its rate, severity and seed, None where nothing was said.

    Examples
    --------
    >>> build_corruption("fog", ["brightness=1.0"], rate=0.4, seed=0).distortions[0].brightness
    1.0
    """
    kinds = (*image_kinds(), *adversaries(), *_ALONE)
    if kind not in kinds:
        raise unknown_name("kind", kind, kinds, "there is no such corruption; there are")
    cls = _ALONE.get(kind, ImageCorruption if kind in image_kinds() else GrossCorruption)
    known = {field.name for field in fields(cls)}
    given = {name: value for name, value in given.items() if value is not None}
    for name in given.keys() - known:
        raise InvalidInputError(f"--{name} {given[name]}: {kind} has none; leave it out.")
    given = {**({"rate": 0.2} if "rate" in known else {}), **given}
    options = dict(map(_parse_setting, settings))
    if kind in _ALONE:
        if kind == "mean-attack" and "target" not in options:
            options.setdefault("distance", 10.0)
        return _made(cls, kind, options, **given)
    if cls is GrossCorruption:
        return GrossCorruption(adversary=_made(adversary_class(kind), kind, options), **given)
    if options and ("mixture" in kind or kind == "xia"):
        raise InvalidInputError(f"--set: {kind} has no settings; give them to one of its kinds, alone.")
    return ImageCorruption(kind=_made(distortion_class(kind), kind, options) if options else kind, **given)


def _made(cls: type[Any], kind: str, options: dict[str, Any], **given: Any) -> Any:
    known = {field.name: field.default for field in fields(cls) if field.name not in ("rate", "seed")}
    for name, value in options.items():
        if name not in known:
            raise unknown_name("set", name, known, f"{kind} has no such setting; it has")
        if isinstance(known[name], (int, float)) and isinstance(value, str):
            raise InvalidInputError(f"--set {name}={value}: expected a number, such as {known[name]}.")
    for name in known.keys() - options.keys():
        if known[name] is MISSING:
            raise InvalidInputError(f"--kind {kind} needs --set {name}=...")
    try:
        return cls(**given, **options)
    except (InvalidInputError, ValueError) as error:
        raise InvalidInputError(f"--set for {kind}: {error}") from None


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
    corruption: Any
    column: str | None = None
    link: bool = False

    @property
    def mask(self) -> Path:
        """Where the mask goes."""
        return self.output.with_name(f"{self.output.name}.mask.parquet")

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
        if self.source.is_dir():
            if self.contents == "vectors":
                raise InvalidInputError(f"--kind is for vectors, but {self.source} holds images.")
            open_writer(open_source(str(self.source)), self.output)  # raises where nothing may be put
        elif files.overlap(self.output, self.source):
            raise InvalidInputError(f"--output {self.output} is the source itself: choose another name.")
        elif self.link:
            raise InvalidInputError(f"--link is for folders of images, and {self.source} is not one.")
        elif (suffix := self.source.suffix.lower()) not in _FORMATS[self.contents]:
            known = " or ".join(_FORMATS[self.contents] or ["a folder"])
            raise InvalidInputError(f"--kind is for {self.contents}: {self.source} is not {known}.")
        elif self.output.suffix.lower() != suffix:
            raise InvalidInputError(
                f"--output {self.output}: end it in {suffix}, as {self.source.name} does."
            )
        check_output(self.output, force=force, folder=self.source.is_dir())
        check_output(self.mask, force=force)

    def write(self, update: Progress) -> dict[str, Any]:
        """Write the copy and its mask; return what was done."""
        # The mask is replaced last, and an older one goes just before the copy that it would not describe.
        with files.explain_failure(self.output), files.replacing(self.mask) as [mask]:
            if self.source.is_dir():
                with files.replacing_folder(self.output) as folder:
                    (folder / MARK).write_text(json.dumps({"source": str(self.source)}) + "\n", "utf-8")
                    return self._save_mask(mask, *self._copy_folder(folder, update))
            with files.replacing(self.output) as [temporary]:
                with files.explain_damage(self.source, f"{self.source.suffix} file"):
                    values, save = open_column(self.source, self.contents, self.column)
                result = self._corrupted(values)
                save(result.data, temporary)
                return self._save_mask(mask, range(len(values)), result, values)

    def _corrupted(self, values: Any) -> Corrupted:
        """Return the values of a column with some of them corrupted."""
        dtype = object if self.contents == "labels" else None
        corrupted: Corrupted = self.corruption.apply(np.array(values, dtype=dtype))
        return corrupted

    def _copy_folder(
        self, folder: Path, update: Progress
    ) -> tuple[list[str], Corrupted, list[Any], list[str]]:
        """Write every image: some corrupted, or in the folder of another class; return the new names, and more."""
        source: Any = open_source(str(self.source))
        names, labels = list(map(str, source.ids)), list(source.labels or [])
        if source.kind != "image" or (self.contents == "labels" and not source.has_labels):
            raise InvalidInputError(f"{self.source} has no {self.contents} that could be corrupted.")
        targets, touched, kinds = list(names), np.zeros(len(names), dtype=bool), []
        result = Corrupted(None, touched, np.array([]))
        if self.contents == "images":
            touched = self.corruption.choose(len(names))
        else:
            result = self._corrupted(labels)
        for row in result.rows.tolist():
            target = Path(source.relabeled(names[row], result.data[row]))
            # The class that the image comes from, and its row: no other image is called that.
            targets[row] = str(target.with_name(f"{target.stem}-from-{labels[row]}-{row}{target.suffix}"))

        def write(row: int) -> str:
            path, target = self.source / names[row], folder / targets[row]
            if touched[row]:
                return corrupt_picture(path, target, row, self.corruption)
            put_image(path, target, self.link)
            return ""

        with ThreadPoolExecutor() as pool:
            for kind in pool.map(write, range(len(names))):
                kinds.append(kind)
                update(len(kinds), len(names))
        if self.contents == "images":
            result = Corrupted(None, touched, np.array(kinds))
        return targets, result, labels, names

    def _save_mask(
        self, path: Path, ids: Any, result: Corrupted, before: Any, source_ids: Any = None
    ) -> dict[str, Any]:
        """Write the mask, a row per row of the copy; return what was done in short."""
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
            columns |= {
                "label": arrow_column(result.data.tolist()),
                "original_label": arrow_column(list(before)),
            }
            columns |= {} if source_ids is None else {"source_id": source_ids}
        note = {b"gmmatch_corruption": json.dumps(facts).encode()}
        files.save_table(pa.table(columns).replace_schema_metadata(note), path, self.mask.suffix)
        self.mask.unlink(missing_ok=True)
        return facts  # fmt: skip


def open_column(path: Path, contents: str, column: str | None) -> tuple[Any, Callable[[Any, Path], None]]:
    """Return the values of a file's column, and a function that writes a copy with other values in it."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return np.load(path), _save_array
    if suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = files.parquet_table(path.read_bytes())
        position = table.column_names.index(_find_column(path, contents, column, table.column_names))
        field = table.schema.field(position)
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type

        def save_parquet(values: Any, target: Path) -> None:
            changed = pa.array(list(values), plain).cast(field.type)
            pq.write_table(table.set_column(position, field, changed), target)

        return table[position].to_pylist(), save_parquet
    text = path.read_bytes().decode("utf-8-sig")
    if suffix == ".jsonl":
        records = [json.loads(line) for line in text.split("\n") if line.strip()]
    else:
        records = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
        if any(None in record for record in records):
            raise ValueError("a line has more values than the header")
    if not records:
        raise InvalidInputError(f"{path} is empty: there is nothing to corrupt.")
    name = _find_column(path, contents, column, list(records[0]))

    def save_records(values: Any, target: Path) -> None:
        changed = [{**record, name: value} for record, value in zip(records, values, strict=True)]
        with target.open("w", encoding="utf-8", newline="") as file:
            if suffix == ".jsonl":
                file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in changed)
            else:
                writer = csv.DictWriter(file, list(records[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(changed)

    return [record[name] for record in records], save_records


def _find_column(path: Path, contents: str, given: str | None, names: list[str]) -> str:
    """Return the column that was given, or the one with a usual name."""
    by_name = {name.lower(): name for name in reversed(names)}
    usual = [by_name[name] for name in _USUAL_NAMES[contents] if name in by_name]
    name = given or next(iter(usual), "")
    if name not in names:
        what = f"no column {given!r}" if given else f"no column of {contents} with a usual name"
        raise InvalidInputError(f"{path} has {what}: name it by --column; it has {', '.join(names)}.")
    return name


def _save_array(values: Any, target: Path) -> None:
    with target.open("wb") as file:
        np.save(file, values)


def corrupt_picture(path: Path, target: Path, row: int, corruption: ImageCorruption) -> str:
    """Write a corrupted image in the file format of its original; return the kind of corruption."""
    from PIL import Image

    picture = load_image(path)
    with Image.open(path) as opened:
        mode, format = opened.mode, str(opened.format)
    if format not in _LOSSLESS:
        raise InvalidInputError(f"{path}: {format} cannot be written without loss; convert it to .png first.")
    gray = mode in ("1", "L", "LA", "La", "F") or mode.startswith("I")
    corrupted, kind = corruption.corrupt(picture.convert("L") if gray else picture, row)
    target.parent.mkdir(parents=True, exist_ok=True)
    corrupted.save(target, format=format, **_LOSSLESS[format])
    return kind
