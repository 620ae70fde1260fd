"""``gmmatch select``: pick rows of a store or a file of embeddings."""

from __future__ import annotations

import math
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gmmatch.cli.io.arguments import (
    DEFAULT_METHOD,
    BudgetOption,
    DecisionsOption,
    ForceOption,
    JsonOption,
    LabeledInput,
    MethodOption,
    PerClassOption,
    PredProbsOption,
    SeededRunning,
    SettingsOption,
    output_path,
    parse_per_class,
    parse_settings,
    picks_by,
    reads,
    split_names,
)
from gmmatch.cli.io.files import Report, check_output, is_stdout
from gmmatch.cli.io.inputs import read_array, read_column
from gmmatch.cli.io.output import note, print_json, print_lines, print_table

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection

_CLASSES_SHOWN = 30


def select(
    *,
    given: LabeledInput,
    scores: Annotated[str | None, reads("For by-score; given as --labels.", metavar="COLUMN|TABLE")] = None,
    pred_probs: PredProbsOption = None,
    decisions: DecisionsOption = None,
    k: BudgetOption,
    method: MethodOption = DEFAULT_METHOD,
    settings: SettingsOption = None,
    per_class: PerClassOption = "proportional",
    preprocess: Annotated[
        str | None, picks_by("Steps before picking: center,scale,pca:64,unit.", metavar="STEPS")
    ] = None,
    reference: Annotated[str | None, picks_by("Embeddings that the picks follow.", metavar="OTHER")] = None,
    reference_weight: Annotated[float, picks_by("How much --reference counts, up to 1.")] = 1.0,
    exclude_near: Annotated[str | None, picks_by("Leave out copies of test rows.", metavar="OTHER")] = None,
    refine: Annotated[bool, picks_by("Swap picks for rows that match better.", "--refine")] = False,
    weights: Annotated[bool, picks_by("Weigh the picks so that they match better.", "--weights")] = False,
    output: Annotated[Path, output_path("The picks (.parquet; .csv for people); '-' prints their ids.")],
    page: Report,
    force: ForceOption = False,
    as_json: JsonOption = False,
    running: SeededRunning,
) -> None:
    """Pick the rows worth keeping, and say which rows look wrong.

    \b
    Examples:
      gmmatch select photos.emb -k 10% -o picks.parquet --report picks.html
      gmmatch select vectors.parquet -k 10% -o picks.parquet --embedding-column clip --id-column key
      gmmatch select train.emb -k 10% -o picks.parquet --exclude-near test.emb
      gmmatch select web.emb -k 10% -o picks.parquet --reference task.emb
      gmmatch select photos.emb -k 500 -o - --method gm-matching --set target.eps=1e-6 > picked.txt
    """
    import numpy as np

    import gmmatch as gm

    if not is_stdout(output):
        inputs = (given.labels, page.source, exclude_near, reference, scores, decisions)
        check_output(output, *inputs, force=force, endings=(".parquet", ".csv"), source=given.path)
    page.check(given.path, force=force)
    options, arguments, rows = parse_settings(method, settings), running.options(), given.open()
    contents = page.open_contents(rows)
    start, record = time.perf_counter(), {"embeddings": rows.origin}
    arguments |= {"ids": rows.select_ids, "reference_weight": reference_weight}
    if preprocess is not None:
        arguments["preprocess"] = split_names(preprocess, "--preprocess")
    if scores is not None:
        arguments["scores"] = read_column(rows, scores, "score", "--scores").tolist()
    if pred_probs is not None:
        arguments["pred_probs"] = read_array(pred_probs, "--pred-probs")
    exclude = np.zeros(len(rows), dtype=bool)
    if decisions is not None:
        settled = gm.apply_decisions(rows, rows.y, decisions)
        arguments["answers"], exclude = settled.answers, ~settled.keep
        record["decisions"] = {"path": decisions, "rows": int(settled.decided.sum())}
    if reference is not None:
        other = given.open_other(rows, reference, "--reference")
        arguments["reference"] = other.X if rows.y is None or other.y is None else (other.X, other.y)
    if exclude_near is not None:
        near = gm.duplicates(rows.X, against=given.open_other(rows, exclude_near, "--exclude-near").X)
        exclude |= near.mask
        record["excluded_near"] = {"path": exclude_near, "rows": len(near.rows), "threshold": near.threshold}
    if exclude.any():
        arguments["exclude"] = exclude
    options |= {"per_class": parse_per_class(per_class), "random_state": running.seed}
    selection = gm.select(rows.X, rows.y, k=k, method=method, **options, **arguments)
    if refine:
        selection = gm.refine(selection, rows.X, rows.y, **arguments)
    if weights:
        selection = gm.weigh(selection, rows.X, rows.y, **arguments)
    selection.provenance.update(record)
    seconds = time.perf_counter() - start
    if not is_stdout(output):
        selection.save(output)
    if not as_json:
        print_selection(selection, to_stderr=is_stdout(output))
    if is_stdout(output) and not as_json:  # the picks alone
        typer.echo(
            "\n".join(map(str, (selection.indices if selection.ids is None else selection.ids).tolist()))
        )
    if page.report is not None or not as_json:  # the page may fail
        note(f"{'Picked' if is_stdout(output) else f'Wrote {output}'} in {seconds:.1f} s.")
    page.write(selection, rows, contents)
    if as_json:
        result = {"output": str(output), **describe_selection(selection, seconds)}
        result |= {} if page.report is None else {"report": str(page.report)}
        result["indices"] = selection.indices.tolist()
        print_json(result | ({} if selection.ids is None else {"ids": selection.ids.tolist()}))
    elif page.report is None and selection.screening is not None and not selection.screening.trusted.all():
        words = ["gmmatch", "screen", given.path, *(["--labels", given.labels] if given.labels else [])]
        note(f"To see the rows that are not trusted: {shlex.join(words)} -o suspects.csv, or add --report.")


def describe_selection(selection: Selection, seconds: float | None = None) -> dict[str, Any]:
    """Return a selection, without its rows, as JSON can hold it."""
    columns = (selection.classes, selection.group_sizes.tolist(), selection.counts.values())
    groups = [
        {"label": label, "n_rows": size, "picked": picked, "residual": None if math.isnan(last) else last}
        for label, size, picked, last in zip(*columns, selection.residual.values(), strict=True)
    ]
    return {
        "k": selection.k,
        "n_rows": selection.n_rows,
        "has_ids": selection.order_ids is not None,
        **({} if seconds is None else {"seconds": round(seconds, 3)}),
        "groups": groups,
        "provenance": selection.provenance,
    }


def print_selection(selection: Selection, *, to_stderr: bool = False) -> None:
    """Print how many rows of each class were picked, and what was learned about the rows."""
    from gmmatch.selection.describe import class_lines

    # A residual in the space of a kernel says nothing to a reader.
    is_plain, by_class = selection.screening is None, selection.classes != [None]
    lines = [
        (name, f"{size:,}", f"{picked:,}", residual * is_plain)
        for name, picked, size, residual in class_lines(selection)
    ]
    if len(lines) > _CLASSES_SHOWN:
        lines = [*lines[:_CLASSES_SHOWN], (f"... {len(lines) - _CLASSES_SHOWN:,} more", "", "", "")]
    headings = ("class" if by_class else "", "rows", "picked", "residual")
    total = ["all", f"{selection.group_sizes.sum():,}", f"{selection.k:,}"] if by_class else []
    title = f"{selection.k:,} of {selection.n_rows:,} rows by {selection.provenance.get('method', 'hand')}"
    print_table(title, headings, lines, footer=total, to_stderr=to_stderr)
    print_lines(*_learned(selection), to_stderr=to_stderr)


def _learned(selection: Selection) -> list[str]:
    """Return what was learned about the rows, in a few lines."""
    lines = [] if selection.screening is None else [selection.screening.summary]
    relabeled, near = (selection.provenance.get(name) for name in ("relabeled", "excluded_near"))
    if relabeled:
        picked = len(set(relabeled["rows"]) & set(selection.order.tolist()))
        lines.append(f"Labels corrected: {len(relabeled['rows']):,} rows, of which {picked:,} were picked.")
    if near:
        lines.append(f"Left out as near-duplicates of {near['path']}: {near['rows']:,} rows.")
    n_classes, n_missing = len(selection.classes), list(selection.counts.values()).count(0)
    if n_missing:
        reason = (
            "there are fewer picks than classes" if selection.k < n_classes else "try --per-class balanced"
        )
        lines.append(f"{n_missing:,} of the {n_classes:,} classes have no pick: {reason}.")
    return lines
