"""What the page says: the interval, the verdicts, what was picked, and how several selections differ."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gmmatch as gm

from .conftest import blobs, screening_of
from .reading import unpacked


def cards(page, verdict: str) -> list[int]:
    """The rows on the cards of a verdict, by their place on the map."""
    source = re.findall(
        r'<li class="card" data-verdict="(\w+)".*?data-at="(\d+)"', page.source, flags=re.DOTALL
    )
    return [int(at) for kind, at in source if kind == verdict]


def test_the_headline_is_the_interval_and_the_verdicts_are_counted(made):
    page = made.page
    ((_, title),) = page.all("h1")
    n_wrong = int(((made.screening.verdict == "wrong") & (made.screening.reason == "mislabeled")).sum())
    certain = 100 * n_wrong / (len(made.X) - 2)
    learned = f"Between 5% and 20% of the labels look wrong; {certain:.1f}% for certain ({n_wrong} rows)"
    assert title.startswith(learned) and made.screening.summary.startswith(title)
    counts = {
        verdict: int((made.screening.verdict == verdict).sum()) for verdict in set(made.screening.verdict)
    }
    for verdict, count in counts.items():
        assert f"{count} {verdict}" in page.words()
    assert "1 is an outlier, 1 is a copy of another row" in page.words()
    assert "24 rows picked, all of them trusted." in page.words()


@pytest.mark.parametrize(
    ("interval", "title"),
    [
        ((0.0, 0.003), "No label looks wrong (at most 0.3% may be)"),
        ((0.0, 0.22), "Up to 22% of the labels look wrong; none for certain"),
        ((0.08, 0.083), "Between 8% and 8.3% of the labels look wrong; none for certain"),
    ],
)
def test_the_headline_says_no_more_than_is_known(page_of, interval, title):
    X, y = blobs(30)
    nothing = np.zeros(30, dtype=int)
    result = screening_of(y, noise_interval=interval, verdict_codes=nothing, reason_codes=nothing)
    assert page_of(result, X, y).all("h1")[0][1] == title


def test_wrong_and_doubtful_rows_have_galleries_of_their_own(made):
    page = made.page
    wrong, doubtful = cards(page, "wrong"), cards(page, "doubtful")
    assert set(made.screening.verdict[wrong]) == {"wrong"} and set(made.screening.verdict[doubtful]) == {
        "doubtful"
    }
    assert len(wrong) == (made.screening.verdict == "wrong").sum()
    headings = [text.strip() for _, text in page.all("h2")]
    assert headings.index("Wrong") < headings.index("Doubtful") < headings.index("The map")
    reasons = [attrs["data-reason"] for attrs, _ in page.all("li") if attrs.get("data-verdict") == "wrong"]
    assert (
        set(reasons) == {"mislabeled", "outlier"}
        and reasons.index("outlier") > reasons.count("mislabeled") - 1
    )
    # The first of each class before the second of any.
    assert sorted(made.y[row] for row in wrong[:3]) == sorted(set(made.y))


def test_what_was_not_judged_is_said_and_never_called_trusted(made, page_of):
    assert made.screening.notes[0] in made.page.words()
    page = page_of(made.screening, made.X, made.y)
    assert "trusted or not judged" in page.words()
    unlabeled = screening_of(
        made.y,
        noise_rate=None,
        noise_interval=None,
        verdict_codes=np.full(120, 3),
        reason_codes=np.zeros(120, int),
    )
    page = page_of(unlabeled, made.X)
    assert page.all("h1")[0][1] == "120 rows were not judged"
    assert "120 not judged" in page.words() and "trusted" not in page.words()


def test_a_screening_has_a_page_without_picks(page_of):
    X, y = blobs()
    page = page_of(screening_of(y), X, y)
    assert page.data()["panels"] == [] and not page.all("input", id="upto")
    assert [text for _, text in page.all("h2") if text in ("The classes", "What was picked")] == [
        "The classes"
    ]
    lines = page.table("The classes")
    result = screening_of(y)
    for line in result.per_class():
        cells = lines[line["label"]]
        assert cells[:4] == [
            str(line["rows"]), str(line["wrong"]), str(line["doubtful"]), f"{100 * line['noise_rate']:.1f}%"
        ]  # fmt: skip


def test_without_a_screening_the_page_says_so(page_of):
    X, y = blobs(30)
    page = page_of(gm.Herding(k=6).select(X, y), X, y)
    assert page.all("h1")[0][1] == "6 of 30 rows picked"
    assert "No screening was used" in page.words() and not page.all("button", id="download")


def test_the_table_of_classes_is_that_of_the_picks(made):
    lines = made.page.table("The classes")
    rows, picked = np.array(made.y), np.array(made.y)[made.selection.indices]
    for name in sorted(set(made.y)):
        assert lines[name][0] == str((rows == name).sum())
        assert lines[name][4] == str((picked == name).sum())
        assert lines[name][5] == f"{100 * (rows == name).mean():.1f}%"


def test_labels_that_are_mixed_up_are_a_matrix_or_the_largest_pairs(made, page_of):
    source = made.page.source.partition('class="matrix"')[2].partition("</table>")[0]
    counts = [int(text) for text in re.findall(r'<td class="shade-[1-5]">(\d+)<', source)]
    is_wrong = (made.screening.verdict == "wrong") & (made.screening.reason == "mislabeled")
    assert sum(counts) == is_wrong.sum()
    X, _ = blobs(40, features=2)
    y = [f"class {i % 20:02d}" for i in range(40)]
    given = np.array([int(label[-2:]) for label in y])
    codes = np.where(np.arange(40) < 30, 2, 0)
    suggested = np.where(given < 2, 19, (given + 1) % 20)
    result = screening_of(
        y, given=given, suggested_codes=suggested, verdict_codes=codes, reason_codes=codes // 2
    )
    page = page_of(result, X, y)
    assert (
        "looks like" in page.words()
        and 'class="pairs"' in page.source
        and 'class="matrix"' not in page.source
    )


def test_the_details_name_the_method_and_what_was_changed(page_of):
    X, y = blobs(60)
    method = gm.GMMatching(k=6, target=gm.GeometricMedian(eps=1e-5), random_state=11)
    page = page_of(method.select(X, y, preprocess="unit"), X, y)
    names = [text for _, text in page.all("dt")]
    details = dict(zip(names, [text for _, text in page.all("dd")], strict=True))
    assert details["Method"].startswith("GMMatching(k=6, random_state=11, target=GeometricMedian(eps=1e-05")
    assert "start" not in details["Method"] and details["Preprocessing"] == "unit"
    assert details["Rows"] == "60 of 5 numbers each"


def test_class_names_replace_labels(page_of):
    X, _ = blobs(12)
    y = [0, 1] * 6
    page = page_of(gm.Easy(k=4).select(X, y), X, y, class_names=["cat", "dog"])
    assert page.data()["classes"] == ["cat", "dog"]
    page = page_of(gm.Easy(k=4).select(X, y), X, y, class_names={1: "dog"})
    assert page.data()["classes"] == ["0", "dog"]


def test_rows_without_a_label_are_a_class_of_the_page(page_of):
    X, _ = blobs(12)
    y = ["a"] * 6 + ["b"] * 5 + [None]
    selection = gm.Easy(k=3).select(X, y, unlabeled="group")
    assert page_of(selection, X, y).data()["classes"] == ["a", "b", "(no label)"]


@pytest.fixture
def selections():
    X, y = blobs()
    screening = screening_of(y)
    easy = gm.Easy(k=24, random_state=0).select(X, y, exclude=~screening.trusted)
    return X, y, {
        "easy": easy.change(slice(None), screening=screening),
        "random": gm.Random(k=24, random_state=0).select(X, y),
    }  # fmt: skip


def test_each_selection_has_a_map_and_a_line(page_of, selections):
    X, y, made = selections
    page = page_of(made, X, y)
    assert page.all("h1")[0][1] == "2 selections side by side"
    panels = page.data()["panels"]
    assert [panel["title"] for panel in panels] == ["easy", "random"]
    assert [unpacked(panel["picks"]).tolist() for panel in panels] == [
        one.order.tolist() for one in made.values()
    ]
    assert len(page.all("canvas")) == 2
    lines = page.table("The selections")
    screening = made["easy"].screening
    n_wrong = int((screening.verdict[made["random"].indices] == "wrong").sum())
    shared = np.isin(made["random"].indices, made["easy"].indices).mean()
    assert lines["easy"][:3] == ["24", "0", "0"]
    assert lines["random"][:2] == ["24", str(n_wrong)]
    assert lines["random"][3] == f"{100 * shared:.1f}%"


def test_the_wrong_picks_of_each_are_shown(page_of, selections):
    X, y, made = selections
    page = page_of(made, X, y)
    verdict = made["easy"].screening.verdict
    at = re.findall(
        r'data-verdict="wrong" data-reason="random".*?data-at="(\d+)"', page.source, flags=re.DOTALL
    )
    wrong = made["random"].indices[verdict[made["random"].indices] == "wrong"]
    assert sorted(map(int, at)) == wrong.tolist()
