"""Tables in Markdown."""

from __future__ import annotations

from gmmatch_paper.studies.study import Table


def markdown_table(table: Table) -> str:
    """Return a table in Markdown, its caption above it, columns of numbers to the right.

    Examples
    --------
    >>> print(markdown_table(Table("Counts.", ("what", "n"), [["|G|", "3"]])))
    Counts.
    <BLANKLINE>
    | what | n |
    | --- | ---: |
    | \\|G\\| | 3 |
    """
    columns = list(zip(*table.rows, strict=True))
    marks = ["---:" if all(map(_is_number, column)) else "---" for column in columns]
    # The size of a set is written |G|, and a bar of its own would end the cell.
    cells = [[cell.replace("|", "\\|") for cell in line] for line in (table.columns, marks, *table.rows)]
    lines = ["| " + " | ".join(line) + " |" for line in cells]
    # A number stays with its deviation where a column is narrow.
    return "\n".join([table.caption, "", *(line.replace(" ± ", "\u00a0±\u00a0") for line in lines)])


def _is_number(text: str) -> bool:
    return not text or text[0] in "0123456789-−"
