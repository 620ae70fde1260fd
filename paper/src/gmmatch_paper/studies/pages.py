"""The documentation's pages of the studies, written from the committed results.

``python -m gmmatch_paper.studies.pages`` writes them anew; with ``--take FOLDER`` it first copies what
``gmmatch reproduce`` wrote there into the documentation. No number on a page is written by hand.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gmmatch_paper.studies import load_study, study_names
from gmmatch_paper.studies.records import as_results, read_record
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Claim, Study, Table, Verdict

_NOTE = (
    "<!-- Written by `python -m gmmatch_paper.studies.pages` from results/studies; do not edit by hand. -->"
)


def write_pages(docs: Path, target: Path | None = None) -> list[Path]:
    """Write a page per study and their index from ``docs/results/studies``.

    Parameters
    ----------
    docs : Path
        The documentation's folder.
    target : Path, optional
        Where to write; ``docs/studies`` by default.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = target or docs / "studies"
    folder.mkdir(parents=True, exist_ok=True)
    studies = [load_study(name) for name in study_names()]
    records = {
        study.name: read_record(docs / "results" / "studies" / f"{study.name}.json") for study in studies
    }
    pages = {f"{study.name}.md": study_page(study, records[study.name]) for study in studies}
    pages["index.md"] = index_page(studies, records)
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in pages]


def take_results(source: Path, docs: Path) -> None:
    """Copy the results and figures of every study that ``source`` has into the documentation."""
    for name in study_names():
        if not (source / f"{name}.json").exists():
            continue
        for kind, files in (("results", [f"{name}.json"]), ("images", load_study(name).picture_names())):
            folder = docs / kind / "studies"
            folder.mkdir(parents=True, exist_ok=True)
            for file in files:
                shutil.copyfile(source / file, folder / file)


def study_page(study: Study, record: dict[str, Any]) -> str:
    """Return the page of one study, in MyST Markdown."""
    results = as_results(record)
    sections = [
        f"# {study.title}",
        _NOTE,
        f"**{study.question}** (The paper's {_listed(study.paper)}.)",
        study.method,
        *(
            figure(f"../images/studies/{name}", picture.caption)
            for name, picture in zip(study.picture_names(), study.pictures, strict=True)
        ),
        *_verdicts(study, results),
        "## The numbers",
        *(markdown_table(table(results)) for table in study.tables),
        "## Run it",
        _how(record),
    ]
    return "\n\n".join(sections) + "\n"


def index_page(studies: Sequence[Study], records: dict[str, dict[str, Any]]) -> str:
    """Return the page that lists the studies and says how to run them."""
    rows = []
    for study in studies:
        checked = _checked(study, as_results(records[study.name]))
        paper = [verdict.agrees for claim, verdict in checked if claim.source != "ours"]
        rows.append(
            [
                f"[{study.name}]({study.name}.md)",
                study.title,
                _listed(study.paper),
                f"{sum(paper)} of {len(paper)}",
            ]
        )
    seconds = sum(part["seconds"] for record in records.values() for part in record["parts"].values())
    cores = max(record["provenance"]["cores"] for record in records.values())
    table = markdown_table(
        Table(
            "What was recomputed, and how many of the paper's statements the numbers agree with.",
            ("study", "about", "in the paper", "agrees"),
            rows,
        )
    )
    return f"""# The paper's synthetic figures and its theory

{_NOTE}

Every figure of the paper that needs no images, computed afresh and held against what the paper says about it.
Where the numbers disagree, the page says so: these are measurements, not illustrations. The paper's tables on images
have [pages of their own](images/index.md).

```
gmmatch reproduce --list                  # what there is
gmmatch reproduce noisy-gaussian          # one study, in seconds
gmmatch reproduce --full all -o studies   # the paper's sizes, as on these pages
```

A study writes `NAME.json` (every measured cell, the verdicts, versions, seeds and processor) and `NAME.png` into the
output folder. `--quick`, the default, takes small sizes and few seeds; `--full` takes the paper's sizes (for these
pages {seconds / 60:.0f} minutes of measuring, on {cores} cores). A run that is stopped goes on where it was;
`--fresh` starts over, `--seeds` sets the number of repetitions, and `--jobs` the number of processes. Cells that
measure time always run alone.

{table}

```{{toctree}}
:hidden:

{chr(10).join(study.name for study in studies)}
images/index
```
"""


def _checked(study: Study, results: Results) -> list[tuple[Claim, Verdict]]:
    return [(claim, claim.check(results)) for claim in study.claims]


def _verdicts(study: Study, results: Results) -> list[str]:
    checked = _checked(study, results)
    groups = (
        ("## What agrees with the paper", [pair for pair in checked if _is(pair, paper=True, agrees=True)]),
        ("## What does not", [pair for pair in checked if _is(pair, paper=True, agrees=False)]),
        ("## What we add", [pair for pair in checked if pair[0].source == "ours"]),
    )
    sections = []
    for head, pairs in groups:
        if pairs:
            sections += [head, "\n".join(_verdict(claim, verdict) for claim, verdict in pairs)]
    return sections


def _is(pair: tuple[Claim, Verdict], *, paper: bool, agrees: bool) -> bool:
    return (pair[0].source != "ours") == paper and pair[1].agrees == agrees


def _verdict(claim: Claim, verdict: Verdict) -> str:
    source = "" if claim.source == "ours" else f" ({_code(claim.source)})"
    word = "" if claim.source != "ours" else ("Holds. " if verdict.agrees else "Does not hold. ")
    return f"- **{claim.statement}**{source}\n  {word}Measured: {verdict.measured}."


def figure(path: str, caption: str) -> str:
    """Return a figure in MyST Markdown.

    Examples
    --------
    >>> print(figure("a.png", "What is seen."))
    ```{figure} a.png
    :alt: What is seen.
    :width: 100%
    <BLANKLINE>
    What is seen.
    ```
    """
    return f"```{{figure}} {path}\n:alt: {caption}\n:width: 100%\n\n{caption}\n```"


def markdown_table(table: Table) -> str:
    """Return a table in Markdown, its caption above it, columns of numbers to the right.

    Examples
    --------
    >>> print(markdown_table(Table("Counts.", ("what", "n"), [["cats", "3"]])))
    Counts.
    <BLANKLINE>
    | what | n |
    | --- | ---: |
    | cats | 3 |
    """
    columns = list(zip(*table.rows, strict=True))
    marks = ["---:" if all(map(_is_number, column)) else "---" for column in columns]
    lines = [table.columns, marks, *table.rows]
    return "\n".join([table.caption, "", *("| " + " | ".join(line) + " |" for line in lines)])


def _is_number(text: str) -> bool:
    return not text or text[0] in "0123456789-−"


def _how(record: dict[str, Any]) -> str:
    made = record["provenance"]
    libraries = ", ".join(f"{name} {version}" for name, version in made["libraries"].items() if version)
    seeds = ", ".join(f"{count} for *{part}*" for part, count in made["seeds"].items())
    seconds = sum(part["seconds"] for part in record["parts"].values())
    name = record["study"]
    return (
        f"```\n{made['command']}\n```\n\n"
        f"Seeds: {seeds}. {seconds:,.0f} seconds of measuring on {made['cores']} cores of an {made['cpu']}, "
        f"with "
        f"gmmatch {made['gmmatch']}, Python {made['python']}, {libraries}. "
        f"All cells are in {{download}}`{name}.json <../results/studies/{name}.json>`."
    )


def _listed(labels: Sequence[str]) -> str:
    return ", ".join(_code(label) for label in labels)


def _code(label: str) -> str:
    return f"`{label}`" if ":" in label and " " not in label else label


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the pages; what ``python -m gmmatch_paper.studies.pages`` runs."""
    write_from_command_line(
        arguments, "Write the studies' pages of the documentation.", take_results, write_pages
    )


def write_from_command_line(
    arguments: Sequence[str] | None,
    description: str,
    take: Callable[[Path, Path], None],
    write: Callable[[Path], object],
) -> None:
    """Read ``--docs`` and ``--take`` and do what they say."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the documentation's folder")
    parser.add_argument(
        "--take", type=Path, help="copy the results in this folder into the documentation first"
    )
    options = parser.parse_args(arguments)
    if options.take is not None:
        take(options.take, options.docs)
    write(options.docs)


if __name__ == "__main__":
    main()
