"""The page on why our order of the methods is another one than the paper's, written from the measured cells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from gmmatch_paper.studies.classification.agreement import (
    AUTHORS,
    COMPARED,
    OWN,
    proxy_lines,
    proxy_share_lines,
)
from gmmatch_paper.studies.classification.corruptions import CorruptionSpec
from gmmatch_paper.studies.classification.disagreements import (
    TEST_POINTS,
    Margin,
    disagreements,
    margin_of,
    papers_order,
)
from gmmatch_paper.studies.classification.explanations import (
    Account,
    account_for,
    control_curve,
    expected_of_random,
    explain_pair,
)
from gmmatch_paper.studies.classification.picks import VARIANTS
from gmmatch_paper.studies.classification.reason_cells import CONTROL, EPOCHS, NETWORK_EPOCHS, UNITS, Setting
from gmmatch_paper.studies.classification.reasons import BASE, METHODS, SETTINGS
from gmmatch_paper.studies.classification.tables import (
    METHOD_NAMES,
    ProxyPair,
    accuracy_and_bad,
    caption_with_bad,
    proxy_pairs,
    proxy_tables,
)
from gmmatch_paper.studies.pages import markdown_table
from gmmatch_paper.studies.records import as_results
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table

TITLE = "Why the order differs from the paper's"
_SHORT = {AUTHORS: "GM, authors'", "gm-matching-all-rows": "GM, all rows"}


def reason_lines(results: Results, reasons: Results | None) -> list[str]:
    """Return a line per clear disagreement of a study with the paper, with the reasons that were tested for it.

    Those that are not clear share a line at the end.
    """
    found = disagreements(results)
    lines = []
    for each in (one for one in found if one.clear):
        lines.append(f"{each.sentence} {account_for(each, results, reasons).sentence}")
    small = [f"{each.title} (by up to {-each.worst.margin.mean:.1f})" for each in found if not each.clear]
    if small:
        lines.append(f"Not the paper's order either, but by less than is clear: {'; '.join(small)}.")
    return lines


def count_line(studies: Iterable[Results], reasons: Results | None) -> str:
    """Return how many clear disagreements the studies have, and how many of them a tested reason explains."""
    found = [
        account_for(each, results, reasons)
        for results in studies
        for each in disagreements(results)
        if each.clear
    ]
    if not found:
        return "Nowhere is our order of two methods clearly not the one that the paper has throughout."
    explained = sum(each.explains for each in found)
    untested = sum(not each.sources for each in found)
    return (
        f"In {len(found)} cases our order of two methods is clearly not the one that the paper has throughout. For "
        f"{explained} of them a reason that was tested turns the order round, for "
        f"{len(found) - explained - untested} none does, and for {untested} none was tested."
    )


def page_sections(record: dict[str, Any], transfer: Results | None = None) -> list[str]:
    """Return what the page says before its tables: what was done, what was found, what was not tested.

    ``transfer`` is the study that may have proxies which were trained on the data beside frozen ones.
    """
    results = as_results(record)
    facts = record["parts"]["cells"]["fixed"]
    shares = [*share_lines(results), *(proxy_share_lines(transfer) if transfer is not None else [])]
    return [
        "**Where our order of the methods is another one than the paper's, which reason explains it?**",
        _method(facts, results),
        "## Where GM Matching is first, as in the paper",
        "\n".join(f"- {line}" for line in first_lines(results)),
        "## Wrong labels among the picks",
        "\n".join(f"- {line}" for line in shares),
        "## Pairs that the paper has the other way round",
        "\n".join(f"- {line}" for line in pair_lines(results)),
        "## How much is won at all",
        "\n".join(f"- {line}" for line in [*size_lines(results), *control_lines(results)]),
        *(proxy_sections(transfer) if transfer is not None else []),
        "## What was not tested here",
        _untested(proxy_pairs(transfer) if transfer is not None else []),
    ]


def proxy_sections(transfer: Results) -> list[str]:
    """Return what a proxy trained on the data changes; nothing where none stands beside a frozen one."""
    lines = proxy_lines(transfer)
    if not lines:
        return []
    return [
        "## A network trained on the data as the proxy",
        f"Cells of [{transfer.study}]({transfer.study}.md) in which the proxy is a network that was trained from "
        "scratch on the data as they are, beside those with a frozen encoder and all else the same.",
        "\n".join(f"- {line}" for line in lines),
        *map(markdown_table, proxy_tables(transfer)),
    ]


def _untested(pairs: list[ProxyPair]) -> str:
    settings = [pair.trained.setting for pair in pairs]
    stand = dict.fromkeys(f"`{each.encoder}` for the one, {each.network} for the other" for each in settings)
    instead = f" (above stands {'; '.join(stand)})" if stand else ""
    return (
        f"A ResNet-50 trained from scratch as the proxy and on the picks{instead}, CIFAR-100 and Tiny-ImageNet "
        "themselves (of their difference from CIFAR-10 only the number of rows per class), and the paper's own "
        "recipe. Where a pair stays unexplained above, one of these may be the reason."
    )


def _method(facts: dict[str, Any], results: Results) -> str:
    cells = results["cells"]
    repeats = {
        name: [cell["repeats"] for cell in cells.where(setting=name, corruption="label:40%")]
        for name in ("trained", "memorised")
        if len(cells.where(setting=name, corruption="label:40%"))
    }
    told = ", ".join(f"*{name}* {100 * float(np.mean(found)):.0f}%" for name, found in repeats.items())
    told = f" Under 40% label noise it repeats of its labels: {told}." if told else ""
    return (
        f"At first as in the studies: {facts['dataset']}, 20% kept, picked per class in the features of "
        f"`{facts['encoder']}`, computed beforehand, and a linear probe on the same. Each setting then changes "
        f"one thing, and the last one two. The other encoder is `{facts['other']}`. For a proxy that was trained "
        f"on the data stands a layer of {UNITS} units on the frozen features, under a linear classifier: trained "
        f"for {EPOCHS['trained']} epochs on the labels as they are, for {EPOCHS['memorised']}, or for "
        f"{EPOCHS['true']} on the true ones.{told} The network that fits its picks wholly has such a layer too "
        f"and is trained for {NETWORK_EPOCHS} epochs on the picks.\n\n"
        "A margin is a difference of test accuracies in points, the method that the paper has above less the other, "
        f"with its standard error over the seeds; it is clear where it is more than twice that, {TEST_POINTS} points "
        "for the test images that all seeds share taken in. As many changes are tried, one that is just clear may be "
        "so by chance. “The authors' version” of GM Matching is what their code does: unit-length rows matched to a "
        "unit-length median."
    )


def disputed_pairs(results: Results) -> list[tuple[str, str, str, str]]:
    """Return (above, below, corruption, start) of the pairs of the paper that one of the two starts has contrary."""
    found = []
    for corruption in results["cells"].distinct("corruption"):
        for pair in papers_order(CorruptionSpec.parse(corruption).kind):
            for start in (BASE, "network"):
                cells = results["cells"].where(corruption=corruption, setting=start)
                margin = margin_of(cells, pair.above, pair.below)
                if margin is not None and margin.mean < 0 and margin.clear:
                    found.append((pair.above, pair.below, corruption, start))
    return found


def pair_lines(results: Results) -> list[str]:
    """Return one line per disputed pair, corruption and start, with what turns it round."""
    lines = []
    for above, below, corruption, start in disputed_pairs(results):
        explanation = explain_pair(results, above, below, corruption, start)
        assert explanation is not None  # it was measured, or it would not be disputed
        trained = "linear probe" if start == BASE else "network that fits its picks"
        lines.append(
            f"**{METHOD_NAMES[below]} above {METHOD_NAMES[above]}**, {trained}. {Account((explanation,)).sentence}"
        )
    return lines or ["None."]


def first_lines(results: Results) -> list[str]:
    """Return in which settings GM Matching is first of the paper's methods: the text's version, and the authors'."""
    lines = []
    for corruption in results["cells"].distinct("corruption"):
        told = []
        for own, name in ((OWN, "As the paper's text has it"), (AUTHORS, "As the authors' code has it")):
            among = [
                (setting.label, *standing)
                for setting in SETTINGS
                if (standing := _standing(results, corruption, setting.name, own)) is not None
            ]
            clear = [
                f"*{label}* ({means[own]:.1f}; next {METHOD_NAMES[best]} {means[best]:.1f}, Random "
                f"{means['random']:.1f})"
                for label, means, best, margin in among
                if margin.mean > 0 and margin.clear
            ]
            if among:
                wins = sum(margin.mean > 0 for *_, margin in among)
                where = f", clearly with {', '.join(clear)}" if clear else ", clearly in none" if wins else ""
                told.append(f"{name}, it is first in {wins} of {len(among)} settings{where}.")
        if told:
            lines.append(f"**{CorruptionSpec.parse(corruption).words}**: {' '.join(told)}")
    return lines


def _standing(
    results: Results, corruption: str, setting: str, own: str
) -> tuple[dict[str, float], str, Margin] | None:
    """Return all accuracies in percent, the best other method of the paper, and a version's margin over it."""
    cells = results["cells"].where(corruption=corruption, setting=setting)
    means = {
        method: 100 * cells.mean("accuracy", method=method)
        for method in cells.distinct("method")
        if method in METHODS and (method == own or method not in (OWN, *VARIANTS))
    }
    if own not in means or "random" not in means:
        return None
    best = max((method for method in means if method != own), key=lambda method: means[method])
    margin = margin_of(cells, own, best)
    return (means, best, margin) if margin is not None else None


def share_lines(results: Results) -> list[str]:
    """Return how many of the picks have a wrong label, over all spaces that were picked in and all else as it is."""
    spaces = {each.space: each.name for each in reversed(SETTINGS) if _only_space(each)}
    lines = []
    for corruption in results["cells"].distinct("corruption"):
        if corruption == "none":
            continue
        cells = results["cells"].where(corruption=corruption)
        told = []
        for method in COMPARED:
            shares = [
                100 * cells.mean("contamination", setting=name, method=method)
                for name in spaces.values()
                if len(cells.where(setting=name, method=method))
            ]
            if shares:
                low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
                told.append(f"{METHOD_NAMES[method]} {low if low == high else f'{low} to {high}'}%")
        measured = sum(bool(len(cells.where(setting=name))) for name in spaces.values())
        words = CorruptionSpec.parse(corruption).words
        lines.append(f"**{words}**, over {measured} spaces to pick in: {', '.join(told)}.")
    return lines


def _only_space(setting: Setting) -> bool:
    """Return whether a setting differs from the first one in its space, if at all."""
    return replace(setting, name="", label="", words="", space="frozen") == replace(
        SETTINGS[0], name="", label="", words=""
    )


def size_lines(results: Results) -> list[str]:
    """Return by how much GM Matching is above Random: ours as it is, ours at best, and the paper's."""
    lines = []
    for corruption in results["cells"].distinct("corruption"):
        spec = CorruptionSpec.parse(corruption)
        cells = results["cells"].where(corruption=corruption)
        margins = {
            (setting.name, own): margin
            for setting in SETTINGS
            if setting.amount == SETTINGS[0].amount and not setting.few  # with few rows all margins are wider
            for own in (OWN, AUTHORS)
            if (margin := margin_of(cells.where(setting=setting.name), own, "random")) is not None
        }
        if (BASE, OWN) not in margins:
            continue
        best = max(margins, key=lambda key: margins[key].mean)
        label = next(setting.label for setting in SETTINGS if setting.name == best[0])
        [pair] = [p for p in papers_order(spec.kind) if (p.above, p.below) == (OWN, "random")]
        lines.append(
            f"**{spec.words}**: GM Matching is above Random by {margins[BASE, OWN]} points; with as many rows, the "
            f"most is {margins[best]}, of {METHOD_NAMES[best[1]]} (*{label}*). The paper has {pair.least:.1f} to "
            f"{pair.most:.1f}{' with wrong labels' if spec.kind == 'human' else ''}."
        )
    return lines


def control_lines(results: Results) -> list[str]:
    """Return what fewer wrong labels alone are worth, and what the picks are worth beyond that."""
    lines = []
    for corruption in results["cells"].distinct("corruption"):
        for setting, trained in ((BASE, "the linear probe"), ("network", "the network that fits its picks")):
            curve = control_curve(results, setting, corruption)
            if len(curve) < 2:
                continue
            least, most = min(curve), max(curve)
            cells = results["cells"].where(setting=setting, corruption=corruption)
            beyond = []
            for method in (name for name in METHODS if len(cells.where(method=name))):
                mine = cells.where(method=method)
                wrong = 100 * mine.mean("contamination")
                if wrong <= most + 2.0 and method != "random":
                    gain = 100 * mine.mean("accuracy") - expected_of_random(curve, wrong)
                    beyond.append(f"{METHOD_NAMES[method]} {gain:+.1f}")
            lines.append(
                f"**{CorruptionSpec.parse(corruption).words}, {trained}**: random draws with {least:.0f}% wrong "
                f"labels in place of {most:.0f}% gain {curve[least] - curve[most]:.1f} points. Beyond a random draw "
                f"with as many wrong labels as its own, a method's picks are worth: {', '.join(beyond)}."
            )
    return lines


def page_tables(results: Results) -> list[Table]:
    """Return accuracies with the share of wrong labels, by setting and method, and the random draws."""
    tables = []
    cells = results["cells"]
    for corruption in cells.distinct("corruption"):
        methods = [name for name in METHODS if len(cells.where(corruption=corruption, method=name))]
        noisy = corruption != "none"
        rows = []
        for setting in SETTINGS:
            mine = cells.where(corruption=corruption, setting=setting.name)
            if len(mine):
                rows.append(
                    [_row_head(setting), *(accuracy_and_bad(mine, method, noisy) for method in methods)]
                )
        head = ("setting", *(_SHORT.get(name, METHOD_NAMES[name]) for name in methods))
        tables.append(Table(caption_with_bad(corruption, noisy), head, rows))
    controls = [name for name in cells.distinct("method") if name.startswith(CONTROL)]
    rows = [
        [f"{CorruptionSpec.parse(corruption).words}, {setting}"]
        + [
            accuracy_and_bad(cells.where(corruption=corruption, setting=setting), name, False)
            for name in controls
        ]
        for corruption in cells.distinct("corruption")
        for setting in (BASE, "network")
        if control_curve(results, setting, corruption)
    ]
    if rows:
        head = ("", *(f"{name.removeprefix(CONTROL)}% wrong" for name in controls))
        tables.append(
            Table("Random draws with a given share of wrong labels: test accuracy in percent.", head, rows)
        )
    return tables


def _row_head(setting: Setting) -> str:
    return setting.words if setting.words == setting.label else f"*{setting.label}*: {setting.words}"
