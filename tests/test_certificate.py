"""The certificate: a bound that holds as often as it says, and answers that cannot be mixed up."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.stats import hypergeom

import gmmatch as gm
from gmmatch.certificate import most_wrong


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_bound_holds_as_often_as_it_says(confidence):
    counts = np.arange(41)
    bounds = np.array([most_wrong(300, 40, int(count), confidence) for count in counts])
    for wrong in (0, 1, 5, 20, 60, 150, 299, 300):
        assert hypergeom.pmf(counts, 300, wrong, 40)[bounds >= wrong].sum() >= confidence


def test_the_bound_is_no_larger_than_needed():
    for n_picks, n_checked, n_wrong in ((5000, 200, 0), (300, 40, 3), (1000, 100, 99)):
        bound = most_wrong(n_picks, n_checked, n_wrong)
        assert hypergeom.cdf(n_wrong, n_picks, bound, n_checked) > 0.05
        assert hypergeom.cdf(n_wrong, n_picks, bound + 1, n_checked) <= 0.05
    assert most_wrong(50, 50, 7) == 7
    assert most_wrong(10, 4, 4) == 10


@pytest.fixture
def selection():
    order = np.random.default_rng(0).permutation(1000)[:800]
    ids = [f"photo {row}" for row in order]
    return gm.Selection(order, 1000, classes=["cat", 'a "dog", or two'], group_of_pick=order % 2, ids=ids)


def test_a_sample_is_random_without_repetition_and_the_same_again(selection):
    sample = gm.check_sample(selection, 100, random_state=3)
    assert len(set(sample.rows.tolist())) == 100 and np.isin(sample.rows, selection.order).all()
    again, other = (gm.check_sample(selection, 100, random_state=seed) for seed in (3, 4))
    assert np.array_equal(sample.rows, again.rows) and sample.name == again.name
    assert not np.array_equal(np.sort(sample.rows), np.sort(other.rows))
    assert sample.ids == [f"photo {row}" for row in sample.rows]
    assert sample.labels == ["cat" if row % 2 == 0 else 'a "dog", or two' for row in sample.rows]
    assert len(gm.check_sample(selection, 5000)) == 800
    drawn = [gm.check_sample(selection, 400, random_state=seed).rows for seed in range(40)]
    counts = np.bincount(np.concatenate(drawn), minlength=1000)[selection.order]
    assert counts.min() >= 5 and counts.max() <= 35


def test_rows_picked_twice_count_once():
    twice = gm.Selection([3, 1, 3, 2], 5)
    assert gm.check_sample(twice, 10).n_picks == 3
    with pytest.raises(gm.GMMatchError, match="nothing to check"):
        gm.check_sample(gm.Selection([], 5))


def fill_in(sample, path, answer=lambda row: "right"):
    sample.write(path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line["answer"] = answer(int(line["row"]))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0])
        table.writeheader()
        table.writerows(lines)
    return lines


def test_answers_become_a_certificate(selection, tmp_path):
    path, sample = tmp_path / "a.csv", gm.check_sample(selection, 100)
    wrong = set(sample.rows[:3].tolist())
    fill_in(sample, path, lambda row: "Wrong " if row in wrong else "right")
    certificate = gm.certify(selection, path)
    assert (certificate.n_picks, certificate.n_checked, certificate.n_wrong) == (800, 100, 3)
    assert certificate.most_wrong == most_wrong(800, 100, 3)
    assert gm.certify(selection, path, confidence=0.99).most_wrong > certificate.most_wrong
    semicolons = path.read_text().replace(",", ";")  # as some spreadsheets save it
    (tmp_path / "b.csv").write_text(semicolons, encoding="utf-8-sig")
    assert gm.certify(selection, tmp_path / "b.csv") == certificate
    fill_in(sample, path, lambda row: "unsure" if row in wrong else "right")
    unsure = gm.certify(selection, path)
    assert unsure.most_wrong == certificate.most_wrong and unsure.n_unsure == 3
    assert "3 were unsure and count as wrong" in str(unsure) == unsure.as_json()["statement"]


def test_answers_that_prove_nothing_are_refused(selection, tmp_path):
    path, sample = tmp_path / "a.csv", gm.check_sample(selection, 50)
    lines = fill_in(sample, path)
    text = path.read_text()

    def refuse(changed, match):
        path.write_text(changed)
        with pytest.raises(gm.GMMatchError, match=match):
            gm.certify(selection, path)

    rows = text.splitlines()
    refuse("\n".join(rows[:21]), "30 of the 50 rows have no answer")
    refuse(text.replace(",right", ","), "its rows have no answer")
    refuse(text.replace(",right", ",maybe", 1), "got 'maybe'")
    refuse("\n".join([*rows, rows[-1]]), "is there twice")
    refuse(text.replace(f"\n{lines[0]['row']},", "\n999999,", 1), "row 999999 is not one of the sample")
    refuse(text.replace(sample.name[-4:], "0000"), "about other picks")
    refuse("row,answer\n1,right\n", "column 'sample' was changed")
    refuse("", "its rows have no answer")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(gm.GMMatchError, match="is not UTF-8 text"):
        gm.certify(selection, path)
    path.write_text(text)
    with pytest.raises(gm.GMMatchError, match="about other picks"):
        gm.certify(selection.prefix(700), path)
    with pytest.raises(gm.GMMatchError, match="confidence=95"):
        gm.certify(selection, path, confidence=95)
    with pytest.raises(gm.GMMatchError, match="no such file"):
        gm.certify(selection, tmp_path / "none.csv")


def test_answers_in_a_mapping_need_their_sample(selection):
    sample = gm.check_sample(selection, 50)
    answers = dict.fromkeys(sample.rows.tolist(), "right")
    assert gm.certify(selection, answers, sample).n_wrong == 0
    with pytest.raises(gm.GMMatchError, match="sample is of other picks"):
        gm.certify(selection.prefix(700), answers, sample)
    with pytest.raises(gm.GMMatchError, match="sample is missing"):
        gm.certify(selection, answers)
