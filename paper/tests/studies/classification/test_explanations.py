"""Where our order is not the paper's, and what the tested reasons make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gmmatch_paper.studies.classification import image_study_names, load_image_study
from gmmatch_paper.studies.classification.disagreements import Margin, disagreements, margin_of, papers_order
from gmmatch_paper.studies.classification.explanations import (
    Account,
    account_for,
    candidate_reasons,
    control_curve,
    explain,
    explain_pair,
    explain_within,
    nearest_corruptions,
)
from gmmatch_paper.studies.classification.pages import study_page
from gmmatch_paper.studies.classification.paper import paper_blocks
from gmmatch_paper.studies.classification.reason_cells import CODE
from gmmatch_paper.studies.classification.reason_page import (
    count_line,
    first_lines,
    page_sections,
    page_tables,
    reason_lines,
    share_lines,
    size_lines,
)
from gmmatch_paper.studies.classification.reasons import build_parser
from gmmatch_paper.studies.records import as_results, read_record
from gmmatch_paper.studies.results import Cells, Results

STUDIES = Path(__file__).parents[4] / "docs" / "results" / "studies"


def study(values: dict[str, float], **changes: Any) -> Results:
    """Return the results of a study with three seeds, a little apart."""
    cells = [
        {
            "dataset": "cifar10",
            "encoder": "frozen",
            "downstream": "probe",
            "network": "linear",
            "recipe": "",
            "corruption": "label:35%",
            "amount": "20%",
            "method": method,
            "seed": seed,
            "accuracy": accuracy + 0.001 * seed,
            "contamination": 0.3,
            **changes,
        }
        for method, accuracy in values.items()
        for seed in range(3)
    ]
    return Results("label-noise", "full", {"cells": Cells(cells)}, {"cells": {}}, {})


def trials(values: dict[tuple[str, str], float], corruption: str = "label:40%") -> Results:
    """Return the results of the study of reasons, from (setting, method) to accuracy."""
    cells = [
        {
            "setting": setting,
            "corruption": corruption,
            "method": method,
            "seed": seed,
            "accuracy": accuracy,
            "contamination": 0.2,
        }
        for (setting, method), accuracy in values.items()
        for seed in range(3)
    ]
    return Results("reasons", "full", {"cells": Cells(cells)}, {"cells": {}}, {})


def test_the_papers_order_is_that_of_every_column_with_little_kept() -> None:
    pairs = {(pair.above, pair.below): pair for pair in papers_order("label")}
    assert ("gm-matching", "herding") in pairs and ("herding", "gm-matching") not in pairs
    # 43.33 and 29.48 for CIFAR-100 at 35% noise, 20% kept.
    assert (
        pairs["gm-matching", "forgetting"].least <= 43.33 - 29.48 <= pairs["gm-matching", "forgetting"].most
    )
    # Herding is above Moderate in some columns and below it in others: no order.
    assert ("herding", "moderate") not in pairs and ("moderate", "herding") not in pairs
    # With 60% kept and no noise, Moderate is above GM Matching (71.87 and 70.82); that is not little.
    [block] = [b for b in paper_blocks(["tab:exp-classification-clean"]) if b.dataset == "CIFAR-100"]
    assert block.at("moderate", "60%").mean > block.at("gm-matching", "60%").mean  # type: ignore[union-attr]
    assert any((pair.above, pair.below) == ("gm-matching", "moderate") for pair in papers_order("none"))
    assert papers_order("human") == papers_order("label")


def test_a_margin_is_paired_by_seed() -> None:
    cells = [
        {"method": method, "seed": seed, "accuracy": base + 0.1 * seed}
        for method, base in (("easy", 0.32), ("hard", 0.3))
        for seed in range(3)
    ]
    margin = margin_of(cells, "easy", "hard")
    # The seeds are 10 points apart, but both methods with them.
    assert margin is not None and margin.clear
    assert margin.mean == pytest.approx(2.0) and margin.error == pytest.approx(0.0, abs=1e-9)
    assert margin_of(cells[:1] + cells[3:4], "easy", "hard") is None
    assert margin_of([*cells, {"method": "easy", "seed": 3, "error": "no"}], "easy", "hard") == margin


def test_only_clear_pairs_against_the_paper_are_disagreements() -> None:
    values = {"random": 0.6, "herding": 0.7, "moderate": 0.65, "gm-matching": 0.68}
    [found] = disagreements(study(values))
    assert found.clear
    assert (found.pair.above, found.pair.below) == ("gm-matching", "herding")
    assert found.sentence.startswith(
        "**Herding above GM Matching** with wrong labels, linear probe: in 1 of 1 columns"
    )
    assert "by up to 2.0 points" in found.sentence
    near = study({**values, "gm-matching": 0.692})
    assert not any(each.clear for each in disagreements(near))
    assert reason_lines(near, None) == [
        "Not the paper's order either, but by less than is clear: **Herding above GM Matching** with wrong labels, "
        "linear probe (by up to 0.8)."
    ]
    assert not disagreements(study({**values, "gm-matching": 0.71}))


def test_a_reason_that_turns_the_order_round_is_named_with_its_margin() -> None:
    [found] = disagreements(study({"herding": 0.7, "gm-matching": 0.68}))
    reasons = trials(
        {
            ("base", "herding"): 0.78,
            ("base", "gm-matching"): 0.76,
            ("other", "herding"): 0.70,
            ("other", "gm-matching"): 0.68,
            ("unit", "herding"): 0.700,
            ("unit", "gm-matching"): 0.701,
            ("trained", "herding"): 0.75,
            ("trained", "gm-matching-authors"): 0.79,
        }
    )
    explanation = explain(reasons, found)
    assert explanation is not None and explanation.explains
    assert explanation.sentence == (
        "Tested under 40% label noise, where the margin is -2.0 ± 0.0: "
        "turned round by *authors' version, trained layer* (+4.0 ± 0.0); "
        "not turned round by *other encoder* (-2.0 ± 0.0); unclear with *unit-length rows*."
    )


def test_what_no_reason_turns_round_stays_unexplained() -> None:
    measured = study({"herding": 0.7, "gm-matching": 0.68})
    reasons = trials({(name, "herding"): 0.78 for name in ("base", "unit")} | {
        (name, "gm-matching"): 0.76 for name in ("base", "unit")
    })  # fmt: skip
    [line] = reason_lines(measured, reasons)
    assert line.endswith("not turned round by *unit-length rows* (-2.0 ± 0.0). **It stays unexplained.**")
    assert "for 1 none does, and for 0 none was tested" in count_line([measured], reasons)


def test_where_nothing_was_tested_the_page_says_so() -> None:
    measured = study({"herding": 0.7, "gm-matching": 0.68}, corruption="image:20%")
    reasons = trials({("base", "herding"): 0.78, ("base", "gm-matching"): 0.77})
    for given in (reasons, None):
        [line] = reason_lines(measured, given)
        assert line.endswith("**No reason was tested for it.**")
    assert "for 0 none does, and for 1 none was tested" in count_line([measured], reasons)
    assert "clearly not" in count_line([study({"herding": 0.5, "gm-matching": 0.6})], None)


def both(first: Results, second: Results) -> Results:
    """Return the cells of two studies as one."""
    return Results("label-noise", "full", {"cells": Cells([*first["cells"], *second["cells"]])}, {}, {})


def test_a_study_itself_tests_the_authors_version() -> None:
    values = {"herding": 0.7, "easy": 0.6, "gm-matching": 0.68}
    [line] = reason_lines(study({**values, "gm-matching-authors": 0.75}), None)
    assert line.endswith(
        "In this study itself (20% kept, 35% label noise), where the margin is -2.0 ± 0.0: "
        "turned round by *authors' version* (+5.0 ± 0.0)."
    )
    worse = study({**values, "gm-matching-authors": 0.65})
    [line] = reason_lines(worse, None)
    assert line.endswith("not turned round by *authors' version* (-5.0 ± 0.0). **It stays unexplained.**")
    assert "for 1 none does, and for 0 none was tested" in count_line([worse], None)


def test_the_authors_version_says_nothing_of_a_pair_without_gm_matching() -> None:
    """The paper has Easy above Random."""
    [found] = disagreements(study({"random": 0.7, "easy": 0.6, "gm-matching-authors": 0.8}))
    assert (found.pair.above, found.pair.below) == ("easy", "random")
    assert explain_within(study({"random": 0.7, "easy": 0.6, "gm-matching-authors": 0.8}), found) is None


def test_a_study_itself_tests_the_other_kind_of_proxy() -> None:
    frozen = study({"herding": 0.7, "gm-matching": 0.68})
    trained = study({"herding": 0.6, "gm-matching": 0.65}, encoder="in-domain:resnet18")
    together = both(frozen, trained)
    [line] = reason_lines(together, None)
    assert line.endswith("turned round by *picked in `in-domain:resnet18`* (+5.0 ± 0.0).")
    assert "For 1 of them a reason that was tested turns the order round" in count_line([together], None)
    # Another amount, network or corruption, or another frozen encoder, is no test of it.
    for changes in (
        {"amount": "10%"},
        {"network": "resnet18", "downstream": "scratch"},
        {"corruption": "label:20%"},
        {"encoder": "other"},
    ):
        elsewhere = study(
            {"herding": 0.6, "gm-matching": 0.65}, **{"encoder": "in-domain:resnet18", **changes}
        )
        [line] = reason_lines(both(frozen, elsewhere), None)
        assert line.endswith("**No reason was tested for it.**"), changes


def test_from_a_proxy_trained_on_the_data_a_frozen_one_is_no_step_towards_the_paper() -> None:
    trained = study(
        {"herding": 0.7, "gm-matching": 0.68, "gm-matching-authors": 0.65}, encoder="in-domain:resnet18"
    )
    frozen = study({"herding": 0.6, "gm-matching": 0.65, "gm-matching-authors": 0.66})
    [line] = reason_lines(both(trained, frozen), None)
    assert line.endswith(
        "turned round only by what is no step towards the paper, *picked in `frozen`* (+5.0 ± 0.0), "
        "*authors' version, picked in `frozen`* (+6.0 ± 0.0); not turned round by *authors' version* "
        "(-5.0 ± 0.0). **It stays unexplained.**"
    )


@pytest.mark.parametrize(
    ("authors", "start", "end"),
    [
        # What the study itself explains is not called unexplained for the other study's sake ...
        (0.75, 0.76, "(+5.0 ± 0.0). Tested under 40% label noise, where the margin is -2.0 ± 0.0: not"),
        (0.75, 0.82, "(+5.0 ± 0.0). Tested under 40% label noise, where the margin is +4.0 ± 0.0, in the"),
        # ... and where neither does, one verdict ends the line.
        (0.65, 0.76, "**It stays unexplained.**"),
        (0.65, 0.82, "in the paper's order. **It stays unexplained.**"),
    ],
)
def test_one_verdict_is_given_on_both_sources(authors: float, start: float, end: str) -> None:
    measured = study({"herding": 0.7, "gm-matching": 0.68, "gm-matching-authors": authors})
    values = {("base", "herding"): 0.78, ("base", "gm-matching"): start}
    if start < 0.78:
        values |= {("unit", "herding"): 0.78, ("unit", "gm-matching"): 0.76}
    [found] = disagreements(measured)
    account = account_for(found, measured, trials(values))
    assert len(account.sources) == 2
    assert end in account.sentence
    assert account.explains == (authors > 0.7) == ("explained" not in account.sentence)
    assert account.sentence.count("**") == (0 if account.explains else 2)


def test_an_order_that_holds_at_the_start_is_told_with_what_breaks_it() -> None:
    values = {("base", "easy"): 0.70, ("base", "gm-matching"): 0.75, ("network", "easy"): 0.70}
    reasons = trials({**values, ("network", "gm-matching"): 0.60})
    found = explain_pair(reasons, "gm-matching", "easy", "label:40%")
    assert found is not None and not found.explains
    assert Account((found,)).sentence == (
        "Tested under 40% label noise, where the margin is +5.0 ± 0.0, in the paper's order; "
        "it is lost with *network* (-10.0 ± 0.0). **What we found is not explained by that.**"
    )


@pytest.mark.parametrize(("start", "away"), [("network", "linear probe"), ("2%", "20% kept")])
def test_what_leads_away_from_the_paper_explains_nothing(start: str, away: str) -> None:
    values = {("base", "easy"): 0.70, ("base", "gm-matching"): 0.75, (start, "easy"): 0.70}
    reasons = trials({**values, (start, "gm-matching"): 0.60})
    found = explain_pair(reasons, "gm-matching", "easy", "label:40%", start)
    assert found is not None and not found.explains
    assert Account((found,)).sentence.endswith(
        f"-10.0 ± 0.0: turned round only by what is no step towards the paper, *{away}* (+5.0 ± 0.0). "
        "**It stays unexplained.**"
    )


def test_the_reasons_from_each_start() -> None:
    assert {reason.label for reason in candidate_reasons("network", with_own=True)} == {
        "linear probe",
        "trained layer",
        "median of all rows",
        "authors' version",
        "authors' version, trained layer",
    }
    assert [reason.label for reason in candidate_reasons("2%", with_own=False)] == ["20% kept"]
    # What leads from a proxy that was trained on the data to one that was not, or from networks to probes.
    away = {reason.label: reason.away for reason in candidate_reasons("trained-network", with_own=False)}
    assert away == {"linear probe": True, "frozen encoder": True}
    layers = {reason.label for reason in candidate_reasons("trained", with_own=False) if not reason.away}
    assert layers == {"memorising layer", "layer of true labels", "network"}


def test_a_proxy_trained_on_the_data_starts_from_the_trained_layer() -> None:
    measured = study(
        {"herding": 0.7, "gm-matching": 0.68}, encoder="in-domain:resnet18", downstream="scratch"
    )
    names = ("trained-network", "network")
    reasons = trials({(name, "herding"): 0.6 for name in names} | {
        ("trained-network", "gm-matching"): 0.58,
        ("network", "gm-matching"): 0.64,
        ("trained-network", "gm-matching-authors"): 0.7,
    })  # fmt: skip
    [line] = reason_lines(measured, reasons)
    assert "with wrong labels, picked in domain, trained from scratch" in line
    assert line.endswith(
        "where the margin is -2.0 ± 0.0: turned round by *authors' version* (+10.0 ± 0.0); "
        "also by what is no step towards the paper, *frozen encoder* (+4.0 ± 0.0)."
    )


def test_the_nearest_corruption_is_of_the_same_kind() -> None:
    both = Results(
        "reasons",
        "full",
        {"cells": Cells([{"corruption": "label:20%"}, {"corruption": "label:40%"}])},
        {},
        {},
    )
    assert nearest_corruptions(both, "label:35%") == ["label:40%", "label:20%"]
    assert nearest_corruptions(both, "label:25%") == ["label:20%", "label:40%"]
    assert nearest_corruptions(both, "human:worse") == []


def test_where_nothing_was_tested_for_a_pair_the_next_corruption_tells() -> None:
    base = {("base", "herding"): 0.78, ("base", "gm-matching"): 0.76}
    near, far = (
        trials(base),
        trials({**base, ("unit", "herding"): 0.7, ("unit", "gm-matching"): 0.8}, "label:20%"),
    )
    cells = Cells([*near["cells"], *far["cells"]])
    reasons = Results("reasons", "full", {"cells": cells}, {"cells": {}}, {})
    measured = study({"herding": 0.7, "gm-matching": 0.68})
    [line] = reason_lines(measured, reasons)
    assert "Tested under 20% label noise" in line and "turned round by *unit-length rows*" in line
    [line] = reason_lines(measured, near)
    assert line.endswith("**No reason was tested for it.**")


def test_how_much_is_won_beside_the_papers_range() -> None:
    [line] = size_lines(
        trials(
            {
                ("base", "random"): 0.7,
                ("base", "gm-matching"): 0.75,
                ("trained", "random"): 0.7,
                ("trained", "gm-matching-authors"): 0.79,
            }
        )
    )
    [pair] = [p for p in papers_order("label") if (p.above, p.below) == ("gm-matching", "random")]
    assert "above Random by +5.0 ± 0.0 points" in line
    assert "the most is +9.0 ± 0.0, of GM Matching as in the authors' code (*trained layer*)" in line
    assert f"The paper has {pair.least:.1f} to {pair.most:.1f}" in line


def test_where_gm_matching_is_first_is_told_for_both_versions() -> None:
    base = {"random": 0.6, "easy": 0.7, "gm-matching": 0.75, "gm-matching-authors": 0.65}
    trained = {"random": 0.6, "easy": 0.7, "gm-matching": 0.65, "gm-matching-authors": 0.8}
    values = {("base", name): value for name, value in base.items()}
    [line] = first_lines(trials({**values, **{("trained", name): value for name, value in trained.items()}}))
    assert line == (
        "**40% label noise**: As the paper's text has it, it is first in 1 of 2 settings, clearly with "
        "*as it is* (75.0; next Easy 70.0, Random 60.0). As the authors' code has it, it is first in 1 of 2 "
        "settings, clearly with *trained layer* (80.0; next Easy 70.0, Random 60.0)."
    )
    near = {**values, ("base", "easy"): 0.745}
    assert "it is first in 1 of 1 settings, clearly in none." in first_lines(trials(near))[0]


def test_wrong_labels_are_counted_over_the_spaces_alone() -> None:
    reasons = trials({(name, "easy"): 0.7 for name in ("base", "trained", "network", "2%")})
    cells = [
        {**cell, "contamination": {"base": 0.3, "trained": 0.1}.get(cell["setting"], 0.9)}
        for cell in reasons["cells"]
    ]
    [line] = share_lines(Results("reasons", "full", {"cells": Cells(cells)}, {}, {}))
    assert line == "**40% label noise**, over 2 spaces to pick in: Easy 10 to 30%."


def test_a_trained_proxy_has_a_section_where_it_was_measured() -> None:
    record = read_record(STUDIES / "reasons.json")
    frozen = study({"random": 0.5, "gm-matching": 0.6})
    trained = study({"random": 0.5, "gm-matching": 0.7}, encoder="in-domain:resnet18")
    title = "## A network trained on the data as the proxy"
    for transfer, there in ((None, False), (frozen, False), (both(frozen, trained), True)):
        sections = page_sections(record, transfer)
        assert (title in sections) == there
        untested = sections[sections.index("## What was not tested here") + 1]
        assert "ResNet-50" in untested and "CIFAR-100" in untested and "recipe" in untested
        assert ("`in-domain:resnet18`" in untested) == there


def test_the_control_is_the_random_draws_by_their_measured_share() -> None:
    cells = [
        {"setting": "base", "corruption": "label:40%", "method": f"random-wrong-{percent}", "seed": 0,
         "accuracy": 0.8 - percent / 400, "contamination": percent / 100}
        for percent in (40, 0, 20)
    ]  # fmt: skip
    results = Results("reasons", "full", {"cells": Cells(cells)}, {}, {})
    assert control_curve(results, "base", "label:40%") == pytest.approx({0.0: 80.0, 20.0: 75.0, 40.0: 70.0})
    assert list(page_tables(results)[-1].rows[0]) == ["40% label noise, base", "70.0", "80.0", "75.0"]


def test_the_committed_cells_are_of_this_code_and_test_what_the_committed_studies_disagree_on() -> None:
    record = read_record(STUDIES / "reasons.json")
    assert record["parts"]["cells"]["code"] == CODE
    assert not any("error" in cell for cell in record["parts"]["cells"]["cells"])
    command = record["provenance"]["command"]
    assert "/" not in command and command.startswith(
        "python -m gmmatch_paper.studies.classification.reasons "
    )
    build_parser().parse_args(command.split()[3:])  # leaves the program where it knows an option no more
    reasons = as_results(record)
    tested_kinds = {text.partition(":")[0] for text in reasons["cells"].distinct("corruption")}
    for name in image_study_names():
        path, found = STUDIES / f"{name}.json", load_image_study(name)
        if not path.exists() or found.tables is not None:
            continue
        results = as_results(read_record(path))
        page = study_page(found, read_record(path), reasons)
        for each in disagreements(results):
            assert (each.sentence if each.clear else each.title) in page
            methods = {each.pair.above, each.pair.below} <= {
                "random",
                "easy",
                "moderate",
                "herding",
                "gm-matching",
            }
            if each.clear and each.kind in tested_kinds and methods:
                assert explain(reasons, each) is not None, each.sentence


def test_the_start_of_the_committed_reasons_is_the_committed_study() -> None:
    """The same data, picks and probe, measured twice: what the reasons change is what the study has."""
    reasons = as_results(read_record(STUDIES / "reasons.json"))["cells"]
    facts = as_results(read_record(STUDIES / "reasons.json")).fixed["cells"]
    cells = as_results(read_record(STUDIES / "domain-transfer.json"))["cells"].where(
        dataset=facts["dataset"], encoder=facts["encoder"], downstream="probe", amount="20%"
    )
    for corruption in ("none", "label:40%"):
        for method in ("random", "easy", "herding", "gm-matching", "gm-matching-authors"):
            ours = reasons.where(setting="base", corruption=corruption, method=method)
            theirs = cells.where(corruption=corruption, method=method)
            assert ours.mean("contamination") == pytest.approx(theirs.mean("contamination"), abs=1e-3)
            # The folds of the probe's cross-validation differ.
            assert ours.mean("accuracy") == pytest.approx(theirs.mean("accuracy"), abs=5e-3)


def test_margins_read_like_numbers() -> None:
    assert str(Margin(0.04, 0.0)) == "+0.0 ± 0.0"
    # Twice 0.5 for the test images, and with 0.5 over the seeds twice the root of 0.5.
    assert not Margin(-0.99, 0.0).clear and Margin(-1.01, 0.0).clear
    assert not Margin(-1.41, 0.5).clear and Margin(-1.42, 0.5).clear
