"""The certificate: a bound that holds as often as it says, and answers that cannot be mixed up."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.stats import hypergeom

import gmmatch as gm
from gmmatch.certificate.bounds import Stratum, most_wrong
from gmmatch.certificate.certify import write_answers
from gmmatch.screening.result import Screening


def coverage(n_rows, n_sampled, wrong, confidence=0.95):
    """The exact probability that the bound is at least the truth, by all samples there can be."""
    counts = np.arange(n_sampled + 1)
    bounds = np.array([most_wrong([Stratum(n_rows, n_sampled, int(x))], confidence) for x in counts])
    return hypergeom.pmf(counts, n_rows, wrong, n_sampled)[bounds >= wrong].sum()


@pytest.mark.parametrize("wrong", [0, 1, 5, 20, 60, 150, 299, 300])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_bound_holds_as_often_as_it_says(wrong, confidence):
    assert coverage(300, 40, wrong, confidence) >= confidence


def test_the_bound_is_no_larger_than_needed():
    for n_rows, n_sampled, seen in ((5000, 200, 0), (300, 40, 3), (1000, 100, 99)):
        bound = most_wrong([Stratum(n_rows, n_sampled, seen)])
        assert hypergeom.cdf(seen, n_rows, bound, n_sampled) > 0.05
        assert hypergeom.cdf(seen, n_rows, bound + 1, n_sampled) <= 0.05
    assert most_wrong([Stratum(50, 50, 7)]) == 7
    assert most_wrong([Stratum(10, 4, 4)]) == 10


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.0, 0.05), (0.02, 0.9), (0.3, 0.3), (0.5, 0.1)])
def test_the_bound_of_two_strata_holds_as_often_as_it_says(shares):
    sizes, sampled = (300, 200), (24, 16)
    wrong = [round(share * size) for share, size in zip(shares, sizes, strict=True)]
    chances = [
        hypergeom.pmf(np.arange(n + 1), size, m, n) for size, m, n in zip(sizes, wrong, sampled, strict=True)
    ]
    held = 0.0
    for x in np.flatnonzero(chances[0] > 1e-4):
        for y in np.flatnonzero(chances[1] > 1e-4):
            strata = [Stratum(sizes[0], sampled[0], int(x)), Stratum(sizes[1], sampled[1], int(y))]
            held += chances[0][x] * chances[1][y] * (most_wrong(strata) >= sum(wrong))
    assert held >= 0.945


def test_strata_tighten_the_bound_where_they_differ():
    apart = most_wrong([Stratum(3000, 120, 2), Stratum(2000, 80, 76)])
    assert 1900 + 50 < apart < most_wrong([Stratum(5000, 200, 78)]) - 100


@pytest.fixture
def selection():
    random = np.random.default_rng(0)
    chances = random.permutation(np.r_[np.full(600, 0.02), np.full(400, 0.9)])
    screening = Screening(np.ones(1000, dtype=bool), chances, np.zeros(1000, dtype=np.int8))
    order = random.permutation(1000)[:800]
    groups = [
        gm.selection.groups.SelectedGroup(label, order[order % 2 == code], 500)
        for code, label in enumerate(("cat", 'a "dog", or two'))
    ]
    return gm.Selection(order, 1000, groups, ids=[f"photo {row}" for row in order], screening=screening)


def test_a_sample_is_random_without_repetition_and_the_same_again(selection):
    sample = gm.check_sample(selection, 100, seed=3)
    assert len(set(sample.rows.tolist())) == 100 and np.isin(sample.rows, selection.order).all()
    again, other = gm.check_sample(selection, 100, seed=3), gm.check_sample(selection, 100, seed=4)
    assert np.array_equal(sample.rows, again.rows) and sample.name == again.name
    assert not np.array_equal(np.sort(sample.rows), np.sort(other.rows))
    assert sample.ids == [f"photo {row}" for row in sample.rows]
    assert sample.labels == ["cat" if row % 2 == 0 else 'a "dog", or two' for row in sample.rows]
    assert len(gm.check_sample(selection, 5000)) == 800
    picked = [gm.check_sample(selection, 400, seed=seed).rows for seed in range(40)]
    counts = np.bincount(np.concatenate(picked), minlength=1000)[selection.order]
    assert counts.min() >= 5 and counts.max() <= 35


def test_strata_are_drawn_from_in_proportion(selection):
    sample = gm.check_sample(selection, 100, stratified=True)
    chances = selection.screening.probability
    assert len(sample.sizes) == 2 and sum(sample.sizes) == 800
    for number, chance in enumerate((0.02, 0.9)):
        assert np.all(chances[sample.rows[sample.stratum == number]] == chance)
        assert (sample.stratum == number).sum() == pytest.approx(sample.sizes[number] / 8, abs=1)
    with pytest.raises(gm.GMMatchError, match="needs a screening"):
        gm.check_sample(gm.Selection([0, 1], 3), 2, stratified=True)


def filled(sample, path, answer=lambda row: "right"):
    write_answers(sample, path)
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    for line in lines:
        line["answer"] = answer(int(line["row"]))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0])
        table.writeheader()
        table.writerows(lines)
    return lines


@pytest.mark.parametrize("stratified", [False, True])
def test_answers_become_a_certificate(selection, tmp_path, stratified):
    sample = gm.check_sample(selection, 100, stratified=stratified)
    wrong = set(sample.rows[:3].tolist())
    filled(sample, tmp_path / "a.csv", lambda row: "Wrong " if row in wrong else "right")
    found = gm.certify(selection, tmp_path / "a.csv")
    assert (found.n_picks, found.n_checked, found.n_wrong) == (800, 100, 3) and found.stratified is stratified
    assert 24 < found.most_wrong < 80
    if not stratified:
        assert found.most_wrong == most_wrong([Stratum(800, 100, 3)])
    assert gm.certify(selection, tmp_path / "a.csv", confidence=0.99).most_wrong > found.most_wrong
    semicolons = (tmp_path / "a.csv").read_text().replace(",", ";")  # as some spreadsheets save it
    (tmp_path / "b.csv").write_text(semicolons, encoding="utf-8-sig")
    assert gm.certify(selection, tmp_path / "b.csv") == found
    filled(sample, tmp_path / "a.csv", lambda row: "unsure" if row in wrong else "right")
    unsure = gm.certify(selection, tmp_path / "a.csv")
    assert unsure.most_wrong == found.most_wrong and unsure.n_unsure == 3
    assert "3 could not be told and count as wrong" in str(unsure)


def test_answers_that_prove_nothing_are_refused(selection, tmp_path):
    path = tmp_path / "a.csv"
    sample = gm.check_sample(selection, 50)
    lines = filled(sample, path)
    text = path.read_text()

    def refused(changed, match):
        path.write_text(changed)
        with pytest.raises(gm.GMMatchError, match=match):
            gm.certify(selection, path)

    rows = text.splitlines()
    refused("\n".join(rows[:21]), "30 of the 50 rows have no answer")
    refused(text.replace(",right", ","), "50 of the 50 rows have no answer")
    refused(text.replace(",right", ",maybe", 1), "got 'maybe'")
    refused("\n".join([*rows, rows[-1]]), "is there twice")
    refused(text.replace(f",{lines[0]['row']},", ",999999,", 1), "row '999999' is not one of the sample")
    refused(text.replace(sample.name[-4:], "0000"), "about other picks")
    refused("row,answer\n1,right\n", "no column 'sample'")
    refused("", "no column 'sample'")
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
    answers = dict.fromkeys(sample.rows.tolist(), "right")
    assert gm.certify(selection, answers, sample).n_wrong == 0
    with pytest.raises(gm.GMMatchError, match="sample is of other picks"):
        gm.certify(selection.prefix(700), answers, sample)
    with pytest.raises(gm.GMMatchError, match="sample is missing"):
        gm.certify(selection, {1: "right"})
