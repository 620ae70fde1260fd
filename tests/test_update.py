"""Updates: as many picks as before, from old picks and new rows, that match all rows so far."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch.update import is_updated_by

RANDOM = np.random.default_rng(0)
TRUTH = RANDOM.integers(0, 3, 1500)
X = (RANDOM.standard_normal((1500, 12)) + 2.5 * np.eye(3, 12)[TRUTH]).astype(np.float32)
Y = np.array(["a", "b", "c"])[TRUTH]


def update_in_steps(selection, X, y, step):
    for first in range(selection.n_rows, len(X), step):
        rows = slice(first, first + step)
        labels = None if y is None else y[rows]
        selection = gm.update(selection, selection.apply(X[: selection.n_rows]), X[rows], labels)
    return selection


def noisy_classes(n, seed):
    """Rows of eight classes, a fifth of them with a wrong label."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 8, n)
    rows = 1.6 * random.standard_normal((8, 24))[truth] + random.standard_normal((n, 24))
    wrong = random.random(n) < 0.2
    return rows.astype(np.float32), truth, np.where(wrong, (truth + random.integers(1, 8, n)) % 8, truth)


def measure(selection, rows, truth):
    """Return the MMD to the clean rows, averaged over classes, and the share of wrong picks."""
    pairs = [(selection.indices[selection.labels == label], truth == label) for label in range(8)]
    distance = np.mean([gm.metrics.mmd(rows[picks], rows[clean]) for picks, clean in pairs])
    return distance, np.mean(truth[selection.indices] != selection.labels)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gmmatch.errors.GMMatchWarning")  # some updates need doubtful rows
@pytest.mark.parametrize("method", ["gm-matching", "robust"])
def test_after_ten_updates_picks_are_as_good_as_from_scratch(method):
    figures = []
    for seed in range(3):
        rows, truth, given = noisy_classes(4000, seed)
        options = {"k": 200, "method": method, "random_state": 0}
        updated = update_in_steps(gm.select(rows[:2000], given[:2000], **options), rows, given, 200)
        scratch = gm.select(rows, given, **options)
        assert len(updated.provenance["updates"]) == 10 and updated.k == 200
        figures.append([*measure(updated, rows, truth), *measure(scratch, rows, truth)])
    distance, wrong, scratch_distance, scratch_wrong = np.mean(figures, axis=0)
    assert distance <= 1.15 * scratch_distance
    assert wrong <= max(1.2 * scratch_wrong, 0.005)


@pytest.mark.parametrize("method", ["herding", "gm-matching", "moderate", "random"])
def test_row_numbers_classes_and_sizes_are_those_of_all_rows(method):
    first = gm.select(X[:900], Y[:900], k=60, method=method, random_state=0)
    updated = update_in_steps(first, X, Y, 300)
    assert (updated.k, updated.n_rows, updated.classes) == (60, 1500, ["a", "b", "c"])
    assert updated.group_sizes.tolist() == [int((label == Y).sum()) for label in "abc"]
    assert len(set(updated.order.tolist())) == 60 and np.all(Y[updated.indices] == updated.labels)
    # Classes have their share of all rows, and so do the new rows.
    assert all(abs(updated.counts[label] - 60 * (label == Y).mean()) <= 1 for label in "abc")
    assert 0.1 < (updated.indices >= 900).mean() < 0.9
    assert sum(updated.provenance["represented"]) == pytest.approx(1500, abs=0.01)
    assert [note["n_rows"] for note in updated.provenance["updates"]] == [300, 300]


def test_the_mean_of_all_rows_is_matched_though_old_rows_are_gone():
    shifted = X + np.linspace(0.0, 2.0, 1500)[:, None].astype(np.float32)
    first = gm.select(shifted[:500], k=40, method="herding", random_state=0)
    updated = update_in_steps(first, shifted, None, 100)
    scratch = gm.select(shifted, k=40, method="herding", random_state=0)
    errors = [gm.metrics.moment_error(shifted[picks.indices], shifted) for picks in (updated, scratch, first)]
    assert errors[0] < 2.0 * errors[1] + 0.1 < 0.3 * errors[2]


@pytest.mark.slow
def test_a_median_does_not_move_with_each_update():
    digits = load_digits(return_X_y=True)[0][np.random.default_rng(0).permutation(1797)[:1000]]
    updated = update_in_steps(gm.GMMatching(k=50).select(digits[:500]), digits, None, 50)
    scratch = gm.GMMatching(k=50).select(digits)
    errors = [gm.metrics.mmd(digits[picks.indices], digits) for picks in (updated, scratch)]
    assert errors[0] < 1.15 * errors[1]
    represented = np.array(updated.provenance["represented"])
    assert represented.max() < 5.0 * represented.mean()


def test_new_rows_are_screened_and_verdicts_of_all_rows_are_kept():
    rows, truth, given = noisy_classes(1200, 0)
    first = gm.select(rows[:900], given[:900], k=100, random_state=0)
    updated = update_in_steps(first, rows, given, 300)
    assert len(updated.screening) == 1200
    assert np.array_equal(updated.screening.verdict[:900], first.screening.verdict)
    wrong = truth != given
    late = updated.indices[updated.indices >= 900]
    assert wrong[late].mean() < 0.5 * wrong[900:].mean()
    assert (
        updated.screening.trusted[900:][~wrong[900:]].mean()
        > updated.screening.trusted[900:][wrong[900:]].mean()
    )


def test_new_classes_and_classes_that_are_gone():
    labels = np.concatenate([np.repeat(["a", "b", "rare"], [200, 199, 1]), np.repeat(["a", "d"], 50)])
    first = gm.Herding(k=20, random_state=0).select(X[:400], labels[:400])
    assert first.counts["rare"] == 0
    updated = gm.update(first, first.apply(X[:400]), X[400:500], labels[400:])
    assert updated.counts == {"a": 10, "b": 8, "d": 2, "rare": 0}
    assert dict(zip(updated.classes, updated.group_sizes, strict=True)) == {
        "a": 250,
        "b": 199,
        "d": 50,
        "rare": 1,
    }


def test_shares_that_were_asked_for_stay():
    for per_class, counts in (
        ({"a": 6, "b": 4}, {"a": 6, "b": 4, "c": 0}),
        ("balanced", {"a": 4, "b": 3, "c": 3}),
    ):
        first = gm.select(X[:900], Y[:900], k=10, per_class=per_class, method="herding", random_state=0)
        assert update_in_steps(first, X, Y, 600).counts == counts


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def test_files_tensors_and_ids(torch, tmp_path):
    first = gm.select(X[:900], k=30, method="gm-matching", random_state=0, ids=np.arange(900) + 5000)
    picked, ids = first.apply(X[:900]), np.arange(900, 1500) + 5000
    updated = gm.update(first, picked, X[900:], ids=ids)
    assert np.array_equal(updated.ids, updated.indices + 5000)
    np.save(tmp_path / "new.npy", X[900:])
    for form in (tmp_path / "new.npy", torch.from_numpy(X[900:])):
        assert np.array_equal(gm.update(first, picked, form, ids=lambda rows: ids[rows]).order, updated.order)


def test_it_goes_on_from_a_file_and_knows_what_it_was_updated_by(tmp_path):
    first = gm.select(X[:900], Y[:900], k=30, method="herding", random_state=0)
    updated = update_in_steps(first, X[:1200], Y[:1200], 300)
    updated.save(tmp_path / "picks.parquet")
    again = gm.Selection.load(tmp_path / "picks.parquet")
    assert again == updated
    assert update_in_steps(again, X, Y, 300) == update_in_steps(updated, X, Y, 300)
    assert is_updated_by(again, X[900:1200], Y[900:1200]) and not is_updated_by(again, X[900:1200], Y[:300])
    assert not is_updated_by(first, X[900:1200], Y[900:1200])
    with pytest.raises(gm.GMMatchError, match="was updated"):
        gm.rerun(updated, X, Y)


def test_what_makes_no_sense_is_refused():
    first = gm.select(X[:900], Y[:900], k=30, method="herding", random_state=0)
    picked, plain = first.apply(X[:900]), gm.select(X[:900], k=30, method="herding", random_state=0)
    for arguments, match in (
        ((first, picked[:9], X[900:], Y[900:]), "X_picked has 9 rows, but there are 30 picks"),
        ((first, picked, X[900:, :5], Y[900:]), "X_new has 5 columns and X_picked has 12"),
        ((first, picked, X[900:]), "y_new: the picks are per class"),
        ((first, picked, X[900:], Y[:2]), "2 labels for 600 new rows"),
        ((first, picked, X[900:], TRUTH[900:]), "such as .*, and the classes of the picks are 'a', 'b', 'c'"),
        ((plain, picked, X[900:], Y[900:]), "made without labels"),
    ):
        with pytest.raises(gm.GMMatchError, match=match):
            gm.update(*arguments)
    with pytest.raises(gm.GMMatchError, match="the picks have no ids"):
        gm.update(first, picked, X[900:], Y[900:], ids=range(600))
    scored = gm.select(X[:900], k=30, method="by-score", scores=np.arange(900.0))
    with pytest.raises(gm.GMMatchError, match="made with scores="):
        gm.update(scored, scored.apply(X[:900]), X[900:])
