"""The methods that learn from all rows before they pick: what they keep, and what they accept."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from method_kinds import MODEL_BASED, NEEDS_LABELS, NEEDS_TORCH, RUNNABLE
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch.errors import InvalidInputError, MissingDependencyError, UnlabeledRowsWarning

model_based = pytest.mark.parametrize("method", [name for name in MODEL_BASED if name in RUNNABLE])
trained = pytest.mark.parametrize("method", [name for name in NEEDS_TORCH if name in RUNNABLE])

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
    from gmmatch.rows.rows import Rows
    from gmmatch.scores.softmax_regression import SoftmaxRegression

    X, y, _ = noisy_digits

    def fitted(rows):
        problem = SoftmaxRegression.of(X, y, np.isin(np.arange(len(X)), rows) * 1.0, 10, 0.05)
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


@pytest.mark.slow
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
    monkeypatch.delitem(sys.modules, "gmmatch.dynamics.small_model", raising=False)
    monkeypatch.delattr("gmmatch.dynamics.small_model", raising=False)
    for name in [name for name in sys.modules if name.startswith("gmmatch.dynamics.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingDependencyError, match=r'pip install ".*\[torch\]", or pass scores='):
        select(method)


@pytest.mark.parametrize("method", ["optimization", "self-supervised"])
def test_the_others_do_without_torch(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert select(method).k == 30


def test_less_memory_means_shorter_vectors(noisy_digits):
    X, y, _ = noisy_digits
    found = select("optimization", X, y, k="10%", memory_limit=4 * 100 * len(X)).provenance["model"]
    assert (found["dimensions"], found["projected"], found["hessian"]) == (100, True, "exact")
