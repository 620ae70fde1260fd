"""Tables and figures in MyST Markdown."""

from __future__ import annotations

from typing import Protocol

from gmmatch_paper.studies.study import Table


class Told(Protocol):
    """A study of either kind, for the first lines of its page."""

    @property
    def differs(self) -> str:
        """What differs from the paper."""
        ...

    @property
    def found(self) -> str:
        """What was found."""
        ...

    @property
    def missing(self) -> str:
        """What is missing."""
        ...


def three_lines(study: Told) -> str:
    """Return the first lines of a study's page: what differs from the paper, what was found, what is missing."""
    return (
        f"- **Differs from the paper:** {study.differs}\n- **Found:** {study.found}\n"
        f"- **Missing:** {study.missing}"
    )


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
    lines = ["| " + " | ".join(line) + " |" for line in (table.columns, marks, *table.rows)]
    # A number stays with its deviation where a column is narrow.
    return "\n".join([table.caption, "", *(line.replace(" ± ", "\u00a0±\u00a0") for line in lines)])


def _is_number(text: str) -> bool:
    return not text or text[0] in "0123456789-−"
