"""The small model that is trained on the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.rows.array import ArrayRows  # noqa: E402
from gmmatch_paper.baselines import small_model  # noqa: E402
from gmmatch_paper.baselines.small_model import TrainingSet, train_small_model  # noqa: E402
from gmmatch_paper.baselines.softmax_regression import FARTHEST, Standardize  # noqa: E402

RNG = np.random.default_rng(0)
Y = np.arange(400) % 4
X = RNG.normal(size=(4, 6))[Y] * 2.0 + RNG.normal(size=(400, 6))


def training_set(X=X, y=Y, weights=None):
    rows, weights = ArrayRows(X), np.ones(len(X)) if weights is None else weights
    mapped = rows.map(Standardize.fit(rows, weights, dtype="float32"))
    return TrainingSet(mapped, np.arange(len(X)), y, weights / weights.mean(), int(y.max()) + 1)


def accuracy(model, data):
    with torch.no_grad():
        correct = [(model(inputs).argmax(dim=1) == codes).float() for inputs, codes in data.in_order()]
    return float(torch.cat(correct).mean())


@pytest.mark.parametrize("hidden", [0, 32])
def test_it_learns(hidden):
    data = training_set()
    assert accuracy(train_small_model(data, hidden=hidden, epochs=10, seed=0), data) > 0.85


@pytest.mark.parametrize("elements", [1 << 23, 600])
def test_an_epoch_presents_every_row_once_in_any_number_of_chunks(elements, monkeypatch):
    monkeypatch.setattr(small_model, "_CHUNK_ELEMENTS", elements)
    data = training_set()
    batches = list(data.shuffled(np.random.default_rng(0)))
    rows = np.concatenate([positions for positions, *_ in batches])
    assert sorted(rows) == list(range(400))
    assert not np.array_equal(rows, np.arange(400))
    for positions, inputs, codes, weights in batches:
        np.testing.assert_array_equal(codes.numpy(), Y[positions])
        np.testing.assert_array_equal(inputs.numpy(), data.rows.take(positions))
        assert len(weights) == len(positions) <= data.batch_size


def test_rows_without_weight_are_not_learned():
    data = training_set(weights=np.where(Y == 2, 0.0, 1.0))
    model = train_small_model(data, hidden=16, epochs=10, seed=0)
    with torch.no_grad():
        predicted = torch.cat([model(inputs).argmax(dim=1) for inputs, _ in data.in_order()])
    assert 2 not in predicted.tolist()


def test_outliers_do_not_throw_it_off():
    wild = X.copy()
    wild[::40] = 1e12
    data = training_set(wild)
    model = train_small_model(data, hidden=16, epochs=5, seed=0)
    assert all(bool(torch.isfinite(value).all()) for value in model.parameters())
    inputs, _ = next(data.in_order())
    assert float(inputs.abs().max()) <= FARTHEST


@pytest.mark.parametrize("hidden", [0, 7])
def test_el2n_and_grand_are_what_autograd_says_row_by_row(hidden):
    data = training_set()
    model = train_small_model(data, hidden=hidden, epochs=2, seed=0)
    inputs, codes = next(data.in_order())
    el2n, grand = model.el2n(data.in_order()), model.gradient_lengths(data.in_order())
    for row in range(0, 400, 20):
        logits = model(inputs[row : row + 1])
        logits.retain_grad()
        model.zero_grad()
        torch.nn.functional.cross_entropy(logits, codes[row : row + 1]).backward()
        length = sum(float(value.grad.square().sum()) for value in model.parameters()) ** 0.5
        assert el2n[row] == pytest.approx(float(logits.grad.norm()), rel=1e-4)
        assert grand[row] == pytest.approx(length, rel=1e-4)
