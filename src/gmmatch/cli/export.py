"""``gmmatch export``: the picked files or rows as a dataset of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gmmatch.cli.io.arguments import EmbeddingColumnOption, ForceOption
from gmmatch.cli.io.output import note, print_json


def export(
    picks: Annotated[Path, typer.Argument(help="What `gmmatch select` wrote.")],
    source: Annotated[
        str,
        typer.Argument(help="What was embedded: a folder of images, or Parquet, CSV or JSON-lines files."),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A new folder for images, a new file of the same kind for rows."),
    ],
    link: Annotated[
        bool,
        typer.Option(
            "--link/--copy", help="Whether images are linked (hard, or symbolic on another disk) or copied."
        ),
    ] = False,
    split: Annotated[
        str | None, typer.Option(help="Which split; by default the one that was embedded.")
    ] = None,
    embedding_column: EmbeddingColumnOption = None,
    id_column: Annotated[
        str | None,
        typer.Option(help="The column of ids, '' for none; by default the one that names the picks."),
    ] = None,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Write the picked images or rows as a dataset of their own.

    Images keep their sub-folders. Rows of tables keep all their columns and their order.

    \b
    Examples:
      gmmatch export picks.parquet photos/ -o picked/ --link
      gmmatch export picks.parquet texts.jsonl -o picked.jsonl
      gmmatch export picks.parquet vectors.parquet -o picked.parquet --id-column key
    """
    from gmmatch.cli.io.exporting import export_picks

    columns = {"split": split, "embedding_column": embedding_column, "id_column": id_column}
    count = export_picks(picks, source, output, link=link, columns=columns, force=force)
    if as_json:
        print_json({"output": str(output), "exported": count})
    else:
        note(f"Wrote {count:,} of the picks' rows to {output}.")
