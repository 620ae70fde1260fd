"""Which of the tested reasons turns an order round, as a study's own cells and those of the study of reasons say."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from gmmatch_paper.studies.classification.agreement import AUTHORS, OWN
from gmmatch_paper.studies.classification.corruptions import CorruptionSpec
from gmmatch_paper.studies.classification.disagreements import Disagreement, Margin, margin_of
from gmmatch_paper.studies.classification.reason_cells import CONTROL, Setting
from gmmatch_paper.studies.classification.reasons import BASE, SETTINGS
from gmmatch_paper.studies.classification.tables import measured_blocks, other_proxies
from gmmatch_paper.studies.results import Results

# Nearer to 2% than to 20%, as a ratio.
_LITTLE = 6.0
_BY_NAME = {setting.name: setting for setting in SETTINGS}


class Reason(NamedTuple):
    """A setting (within a study, the encoder), what to call its change, and what stands for GM Matching in it.

    ``away`` is set where the change is no step from our studies towards the paper: it trains its proxies on the data,
    and networks on the picks, and has the order of a pair whether little is kept or more.
    """

    label: str
    setting: str
    own: str = OWN
    away: bool = False


class Trial(NamedTuple):
    """A reason, and the margin of the method that the paper has above, with it."""

    reason: Reason
    margin: Margin

    def __str__(self) -> str:
        return f"*{self.reason.label}* ({self.margin})"


@dataclass(frozen=True)
class Explanation:
    """What was tested for a pair in one place, which begins its sentence, and the margin before any change."""

    place: str
    start: Margin
    tested: tuple[Trial, ...]

    @property
    def turning(self) -> list[Trial]:
        """The reasons with which the order is clearly the paper's."""
        return [each for each in self._clearly_papers if not each.reason.away]

    @property
    def beside(self) -> list[Trial]:
        """What makes the order the paper's too, but is no step towards the paper."""
        return [each for each in self._clearly_papers if each.reason.away]

    @property
    def unclear(self) -> list[Trial]:
        """The changes with which it is clearly neither."""
        return [each for each in self.tested if not each.margin.clear]

    @property
    def failing(self) -> list[Trial]:
        """Those with which it is clearly not the paper's."""
        return [each for each in self.tested if each.margin.mean < 0 and each.margin.clear]

    @property
    def explains(self) -> bool:
        """Whether the order is not the paper's at the start, and is with a change towards the paper."""
        return bool(self.turning) and not self.agrees

    @property
    def agrees(self) -> bool:
        """Whether the order is the paper's at the start already."""
        return self.start.mean > 0 and self.start.clear

    @property
    def _clearly_papers(self) -> list[Trial]:
        return [each for each in self.tested if each.margin.mean > 0 and each.margin.clear]

    @property
    def sentence(self) -> str:
        """What turns the order round, and what does not."""
        begin = f"{self.place}, where the margin is {self.start}"
        if self.agrees:
            lost = f"; it is lost with {_listed(self.failing)}" if self.failing else ""
            return f"{begin}, in the paper's order{lost}."
        parts = [
            f"{verb} {listed}"
            for verb, listed in (
                ("turned round by", _listed(self.turning)),
                (
                    f"{'also' if self.turning else 'turned round only'} by what is no step towards the paper,",
                    _listed(self.beside),
                ),
                ("not turned round by", _listed(self.failing)),
                ("unclear with", ", ".join(f"*{each.reason.label}*" for each in self.unclear)),
            )
            if listed
        ]
        return f"{begin}: {'; '.join(parts)}."


@dataclass(frozen=True)
class Account:
    """All that was tested for a disagreement, wherever it was."""

    sources: tuple[Explanation, ...]

    @property
    def explains(self) -> bool:
        """Whether something that was tested turns the order round."""
        return any(each.explains for each in self.sources)

    @property
    def sentence(self) -> str:
        """What was tested, and that nothing explains the order where nothing does."""
        return " ".join([*(each.sentence for each in self.sources), *self._verdict])

    @property
    def _verdict(self) -> list[str]:
        if not self.sources:
            return ["**No reason was tested for it.**"]
        if self.explains:
            return []
        if all(each.agrees for each in self.sources):
            return ["**What we found is not explained by that.**"]
        return ["**It stays unexplained.**"]


def account_for(disagreement: Disagreement, results: Results, reasons: Results | None) -> Account:
    """Return what a study's own cells and the study of reasons, where there is one, test for a disagreement."""
    found = (
        explain_within(results, disagreement),
        explain(reasons, disagreement) if reasons is not None else None,
    )
    return Account(tuple(each for each in found if each is not None))


def explain_within(results: Results, disagreement: Disagreement) -> Explanation | None:
    """Return what a study's own cells test at a disagreement's worst column; None if nothing.

    That is the authors' version in place of GM Matching, a proxy of the other kind, and both.
    """
    column, pair = disagreement.worst, disagreement.pair
    begin = column.block.setting
    tested = []
    for block in (column.block, *other_proxies(measured_blocks(results, ()), begin)):
        encoder = block.setting.encoder
        for above in (OWN, AUTHORS) if pair.above == OWN else (pair.above,):
            changes = ["authors' version"] if above == AUTHORS else []
            changes += [f"picked in `{encoder}`"] if encoder != begin.encoder else []
            margin = margin_of(block.cells.where(amount=column.amount), above, pair.below)
            if changes and margin is not None:
                away = begin.in_domain and not block.setting.in_domain
                tested.append(Trial(Reason(", ".join(changes), encoder, above, away), margin))
    if not tested:
        return None
    kept = column.amount.replace("/class", " per class")
    place = f"In this study itself ({kept} kept, {_in_a_sentence(begin.corruption)})"
    return Explanation(place, column.margin, tuple(tested))


def explain(reasons: Results, disagreement: Disagreement) -> Explanation | None:
    """Return what the study of reasons tested for a disagreement; None if nothing under such a corruption."""
    pair = disagreement.pair
    start = start_for(disagreement.downstream, disagreement.worst.amount, disagreement.in_domain)
    for corruption in nearest_corruptions(reasons, disagreement.worst.block.setting.corruption):
        found = explain_pair(reasons, pair.above, pair.below, corruption, start)
        if found is not None:
            return found
    return None


def start_for(downstream: str, amount: str, in_domain: bool = False) -> str:
    """Return the setting that stands for a study's own: what is trained, how much is kept, where it is picked.

    Examples
    --------
    >>> start_for("probe", "20%"), start_for("probe", "1%"), start_for("scratch", "20%")
    ('base', '2%', 'network')
    >>> start_for("scratch", "20%", in_domain=True)
    'trained-network'
    """
    if downstream == "scratch":
        return "trained-network" if in_domain else "network"
    if in_domain:
        return "trained"
    little = amount.endswith("%") and float(amount.removesuffix("%")) <= _LITTLE
    return "2%" if little else BASE


def explain_pair(
    reasons: Results, above: str, below: str, corruption: str, start: str = BASE
) -> Explanation | None:
    """Return what was tested for a pair of methods under a corruption, from a setting on; None if nothing was."""
    cells = reasons["cells"].where(corruption=corruption)
    first = margin_of(cells.where(setting=start), above, below)
    if first is None:
        return None
    tested = []
    for reason in candidate_reasons(start, with_own=above == OWN):
        margin = margin_of(cells.where(setting=reason.setting), reason.own if above == OWN else above, below)
        if margin is not None:
            tested.append(Trial(reason, margin))
    found = Explanation(f"Tested under {_in_a_sentence(corruption)}", first, tuple(tested))
    return found if tested or found.agrees else None


def candidate_reasons(start: str, with_own: bool) -> list[Reason]:
    """Return what can be changed from a setting on; ``with_own`` also what GM Matching itself does.

    Examples
    --------
    >>> [reason.setting for reason in candidate_reasons("network", with_own=False)]
    ['base', 'trained-network']
    """
    begin = _BY_NAME[start]
    changed = [each for each in SETTINGS if _comparable(begin, each)]
    found = [Reason(_change(begin, each), each.name, away=_leads_away(begin, each)) for each in changed]
    if with_own:
        found.append(Reason("median of all rows", start, "gm-matching-all-rows"))
        found.append(Reason("authors' version", start, AUTHORS))
        # Its rows have unit length anyway, and with what changes the data alone it stands in the tables.
        other = [
            each for each in changed if each.space not in ("frozen", "other") or each.downstream == "network"
        ]
        found += [
            Reason(f"authors' version, {_change(begin, each)}", each.name, AUTHORS, _leads_away(begin, each))
            for each in other
        ]
    return found


def _comparable(begin: Setting, other: Setting) -> bool:
    """Return whether a setting is a change of where one begins: of the base all are, else what changes one thing."""
    if begin.name == BASE:
        return other.name != BASE
    return len(_changes(begin, other)) == 1 and other.downstream != "probe-other"


def _changes(begin: Setting, other: Setting) -> list[str]:
    facts = [each.name for each in fields(Setting) if each.name not in ("name", "label", "words")]
    return [fact for fact in facts if getattr(begin, fact) != getattr(other, fact)]


def _leads_away(begin: Setting, other: Setting) -> bool:
    """Return whether a change is no step towards the paper, which trained its proxies on the data, and networks."""
    trained = ("trained", "memorised", "true")
    return (
        other.amount != begin.amount
        or (begin.downstream == "network" and other.downstream != "network")
        or (begin.space in trained and other.space not in trained)
    )


def _change(begin: Setting, other: Setting) -> str:
    """Return what to call a change: the setting's own label from the base on, else what differs."""
    if begin.name == BASE:
        return other.label
    [fact] = _changes(begin, other)
    if fact == "amount":
        return f"{other.amount} kept"
    if fact == "downstream":
        return "network" if other.downstream == "network" else "linear probe"
    if other.space == "frozen":
        return "frozen encoder"
    return next(each.label for each in SETTINGS if (each.space, each.downstream) == (other.space, "probe"))


def nearest_corruptions(reasons: Results, text: str) -> list[str]:
    """Return the corruptions of the same kind that reasons were tested under, that of the nearest rate first."""
    wanted = CorruptionSpec.parse(text)
    known = [CorruptionSpec.parse(each) for each in reasons["cells"].distinct("corruption")]
    same = [each for each in known if (each.kind, each.detail) == (wanted.kind, wanted.detail)]
    return [each.text for each in sorted(same, key=lambda each: abs(each.rate - wanted.rate))]


def control_curve(reasons: Results, setting: str, corruption: str) -> dict[float, float]:
    """Return the mean accuracy in percent of random draws, by the percentage of wrong labels in them."""
    cells = reasons["cells"].where(setting=setting, corruption=corruption)
    found = {}
    for method in cells.distinct("method"):
        if method.startswith(CONTROL):
            mine = cells.where(method=method)
            found[100 * mine.mean("contamination")] = 100 * mine.mean("accuracy")
    return dict(sorted(found.items()))


def expected_of_random(curve: dict[float, float], wrong: float) -> float:
    """Return the accuracy of a random draw with a percentage of wrong labels, along a curve of measured ones.

    Examples
    --------
    >>> expected_of_random({0.0: 80.0, 40.0: 70.0}, 10.0)
    77.5
    """
    return float(np.interp(wrong, list(curve), list(curve.values())))


def _in_a_sentence(corruption: str) -> str:
    words = CorruptionSpec.parse(corruption).words
    return f"{words[0].lower()}{words[1:]}"


def _listed(tested: list[Trial]) -> str:
    return ", ".join(map(str, tested))
