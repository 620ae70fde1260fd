"""``gmmatch embed``: from images, texts or vectors to a store of embeddings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    EmbeddingColumnOption,
    ImageColumnOption,
    SplitOption,
    TextColumnOption,
    output_option,
)
from gmmatch.cli.io.files import check_output, keep_inputs
from gmmatch.cli.io.group import Interrupted
from gmmatch.cli.io.output import console, note, print_json, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.embeddings.run import EmbedReport

_LISTED_AT_MOST = 5


def embed(
    source: Annotated[
        str,
        typer.Argument(
            help="A folder of images; a Parquet, CSV, JSON-lines or WebDataset file, or a folder or pattern of "
            "such files; a file of vectors (.npy, .npz, .safetensors); or hf:NAME, a Hugging Face dataset."
        ),
    ],
    output: Annotated[
        Path,
        output_option("The store: a folder, made if missing, or an address such as s3://bucket/photos.emb."),
    ],
    encoder: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            "-e",
            help="A model folder or the name of a model on the Hugging Face hub; 'pixels' or 'pixels:HxW'; "
            "'identity' for vectors; 'file.py:function'. By default CLIP for images, MiniLM for text.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Rows to encode at a time; the encoder's choice by default.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads that decode images; one per core by default.")
    ] = None,
    dtype: Annotated[
        Literal["auto", "float16", "float32"], typer.Option(help="Type of the numbers in the store.")
    ] = "auto",
    device: Annotated[str, typer.Option(help="Where the model runs: auto, cpu, cuda or mps.")] = "auto",
    text_column: TextColumnOption = None,
    image_column: ImageColumnOption = None,
    embedding_column: EmbeddingColumnOption = None,
    label_column: Annotated[
        str | None, typer.Option(help="The column of labels; '' for none. Found by its name by default.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of ids; paths or row numbers by default.")
    ] = None,
    split: SplitOption = None,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Read a Hugging Face dataset over the network as it is used.")
    ] = False,
    on_error: Annotated[
        Literal["raise", "skip"],
        typer.Option(
            help="Whether a row that cannot be encoded (a broken image) ends the run or is left out."
        ),
    ] = "raise",
    max_pixels: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The most pixels that an image may have; 89 million by default. Larger ones are refused.",
        ),
    ] = None,
    trust_pickle: Annotated[
        bool,
        typer.Option(
            "--trust-pickle",
            help="Load a model folder's pickled weights, which can run code: only if you trust who made them.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the store if there is one, and begin again.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a summary.")] = False,
) -> None:
    """Turn images, texts or vectors into a store of embeddings.

    A run that was interrupted, however that happened, resumes when the same command is given again. New files are
    added to the store, by their paths or ids, without encoding the others again. An image file that has changed is
    encoded again; a text or a row that has changed under the same id is not noticed: --force encodes all again.

    \b
    Examples:
      gmmatch embed photos/ -o photos.emb --encoder openai/clip-vit-base-patch32
      gmmatch embed texts.jsonl -o texts.emb --text-column body --on-error skip
    """
    _check_places(source, output)
    from gmmatch.data import open_source

    opened = open_source(
        source,
        text_column=text_column,
        image_column=image_column,
        embedding_column=embedding_column,
        label_column=label_column,
        id_column=id_column,
        split=split,
        streaming=streaming,
    )
    if opened.n_rows == 0:
        raise InvalidInputError(f"{source} has no rows: there is nothing to encode.")
    from gmmatch.data.files import is_store
    from gmmatch.embeddings import delete_store
    from gmmatch.embeddings.run import embed as run
    from gmmatch.encoders import load_encoder

    if not as_json:
        note(f"{source}: {opened.how or opened.format}.")
    if max_pixels is not None:
        from gmmatch.data.images import allow_pixels

        allow_pixels(max_pixels)
    trusted: dict[str, Any] = {"trust_pickle": True} if trust_pickle else {}
    model = load_encoder(encoder, kind=opened.kind, device=device, **trusted)
    if force and is_store(output):
        delete_store(output)
    with _saved(output, opened.n_rows), progress() as bar:
        task = bar.add_task("Encoding", total=opened.n_rows)
        report = run(
            opened,
            model,
            output,
            batch_size=batch_size,
            workers=workers,
            dtype=dtype,
            on_error=on_error,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json(describe_report(report, opened.kind))
    else:
        _print_summary(report, opened.kind)


@contextmanager
def _saved(output: Path, total: int | None) -> Iterator[None]:
    """Say after Ctrl-C how much of the work is done."""
    from gmmatch.data.files import is_store
    from gmmatch.embeddings import open_store

    try:
        yield
    except KeyboardInterrupt:
        saved = len(open_store(output, allow_incomplete=True)) if is_store(output) else 0
        of = "" if total is None else f" of {total:,}"
        raise Interrupted(f"{saved:,}{of} rows saved; run the same command to resume.") from None


def _check_places(source: str, output: Path) -> None:
    """Raise for what cannot be a source or a store, before a model is loaded, which may take minutes."""
    from gmmatch.data.files import is_store

    if is_store(source):
        raise InvalidInputError(f"{source} holds embeddings already: give it to `gmmatch select`.")
    check_output(output, force=True, folder=True)
    # There its files would be taken for the source's own when the same command goes on.
    keep_inputs(output, [], folder=source)


def describe_report(report: EmbedReport, kind: str) -> dict[str, Any]:
    """Return what an embedding run did, in what JSON can hold."""
    facts = asdict(report)
    return {
        "store": str(facts.pop("path")),
        "kind": kind,
        **facts,
        "seconds": round(report.seconds, 3),
        "rows_per_second": round(report.rows_per_second, 2),
    }


def _print_summary(report: EmbedReport, kind: str) -> None:
    unit = {"image": "images", "text": "texts", "embedding": "rows"}[kind]
    out = console()
    before = f", {report.n_before:,} of them from before" if report.n_before else ""
    line = f"{report.path}: {report.n_rows:,} rows of {report.n_features:,} {report.dtype} numbers{before}"
    out.print(line, soft_wrap=True, markup=False)
    speed = f", {report.rows_per_second:,.1f} {unit}/s" if report.n_encoded else ""
    out.print(f"Encoded {report.n_encoded:,} {unit} in {report.seconds:.1f} s{speed}.", soft_wrap=True)
    if report.skipped:
        note(f"Skipped {len(report.skipped):,} rows that could not be encoded:")
        for row in report.skipped[:_LISTED_AT_MOST]:
            note(f"  {row.id}: {row.reason}")
        if len(report.skipped) > _LISTED_AT_MOST:
            note(f"  and {len(report.skipped) - _LISTED_AT_MOST:,} more")
