"""The measured parts of the documentation's pages of the studies, written from the committed results.

A page is written by hand but for what stands between ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``.
``python -m gmmatch_paper.studies.pages`` writes these parts again; with ``--draw`` it also draws the figures, and
with ``--take FOLDER`` it first adds what ``gmmatch reproduce`` measured there.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies import image_study_names, load_image_study, load_study, study_names
from gmmatch_paper.studies.classification.pages import image_study_parts
from gmmatch_paper.studies.classification.running import pictures_of
from gmmatch_paper.studies.joining import joined_records
from gmmatch_paper.studies.labels import number_of
from gmmatch_paper.studies.markdown import markdown_table
from gmmatch_paper.studies.records import as_results, read_record, write_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Study, Table
from gmmatch_paper.studies.style import draw_pictures
from gmmatch_paper.studies.summary import summary_parts


def write_pages(docs: Path, target: Path | None = None) -> list[Path]:
    """Write the measured parts of all pages from ``docs/results/studies``; return the files written.

    Parameters
    ----------
    docs : Path
        The documentation's folder.
    target : Path, optional
        Where to write; ``docs/studies`` by default.
    """
    results = docs / "results" / "studies"
    studies = [load_study(name) for name in study_names()]
    on_images = [load_image_study(name) for name in image_study_names()]
    records = {one.name: read_record(results / f"{one.name}.json") for one in (*studies, *on_images)}
    measured = {name: as_results(record) for name, record in records.items()}
    pages = {f"{one.name}.md": study_parts(one, records[one.name]) for one in studies}
    for one in on_images:
        pages[f"images/{one.name}.md"] = image_study_parts(one, records[one.name], measured)
    pages["index.md"] = summary_parts(studies, on_images, measured)
    folder = target or docs / "studies"
    for name, parts in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(filled(docs / "studies" / name, parts), encoding="utf-8")
    return [folder / name for name in pages]


def filled(page: Path, parts: Mapping[str, str]) -> str:
    """Return the text of a page with its measured parts."""
    text = page.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        around = re.split(f"{begin}.*?{end}", text, flags=re.DOTALL)
        if len(around) != 2:
            raise InvalidInputError(f"{page} has {len(around) - 1} parts {begin} … {end}: expected one.")
        text = f"{begin}\n\n{part}\n\n{end}".join(around)
    return text


def take_results(source: Path, docs: Path) -> None:
    """Add the results that ``source`` has to those of the documentation, and draw their figures."""
    taken = [name for name in (*study_names(), *image_study_names()) if (source / f"{name}.json").exists()]
    for name in taken:
        target = docs / "results" / "studies" / f"{name}.json"
        record = read_record(source / target.name)
        if name in image_study_names() and target.exists():
            record = joined_records(read_record(target), record)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_results(target, record)
    draw_figures(docs, taken)


def draw_figures(docs: Path, names: Sequence[str]) -> None:
    """Draw the figures of studies from the results in the documentation."""
    for name in names:
        results = as_results(read_record(docs / "results" / "studies" / f"{name}.json"))
        study = load_study(name) if name in study_names() else load_image_study(name)
        draw_pictures(pictures_of(study, results), results, docs / "images" / "studies")


def study_parts(study: Study, record: dict[str, Any]) -> dict[str, str]:
    """Return the measured parts of the page of a study without images."""
    results = as_results(record)
    return {
        "statements": markdown_table(verdicts_table(study, results)),
        "tables": "\n\n".join(markdown_table(table(results)) for table in study.tables),
        "run": _how(record),
    }


def verdicts_table(study: Study, results: Results) -> Table:
    """Return the paper's statements and ours, whether they hold, and the numbers that say so."""
    rows = []
    for claim in sorted(study.claims, key=lambda claim: claim.source == "ours"):
        verdict = claim.check(results)
        statement = f"{claim.statement} ({number_of(claim.source)})"
        rows.append([statement, "yes" if verdict.agrees else "**no**", verdict.measured])
    return Table("Statements, and what was measured.", ("statement", "holds", "measured"), rows)


def _how(record: dict[str, Any]) -> str:
    made = record["provenance"]
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items() if version)
    seeds = ", ".join(f"{count} for *{part}*" for part, count in made["seeds"].items())
    seconds = sum(part["seconds"] for part in record["parts"].values())
    name = record["study"]
    return (
        f"```\n{made['command']}\n```\n\n"
        f"Seeds: {seeds}. {seconds:,.0f} seconds of measuring on {made['cores']} cores of an {made['cpu']}, "
        f"with gmmatch {made['gmmatch']}, Python {made['python']}, {libraries}. "
        f"All cells are in {{download}}`{name}.json <../results/studies/{name}.json>`."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages; what ``python -m gmmatch_paper.studies.pages`` runs."""
    parser = argparse.ArgumentParser(description="Write the measured parts of the studies' pages.")
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the documentation's folder")
    parser.add_argument("--take", type=Path, help="add the results in this folder to the documentation first")
    parser.add_argument("--draw", action="store_true", help="draw all figures again")
    options = parser.parse_args(arguments)
    if options.take is not None:
        take_results(options.take, options.docs)
    if options.draw:
        draw_figures(options.docs, (*study_names(), *image_study_names()))
    write_pages(options.docs)


if __name__ == "__main__":
    main()
