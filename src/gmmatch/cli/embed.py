"""``gmmatch embed``: from images, texts or vectors to a store of embeddings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    AddressOption,
    Columns,
    DeviceOption,
    EmbeddingColumnOption,
    EngineOption,
    JsonOption,
    heading,
    output_path,
    reads,
    runs_on,
    writes,
)
from gmmatch.cli.io.files import check_output
from gmmatch.cli.io.inputs import is_selection
from gmmatch.cli.io.output import note, print_json, print_lines, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.store.run import EmbedReport

encodes_by = heading("Encoder")
_LISTED_AT_MOST = 5


def embed(
    *,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help="A folder of images; Parquet, CSV, JSON-lines or WebDataset files, by name, folder or pattern; "
            "vectors (.npy, .npz, .safetensors); or hf:NAME, a Hugging Face dataset.",
        ),
    ],
    columns: Columns,
    embedding_column: EmbeddingColumnOption = None,
    max_pixels: Annotated[int | None, reads("Refuse larger images; 89 million by default.", min=1)] = None,
    on_error: Annotated[
        Literal["raise", "skip"], reads("What to do about broken images, lines and texts.")
    ] = "raise",
    encoder: Annotated[
        str | None,
        encodes_by(
            "By default efficientnet-lite2 for images and minilm for text, which need no network. Better ones of "
            "the hub, or folders: openai/clip-vit-base-patch32, sentence-transformers/all-mpnet-base-v2. Without a "
            "model: 'pixels', 'pixels:HxW', 'words'; 'identity' for vectors; 'file.py:function'.",
            "--encoder",
            "-e",
        ),
    ] = None,
    trust_pickle: Annotated[bool, encodes_by("Load pickles, which can run code.", "--trust-pickle")] = False,
    output: Annotated[Path, output_path("A folder, or an address such as s3://bucket/photos.emb.")],
    dtype: Annotated[Literal["auto", "float16", "float32"], writes("Type of the stored numbers.")] = "auto",
    force: Annotated[bool, writes("Delete the store if there is one; begin again.", "--force")] = False,
    as_json: JsonOption = False,
    batch_size: Annotated[int | None, runs_on("Rows to encode at a time.", min=1)] = None,
    workers: Annotated[int | None, runs_on("Threads that decode, or workers on Ray.", min=1)] = None,
    device: DeviceOption = "auto",
    engine: EngineOption = None,
    address: AddressOption = None,
) -> None:
    """Turn images, texts or vectors into a store of embeddings.

    A run that was interrupted, however that happened, resumes when the same command is given again. New files are
    added to the store, by their paths or ids, without encoding the others again. An image file that has changed is
    encoded again; a text or a row that has changed under the same id is not noticed: --force encodes all again.

    \b
    Examples:
      gmmatch embed photos/ -o photos.emb
      gmmatch embed photos/ -o photos.emb --encoder openai/clip-vit-base-patch32
      gmmatch embed texts.jsonl -o texts.emb --text body --on-error skip
      gmmatch embed pairs.jsonl -o pairs.emb --text '{instruction}\\n{output}'
      gmmatch embed photos/ -o photos.emb --engine ray --address auto --device cuda
    """
    import gmmatch as gm
    from gmmatch.data.files import is_store
    from gmmatch.data.images import allow_pixels
    from gmmatch.store import delete_store

    # Before a model is loaded, which may take minutes.
    if is_store(source):
        raise InvalidInputError(f"{source} holds embeddings already: give it to `gmmatch select`.")
    if is_selection(source):
        raise InvalidInputError(f"{source} holds picks: `gmmatch export` writes the rows that they are.")
    # In the source its files would be taken for the source's own when the same command goes on.
    check_output(output, force=True, folder=True, source=source)
    rows = columns.open(source, embedding_column=embedding_column)
    if not as_json:
        note(f"{source}: {rows.how or rows.format}.")
    if max_pixels is not None:
        allow_pixels(max_pixels)
    trusted: dict[str, Any] = {"trust_pickle": True} if trust_pickle else {}
    running: dict[str, Any] = {"workers": workers}
    if engine is not None or address is not None:
        # Each worker has a GPU if it was asked for by name, and computes as one would.
        on_gpu = device.startswith("cuda")
        trusted |= {"dtype": "float16"} if on_gpu else {}
        running = {"engine": gm.RayEngine(workers, address=address, num_gpus=float(on_gpu))}
        device = "cpu"
    model = gm.load_encoder(encoder, kind=rows.kind, device=device, **trusted)
    if force and is_store(output):
        delete_store(output)
    try:
        with progress("Encoding") as update:
            report = gm.embed(
                rows, model, output, batch_size=batch_size, dtype=dtype, on_error=on_error, progress=update, **running
            )  # fmt: skip
    except KeyboardInterrupt:
        saved = len(gm.open_store(output, allow_incomplete=True)) if is_store(output) else 0
        done = f"{saved:,} of {rows.n_rows:,} rows saved"
        raise KeyboardInterrupt(f"{done}; run the same command to resume.") from None
    if as_json:
        described = asdict(report)
        speed = {"seconds": round(report.seconds, 3), "rows_per_second": round(report.rows_per_second, 2)}
        print_json({"store": str(described.pop("path")), "kind": rows.kind, **described, **speed})
    else:
        _print_summary(report, rows.kind)


def _print_summary(report: EmbedReport, kind: str) -> None:
    unit = {"image": "images", "text": "texts", "embedding": "rows"}[kind]
    before = f", {report.n_before:,} of them from before" if report.n_before else ""
    speed = f", {report.rows_per_second:,.1f} {unit}/s" if report.n_encoded else ""
    print_lines(
        f"{report.path}: {report.n_rows:,} rows of {report.n_features:,} {report.dtype} numbers{before}",
        f"Encoded {report.n_encoded:,} {unit} in {report.seconds:.1f} s{speed}.",
    )
    if report.skipped:
        note(f"Skipped {len(report.skipped):,} rows that could not be encoded, such as:")
    for row in report.skipped[:_LISTED_AT_MOST]:
        note(f"  {row.id}: {row.reason}")
