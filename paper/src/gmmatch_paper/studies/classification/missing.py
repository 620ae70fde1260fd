"""What the paper's tables hold and no result of ours has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.classification.paper import PaperBlock, paper_blocks
from gmmatch_paper.studies.classification.tables import shown_network
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec, in_the_paper
from gmmatch_paper.studies.labels import number_of
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Table

_CLEAN = CorruptionSpec.parse("none").words


def missing_table(studies: Sequence[ImageStudy], measured: Mapping[str, Results]) -> Table:
    """Return the columns of the paper's tables in which GM Matching was not run, by table."""
    rows = []
    for study in studies:
        for label in study.paper:
            blocks = paper_blocks((label,))
            cells = measured[study.name]["cells"] if blocks and study.name in measured else Cells([])
            words = missing_columns(blocks, cells)
            if words:
                rows.append([number_of(label), f"[{study.title}](images/{study.name}.md)", words])
    return Table(
        "Columns of the paper's tables that no network was trained on from scratch. The last command of a page runs "
        "them; with `--dry-run` it says how many trainings that is, and how long they take.",
        ("in the paper", "study", "not run"),
        rows,
    )


def missing_columns(blocks: Sequence[PaperBlock], cells: Cells) -> str:
    """Return in words which columns of a table were not run.

    Examples
    --------
    >>> print(missing_columns(paper_blocks(["tab:exp-clip-cifar"]), Cells([])))
    CIFAR-10
    """
    run = {
        (
            _simple(cell["dataset"]),
            _network(cell["network"]),
            in_the_paper(cell["corruption"]),
            cell["amount"],
        )
        for cell in cells
        if "error" not in cell
        and cell["downstream"] == "scratch"
        and (cell["method"] == "gm-matching" or cell["amount"] == "100%")
    }
    several = len({block.network for block in blocks}) > 1
    parts = []
    for dataset in dict.fromkeys(block.dataset for block in blocks):
        same = [block for block in blocks if block.dataset == dataset]
        left: dict[tuple[str, ...], list[str]] = {}
        for block in same:
            ours = {
                amount
                for data, network, corruption, amount in run
                if (data, corruption) == (_simple(dataset), block.corruption)
                and (not several or network == _network(block.network))
            }
            words = CorruptionSpec.parse(block.corruption).words
            if several:
                words = f"{shown_network(block.network)}, {words}"
            amounts = tuple(amount for amount in block.amounts if amount not in ours)
            left.setdefault(amounts, []).append(words)
        if list(left) == [same[0].amounts]:
            parts.append(dataset)
        else:
            parts += [
                f"{', '.join((dataset, *(name for name in names if name != _CLEAN)))}: {_kept(amounts)}"
                for amounts, names in left.items()
                if amounts
            ]
    return "; ".join(parts)


def _kept(amounts: Sequence[str]) -> str:
    return f"{', '.join(amount.replace('/class', ' per class') for amount in amounts)} kept"


def _simple(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _network(name: str) -> str:
    """SENets of any depth are one network of a table."""
    return name.rstrip("0123456789")
