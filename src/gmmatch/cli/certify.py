"""``gmmatch certify``: a sample of the picks to look at, and what a person's answers prove."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import ForceOption, PicksArgument, SeedOption
from gmmatch.cli.io.files import check_output, explained, keep_inputs
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.certificate.sample import CheckSample
    from gmmatch.selection.selection import Selection


def certify(
    picks: PicksArgument,
    source: Annotated[
        str | None,
        typer.Argument(help="The images or texts that were embedded, to show them on the page."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the sample: a page (.html), or a table to fill in (.csv)."
        ),
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="How many picks to check.")] = 200,
    stratified: Annotated[
        bool,
        typer.Option(
            "--stratified",
            help="Use the screening's probabilities for a tighter bound; it holds even if they are wrong.",
        ),
    ] = False,
    answers: Annotated[
        Path | None, typer.Option(help="The answers: what the page saved, or the table that was filled in.")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Confidence of the bound.")] = 0.95,
    split: Annotated[
        str | None, typer.Option(help="Which split; by default the one that was embedded.")
    ] = None,
    seed: SeedOption = 0,
    force: ForceOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a sentence.")] = False,
) -> None:
    """Bound the number of mislabeled picks by checking a sample.

    First write a random sample of the picks as a page, and check it. Then pass the answers: the bound is printed,
    and stored in the provenance of the picks.

    \b
    Examples:
      gmmatch certify picks.parquet photos/ --sample 200 -o check.html
      gmmatch certify picks.parquet --answers answers.csv
    """
    from gmmatch.selection.selection import Selection

    if (output is None) == (answers is None):
        raise InvalidInputError(
            "Give -o for a sample to look at, or --answers for what was found, and not both."
        )
    selection = Selection.load(picks)
    if answers is not None:
        _prove(selection, picks, answers, confidence, as_json)
        return
    assert output is not None
    _write_sample(selection, picks, source, output, sample, stratified, split, seed, force)


def _prove(selection: Selection, picks: Path, answers: Path, confidence: float, as_json: bool) -> None:
    from gmmatch.certificate.certify import certify as bound

    found = bound(selection, answers, confidence=confidence)
    selection.provenance["certificate"] = found.as_json()
    with explained(picks):
        selection.save(picks)
    if as_json:
        print_json(found.as_json())
        return
    typer.echo(str(found))
    note(f"Kept in the provenance of {picks}.")


def _write_sample(
    selection: Selection,
    picks: Path,
    source: str | None,
    output: Path,
    size: int,
    stratified: bool,
    split: str | None,
    seed: int,
    force: bool,
) -> None:
    from gmmatch.certificate.certify import write_answers
    from gmmatch.certificate.sample import check_sample

    check_output(output, force=force, endings=(".htm", ".html", ".csv"))
    keep_inputs(output, [picks, source])
    drawn = check_sample(selection, size, seed=seed, stratified=stratified)
    if output.suffix.lower() == ".csv":
        with explained(output):
            write_answers(drawn, output)
        note(
            f"Wrote {output}: write right, wrong or unsure into the column 'answer' of its {len(drawn):,} lines."
        )
        return
    from gmmatch.report.check_page import write_check_page

    contents = {} if source is None else _contents(selection, drawn, source, split)
    with explained(output):
        write_check_page(drawn, output, contents, picks=picks.name)
    note(f"Wrote {output}: open it in a browser, and answer for {len(drawn):,} rows.")


def _contents(selection: Selection, drawn: CheckSample, source: str, split: str | None) -> dict[int, Any]:
    """Return the pictures or texts of a sample by row number."""
    import numpy as np

    from gmmatch.cli.export import matched_rows, open_picked
    from gmmatch.report.content import contents_of

    opened = open_picked(selection, source, split=split)
    if opened.kind == "embedding":
        raise InvalidInputError(
            f"{source} holds embeddings: give the images or texts that they were made from."
        )
    rows, places = matched_rows(selection, opened)
    at = dict(zip(selection.indices[places].tolist(), rows.tolist(), strict=True))
    wanted = {row: at[row] for row in drawn.rows.tolist()}
    contents = contents_of(opened, int(opened.n_rows or 0))
    assert contents is not None
    found = contents.fetch(np.array(list(wanted.values()), dtype=np.int64))
    return {row: found[place] for row, place in wanted.items()}
