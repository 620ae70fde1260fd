"""Tables in the paper's form: our numbers with their deviation, the paper's beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gmmatch_paper.studies.classification.corruptions import CorruptionSpec
from gmmatch_paper.studies.classification.downstream import LINEAR
from gmmatch_paper.studies.classification.paper import PaperBlock, Printed, paper_blocks
from gmmatch_paper.studies.classification.proxies import IN_DOMAIN
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Table

METHOD_NAMES = {
    "random": "Random",
    "easy": "Easy",
    "hard": "Hard",
    "herding": "Herding",
    "herding-unit": "Herding, unit-length rows",
    "kernel-herding": "Kernel herding (RBF)",
    "forgetting": "Forgetting",
    "grand": "GraNd",
    "el2n": "EL2N",
    "optimization": "Optimization-based",
    "self-supervised": "Self-supervised",
    "moderate": "Moderate",
    "gm-matching": "GM Matching",
    "gm-matching-unit": "GM Matching, unit-length rows",
    "gm-matching-authors": "GM Matching as in the authors' code",
    "gm-matching-all-rows": "GM Matching, median of all rows",
    "robust": "Robust",
}
NOT_RUN = "not run"


class Setting(NamedTuple):
    """What the cells of one table have in common."""

    dataset: str
    encoder: str
    downstream: str
    network: str
    recipe: str
    corruption: str

    @property
    def training(self) -> str:
        """What was trained, in words."""
        return "linear probe" if self.network == LINEAR else f"{self.network} from scratch ({self.recipe})"

    @property
    def where(self) -> str:
        """On what, picked in what, and what was trained."""
        return f"{self.dataset}, picked in `{self.encoder}`, {self.training}"

    @property
    def in_domain(self) -> bool:
        """Whether the proxy was trained on the data."""
        return self.encoder.startswith(IN_DOMAIN)


@dataclass(frozen=True)
class Block:
    """The measured cells of one setting, beside the paper's block that is nearest to it."""

    setting: Setting
    cells: Cells
    paper: PaperBlock | None

    @property
    def mixes_bad_rows(self) -> bool:
        """Whether some rows are bad and others not, so that the share of bad picks tells something."""
        spec = CorruptionSpec.parse(self.setting.corruption)
        return spec.kind != "none" and spec.rate < 1.0

    @property
    def measure(self) -> str:
        """What is shown of a cell: what the paper prints of the same data."""
        same = self.paper is not None and _same_data(self.paper, self.setting)
        return self.paper.measure if same and self.paper is not None else "accuracy"

    @property
    def amounts(self) -> list[str]:
        """The columns: what was measured and what the paper has, little first."""
        paper = self.paper.amounts if self.paper is not None else ()
        return sorted({*self.cells.distinct("amount"), *paper}, key=_size_of)

    @property
    def methods(self) -> list[str]:
        """The rows: in the order of the names above, all others after them."""
        found = {*self.cells.distinct("method"), *(self.paper.rows if self.paper is not None else ())}
        order = list(METHOD_NAMES)
        return sorted(found, key=lambda name: (order.index(name) if name in order else len(order), name))

    def accuracy(self, method: str, amount: str) -> Printed | None:
        """Return mean and deviation in percent over the seeds that were measured, if any were."""
        found = self.cells.where(method=method, amount=amount)
        if amount == "100%" and not len(found):
            found = self.cells.where(amount=amount)  # everything is everything, whatever the method
        values = [100.0 * cell[self.measure] for cell in found if self.measure in cell]
        return Printed(float(np.mean(values)), float(np.std(values))) if values else None

    def failed(self, method: str, amount: str) -> bool:
        """Return whether every attempt at a cell ended in an error."""
        found = self.cells.where(method=method, amount=amount)
        return bool(len(found)) and all("error" in cell for cell in found)

    def column(self, amount: str) -> dict[str, float]:
        """Return our mean of every method at an amount."""
        found = {method: self.accuracy(method, amount) for method in self.cells.distinct("method")}
        return {method: each.mean for method, each in found.items() if each is not None}

    def bad_shares(self, amount: str) -> dict[str, float]:
        """Return the mean share of bad rows among the picks of every method that was measured at an amount."""
        found = Cells(cell for cell in self.cells.where(amount=amount) if "error" not in cell)
        return {method: found.mean("contamination", method=method) for method in found.distinct("method")}


def measured_blocks(results: Results, tables: Iterable[str]) -> list[Block]:
    """Return the blocks that have cells, in the order in which they were first measured."""
    cells = results["cells"]
    paper = paper_blocks(tuple(tables))
    settings = dict.fromkeys(Setting(*(cell[name] for name in Setting._fields)) for cell in cells)
    return [
        Block(setting, cells.where(**setting._asdict()), nearest_block(setting, paper))
        for setting in sorted(settings, key=_setting_order)
    ]


def other_proxies(blocks: Iterable[Block], setting: Setting) -> list[Block]:
    """Return the blocks with all as in a setting but the kind of proxy: trained on the data, or frozen."""
    return [
        block
        for block in blocks
        if block.setting.in_domain != setting.in_domain
        and block.setting._replace(encoder=setting.encoder) == setting
    ]


class ProxyPair(NamedTuple):
    """Blocks that differ in their proxy alone, frozen and trained on the data, and an amount that both have."""

    frozen: Block
    trained: Block
    amount: str

    @property
    def methods(self) -> list[str]:
        """Those that were measured with both."""
        both = self.frozen.column(self.amount).keys() & self.trained.column(self.amount).keys()
        return [method for method in self.trained.methods if method in both]


def proxy_pairs(results: Results) -> list[ProxyPair]:
    """Return where a study has all the same with a frozen proxy and with one that was trained on the data."""
    blocks = measured_blocks(results, ())
    found = [
        ProxyPair(frozen, trained, amount)
        for trained in blocks
        if trained.setting.in_domain
        for frozen in other_proxies(blocks, trained.setting)
        for amount in trained.amounts
    ]
    return [pair for pair in found if len(pair.methods) > 1]


def proxy_tables(results: Results) -> list[Table]:
    """Return accuracies with the share of bad picks, a frozen proxy beside one that was trained on the data."""
    tables = []
    for pair in proxy_pairs(results):
        blocks = (pair.frozen, pair.trained)
        sides = [Cells(cell for cell in block.cells.where(amount=pair.amount) if "error" not in cell)
                 for block in blocks]  # fmt: skip
        bad = pair.trained.mixes_bad_rows
        rows = [
            [METHOD_NAMES.get(name, name), *(accuracy_and_bad(cells, name, bad) for cells in sides)]
            for name in pair.methods
        ]
        head = ("method", *(f"picked in `{block.setting.encoder}`" for block in blocks))
        caption = caption_with_bad(pair.trained.setting.corruption, bad)
        tables.append(Table(f"{caption} {_kept(pair.amount)} kept.", head, rows))
    return tables


def accuracy_and_bad(cells: Cells, method: str, with_bad: bool) -> str:
    """Return a method's mean accuracy in percent, and in brackets its percentage of bad picks if that is wanted.

    Examples
    --------
    >>> accuracy_and_bad(Cells([{"method": "easy", "accuracy": 0.5, "contamination": 0.1}]), "easy", True)
    '50.0 (10)'
    """
    mine = cells.where(method=method)
    if not len(mine):
        return NOT_RUN
    text = f"{100 * mine.mean('accuracy'):.1f}"
    return f"{text} ({100 * mine.mean('contamination'):.0f})" if with_bad else text


def caption_with_bad(corruption: str, with_bad: bool) -> str:
    """Return what a table of such numbers shows.

    Examples
    --------
    >>> caption_with_bad("label:40%", True)
    '40% label noise: test accuracy in percent, in brackets the percentage of wrong labels among the picks.'
    """
    spec = CorruptionSpec.parse(corruption)
    bad = "bad images" if spec.touches_images else "wrong labels"
    text = f"{spec.words}: test accuracy in percent"
    return f"{text}, in brackets the percentage of {bad} among the picks." if with_bad else f"{text}."


def nearest_block(setting: Setting, blocks: list[PaperBlock]) -> PaperBlock | None:
    """Return the paper's block under the same corruption: of the same data and network if there is one."""
    same = [block for block in blocks if block.corruption == setting.corruption]
    if not same:
        return None
    return max(
        same,
        key=lambda block: (
            _same_data(block, setting),
            block.network == setting.network,
            -blocks.index(block),
        ),
    )


def study_tables(results: Results | None, tables: Iterable[str]) -> list[Table]:
    """Return every table of a study: what was measured, then what of the paper was not run."""
    tables = tuple(tables)
    blocks = measured_blocks(results, tables) if results is not None else []
    shown = [accuracy_table(block) for block in blocks]
    shown += contamination_tables(blocks)
    covered = {
        (block.paper.table, block.paper.dataset, block.paper.corruption, block.paper.network)
        for block in blocks
        if block.paper is not None
        and _same_data(block.paper, block.setting)
        and block.paper.network == block.setting.network
    }
    for paper in paper_blocks(tables):
        if (paper.table, paper.dataset, paper.corruption, paper.network) not in covered:
            setting = Setting(paper.dataset, "", "scratch", paper.network, "", paper.corruption)
            shown.append(accuracy_table(Block(setting, Cells([]), paper)))
    return shown


def accuracy_table(block: Block) -> Table:
    """Return accuracies of one setting: method by amount, the paper's in columns of their own."""
    paper = block.paper
    columns = ["method"]
    for amount in block.amounts:
        columns.append(_kept(amount))
        if paper is not None and amount in paper.amounts:
            columns.append(f"paper, {_kept(amount)}")
    best = {amount: max(block.column(amount).values(), default=None) for amount in block.amounts}
    rows = []
    for method in block.methods:
        row = [METHOD_NAMES.get(method, method)]
        for amount in block.amounts:
            row.append(_ours(block, method, amount, best[amount]))
            if paper is not None and amount in paper.amounts:
                row.append(_papers(paper, method, amount))
        rows.append(row)
    return Table(_caption(block), columns, rows)


def contamination_tables(blocks: list[Block]) -> list[Table]:
    """Return the share of corrupt picks, once for all that was trained on the same picks."""
    tables, seen = [], set()
    for block in blocks:
        setting = block.setting
        picks = (setting.dataset, setting.encoder, setting.corruption)
        shares = {one: found for one in block.amounts if one != "100%" and (found := block.bad_shares(one))}
        if not block.mixes_bad_rows or picks in seen or not shares:
            continue
        seen.add(picks)
        rows = [
            [METHOD_NAMES.get(method, method)]
            + [f"{100 * share[method]:.1f}" if method in share else NOT_RUN for share in shares.values()]
            for method in block.methods
            if any(method in share for share in shares.values())
        ]
        words = CorruptionSpec.parse(setting.corruption).words
        caption = f"Corrupt picks in percent. {words}; {setting.dataset}, picked in `{setting.encoder}`."
        tables.append(Table(caption, ["method", *map(_kept, shares)], rows))
    return tables


def _ours(block: Block, method: str, amount: str, best: float | None) -> str:
    found = block.accuracy(method, amount)
    if found is None:
        return "failed" if block.failed(method, amount) else NOT_RUN
    text = f"{found.mean:.1f} ± {found.deviation:.1f}"
    return f"**{text}**" if best is not None and found.mean >= best - 1e-9 and amount != "100%" else text


def _papers(paper: PaperBlock, method: str, amount: str) -> str:
    found = paper.at(method, amount)
    if found is None:
        return "–"
    text = f"{found.mean:.2f} ± {found.deviation:.2f}"
    others = [one for one in (paper.at(name, amount) for name in paper.rows) if one is not None]
    return f"**{text}**" if found.mean == max(one.mean for one in others) and amount != "100%" else text


def _caption(block: Block) -> str:
    setting, paper = block.setting, block.paper
    words = CorruptionSpec.parse(setting.corruption).words
    beside = ""
    if paper is not None:
        metric = ", top-5" if paper.table == "tab:imagenet_accuracy" else ""
        beside = f" Paper: `{paper.table}`, {paper.dataset}, {paper.network}{metric}."
    if not len(block.cells):
        return f"{words}; {setting.dataset}, {setting.network}: not run by us.{beside}"
    seeds = sorted({sum(1 for _ in block.cells.where(method=m, amount=a)) for m in block.cells.distinct("method")
                    for a in block.cells.distinct("amount")} - {0})  # fmt: skip
    return (
        f"{words}; {setting.where}. Test accuracy{', top-5,' if block.measure == 'top_5' else ''} in percent, "
        f"mean ± standard deviation over {'–'.join(map(str, dict.fromkeys((seeds[0], seeds[-1]))))} seeds.{beside}"
    )


def _same_data(block: PaperBlock, setting: Setting) -> bool:
    def simple(name: str) -> str:
        return name.partition(" (")[0].lower().replace("-", "").replace("_", "")

    return simple(block.dataset) == simple(setting.dataset)


def _kept(amount: str) -> str:
    return amount.replace("/class", " per class")


def _size_of(amount: str) -> tuple[bool, float]:
    return amount.endswith("%"), float(amount.removesuffix("%").removesuffix("/class"))


def _setting_order(setting: Setting) -> tuple[object, ...]:
    spec = CorruptionSpec.parse(setting.corruption)
    return (setting.dataset, setting.encoder, setting.downstream, setting.network, setting.recipe,
            spec.kind != "none", spec.kind, spec.detail, spec.rate)  # fmt: skip
