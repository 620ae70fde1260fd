"""The methods that learn from all rows before they pick: what they keep, and what they accept."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
from method_kinds import MODEL_BASED, NEEDS_LABELS, NEEDS_TORCH, RUNNABLE
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch.errors import (
    DataFileNotFoundError,
    InvalidInputError,
    MissingDependencyError,
    UnlabeledRowsWarning,
)

model_based = pytest.mark.parametrize("method", [name for name in MODEL_BASED if name in RUNNABLE])
trained = pytest.mark.parametrize("method", [name for name in NEEDS_TORCH if name in RUNNABLE])
by_score = pytest.mark.parametrize("method", [name for name in MODEL_BASED if name != "optimization"])

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = RNG.normal(size=(3, 5))[Y] + RNG.normal(size=(90, 5))


def select(method, X=X, y=Y, **options):
    return gm.select(X, y=y, method=method, random_state=0, **{"k": 30, **options})


@pytest.fixture(scope="module")
def noisy_digits():
    """Digits of which a fifth have a wrong label."""
    X, true = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    flipped = random.permutation(len(true)) < len(true) // 5
    given = np.where(flipped, (true + random.integers(1, 10, len(true))) % 10, true)
    return X, given, flipped


@pytest.fixture(scope="module")
def pictures():
    """28 by 28 pixels: a blob that lies elsewhere in each class, with noise."""
    random = np.random.default_rng(0)
    y = np.arange(500) % 10
    rows, columns = np.mgrid[:28, :28]
    angle = 2 * np.pi * y[:, None, None] / 10 + random.normal(scale=0.15, size=(500, 1, 1))
    away = (rows - 13.5 - 8 * np.sin(angle)) ** 2 + (columns - 13.5 - 8 * np.cos(angle)) ** 2
    images = 200 * np.exp(-away / 18) + random.normal(scale=25, size=(500, 28, 28))
    return np.clip(images, 0, 255).astype(np.uint8).reshape(500, -1), y


# ------------------------------------------------------------------------------------ what they keep


@trained
def test_wrong_labels_are_difficult(method, noisy_digits):
    """Made for clean data, these keep mostly rows with a wrong label; easy keeps hardly any."""
    X, y, wrong = noisy_digits
    kept = select(method, X, y, k="20%").indices
    assert len(kept) == round(0.2 * len(X))
    assert wrong[kept].mean() > 3 * wrong.mean()
    assert wrong[select("easy", X, y, k="20%").indices].mean() < 0.25 * wrong.mean()


def test_grand_of_the_last_layer_and_of_all_agree_on_most_rows(noisy_digits):
    pytest.importorskip("torch")
    X, y, _ = noisy_digits
    every, last = (select("grand", X, y, k="20%", parameters=which) for which in ("all", "last-layer"))
    shared = len(set(every.indices) & set(last.indices)) / every.k
    assert 0.6 < shared < 1.0


def test_optimization_keeps_the_parameters_where_they_were(noisy_digits):
    """A regression on what is kept is nearer to the one on all rows than one on random rows is."""
    from gmmatch.rows import Rows
    from gmmatch.scores.softmax_regression import SoftmaxRegression

    X, y, _ = noisy_digits

    def fitted(rows):
        problem = SoftmaxRegression.of(Rows(X), y, np.isin(np.arange(len(X)), rows) * 1.0, 10, 0.05)
        return problem.scale, problem.fit()

    whole = select("optimization", X, y, k="50%", strength=0.05)
    record = whole.provenance["model"]
    assert record["summed_influence"] < 0.5 * record["summed_influence_at_random"]
    assert (record["hessian"], record["projected"]) == ("exact", False)
    scores = {}
    for name, rows in {
        "all": np.arange(len(X)),
        "kept": whole.indices,
        "random": select("random", X, y, k="50%").indices,
    }.items():
        scale, parameters = fitted(rows)
        inputs = np.c_[scale.take(Rows(X), np.arange(len(X))), np.ones(len(X))]
        scores[name] = inputs @ parameters.T
    moved = {name: np.linalg.norm(scores[name] - scores["all"]) for name in ("kept", "random")}
    assert moved["kept"] < 0.9 * moved["random"]


def test_self_supervised_keeps_what_is_like_nothing_else(noisy_digits):
    X, y, _ = noisy_digits
    random = np.random.default_rng(1)
    odd = random.permutation(len(X)) < len(X) // 10
    polluted = np.where(odd[:, None], random.uniform(0, 16, X.shape), X)
    kept = select("self-supervised", polluted, y, k="20%")
    assert odd[kept.indices].mean() > 3 * odd.mean()
    assert kept.provenance["model"]["prototypes"] == 10


@model_based
def test_pictures_of_28_by_28_pixels(method, pictures):
    X, y = pictures
    selection = select(method, X, y, k=100)
    assert selection.counts == dict.fromkeys(range(10), 10)
    assert selection == select(method, X, y, k=100)
    assert not np.array_equal(selection.indices, np.arange(100))
    if method == "optimization":  # 7,850 parameters
        record = selection.provenance["model"]
        assert (record["hessian"], record["projected"], record["dimensions"]) == ("kronecker", True, 1024)
        assert record["summed_influence"] < 0.7 * record["summed_influence_at_random"]


# ---------------------------------------------------------------------------------- scores of one's own


@by_score
@pytest.mark.parametrize("y", [None, Y], ids=["no labels", "labels"])
def test_scores_are_ranked_from_the_top_with_ties_to_the_lowest_row(method, y):
    scores = RNG.integers(0, 6, 90).astype(float)
    selection = gm.select(X, y=y, k=30, method=method, scores=scores)
    for group in selection.groups:
        mine = np.arange(90) if group.label is None else np.flatnonzero(group.label == Y)
        expected = sorted(mine, key=lambda row: (-scores[row], row))[: len(group.order)]
        assert group.order.tolist() == expected


@by_score
def test_shuffled_rows_give_shuffled_picks_for_the_same_scores(method):
    scores = RNG.permutation(90).astype(float)
    order = RNG.permutation(90)
    straight = gm.select(X, y=Y, k=30, method=method, scores=scores)
    shuffled = gm.select(X[order], y=Y[order], k=30, method=method, scores=scores[order])
    for one, other in zip(straight.groups, shuffled.groups, strict=True):
        assert np.array_equal(order[other.order], one.order)


def test_scores_need_no_torch_no_labels_and_may_be_a_file_or_a_tensor(tmp_path, monkeypatch):
    scores = RNG.permutation(90).astype(float)
    expected = np.argsort(-scores)[:30]
    np.save(tmp_path / "scores.npy", scores)
    assert np.array_equal(select("el2n", y=None, scores=str(tmp_path / "scores.npy")).order, expected)
    if "el2n" in RUNNABLE:
        import torch

        assert np.array_equal(select("el2n", y=None, scores=torch.from_numpy(scores)).order, expected)
    monkeypatch.setitem(sys.modules, "torch", None)
    found = select("el2n", y=None, scores=scores.tolist())
    assert np.array_equal(found.order, expected)
    assert found.provenance["parameters"]["scores"] == "given"  # and not 90 numbers
    assert found.provenance["model"]["scores"] == "given"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scores": [1.0, 2.0]}, r"scores has shape \(2,\): expected \(90,\), one number per row"),
        ({"scores": ["a"] * 90}, "scores must be one number per row"),
        ({"scores": np.r_[np.nan, np.ones(89)]}, "Row 0 and 0 more have no el2n score"),
        ({"scores": np.ones(90), "dynamics": gm.Dynamics(90)}, "scores and dynamics are both given"),
        ({"dynamics": gm.Dynamics(80)}, "dynamics is of 80 rows, but X has 90"),
        ({"dynamics": np.ones(90)}, r"dynamics must be a gmmatch.Dynamics, a list of them, or the path"),
        ({"dynamics": []}, "dynamics must be"),
        ({"epochs": 0}, "epochs=0: expected a whole number of at least 1"),
        ({"runs": 1.5}, "runs=1.5"),
        ({"hidden": -1}, "hidden=-1: expected a whole number of at least 0"),
    ],
)
def test_wrong_options_of_the_rankings(options, message):
    with pytest.raises(InvalidInputError, match=message):
        select("el2n", **options)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("grand", {"parameters": "some"}, 'parameters=\'some\': expected "all" or "last-layer"'),
        ("self-supervised", {"n_clusters": 0}, "n_clusters=0: expected a whole number of at least 1"),
        ("optimization", {"strength": 0.0}, r"strength=0.0: expected a finite number above 0"),
        ("optimization", {"sweeps": -1}, "sweeps=-1"),
        ("optimization", {"memory_limit": "1GB"}, "memory_limit='1GB'"),
        ("optimization", {"vectors": np.ones((3, 2))}, r"vectors has shape \(3, 2\): expected \(90, m\)"),
        ("optimization", {"vectors": np.full((90, 2), np.nan)}, "vectors has NaN or infinity in row 0"),
    ],
)
def test_wrong_options_of_the_others(method, options, message):
    with pytest.raises(InvalidInputError, match=message):
        select(method, **options)


def test_files_that_are_not_there():
    for options in ({"scores": "nothing.npy"}, {"dynamics": "nothing.npz"}):
        with pytest.raises(DataFileNotFoundError, match="there is no such file"):
            select("el2n", **options)


# ------------------------------------------------------------------------------------------ recordings


def record(scores, steps=4):
    """A recording in which EL2N rises with the score."""
    recorder = gm.Dynamics(len(scores))
    for _ in range(steps):
        logits = np.zeros((len(scores), 3))
        logits[np.arange(len(scores)), Y] = -scores
        recorder.update(np.arange(len(scores)), logits, Y, features=np.ones((len(scores), 2)))
        recorder.end_epoch()
    return recorder


@pytest.mark.parametrize("method", ["el2n", "grand"])
def test_a_recording_is_ranked_like_its_scores(method, tmp_path):
    scores = RNG.permutation(90) / 30.0
    recorder = record(scores)
    expected = np.argsort(-scores)[:30]
    recorder.save(tmp_path / "run.npz")
    for dynamics in (recorder, [recorder, record(scores)], str(tmp_path / "run.npz")):
        found = gm.select(X, k=30, method=method, dynamics=dynamics)
        assert np.array_equal(found.order, expected)
    assert found.provenance["parameters"]["dynamics"] == str(tmp_path / "run.npz")


def test_forgetting_takes_the_never_learnt_first_then_the_most_forgotten():
    recorder = gm.Dynamics(4)
    for right in ([1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 0], [1, 0, 0, 1]):
        recorder.update([0, 1, 2, 3], [[2.0 * mark, 1.0] for mark in right], [0, 0, 0, 0])
    assert gm.select(X[:4], k=4, method="forgetting", dynamics=recorder).order.tolist() == [1, 2, 3, 0]


def test_a_row_that_was_never_recorded_must_be_left_out():
    recorder = gm.Dynamics(5)
    recorder.update([0, 1, 2, 3], [[1.0, 0.0], [0.0, 1.0], [2.0, 0.0], [0.0, 3.0]], [0, 0, 0, 0])
    with pytest.raises(
        InvalidInputError, match=r"Row 4 and 0 more have no el2n score.*never recorded.*exclude"
    ):
        gm.select(X[:5], k=2, method="el2n", dynamics=recorder)
    assert gm.select(X[:5], k=2, method="el2n", dynamics=recorder, exclude=[4]).order.tolist() == [3, 1]


# ---------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("method", NEEDS_LABELS)
def test_without_labels_the_error_says_what_is_missing(method):
    with pytest.raises(InvalidInputError, match=r"requires y to be passed.*Pass y, or (scores|vectors)="):
        select(method, y=None)


def test_self_supervised_works_without_labels():
    assert select("self-supervised", y=None).provenance["model"]["prototypes"] == 10
    assert select("self-supervised", y=None, n_clusters=4).provenance["model"]["prototypes"] == 4
    assert select("self-supervised").provenance["model"]["prototypes"] == 3


@pytest.mark.parametrize("method", [name for name in NEEDS_LABELS if name in RUNNABLE])
def test_labels_are_learnt_also_where_all_classes_are_picked_from_together(method):
    together = select(method, per_class=None)
    assert together.counts == {None: 30}
    assert together.provenance["model"]["classes"] == 3
    names = np.array(["a", "b", "c"])[Y]
    assert np.array_equal(select(method, y=names, per_class=None).order, together.order)
    shuffled = select(method, y=np.random.default_rng(1).permutation(Y), per_class=None)
    assert not np.array_equal(shuffled.indices, together.indices)


@model_based
def test_a_single_class_has_nothing_to_learn(method):
    selection = select(method, y=np.zeros(90, dtype=int), k=7)
    if method == "self-supervised":
        assert selection.k == 7
    else:
        assert selection.order.tolist() == list(range(7))
        assert "single class" in selection.provenance["model"]["proxy"]
    assert select(method, X[:1], [5], k=1).order.tolist() == [0]


@pytest.mark.parametrize("method", [name for name in NEEDS_LABELS if name in RUNNABLE])
def test_rows_without_a_label_are_not_learnt_from_and_cannot_be_picked(method):
    some = Y.astype(float)
    some[:30] = np.nan
    with pytest.warns(UnlabeledRowsWarning):
        selection = select(method, y=some, k=12)
    assert selection.indices.min() >= 30
    moved = X.copy()
    moved[:30] += 100.0
    with pytest.warns(UnlabeledRowsWarning):
        assert np.array_equal(select(method, moved, some, k=12).order, selection.order)
    with pytest.raises(InvalidInputError, match=r"Row 0 and 29 more have no .*no label.*unlabeled='drop'"):
        select(method, y=some, unlabeled="group")


@model_based
def test_equal_rows_with_two_labels_and_odd_labels(method):
    same = np.full((12, 2), 3.3)
    assert select(method, same, np.arange(12) % 2, k=4).counts == {0: 2, 1: 2}
    assert select(method, y=[-1, 1] * 45).counts == {-1: 15, 1: 15}
    assert select(method, y=[True, False] * 45).counts == {False: 15, True: 15}


# ------------------------------------------------------------------------------- what all methods take


@model_based
def test_include_exclude_quotas_and_ids(method):
    include, exclude = [70, 3, 41], list(range(10, 30))
    ids = [f"row-{number}" for number in range(90)]
    selection = select(method, include=include, exclude=exclude, ids=ids, k=30)
    assert selection.order[:3].tolist() == sorted(include)
    assert selection.k == len(set(selection.order.tolist())) == 30
    assert not set(selection.indices) & set(exclude)
    assert selection.ids.tolist() == [f"row-{row}" for row in selection.indices]
    assert select(method, k=None, per_class={0: 5, 2: "10%"}).counts == {0: 5, 1: 0, 2: 3}
    assert select(method, k="100%").indices.tolist() == list(range(90))


@model_based
def test_seeds_and_threads(method):
    first = select(method)
    for n_jobs in (1, 2, None):
        again = select(method, n_jobs=n_jobs)
        assert np.array_equal(again.order, first.order)
    options = {"n_clusters": 12} if method == "self-supervised" else {}
    picks = {
        tuple(gm.select(X, y=Y, k=30, method=method, random_state=seed, **options).order) for seed in range(3)
    }
    assert len(picks) > 1


@model_based
def test_weights_count(method):
    weights = RNG.uniform(0.1, 5.0, size=90)
    first = select(method, sample_weight=weights)
    assert not np.array_equal(first.order, select(method).order) or method == "self-supervised"
    assert np.array_equal(first.order, select(method, sample_weight=weights * 64.0).order)
    with pytest.raises(InvalidInputError, match="sample_weight is 0 for every row of class 1"):
        select(method, sample_weight=(Y != 1) * 1.0)


@model_based
def test_a_step_is_done_before_the_model_learns(method):
    by_hand = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert np.array_equal(select(method, preprocess=["unit"]).order, select(method, by_hand).order)
    assert not np.array_equal(select(method, preprocess=["unit"]).order, select(method).order)


@trained
def test_torch_is_left_as_it_was(method):
    import torch

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    global_numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    select(method, n_jobs=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    assert np.array_equal(np.random.get_state()[1], global_numpy)  # noqa: NPY002


@trained
def test_what_is_recorded(method):
    model = select(method, epochs=3, runs=2, hidden=0).provenance["model"]
    assert (model["proxy"], model["epochs"], model["runs"]) == ("softmax regression", 3, 2)
    assert select(method).provenance["model"]["proxy"] == "one hidden layer of 64"


@pytest.mark.parametrize("method", NEEDS_TORCH)
def test_without_torch_the_error_names_the_extra(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("gmmatch.training.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("gmmatch.training.small_model", raising=False)
    with pytest.raises(MissingDependencyError, match=r'pip install "gmmatch\[torch\]", or pass scores='):
        select(method)


@pytest.mark.parametrize("method", ["optimization", "self-supervised"])
def test_the_others_do_without_torch(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert select(method).k == 30


def test_a_selector_with_scores_or_a_recording_goes_through_pickle():
    scores = RNG.permutation(90).astype(float)
    for options in ({"scores": scores}, {"dynamics": record(scores / 30)}):
        selector = pickle.loads(pickle.dumps(gm.EL2N(k=30, **options)))
        assert np.array_equal(selector.select(X, Y).order, gm.EL2N(k=30, scores=scores).select(X, Y).order)


def test_vectors_of_ones_own_for_optimization():
    vectors = RNG.normal(size=(90, 4))
    selection = gm.select(X, k=30, method="optimization", vectors=vectors, random_state=0)
    at_random = gm.select(X, k=30, method="optimization", vectors=vectors, random_state=0, sweeps=0)
    lengths = [np.linalg.norm(vectors[one.indices].sum(axis=0)) for one in (selection, at_random)]
    record = selection.provenance["model"]
    assert [record["summed_influence"], record["summed_influence_at_random"]] == pytest.approx(
        lengths, rel=1e-3
    )
    assert lengths[0] < 0.2 * lengths[1]
    assert selection.provenance["parameters"]["vectors"] == "given"


def test_less_memory_means_shorter_vectors(noisy_digits):
    X, y, _ = noisy_digits
    found = select("optimization", X, y, k="10%", memory_limit=4 * 100 * len(X)).provenance["model"]
    assert (found["dimensions"], found["projected"], found["hessian"]) == (100, True, "exact")
