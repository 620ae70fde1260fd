"""The baselines as methods of gmmatch: what they keep, and what they accept."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch.errors import InvalidInputError, UnlabeledRowsWarning
from gmmatch.rows.array import ArrayRows
from gmmatch_paper.baselines.softmax_regression import SoftmaxRegression

pytest.importorskip("torch")

TRAINED = ("el2n", "forgetting", "grand")
NEEDS_LABELS = (*TRAINED, "optimization")
ALL = (*NEEDS_LABELS, "self-supervised")

RNG = np.random.default_rng(0)
Y = np.arange(90) % 3
X = RNG.normal(size=(3, 5))[Y] + RNG.normal(size=(90, 5))


def select(method, X=X, y=Y, **options):
    small = {"epochs": 2, "runs": 1} if method in TRAINED else {}
    return gm.select(X, y, method=method, **{"k": 30, "random_state": 0, **small, **options})


@pytest.fixture(scope="module")
def noisy_digits():
    """Digits of which a fifth have a wrong label."""
    X, true = load_digits(return_X_y=True)
    random = np.random.default_rng(0)
    wrong = random.permutation(len(true)) < len(true) // 5
    return X, np.where(wrong, (true + random.integers(1, 10, len(true))) % 10, true), wrong


# ------------------------------------------------------------------------------------ what they keep


@pytest.mark.parametrize("method", TRAINED)
def test_wrong_labels_look_difficult(method, noisy_digits):
    """Made for clean data, these keep mostly rows with a wrong label."""
    X, y, wrong = noisy_digits
    epochs = {"epochs": 8} if method == "forgetting" else {"epochs": 3}
    kept = select(method, X, y, k="20%", **epochs).indices
    assert len(kept) == round(0.2 * len(X))
    assert wrong[kept].mean() > 3 * wrong.mean()


def test_optimization_keeps_the_parameters_where_they_were(noisy_digits):
    """A regression on the picks is nearer to the one on all rows than one on random rows is."""
    X, y, _ = noisy_digits
    X, y = X[:600], y[:600]
    kept = select("optimization", X, y, k="50%", strength=0.05)
    model = kept.provenance["model"]
    assert (model["hessian"], model["projected"]) == ("exact", False)
    logits = {}
    regression = SoftmaxRegression.of(ArrayRows(X), y, np.ones(600), 10, strength=0.05)
    masks = {"all": np.ones(600), "kept": kept.mask, "random": select("random", X, y, k="50%").mask}
    for name, mask in masks.items():
        parameters = regression.reweight(mask * 1.0).fit(gradient_tolerance=1e-4)
        logits[name] = regression.rows.take(np.arange(600)) @ parameters[:, :-1].T + parameters[:, -1]
    moved = {name: np.linalg.norm(logits[name] - logits["all"]) for name in ("kept", "random")}
    assert moved["kept"] < 0.9 * moved["random"]


def test_self_supervised_keeps_rows_that_are_like_no_others(noisy_digits):
    X, y, _ = noisy_digits
    random = np.random.default_rng(1)
    odd = random.permutation(len(X)) < len(X) // 10
    polluted = np.where(odd[:, None], random.uniform(0, 16, X.shape), X)
    kept = select("self-supervised", polluted, y, k="20%")
    assert odd[kept.indices].mean() > 3 * odd.mean()
    assert kept.provenance["model"]["prototypes"] == 10


# --------------------------------------------------------------------------------------------- labels


@pytest.mark.parametrize("method", NEEDS_LABELS)
def test_without_labels_the_error_says_what_is_missing(method):
    with pytest.raises(InvalidInputError, match=rf"'{method}' requires y to be passed.*Pass y"):
        select(method, y=None)


def test_self_supervised_works_without_labels():
    assert select("self-supervised", y=None).provenance["model"]["prototypes"] == 10
    assert select("self-supervised", y=None, n_clusters=4).provenance["model"]["prototypes"] == 4
    assert select("self-supervised").provenance["model"]["prototypes"] == 3


@pytest.mark.parametrize("method", NEEDS_LABELS)
def test_a_single_class_has_nothing_to_learn(method):
    selection = select(method, y=np.zeros(90, dtype=int), k=7)
    assert selection.order.tolist() == list(range(7))
    assert "single class" in selection.provenance["model"]["proxy"]


@pytest.mark.parametrize("method", NEEDS_LABELS)
def test_rows_without_a_label_are_not_learned_from_and_cannot_be_picked(method):
    some = Y.astype(float)
    some[:30] = np.nan
    with pytest.warns(UnlabeledRowsWarning):
        selection = select(method, y=some, k=12)
    assert selection.indices.min() >= 30
    moved = X.copy()
    moved[:30] += 100.0
    with pytest.warns(UnlabeledRowsWarning):
        np.testing.assert_array_equal(select(method, moved, some, k=12).order, selection.order)
    with pytest.raises(InvalidInputError, match=r"Row 0 and 29 more have no .*no label.*unlabeled='drop'"):
        select(method, y=some, unlabeled="group")


# ------------------------------------------------------------------------------ what all methods take


@pytest.mark.parametrize("method", ALL)
def test_include_exclude_quotas_and_ids(method):
    include, exclude = [70, 3, 41], list(range(10, 30))
    ids = [f"row-{number}" for number in range(90)]
    selection = select(method, include=include, exclude=exclude, ids=ids)
    assert set(selection.order[:3].tolist()) == set(include)
    assert selection.k == len(set(selection.order.tolist())) == 30
    assert not set(selection.indices) & set(exclude)
    assert list(selection.ids) == [f"row-{row}" for row in selection.indices]


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("kind", ["files", "tensor"])
def test_every_backend_gives_the_same_picks(method, kind, tmp_path):
    if kind == "files":
        np.save(tmp_path / "x.npy", X)
        source = str(tmp_path / "x.npy")
    else:
        source = pytest.importorskip("torch").from_numpy(X)
    np.testing.assert_array_equal(select(method, source).order, select(method).order)


@pytest.mark.parametrize("method", ALL)
def test_the_seed_decides(method):
    first = select(method, k=20)
    np.testing.assert_array_equal(select(method, k=20).order, first.order)
    options = {"n_clusters": 12} if method == "self-supervised" else {}
    picks = {tuple(select(method, k=20, random_state=seed, **options).order) for seed in range(3)}
    assert len(picks) > 1


@pytest.mark.parametrize("method", NEEDS_LABELS)
def test_weights_count_by_their_proportions(method):
    weights = RNG.uniform(0.1, 5.0, size=90)
    first = select(method, sample_weight=weights)
    assert not np.array_equal(first.order, select(method).order)
    np.testing.assert_array_equal(select(method, sample_weight=weights * 64.0).order, first.order)


@pytest.mark.parametrize("method", TRAINED)
def test_torch_and_the_global_generators_are_left_as_they_were(method):
    import torch

    state, threads = torch.get_rng_state(), torch.get_num_threads()
    global_numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    select(method)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(np.random.get_state()[1], global_numpy)  # noqa: NPY002


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("el2n", {"epochs": 0}, "epochs=0: expected a whole number of at least 1"),
        ("el2n", {"runs": 1.5}, "runs=1.5"),
        ("forgetting", {"hidden": -1}, "hidden=-1: expected a whole number of at least 0"),
        ("optimization", {"strength": 0.0}, "strength=0.0: expected a finite number above 0"),
        ("optimization", {"sweeps": -1}, "sweeps=-1"),
        ("self-supervised", {"n_clusters": 0}, "n_clusters=0"),
    ],
)
def test_wrong_options_are_named(method, options, message):
    with pytest.raises(InvalidInputError, match=message):
        select(method, **options)


def test_rows_that_are_never_learned_count_as_toneva_or_as_deepcore_has_it() -> None:
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    X = random.normal(0.0, 0.3, (120, 4)) + 3.0 * y[:, None]
    wrong = np.arange(10, 120, 24)
    y[wrong] = 1 - y[wrong]
    most, none = (
        gm.select(X, y, k=5, method="forgetting", per_class=None, never_learned=value, random_state=0).indices
        for value in ("most", "none")
    )
    assert set(most) == set(wrong.tolist())
    assert not set(none) & set(wrong.tolist())
