"""The pages of the studies on images, written from the committed results.

``python -m gmmatch.studies.classification.pages`` writes them anew; with ``--take FOLDER`` it first adds
what ``gmmatch reproduce`` wrote there to the results, and draws the figures. No number on a page is written by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmmatch.studies.classification import image_study_names, load_image_study
from gmmatch.studies.classification.agreement import (
    agreement_lines,
    contamination_lines,
    first_places,
    variant_lines,
)
from gmmatch.studies.classification.image_study import ImageStudy
from gmmatch.studies.classification.running import draw_pictures, has_numbers, pictures_of
from gmmatch.studies.classification.tables import study_tables
from gmmatch.studies.joining import joined_records
from gmmatch.studies.pages import figure, markdown_table, write_from_command_line
from gmmatch.studies.records import as_results, load_results, read_record, write_results
from gmmatch.studies.results import Results
from gmmatch.studies.study import Table

_NOTE = (
    "<!-- Written by `python -m gmmatch.studies.classification.pages` from results/studies; do not edit by "
    "hand. -->"
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
    pages = {f"{study.name}.md": study_page(study, records[study.name]) for study in studies}
    pages["index.md"] = index_page(studies, records)
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


def result_tables(study: ImageStudy, results: Results | None) -> list[Table]:
    """Return the tables of a study, with what was not run shown as such."""
    if study.tables is not None:
        return study.tables(study, results) if results is not None else []
    return study_tables(results, study.paper)


def study_page(study: ImageStudy, record: dict[str, Any] | None) -> str:
    """Return the page of one study, in MyST Markdown."""
    results = as_results(record) if record is not None else None
    paper = f" (The paper's {', '.join(f'`{label}`' for label in study.paper)}.)" if study.paper else ""
    sections = [f"# {study.title}", _NOTE, f"**{study.question}**{paper}", study.method]
    if results is not None and has_numbers(results):
        for name, picture in pictures_of(study).items():
            sections.append(figure(f"../../images/studies/{name}", picture.caption))
        sections += _verdicts(study, results)
    else:
        sections.append("**Not run yet.**")
    tables = result_tables(study, results)
    if tables:
        sections += ["## The numbers", *map(markdown_table, tables)]
    sections += ["## Run it", _how(study, record)]
    return "\n\n".join(sections) + "\n"


def index_page(studies: Sequence[ImageStudy], records: dict[str, dict[str, Any] | None]) -> str:
    """Return the page that lists the studies on images and says what was run."""
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
joined by `python -m gmmatch.studies.classification.pages --take FOLDER`.

{table}

```{{toctree}}
:hidden:

{names}
```
"""


def _first_places(study: ImageStudy, record: dict[str, Any] | None) -> str:
    if study.tables is not None or record is None:
        return ""
    wins, columns = first_places(as_results(record), study.paper)
    return f"in {wins} of {columns} columns" if columns else ""


def _ran(cells: list[dict[str, Any]]) -> str:
    datasets = ", ".join(dict.fromkeys(str(cell["dataset"]) for cell in cells))
    kinds = dict.fromkeys(str(cell["network"]) if "network" in cell else "maps" for cell in cells)
    return f"{len(cells)} cells on {datasets}: {', '.join(kinds)}"


def _verdicts(study: ImageStudy, results: Results) -> list[str]:
    if study.tables is not None:
        return []
    sections = []
    lines = agreement_lines(results, study.paper)
    if lines:
        sections += ["## Who is first, and does the order agree", "\n".join(f"- {line}" for line in lines)]
    bad = contamination_lines(results)
    if bad:
        sections += ["## Bad rows among the picks", "\n".join(f"- {line}" for line in bad)]
    reasons = [*variant_lines(results), *(line for note in study.notes for line in note(results))]
    if reasons:
        sections += ["## Reasons that were tested", "\n".join(f"- {line}" for line in reasons)]
    return sections


def _how(study: ImageStudy, record: dict[str, Any] | None) -> str:
    if record is None:
        return f"```\ngmmatch reproduce {study.name} --full\n```"
    made = record["provenance"]
    commands = "\n".join(dict.fromkeys(run["command"] for run in made["runs"]))
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items() if version)
    name = record["study"]
    return (
        f"```\n{commands}\n```\n\n"
        f"{_speeds(made['runs'])}, with gmmatch {made['gmmatch']}, Python {made['python']}, {libraries}. "
        f"All cells are in {{download}}`{name}.json <../../results/studies/{name}.json>`."
    )


def _speeds(runs: list[dict[str, Any]]) -> str:
    """Return how many cells were measured on which device, and how fast where that is known."""
    found = []
    for device in dict.fromkeys(str(run.get("device", "an unknown device")) for run in runs):
        mine = [run for run in runs if run.get("device", "an unknown device") == device]
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
    """Write the pages; what ``python -m gmmatch.studies.classification.pages`` runs."""
    write_from_command_line(arguments, "Write the pages of the studies on images.", take_results, write_pages)


if __name__ == "__main__":
    main()
