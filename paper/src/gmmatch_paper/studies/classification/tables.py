"""Tables in the paper's form: our numbers with their deviation, the paper's beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gmmatch_paper.studies.classification.paper import PaperBlock, Printed, paper_blocks
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec, in_the_paper
from gmmatch_paper.studies.image_cells.downstream import LINEAR, WITHOUT_IMAGES
from gmmatch_paper.studies.image_cells.heads import HEAD, UNITS
from gmmatch_paper.studies.image_cells.proxies import IN_DOMAIN
from gmmatch_paper.studies.results import Cells, Results
from gmmatch_paper.studies.study import Table
from gmmatch_paper.studies.style import METHOD_NAMES

NOT_RUN = "–"
DATASETS = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "tiny-imagenet": "Tiny-ImageNet",
}
# More columns than this do not fit on a page.
_MOST_COLUMNS = 6


class Setting(NamedTuple):
    """What the cells of one block have in common."""

    dataset: str
    encoder: str
    downstream: str
    network: str
    recipe: str
    corruption: str

    @property
    def training(self) -> str:
        """What was trained, in words."""
        network = shown_network(self.network)
        return network if self.downstream in WITHOUT_IMAGES else f"{network} from scratch ({self.recipe})"

    @property
    def where(self) -> str:
        """On what, picked in what, and what was trained."""
        return f"{shown_dataset(self.dataset)}, picked in `{self.encoder}`, {self.training}"

    @property
    def in_domain(self) -> bool:
        """Whether the proxy was trained on the data."""
        return self.encoder.startswith(IN_DOMAIN)


@dataclass(frozen=True)
class Block:
    """The measured cells of one setting, beside the paper's block of the same data if there is one."""

    setting: Setting
    cells: Cells
    paper: PaperBlock | None

    @property
    def mixes_bad_rows(self) -> bool:
        """Whether some rows are corrupted and others not, so that the share of corrupted picks says something."""
        spec = CorruptionSpec.parse(self.setting.corruption)
        return spec.kind != "none" and spec.rate < 1.0

    @property
    def measure(self) -> str:
        """What is shown of a cell: what the paper prints of the same data."""
        return self.paper.measure if self.paper is not None else "accuracy"

    @property
    def amounts(self) -> list[str]:
        """How much was kept, little first."""
        return sorted(self.cells.distinct("amount"), key=amount_size)

    @property
    def methods(self) -> list[str]:
        """The methods in the order of the names above, all others after them."""
        return in_order(self.cells.distinct("method"))

    def accuracy(self, method: str, amount: str) -> Printed | None:
        """Return mean and deviation in percent over the seeds that were measured, if any were."""
        values = self.values(method, amount)
        # A sample's deviation; one seed has none, and is printed without.
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return Printed(float(np.mean(values)), deviation) if values else None

    def values(self, method: str, amount: str) -> list[float]:
        """Return the accuracies in percent, one per seed."""
        found = self.cells.where(method=method, amount=amount)
        if amount == "100%" and not len(found):
            found = self.cells.where(amount=amount)  # everything is everything, whatever the method
        return [100.0 * cell[self.measure] for cell in found if self.measure in cell]

    def column(self, amount: str) -> dict[str, float]:
        """Return our mean of every method at an amount."""
        found = {method: self.accuracy(method, amount) for method in self.cells.distinct("method")}
        return {method: each.mean for method, each in found.items() if each is not None}

    def bad_share(self, method: str, amount: str) -> float | None:
        """Return the mean share of corrupted rows among the picks, where some rows are and others not."""
        found = [cell for cell in self.cells.where(method=method, amount=amount) if "contamination" in cell]
        if not found or not self.mixes_bad_rows or amount == "100%":
            return None
        return float(np.mean([cell["contamination"] for cell in found]))

    def differs(self, method: str, amount: str) -> str:
        """Return ▲ or ▼ where the margin over Random is above or below the paper's by two deviations."""
        pair = [self.accuracy(name, amount) for name in (method, "random")]
        theirs = [
            self.paper.at(name, amount) if self.paper is not None else None for name in (method, "random")
        ]
        numbers = [number for number in (*pair, *theirs) if number is not None]
        if len(numbers) < 4 or method == "random" or len(self.values(method, amount)) < 2:
            return ""
        ours, our_random, paper, paper_random = numbers
        difference = (ours.mean - our_random.mean) - (paper.mean - paper_random.mean)
        if abs(difference) <= 2.0 * sum(number.deviation**2 for number in numbers) ** 0.5:
            return ""
        return " ▲" if difference > 0 else " ▼"


def in_order(methods: Iterable[str]) -> list[str]:
    """Return methods in the order of their names' list, unknown ones last."""
    order = list(METHOD_NAMES)
    return sorted(set(methods), key=lambda name: (order.index(name) if name in order else len(order), name))


def measured_blocks(results: Results, tables: Iterable[str]) -> list[Block]:
    """Return the blocks that have cells, with the paper's block of the same data, corruption and best network."""
    cells = results["cells"]
    paper = paper_blocks(tuple(tables))
    settings = dict.fromkeys(Setting(*(cell[name] for name in Setting._fields)) for cell in cells)
    return [
        Block(setting, cells.where(**setting._asdict()), _paper_block(setting, paper))
        for setting in sorted(settings, key=_setting_order)
    ]


def study_tables(results: Results, tables: Iterable[str]) -> list[Table]:
    """Return a table for each training that was measured, one per corruption where it would be too wide."""
    groups: dict[Setting, list[Block]] = {}
    for block in measured_blocks(results, tables):
        groups.setdefault(block.setting._replace(corruption=""), []).append(block)
    found = []
    for blocks in groups.values():
        width = sum(len(_columns_of(block)) for block in blocks)
        found += [accuracy_table(blocks)] if width <= _MOST_COLUMNS else [accuracy_table([b]) for b in blocks]
    return found


def accuracy_table(blocks: list[Block]) -> Table:
    """Return accuracies of one training: methods by corruption and amount, the paper's in columns of their own."""
    columns = [column for block in blocks for column in _columns_of(block)]
    several = len(blocks) > 1
    heads = ["method"]
    for block, amount, whose in columns:
        words = CorruptionSpec.parse(block.setting.corruption).words
        at = f"{words}, {_kept(amount)}" if several else _kept(amount)
        heads.append(f"paper, {_kept(amount)}" if whose == "paper" else at)
    methods = in_order(
        name
        for block in blocks
        for name in (*block.methods, *(block.paper.rows if block.paper is not None else ()))
    )
    rows = [
        [
            METHOD_NAMES.get(name, name),
            *(_paper(block, name, amount) if whose == "paper" else _ours(block, name, amount)
              for block, amount, whose in columns),
        ]
        for name in methods
    ]  # fmt: skip
    return Table(_caption(blocks, several), heads, rows)


def _columns_of(block: Block) -> list[tuple[Block, str, str]]:
    found = []
    for amount in block.amounts:
        found.append((block, amount, "ours"))
        if block.paper is not None and amount in block.paper.amounts:
            found.append((block, amount, "paper"))
    return found


def _ours(block: Block, method: str, amount: str) -> str:
    found = block.accuracy(method, amount)
    if found is None:
        failed = any("error" in cell for cell in block.cells.where(method=method, amount=amount))
        return "failed" if failed else NOT_RUN
    text = f"{found.mean:.1f}"
    if len(block.values(method, amount)) > 1:
        text += f" ± {found.deviation:.1f}"
    if amount != "100%" and found.mean >= max(block.column(amount).values()) - 1e-9:
        text = f"**{text}**"
    best = [100.0 * cell["best_accuracy"] for cell in block.cells.where(method=method, amount=amount)
            if "best_accuracy" in cell]  # fmt: skip
    if best:
        text += f" [{np.mean(best):.1f}]"
    bad = block.bad_share(method, amount)
    return f"{text}{'' if bad is None else f' ({100 * bad:.0f})'}{block.differs(method, amount)}"


def _paper(block: Block, method: str, amount: str) -> str:
    paper = block.paper
    found = paper.at(method, amount) if paper is not None else None
    if paper is None or found is None:
        return NOT_RUN
    text = f"{found.mean:.1f} ± {found.deviation:.1f}"
    others = [one for one in (paper.at(name, amount) for name in paper.rows) if one is not None]
    return f"**{text}**" if found.mean == max(one.mean for one in others) and amount != "100%" else text


def _caption(blocks: list[Block], several: bool) -> str:
    setting = blocks[0].setting
    words = "" if several else f"{CorruptionSpec.parse(setting.corruption).words}. "
    counts = sorted(
        {len(block.values(m, a)) for block in blocks for m in block.methods for a in block.amounts} - {0}
    )
    seeds = "–".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else "no"
    top = " (top-5)" if blocks[0].measure == "top_5" else ""
    text = f"{words}{setting.where}. Test accuracy{top} in percent"
    if counts and counts[-1] == 1:
        text += ", one seed"
    else:
        text += f", mean ± deviation over {seeds} seeds"
        text += " (no deviation: one seed)" if counts and counts[0] == 1 else ""
    if any("best_accuracy" in cell for block in blocks for cell in block.cells):
        text += "; in square brackets that of the best epoch, chosen on the test images"
    if any(block.mixes_bad_rows for block in blocks):
        text += "; in brackets the percentage of corrupted rows among the picks"
    networks = dict.fromkeys(block.paper.network for block in blocks if block.paper is not None)
    if networks:
        text += (
            f". The paper trains {', '.join(map(shown_network, networks))}. ▲ ▼: the margin over Random is above or "
            "below the paper's by more than two deviations"
        )
        stand_ins = {
            "grand": "GraNd, of a small model on the proxy's features",
            "self-supervised": "Self-supervised, of the supervised features",
        }
        run = {method for block in blocks for method in block.methods}
        if shown := [words for method, words in stand_ins.items() if method in run]:
            text += f". Stand-ins: {'; '.join(shown)}"
    return f"{text}."


def _paper_block(setting: Setting, blocks: list[PaperBlock]) -> PaperBlock | None:
    """Return the paper's block of the same data under the same corruption: of the same network if there is one."""
    same = [
        block
        for block in blocks
        if setting.downstream == "scratch"
        and block.corruption == in_the_paper(setting.corruption)
        and _simple(block.dataset) == _simple(setting.dataset)
    ]
    return max(same, key=lambda block: block.network == setting.network) if same else None


def shown_dataset(name: str) -> str:
    """Return how a page writes the name of a dataset.

    Examples
    --------
    >>> shown_dataset("cifar100 (first 8,000 + 1,500 test)")
    'CIFAR-100 (first 8,000 + 1,500 test)'
    """
    base, space, limits = name.partition(" ")
    return f"{DATASETS.get(base, base)}{space}{limits}"


def shown_network(network: str) -> str:
    """Return how a page writes the name of a network.

    Examples
    --------
    >>> shown_network("resnet18"), shown_network("linear")
    ('ResNet-18', 'linear probe')
    """
    names = {
        LINEAR: "linear probe",
        HEAD: f"a network with one hidden layer of {UNITS} units on frozen features",
    }
    if network in names:
        return names[network]
    return network.replace("resnet", "ResNet-").replace("vit-s", "ViT-S")


def _simple(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _kept(amount: str) -> str:
    return f"{amount.replace('/class', ' per class')} kept"


def amount_size(amount: str) -> tuple[bool, float]:
    """Return by what amounts are sorted: numbers per class, then shares."""
    return amount.endswith("%"), float(amount.removesuffix("%").removesuffix("/class"))


def _setting_order(setting: Setting) -> tuple[object, ...]:
    spec = CorruptionSpec.parse(setting.corruption)
    first = _simple(setting.dataset) != "cifar100"  # the paper's data come first
    return (first, setting.dataset, setting.in_domain, setting.encoder, setting.downstream != "scratch",
            setting.network, setting.recipe,
            spec.kind != "none", spec.kind, spec.detail, spec.rate)  # fmt: skip
