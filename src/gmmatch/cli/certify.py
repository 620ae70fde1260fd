"""``gmmatch certify``: a sample of the picks to check, and what the answers prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gmmatch.cli.io.arguments import (
    ForceOption,
    JsonOption,
    PicksArgument,
    SeedOption,
    SplitOption,
    output_path,
    picks_by,
    reads,
)
from gmmatch.cli.io.files import check_output, updating
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.report.content import Contents
    from gmmatch.selection.selection import Selection


def certify(
    *,
    picks: PicksArgument,
    source: Annotated[
        str | None, typer.Argument(help="The images or texts, to show them on the page.")
    ] = None,
    split: SplitOption = None,
    answers: Annotated[Path | None, reads("Answers: what the page saved, or the filled-in table.")] = None,
    sample: Annotated[int, picks_by("How many picks to check.", min=1)] = 200,
    confidence: Annotated[float, picks_by("Confidence of the bound.")] = 0.95,
    output: Annotated[Path | None, output_path("For the sample: a page (.html) or a table (.csv).")] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
    seed: SeedOption = 0,
) -> None:
    """Bound the number of mislabeled picks by checking a sample.

    First write a random sample of the picks as a page, and check it. Then pass the answers: the bound is printed,
    and stored in the provenance of the picks.

    \b
    Examples:
      gmmatch certify picks.parquet photos/ --sample 200 -o check.html
      gmmatch certify picks.parquet --answers answers.csv
    """
    import gmmatch as gm

    if (output is None) == (answers is None):
        raise InvalidInputError("Give -o for a sample to check, or --answers about it, and not both.")
    if answers is not None:
        with updating(picks) as selection:
            certificate = gm.certify(selection, answers, confidence=confidence)
            selection.provenance["certificate"] = certificate.as_json()
            selection.save(picks)
        if as_json:
            print_json(certificate.as_json())
            return
        typer.echo(str(certificate))
        note(f"Recorded in {picks}.")
        return
    assert output is not None
    selection = gm.Selection.load(picks)
    check_output(output, picks, source, force=force, endings=(".html", ".htm", ".csv"))
    drawn = gm.check_sample(selection, sample, random_state=seed)
    if output.suffix.lower() == ".csv":
        drawn.write(output)
        note(f"Wrote {output}: write right, wrong or unsure as 'answer' into {len(drawn):,} lines.")
        return
    from gmmatch.review.page import write_check_page

    contents = None if source is None else _open_contents(selection, source, split)
    write_check_page(drawn, output, contents, picks=picks.name)
    note(f"Wrote {output}: open it in a browser, and answer for {len(drawn):,} rows.")


def _open_contents(selection: Selection, source: str, split: str | None) -> Contents:
    """Open the pictures or texts of the picks."""
    import numpy as np

    from gmmatch.cli.export import match_rows, open_picked
    from gmmatch.report.content import open_contents

    opened = open_picked(selection, source, split=split)
    rows, positions = match_rows(selection, opened)
    row_in_source = np.full(selection.n_rows, -1)
    row_in_source[selection.indices[positions]] = rows
    contents = open_contents(opened, selection.n_rows, row_in_source)
    if contents is None:
        raise InvalidInputError(f"{source} holds embeddings: give the images or texts they were made from.")
    return contents
