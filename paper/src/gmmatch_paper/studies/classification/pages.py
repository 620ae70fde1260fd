"""The pages of the studies on images, written from the committed results.

``python -m gmmatch_paper.studies.classification.pages`` writes them anew; with ``--take FOLDER`` it first adds
what ``gmmatch reproduce`` wrote there to the results, and draws the figures. No number on a page is written by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmmatch_paper.studies.classification import image_study_names, load_image_study, reason_page
from gmmatch_paper.studies.classification.agreement import (
    AUTHORS,
    agreement_lines,
    contamination_lines,
    correlation_lines,
    first_places,
    variant_lines,
)
from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.reasons import NAME as REASONS
from gmmatch_paper.studies.classification.running import draw_pictures, has_numbers, pictures_of
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.joining import joined_records
from gmmatch_paper.studies.pages import figure, markdown_table, write_from_command_line
from gmmatch_paper.studies.records import as_results, load_results, read_record, write_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table

_NOTE = (
    "<!-- Written by `python -m gmmatch_paper.studies.classification.pages` from results/studies; do not edit by "
    "hand. -->"
)
_NOT_TRIED = "<!-- not run: takes most of an hour, with features that were computed beforehand -->"
_TRANSFER = "domain-transfer"
_REASONS_MODULE = "gmmatch_paper.studies.classification.reasons"
_CORRELATION = (
    "Correlation of a method's accuracy with its share of bad rows, over the methods whose picks are at most half "
    "bad (how many these are, in brackets); −1 would mean that fewer bad rows are all that matters:"
)


def write_pages(docs: Path, target: Path | None = None) -> list[Path]:
    """Write a page per study and their index from ``docs/results/studies``.

    Parameters
    ----------
    docs : Path
        The documentation's folder. A study without results there gets a page that says so.
    target : Path, optional
        Where to write; ``docs/studies/images`` by default.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = target or docs / "studies" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    studies = [load_image_study(name) for name in image_study_names()]
    records = {study.name: _record(docs, study.name) for study in studies}
    tested = _record(docs, REASONS)
    reasons = as_results(tested) if tested is not None else None
    pages = {f"{study.name}.md": study_page(study, records[study.name], reasons) for study in studies}
    pages[f"{REASONS}.md"] = reasons_page(tested, records[_TRANSFER])
    pages["index.md"] = index_page(studies, records, reasons)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def take_results(source: Path, docs: Path) -> None:
    """Add the results that ``source`` has to those of the documentation, and draw their figures there."""
    for name in image_study_names():
        found = source / f"{name}.json"
        if found.exists():
            target = docs / "results" / "studies" / found.name
            record = read_record(found)
            if target.exists():
                record = joined_records(read_record(target), record)
            write_results(target, record)
            draw_pictures(load_image_study(name), load_results(target), docs / "images" / "studies")
    tested = source / f"{REASONS}.json"
    if tested.exists():
        write_results(docs / "results" / "studies" / tested.name, read_record(tested))


def result_tables(study: ImageStudy, results: Results | None) -> list[Table]:
    """Return the tables of a study, with what was not run shown as such."""
    if study.tables is not None:
        return study.tables(study, results) if results is not None else []
    return study_tables(results, study.paper)


def study_page(study: ImageStudy, record: dict[str, Any] | None, reasons: Results | None = None) -> str:
    """Return the page of one study, in MyST Markdown; ``reasons`` is what was tested where it disagrees."""
    results = as_results(record) if record is not None else None
    paper = f" (The paper's {', '.join(f'`{label}`' for label in study.paper)}.)" if study.paper else ""
    sections = [f"# {study.title}", _NOTE, f"**{study.question}**{paper}", study.method]
    if results is not None and has_numbers(results):
        for name, picture in pictures_of(study).items():
            sections.append(figure(f"../../images/studies/{name}", picture.caption))
        sections += _verdicts(study, results, reasons)
    else:
        sections.append("**Not run yet.**")
    tables = result_tables(study, results)
    if tables:
        sections += ["## The numbers", *map(markdown_table, tables)]
    sections += ["## Run it", _how(study, record)]
    return "\n\n".join(sections) + "\n"


def reasons_page(record: dict[str, Any] | None, transfer: dict[str, Any] | None = None) -> str:
    """Return the page on the reasons that were tested; ``transfer`` may have proxies trained on the data."""
    sections = [f"# {reason_page.TITLE}", _NOTE]
    if record is None:
        sections += ["**Not run yet.**", "## Run it", f"{_NOT_TRIED}\n```\npython -m {_REASONS_MODULE}\n```"]
    else:
        tables = reason_page.page_tables(as_results(record))
        other = as_results(transfer) if transfer is not None else None
        sections += [
            *reason_page.page_sections(record, other),
            "## The numbers",
            *map(markdown_table, tables),
        ]
        sections += ["## Run it", f"{_NOT_TRIED}\n{_made(record, device='cpu')}"]
    return "\n\n".join(sections) + "\n"


def index_page(
    studies: Sequence[ImageStudy],
    records: dict[str, dict[str, Any] | None],
    reasons: Results | None = None,
) -> str:
    """Return the page that lists the studies on images and says what was run."""
    measured_studies = [
        as_results(record)
        for study in studies
        if study.tables is None and (record := records[study.name]) is not None
    ]
    rows = []
    for study in studies:
        record = records[study.name]
        cells = [cell for part in record["parts"].values() for cell in part["cells"]] if record else []
        measured = [cell for cell in cells if "error" not in cell]
        rows.append(
            [
                f"[{study.name}]({study.name}.md)",
                study.title,
                ", ".join(f"`{label}`" for label in study.paper) or "not in the paper",
                _ran(measured) if measured else "not run",
                _first_places(study, record) if measured else "",
            ]
        )
    table = markdown_table(
        Table(
            "What was recomputed, and on what.",
            ("study", "about", "in the paper", "run by us", "GM Matching first of the paper's methods"),
            rows,
        )
    )
    names = "\n".join(study.name for study in studies)
    counted = reason_page.count_line(measured_studies, reasons)
    return f"""# The paper's tables on images

{_NOTE}

Every table of the paper's image classification as a study: data are corrupted, embedded, picked from, trained on, and
tested on clean images. Our numbers stand beside the paper's, and what was not run says so.

```
gmmatch reproduce label-noise                       # seconds, on built-in digits: does it run here?
gmmatch reproduce label-noise --full --dry-run      # how many trainings, and how long
gmmatch reproduce label-noise --full --recipe fast  # the paper's cells; stop it and start it again at will
gmmatch reproduce domain-transfer --dataset cifar10.npz --encoder features.npz --downstream probe --seeds 3
```

`--dataset` is a hub name, a folder of images or Parquet files, or a `.npz` file with `x_train`, `y_train`, `x_test`,
`y_test` and perhaps `labels_NAME`. `--encoder` is the proxy: `in-domain` trains a network on the noisy data, `pixels`
takes the images as they are, a folder or hub name is a frozen model, and a `.npz` file with `train` and `test` holds
features that were computed before. Embeddings, proxies and picks that cells share are kept in `--cache`. A cell that
fails is recorded with its error; the next run measures it again and nothing else. `--jobs` is how many cells share a
GPU; they run side by side if NVIDIA's MPS was started beforehand, and in turn if not. Results of several machines are
joined by `python -m gmmatch_paper.studies.classification.pages --take FOLDER`.

Several of these studies ran on one GPU at the same time: the cells per minute that a page ends with are those of one
study beside others, and not what the GPU does for it alone.

{table}

{counted} Each study's page lists its own, and [one page]({REASONS}.md) has all that was tested.

```{{toctree}}
:hidden:

{names}
{REASONS}
```
"""


def _first_places(study: ImageStudy, record: dict[str, Any] | None) -> str:
    if study.tables is not None or record is None:
        return ""
    results = as_results(record)
    wins, columns = first_places(results, study.paper)
    if not columns:
        return ""
    text = f"in {wins} of {columns} columns"
    wins, columns = first_places(results, study.paper, AUTHORS)
    return f"{text}, as in the authors' code in {wins} of {columns}" if columns else text


def _ran(cells: list[dict[str, Any]]) -> str:
    datasets = ", ".join(dict.fromkeys(str(cell["dataset"]) for cell in cells))
    kinds = dict.fromkeys(str(cell["network"]) if "network" in cell else "maps" for cell in cells)
    return f"{len(cells)} cells on {datasets}: {', '.join(kinds)}"


def _verdicts(study: ImageStudy, results: Results, reasons: Results | None) -> list[str]:
    if study.tables is not None:
        return []
    sections = []
    lines = agreement_lines(results, study.paper)
    if lines:
        sections += ["## Who is first, and does the order agree", "\n".join(f"- {line}" for line in lines)]
        sections += ["## Where it does not, and the reasons that were tested", _reasons(results, reasons)]
    bad = contamination_lines(results)
    if bad:
        sections += ["## Bad rows among the picks", "\n".join(f"- {line}" for line in bad)]
    followed = correlation_lines(results)
    if followed:
        sections += [_CORRELATION, "\n".join(f"- {line}" for line in followed)]
    changes = [*variant_lines(results), *(line for note in study.notes for line in note(results))]
    if changes:
        sections += ["## What variants of a method change", "\n".join(f"- {line}" for line in changes)]
    return sections


def _reasons(results: Results, reasons: Results | None) -> str:
    lines = reason_page.reason_lines(results, reasons)
    if not lines:
        return "Nowhere is our order of two methods another one than the paper has throughout."
    listed = "\n".join(f"- {line}" for line in lines)
    if " *" not in listed.replace("**", ""):
        return listed
    return f"What the words in italics stand for is on [the page of reasons]({REASONS}.md).\n\n{listed}"


def _how(study: ImageStudy, record: dict[str, Any] | None) -> str:
    return f"```\ngmmatch reproduce {study.name} --full\n```" if record is None else _made(record)


def _made(record: dict[str, Any], device: str = "an unknown device") -> str:
    """Return the commands, and where they ran: on ``device`` where a run does not say."""
    made = record["provenance"]
    commands = "\n".join(dict.fromkeys(run["command"] for run in made["runs"]))
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items() if version)
    name = record["study"]
    return (
        f"```\n{commands}\n```\n\n"
        f"{_speeds(made['runs'], device)}, with gmmatch {made['gmmatch']}, Python {made['python']}, {libraries}. "
        f"All cells are in {{download}}`{name}.json <../../results/studies/{name}.json>`."
    )


def _speeds(runs: list[dict[str, Any]], unnamed: str) -> str:
    """Return how many cells were measured on which device, and how fast where that is known."""
    found = []
    for device in dict.fromkeys(str(run.get("device", unnamed)) for run in runs):
        mine = [run for run in runs if run.get("device", unnamed) == device]
        timed = [run for run in mine if "seconds" in run]  # of a run that was killed it is not known
        seconds, in_time = sum(run["seconds"] for run in timed), sum(run["cells"] for run in timed)
        text = f"{sum(run['cells'] for run in mine):,} cells on {device}"
        if seconds:
            some = "" if len(timed) == len(mine) else f"{in_time:,} of them "
            text += f" ({some}in {seconds:,.0f} seconds, {60 * in_time / seconds:.1f} per minute)"
        found.append(text)
    return ", ".join(found)


def _record(docs: Path, name: str) -> dict[str, Any] | None:
    path = docs / "results" / "studies" / f"{name}.json"
    return read_record(path) if path.exists() else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages; what ``python -m gmmatch_paper.studies.classification.pages`` runs."""
    write_from_command_line(arguments, "Write the pages of the studies on images.", take_results, write_pages)


if __name__ == "__main__":
    main()
