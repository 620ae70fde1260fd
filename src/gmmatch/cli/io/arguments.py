"""Options that several commands share, and how their texts are read.

Options that belong together are the fields of a dataclass, which a command takes as one parameter: see
:func:`gmmatch.cli.io.group.flattened`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings

_UNITS = {
    "": 1, "b": 1,
    "k": 10**3, "kb": 10**3, "kib": 1 << 10,
    "m": 10**6, "mb": 10**6, "mib": 1 << 20,
    "g": 10**9, "gb": 10**9, "gib": 1 << 30,
    "t": 10**12, "tb": 10**12, "tib": 1 << 40,
}  # fmt: skip


def method_names(incomplete: str) -> list[str]:
    """Return what a shell can complete the last of some names to.

    Examples
    --------
    >>> method_names("random,rob")
    ['random,robust']
    """
    from gmmatch.selectors.registry import methods

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in methods() if name.startswith(last)]


def output_option(help: str) -> Any:
    """Return ``--output`` for a file or folder that may lie at an address, such as s3://bucket/picks.parquet."""
    return typer.Option("--output", "-o", parser=as_path, metavar="PATH", help=help)


AmountOption: TypeAlias = Annotated[str, typer.Option("-k", help="How many rows: 500, 0.1 or 10%.")]
MethodOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        autocompletion=method_names,
        help="See `gmmatch methods`; gm-matching is the paper's.",
    ),
]
MethodsOption: TypeAlias = Annotated[
    str,
    typer.Option(
        autocompletion=method_names,
        help="Comma-separated names; see `gmmatch methods`. gm-matching is the paper's.",
    ),
]
SettingsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any parameter of the method; can be repeated."),
]
PicksArgument: TypeAlias = Annotated[
    Path, typer.Argument(parser=as_path, metavar="PICKS", help="What `gmmatch select` wrote.")
]
PerClassOption: TypeAlias = Annotated[
    Literal["proportional", "balanced", "none"],
    typer.Option(help="How k is shared among the classes; 'none' ignores the labels."),
]
ConfidenceOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        show_default="0.95", help="Where labels are corrected: the least probability of a suggested one."
    ),
]
SeedOption: TypeAlias = Annotated[int, typer.Option(min=0, help="Random seed.")]
MemoryOption: TypeAlias = Annotated[
    str | None, typer.Option(help="Memory limit for rows on disk, such as 2GB.")
]
TextColumnOption: TypeAlias = Annotated[str | None, typer.Option(help="The column of texts.")]
ImageColumnOption: TypeAlias = Annotated[str | None, typer.Option(help="The column of images.")]
EmbeddingColumnOption: TypeAlias = Annotated[str | None, typer.Option(help="The column of vectors.")]
SplitOption: TypeAlias = Annotated[str | None, typer.Option(help="Which split, where there are several.")]
ForceOption: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True)
class Input:
    """The embeddings that a command reads."""

    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A store that `gmmatch embed` made, or embeddings in a .npy, .npz, .safetensors or Parquet file.",
        ),
    ]
    embedding_column: EmbeddingColumnOption = None
    id_column: Annotated[
        str | None,
        typer.Option(help="The column of ids; '' for none. By default one named like id, or row numbers."),
    ] = None

    def open(self, *, labels: str | None = None, memory: int | None = None) -> Embeddings:
        """Open it; by default with its own labels, and without if ``labels`` is 'none'."""
        return self.open_other(self.source, labels, memory)

    def open_other(self, path: str, labels: str | None = "none", memory: int | None = None) -> Embeddings:
        """Open other embeddings with the same columns."""
        from gmmatch.cli.io.inputs import open_embeddings

        columns: Any = {"embedding_column": self.embedding_column, "id_column": self.id_column}
        return open_embeddings(path, labels=labels, memory=memory, **columns)


@dataclass(frozen=True)
class LabeledInput(Input):
    """The embeddings that a command reads, and their labels."""

    labels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|COLUMN",
            help="Labels to use instead of those of the input: a file (.npy, .txt, or a table, as file.csv::column), "
            "a column of the input, or 'none'.",
        ),
    ] = None

    def open(self, *, labels: str | None = None, memory: int | None = None) -> Embeddings:
        """Open it with the labels that were asked for."""
        return super().open(labels=labels or self.labels, memory=memory)


def parse_memory(text: str | None) -> int | None:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> parse_memory("1.5GB"), parse_memory("64 MiB"), parse_memory(None)
    (1500000000, 67108864, None)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _UNITS:
        raise InvalidInputError(f"--memory {text}: give an amount such as 2GB, 500MB or 1.5GiB.")
    amount = int(float(match[1]) * _UNITS[match[2].lower()])
    if amount < 1:
        raise InvalidInputError(f"--memory {text}: give an amount above 0, such as 2GB.")
    return amount


def parse_per_class(choice: str) -> Any:
    """Return what ``select`` calls a choice of how k is shared among the classes."""
    return None if choice == "none" else choice


def parse_settings(texts: list[str] | None) -> dict[str, Any]:
    """Return parameters that were given as ``name=value``; a value is a Python literal, or else text.

    True and False may be written as elsewhere, in small letters: as texts both would count as true.

    Examples
    --------
    >>> parse_settings(["normalize=false", "eps=1e-6", "center=geometric-median", "batches = 4"])
    {'normalize': False, 'eps': 1e-06, 'center': 'geometric-median', 'batches': 4}
    """
    found: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise InvalidInputError(f"--set {text}: write name=value, such as --set normalize=True.")
        if name in found:
            raise InvalidInputError(f"--set {name} was given twice: give it once.")
        value = value.strip()
        if value.lower() in ("true", "false"):
            value = value.capitalize()
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def check_settings(cls: type[Any], settings: Mapping[str, Any]) -> None:
    """Raise for a setting that is no switch or no number where the class has one by default."""
    for field in fields(cls):
        value, default = settings.get(field.name), field.default
        if field.name not in settings or value is None:
            continue
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise InvalidInputError(f"--set {field.name}={value}: expected True or False.")
        elif isinstance(default, (int, float)) and not isinstance(value, (int, float)):
            raise InvalidInputError(f"--set {field.name}={value}: expected a number, such as {default}.")


def least_confidence(given: float | None, switch: str, on: bool) -> float | None:
    """Return how probable a suggested label has to be, None unless labels are corrected, by ``switch``."""
    if on:
        from gmmatch.screening.corrected import CONFIDENCE

        return CONFIDENCE if given is None else given
    if given is not None:
        raise InvalidInputError(f"--min-confidence goes with {switch}: add that, or leave it out.")
    return None


def split_names(text: str, option: str) -> list[str]:
    """Return names that were given with commas between them."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInputError(f"{option} {text!r}: give names with commas between them.")
    return names
