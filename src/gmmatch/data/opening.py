"""open_source: from what a user can name to a source."""

from __future__ import annotations

import inspect
import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from gmmatch._array import is_torch_array
from gmmatch.data.arrays import ArraySource, open_arrays
from gmmatch.data.arrow_tables import ParquetSource, from_dataset, load_named, load_saved
from gmmatch.data.columns import ColumnRequest
from gmmatch.data.files import expand, is_store, list_files, pick_split
from gmmatch.data.images import ImageFolder, is_image
from gmmatch.data.source import Kind
from gmmatch.data.tables import BaseSource, FileTable
from gmmatch.data.text_tables import CSVTable, JSONLines
from gmmatch.data.web_shards import WebShards
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError
from gmmatch.files import fetched, is_remote

_KNOWN = (
    "a folder of images, .parquet, .csv, .tsv, .jsonl, .ndjson or .json (text, also with .gz), .tar "
    "(WebDataset), .npy, .npz or .safetensors"
)
_SUFFIXES = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
    "tar": (".tar", ".tar.gz", ".tgz"),
    "npy": (".npy",),
    "npz": (".npz",),
    "safetensors": (".safetensors",),
}
_TABLES: dict[str, type[ParquetSource | FileTable]] = {
    "parquet": ParquetSource, "csv": CSVTable, "json": JSONLines, "tar": WebShards,
}  # fmt: skip


def open_source(
    spec: Any,
    *,
    text_column: str | None = None,
    image_column: str | None = None,
    embedding_column: str | None = None,
    label_column: str | None = None,
    id_column: str | None = None,
    prefer: Kind | None = None,
    split: str | None = None,
) -> BaseSource:
    """Open rows of images, text or embeddings, whatever form they have.

    Parameters
    ----------
    spec
        One of:

        - a folder of images, with or without sub-folders as classes;
        - a ``.parquet``, ``.csv``, ``.tsv``, ``.jsonl`` or ``.tar`` file, a folder of such files, or a
          pattern (``data/part-*.parquet``);
        - such a file or pattern at an address that fsspec knows (``s3://bucket/part-*.parquet``), which is copied to
          this machine first;
        - a ``.npy``, ``.npz`` or ``.safetensors`` file; of several arrays, ``embedding_column`` names one;
        - a dataset of the Hugging Face hub (``hf:uoft-cs/cifar10``, ``hf:name::configuration``), or a folder that
          ``save_to_disk`` wrote;
        - a two-dimensional NumPy array or torch tensor, or a loaded Hugging Face dataset;
        - a source of your own, which is returned as it is.
    text_column, image_column, embedding_column
        The column of the rows; at most one of these. By default it is found by type and name. A text may be a
        template of several columns: ``"{instruction}\\n{output}"``. Messages of a chat, each with a ``role`` and a
        ``content``, become one text.
    label_column
        The column of labels; by default one that is named like ``label``, and ``""`` for none.
    id_column
        The column of ids; by default an id is a path or a row number.
    prefer
        The kind of rows to take where a table has columns of several kinds and none was named:
        ``"image"``, ``"text"`` or ``"embedding"``.
    split
        Which split, where there are several.

    Returns
    -------
    Source
        Its ``how`` says in words what was recognized.

    Examples
    --------
    >>> source = open_source(np.zeros((3, 2), dtype=np.float32))
    >>> source.kind, len(source)
    ('embedding', 3)
    >>> open_source("nowhere.parquet")
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: nowhere.parquet: there is no such file.
    """
    request = ColumnRequest(image_column, text_column, embedding_column, label_column, id_column, prefer)
    request.data()  # refuses two columns of rows before anything is read
    if not isinstance(spec, (str, os.PathLike)):
        return _open_object(spec, request, split)
    source = _open_path(os.fspath(spec), request, split)
    options = {**request.options(), "prefer": prefer, "split": split}
    source.opened_with = {name: value for name, value in options.items() if value is not None}
    return source


def read_description(recorded: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return where a source was, and the options it was opened with, from what it said of itself.

    A store or a selection may have that from anybody, so nothing of what lies there is shown before its fingerprint
    is compared.

    Examples
    --------
    >>> read_description({"location": "a.csv", "opened_with": {"text_column": "body"}})
    ('a.csv', {'text_column': 'body'})
    """
    location, options = recorded.get("location", ""), recorded.get("opened_with", {})
    known = inspect.signature(open_source).parameters.keys() - {"spec"}
    is_known = isinstance(options, dict) and options.keys() <= known
    if not is_known or not all(isinstance(text, str) for text in (location, *options.values())):
        raise InvalidInputError("What the rows were made from is not recorded by gmmatch: make them again.")
    return location, options


def _open_object(spec: Any, request: ColumnRequest, split: str | None) -> BaseSource:
    # Of the type, because asking the object itself could make it read its files.
    if all(hasattr(type(spec), name) for name in ("batches", "describe", "fingerprint")):
        return cast(BaseSource, spec)
    package = type(spec).__module__.partition(".")[0]
    if package == "datasets":
        return from_dataset(spec, request, split, "a dataset in memory")
    if isinstance(spec, np.ndarray) or is_torch_array(spec):
        request.refuse("an array", "has no columns")
        return ArraySource(spec, how=f"an array in memory ({package})")
    raise InvalidTypeError(
        f"spec has type {type(spec).__name__}: give a path ({_KNOWN}), the name of a Hugging Face dataset, "
        "a NumPy array, a torch tensor, or a dataset."
    )


def _open_path(spec: str, request: ColumnRequest, split: str | None) -> BaseSource:
    if not spec:
        raise InvalidInputError("The path is empty: give one, or the name of a Hugging Face dataset.")
    if spec.startswith("hf:"):
        return load_named(spec.removeprefix("hf:"), request, split)
    if (files := expand(spec)) is not None:
        how = "a copy of what lies there: " if is_remote(spec) else "the files that match: "
        return _open_files([fetched(file) for file in files], request, split, spec, how)
    path = Path(spec).expanduser()
    if path.is_dir():
        return _open_folder(path, request, split, spec)
    if not path.exists():
        # The hub is asked only if its name is typed: without a network that takes half a minute.
        name = re.fullmatch(r"[\w-]+(/[\w.-]+)?(::.*)?", spec)
        hint = f"; a dataset of the Hugging Face hub is hf:{spec}" if name and not format_of(spec) else ""
        raise DataFileNotFoundError(f"{spec}: there is no such file{' or folder' * (not path.suffix)}{hint}.")
    return _open_files([path], request, split, str(path), "")


def format_of(path: str | os.PathLike[str]) -> str | None:
    """Return the short name of the format that a path's suffix stands for, or None.

    Examples
    --------
    >>> format_of("texts.JSONL.gz"), format_of("notes.txt")
    ('json', None)
    """
    name = str(path).lower()
    return next((format for format, suffixes in _SUFFIXES.items() if name.endswith(suffixes)), None)


def _open_files(
    files: Sequence[Path], request: ColumnRequest, split: str | None, location: str, how: str
) -> BaseSource:
    """Open files of one format; a split can be told from the names of several files only."""
    formats = {format_of(path) for path in files}
    for path in files:
        problem = ""
        if not path.is_file():
            problem = " is not a file that can be read twice, as a pipe is not: give a file"
        elif format_of(path) is None:
            problem = f": the suffix {path.suffix!r} is not known; expected {_KNOWN}"
            if is_image(path.name):
                problem = " is a single image: give the folder that it lies in"
        if problem:
            raise InvalidInputError(f"{path}{problem}.")
    if len(formats) > 1:
        raise InvalidInputError(f"{location} names files of several formats: give files of one.")
    if split is not None and len(files) == 1:
        raise InvalidInputError(f"split={split!r}: {location} is a single file and has no splits.")
    if split is not None:
        names, _ = pick_split([path.name for path in files], split, location)
        files = [path for path in files if path.name in names]
    format = str(*formats)
    if format in _TABLES:
        source: BaseSource = _TABLES[format](files, request, location)
    elif len(files) > 1:
        raise InvalidInputError(f"{location} names {len(files)} files of arrays: give one.")
    else:
        source = open_arrays(files[0], format, request)
    source.how = how + source.how
    return source


def _open_folder(folder: Path, request: ColumnRequest, split: str | None, location: str) -> BaseSource:
    if is_store(folder):
        raise InvalidInputError(f"{folder} is a store of embeddings: give what it was made from.")
    if (folder / "dataset_dict.json").exists() or (folder / "state.json").exists():
        return load_saved(str(folder), request, split)
    files = list_files(folder)
    by_format = defaultdict[str | None, list[str]](list)
    for name in files:
        by_format["images" if is_image(name) else format_of(name)].append(name)
    # A table of text beside images, Parquet or tar files is a note about them, not the data.
    formats = [name for name in ("parquet", "tar", "images") if name in by_format]
    formats = formats or [name for name in ("json", "csv") if name in by_format]
    if len(formats) > 1:
        counts = " and ".join(_count_files(len(by_format[name]), name) for name in formats)
        raise InvalidInputError(f"{location} holds {counts}: give files of one kind, as {location}/*.suffix.")
    if not formats or formats == ["images"]:
        request.refuse(location, "is a folder of images and has no columns")
        return ImageFolder(folder, files, split, location)
    names, chosen = pick_split(by_format[formats[0]], split, location)
    of_split = f" of the split {chosen!r}" if chosen else ""
    how = f"a folder with {_count_files(len(names), formats[0])}{of_split}: "
    return _open_files([folder / name for name in names], request, None, location, how)


def _count_files(n: int, format: str) -> str:
    name = _TABLES[format].format if format in _TABLES else "image"
    return f"{n:,} {name} file" + ("s" if n != 1 else "")
