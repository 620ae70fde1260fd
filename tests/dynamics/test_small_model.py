"""The proxy that is trained on the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.dynamics import small_model  # noqa: E402
from gmmatch.dynamics.gradients import grand_scores  # noqa: E402
from gmmatch.dynamics.small_model import SmallTask, side_by_side, train_small_model  # noqa: E402
from gmmatch.rows.rows import Rows  # noqa: E402
from gmmatch.scores.softmax_regression import FARTHEST, Standardization  # noqa: E402

RNG = np.random.default_rng(0)
Y = np.arange(400) % 4
X = RNG.normal(size=(4, 6))[Y] * 2.0 + RNG.normal(size=(400, 6))


def task(X=X, y=Y, weights=None):
    return SmallTask.of(Rows(X), y, np.ones(len(X)) if weights is None else weights, int(y.max()) + 1)


def accuracy(model, data):
    with torch.no_grad():
        right = [(model(inputs).argmax(dim=1) == codes).float() for inputs, codes in data.in_order()]
    return float(torch.cat(right).mean())


@pytest.mark.parametrize(("hidden", "least"), [(0, 0.85), (32, 0.85)])
def test_it_learns(hidden, least):
    assert accuracy(train_small_model(task(), hidden=hidden, epochs=10, seed=0), task()) > least


def test_a_hidden_layer_learns_what_none_cannot():
    """Two classes that no line tells apart."""
    corners = RNG.normal(size=(400, 2))
    data = task(corners, (corners.prod(axis=1) > 0).astype(np.int64))
    straight, bent = (train_small_model(data, hidden=hidden, epochs=40, seed=0) for hidden in (0, 64))
    assert accuracy(bent, data) > accuracy(straight, data) + 0.2


def test_the_same_seed_gives_the_same_model_and_another_does_not():
    first, again, other = (train_small_model(task(), hidden=8, epochs=2, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(*pair) for pair in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.head.weight, other.head.weight)


def test_an_epoch_presents_every_row_once_whatever_the_parts(monkeypatch):
    for elements in (1 << 23, 600):
        monkeypatch.setattr(small_model, "_PART_ELEMENTS", elements)
        data = task()
        batches = list(data.shuffled(np.random.default_rng(0)))
        rows = np.concatenate([positions for positions, *_ in batches])
        assert sorted(rows) == list(range(400))
        assert not np.array_equal(rows, np.arange(400))
        for positions, inputs, codes, weights in batches:
            assert np.array_equal(codes.numpy(), Y[positions])
            expected = data.scale.take(data.rows, positions)
            assert inputs.numpy() == pytest.approx(expected, rel=1e-6)
            assert len(weights) == len(positions) <= data.batch_size


def test_observing_sees_logits_before_the_step_that_learns_from_them():
    seen = []
    train_small_model(
        task(), hidden=4, epochs=2, seed=0,
        observe=lambda rows, logits, codes: seen.append((rows, logits.detach().clone(), codes)),
    )  # fmt: skip
    steps = -(-400 // task().batch_size)
    assert len(seen) == 2 * steps
    untrained = train_small_model(task(), hidden=4, epochs=0, seed=0)
    rows, logits, _ = seen[0]
    inputs = torch.from_numpy(task().scale.take(Rows(X), rows)).float()
    assert torch.allclose(untrained(inputs), logits, atol=1e-6)


def test_rows_without_weight_are_not_learnt():
    """A class whose rows do not count is never predicted."""
    weights = np.where(Y == 2, 0.0, 1.0)
    model = train_small_model(task(weights=weights), hidden=16, epochs=10, seed=0)
    with torch.no_grad():
        predicted = torch.cat([model(inputs).argmax(dim=1) for inputs, _ in task(weights=weights).in_order()])
    assert 2 not in predicted.tolist()
    assert 2 in Y


def test_outliers_do_not_throw_it_off():
    wild = X.copy()
    wild[::40] = 1e12
    model = train_small_model(task(wild), hidden=16, epochs=10, seed=0)
    assert all(bool(torch.isfinite(value).all()) for value in model.parameters())
    tame = task(wild)
    inputs, _ = next(tame.in_order())
    assert float(inputs.abs().max()) <= FARTHEST


def test_standardised_rows_have_mean_zero_and_deviation_one_and_constant_columns_none():
    columns = np.c_[X, np.full(400, 1e9), X[:, :1] * 1e-6 + 5.0]
    weights = RNG.uniform(0.5, 2.0, 400)
    scale = Standardization.of(Rows(columns), weights)
    found = scale.take(Rows(columns), np.arange(400))
    assert np.average(found, axis=0, weights=weights) == pytest.approx(np.zeros(8), abs=1e-6)
    spread = np.average(found**2, axis=0, weights=weights)
    assert spread == pytest.approx([1, 1, 1, 1, 1, 1, 0, 1], abs=1e-3)


def test_threads_of_torch_are_one_inside_and_as_before_outside():
    before = torch.get_num_threads()
    assert side_by_side(lambda _: torch.get_num_threads(), 3, threads=2) == [1, 1, 1]
    assert torch.get_num_threads() == before
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda _: 1 // 0, 1, threads=1)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("hidden", [0, 7])
def test_grand_of_the_proxy_in_closed_form_is_that_of_per_sample_gradients(hidden):
    data = task()
    model = train_small_model(data, hidden=hidden, epochs=2, seed=0)
    inputs, codes = next(data.in_order())
    found = model.gradient_lengths(inputs, codes).detach().numpy()
    assert found == pytest.approx(grand_scores(model, data.in_order(), "all"), rel=1e-4)
