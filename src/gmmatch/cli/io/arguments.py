"""Options that several commands share, and how their texts are read.

Options that belong together are the fields of a dataclass, which a command takes as one parameter: see
:func:`gmmatch.cli.io.group.expand_dataclasses`. Every option stands under one of four headings of the help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from gmmatch.errors import InvalidInputError
from gmmatch.files import as_path

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.data.tables import BaseSource


def heading(name: str) -> Callable[..., Any]:
    """Return a function that makes an option under a heading of the help."""

    def make_option(help: str, *names: str, **more: Any) -> Any:
        if "min" in more:
            more.setdefault("metavar", "N")
        return typer.Option(*names, help=help, rich_help_panel=name, **more)

    return make_option


reads, picks_by, writes, runs_on = map(heading, ("Input", "Selection", "Output", "Running"))
DEFAULT_METHOD = "robust"
# Parameters of methods that have an option of their own.
OWN_OPTIONS = {"k": "-k", "per_class": "--per-class", "random_state": "--seed"}


def output_path(help: str, *names: str) -> Any:
    """Return an option for a file or folder that may lie at an address, such as s3://bucket/picks.parquet."""
    return writes(help, *(names or ("--output", "-o")), parser=as_path, metavar="PATH")


BudgetOption: TypeAlias = Annotated[
    str, picks_by("How many: 500, 0.1, 10%, or 'trusted'.", "-k", metavar="AMOUNT")
]
MethodOption: TypeAlias = Annotated[str, picks_by("One that `gmmatch methods` lists.", "--method", "-m")]
MethodsOption: TypeAlias = Annotated[str, picks_by("Those to try, with commas between them.")]
SettingsOption: TypeAlias = Annotated[
    list[str] | None,
    picks_by("A setting that `gmmatch methods NAME` lists; repeatable.", "--set", metavar="NAME=VALUE"),
]
PerClassOption: TypeAlias = Annotated[
    Literal["proportional", "balanced", "none"],
    picks_by("How k is shared among the classes; 'none' ignores the labels."),
]
ConfidenceOption: TypeAlias = Annotated[float, picks_by("The least probability of a corrected label.")]
PredProbsOption: TypeAlias = Annotated[
    str | None, reads("Out-of-fold probabilities of your model (.npy).", metavar="FILE")
]
DecisionsOption: TypeAlias = Annotated[
    str | None, reads("A person's decisions, as `gmmatch review` saves them; they are final.", metavar="FILE")
]
SeedOption: TypeAlias = Annotated[int, runs_on("Random seed.", min=0)]
PicksArgument: TypeAlias = Annotated[
    Path, typer.Argument(parser=as_path, metavar="PICKS", help="What `gmmatch select` wrote.")
]
EmbeddingColumnOption: TypeAlias = Annotated[str | None, reads("The column of vectors.")]
IdColumnOption: TypeAlias = Annotated[
    str | None, reads("The column of ids; '' for none. By default one named like id.")
]
DeviceOption: TypeAlias = Annotated[str, runs_on("Where the model runs: auto, cpu, cuda or mps.")]
SplitOption: TypeAlias = Annotated[str | None, reads("Which split, where there are several.")]
EngineOption: TypeAlias = Annotated[Literal["ray"] | None, runs_on("Run on a Ray cluster.")]
AddressOption: TypeAlias = Annotated[str | None, runs_on("The Ray cluster: 'auto' or host:port.")]
ForceOption: TypeAlias = Annotated[bool, writes("Replace the output if it exists.", "--force")]
JsonOption: TypeAlias = Annotated[bool, writes("Print JSON instead of text.", "--json")]


@dataclass(frozen=True)
class Input:
    """The embeddings that a command reads."""

    path: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A store, or a file of vectors: .npy, .npz, .safetensors, a table."
        ),
    ]
    embedding_column: EmbeddingColumnOption = None
    id_column: IdColumnOption = None

    def open(self, labels: str | None = None, path: str | None = None) -> Embeddings:
        """Open it, or others with such columns; by default with its own labels, without any if 'none'."""
        from gmmatch.cli.io.inputs import open_embeddings

        return open_embeddings(
            path or self.path, labels=labels, embedding_column=self.embedding_column, id_column=self.id_column
        )

    def open_other(self, rows: Embeddings, path: str, option: str, labels: str | None = None) -> Embeddings:
        """Open other embeddings, which must be of the same encoder."""
        from gmmatch.cli.io.inputs import check_encoders

        other = Input.open(self, labels, path)
        check_encoders(rows.origin, other.origin, f"{option} {path}")
        return other


@dataclass(frozen=True)
class Columns:
    """What to take from images, texts or vectors that are to be encoded."""

    image_column: Annotated[str | None, reads("The column of images.")] = None
    text: Annotated[
        str | None,
        reads("The column of texts, or a template: '{title}\\n{body}'.", metavar="COLUMN|TEMPLATE"),
    ] = None
    label_column: Annotated[str | None, reads("The column of labels; '' for none.")] = None
    id_column: IdColumnOption = None
    split: SplitOption = None

    def open(self, source: str, **more: Any) -> BaseSource:
        """Open a source with these columns."""
        from gmmatch.cli.io.inputs import open_with_ids
        from gmmatch.data import open_source

        text = self.text
        if text is not None and "{" in text:  # a shell passes line ends and tabs on as they were typed
            text = text.replace("\\n", "\n").replace("\\t", "\t")
        open_columns = partial(
            open_source, source, image_column=self.image_column, text_column=text, label_column=self.label_column,
            split=self.split, **more,
        )  # fmt: skip
        return open_with_ids(open_columns, self.id_column)


@dataclass(frozen=True)
class LabeledInput(Input):
    """The embeddings that a command reads, and their labels."""

    labels: Annotated[
        str | None,
        reads(
            "Labels for the rows: a column of the input, a table with id and label (or TABLE::COLUMN), or 'none'.",
            metavar="COLUMN|TABLE",
        ),
    ] = None

    def open(self, labels: str | None = None, path: str | None = None) -> Embeddings:
        """Open it with the labels that were asked for."""
        return super().open(labels or self.labels, path)


@dataclass(frozen=True)
class Running:
    """Where a command runs."""

    jobs: Annotated[int | None, runs_on("Threads to run; one per core by default.", min=1)] = None
    memory: Annotated[str | None, runs_on("Limit for rows in files; 1GiB by default.", metavar="SIZE")] = None
    engine: EngineOption = None
    address: AddressOption = None
    workers: Annotated[int | None, runs_on("Workers on a Ray cluster.", min=1)] = None

    def options(self) -> dict[str, Any]:
        """Return the arguments of ``gmmatch.select`` about how it runs."""
        import gmmatch as gm

        on_ray = (self.engine, self.address, self.workers) != (None, None, None)
        engine = gm.RayEngine(self.workers, address=self.address) if on_ray else None
        return {"engine": engine, "n_jobs": self.jobs, "memory_limit": parse_memory(self.memory)}


@dataclass(frozen=True)
class SeededRunning(Running):
    """Where a command runs that draws random numbers."""

    seed: SeedOption = 0


def parse_memory(text: str | None) -> int | None:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> parse_memory("1.5GB"), parse_memory("64 MiB"), parse_memory(None)
    (1500000000, 67108864, None)
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgt])(i?)b?\s*", text.lower())
    amount = (
        int(float(match[1]) * (1024 if match[3] else 1000) ** (1 + "kmgt".index(match[2]))) if match else 0
    )
    if amount < 1:
        raise InvalidInputError(f"--memory {text}: give an amount such as 2GB, 500MB or 1.5GiB.")
    return amount


def parse_per_class(choice: str) -> Any:
    """Return what ``select`` calls a choice of how k is shared among the classes."""
    return None if choice == "none" else choice


def parse_settings(method: str, texts: Sequence[str] | None) -> dict[str, Any]:
    """Return the parameters of a method that were given by ``--set``."""
    from gmmatch.methods.registry import method_class
    from gmmatch.methods.settings import parse_settings as parse

    cls = method_class(method)
    for text in texts or ():
        name = text.partition("=")[0].partition(".")[0].strip().replace("-", "_")
        if name in OWN_OPTIONS:
            raise InvalidInputError(f"--set {text}: use {OWN_OPTIONS[name]} for that.")
    try:
        return parse(cls, texts or (), exclude=OWN_OPTIONS)
    except InvalidInputError as error:
        raise InvalidInputError(f"--set {error}") from None


def split_names(text: str, option: str) -> list[str]:
    """Return names that were given with commas between them."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInputError(f"{option} {text!r}: give names with commas between them.")
    return names
