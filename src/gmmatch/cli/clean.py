"""``gmmatch clean``: a dataset without the rows that are wrong, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import (
    Columns,
    ConfidenceOption,
    DecisionsOption,
    DeviceOption,
    ForceOption,
    JsonOption,
    SeedOption,
    output_path,
    picks_by,
    reads,
    writes,
)
from gmmatch.cli.io.files import check_output
from gmmatch.cli.io.output import note, print_json, print_lines, print_table, progress
from gmmatch.errors import InvalidInputError


def clean(
    *,
    source: Annotated[
        str, typer.Argument(metavar="INPUT", help="A folder of images, a table, or a store made from such.")
    ],
    columns: Columns,
    decisions: DecisionsOption = None,
    encoder: Annotated[str | None, reads("Encoder, as in `gmmatch embed`.", "--encoder", "-e")] = None,
    doubtful: Annotated[Literal["keep", "drop"], picks_by("What becomes of rows in doubt.")] = "keep",
    relabel: Annotated[
        bool, picks_by("Keep mislabeled rows with their right label, if clear.", "--relabel")
    ] = False,
    min_confidence: ConfidenceOption = 0.95,
    output: Annotated[Path, output_path("A new folder for images, a new file of the same kind for rows.")],
    store: Annotated[Path | None, writes("For the embeddings; next to the output by default.")] = None,
    link: Annotated[bool, writes("Whether to link images or copy them.", "--link/--copy")] = False,
    force: ForceOption = False,
    as_json: JsonOption = False,
    device: DeviceOption = "auto",
    seed: SeedOption = 0,
) -> None:
    """Write a dataset without the rows that are wrong.

    It embeds the rows, screens them, and leaves out mislabeled rows, outliers, copies and what cannot be read. A
    report and removed.csv say what was removed, why, and how sure that is. The source is never changed.
    Interrupted, it resumes. Look at suspects by `gmmatch review`, and clean again with --decisions.

    \b
    Examples:
      gmmatch clean photos/ -o clean/
      gmmatch clean texts.jsonl -o clean.jsonl --text body --doubtful drop
      gmmatch clean clean.emb -o cleaner/ --relabel --decisions decisions.csv
    """
    import gmmatch as gm
    from gmmatch.cli.screen import print_classes
    from gmmatch.data.files import is_store
    from gmmatch.data.images import ImageFolder

    rows: Any = None
    given = None
    if is_store(source):
        if encoder is not None or columns != Columns():
            raise InvalidInputError(
                f"{source} is a store, whose encoder and columns are chosen: leave them out."
            )
        rows = gm.open_store(source)
    else:
        rows = columns.open(source)
        given = gm.load_encoder(encoder, kind=rows.kind, device=device)
        note(f"{source}: {rows.how or rows.format}.")
    is_folder = isinstance(rows, ImageFolder) or output.is_dir()
    check_output(output, source, decisions, store, force=force, folder=is_folder)
    with progress("Encoding") as update:
        cleaned = gm.clean(
            rows, output, store=store, encoder=given, doubtful=doubtful, decisions=decisions, link=link,
            relabel=min_confidence if relabel else None, random_state=seed, progress=update,
        )  # fmt: skip
    if as_json:
        paths = {name: str(getattr(cleaned, name)) for name in ("path", "report", "removed", "store")}
        counts = {name: getattr(cleaned, name) for name in ("n_rows", "n_kept", "n_relabeled", "counts")}
        print_json({**paths, **counts, "noise_rate": cleaned.screening.noise_rate})
        return
    lines = [(reason, f"{count:,}") for reason, count in cleaned.counts.items()]
    print_table(f"{cleaned.n_kept:,} of {cleaned.n_rows:,} rows stay", ("removed", "rows"), lines)
    print_lines(cleaned.screening.summary)
    print_classes(cleaned.screening)
    if cleaned.n_relabeled:
        print_lines(f"{cleaned.n_relabeled:,} of the rows that stay have another label.")
    note(f"Wrote {output}, {cleaned.removed} and {cleaned.report}. To decide about suspects yourself:")
    note(f"  gmmatch review {cleaned.store} -o decisions.csv")
