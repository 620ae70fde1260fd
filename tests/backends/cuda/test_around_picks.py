"""Weights, swaps, references, curves and updates of a CUDA tensor, as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device on this machine", allow_module_level=True)

import gmmatch as gm  # noqa: E402

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((3000, 16)) + 2.0 * np.eye(3, 16)[np.arange(3000) % 3]).astype(np.float32)
Y = np.arange(3000) % 3
THERE = torch.from_numpy(X).cuda()
METHODS = ("herding", "gm-matching", "kernel-herding", "robust")


def alike(here, there):
    """The same picks but for a few, where two rows score the same to rounding, and about the same residuals."""
    assert np.mean(np.isin(here.indices, there.indices)) > 0.9
    assert list(there.residual.values()) == pytest.approx(list(here.residual.values()), rel=0.2, abs=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_weights_and_swaps(method):
    asked = {"y": Y, "k": 120, "method": method, "weights": True, "refine": 2, "random_state": 0}
    here, there = gm.select(X, **asked), gm.select(THERE, **asked)
    alike(here, there)
    for group in there.groups:
        assert there.weights[there.labels == group.label].sum() == pytest.approx(group.n_rows)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_a_reference_on_either_side(method, weight):
    Z = X[:200] + 0.5
    asked = {"y": Y, "k": 120, "method": method, "reference_weight": weight, "random_state": 0}
    here = gm.select(X, reference=Z, **asked)
    alike(here, gm.select(THERE, reference=Z, **asked))
    alike(here, gm.select(THERE, reference=torch.from_numpy(Z).cuda(), **asked))


@pytest.mark.parametrize("method", ["herding", "gm-matching", "robust"])
def test_updates(method):
    asked = {"k": 90, "method": method, "updatable": True, "random_state": 0}
    here = gm.select(X[:2000], y=Y[:2000], **asked).update(X[2000:], Y[2000:])
    there = gm.select(THERE[:2000], y=Y[:2000], **asked).update(THERE[2000:], Y[2000:])
    assert there.n_rows == 3000 and there.past.masses == pytest.approx(here.past.masses, rel=1e-3)
    assert there.past.points == pytest.approx(here.past.points, abs=1e-3)
    alike(here, there)


def test_a_budget_curve():
    here, there = (gm.budget_curve(rows, Y, sizes=[60, 300], repeats=2) for rows in (X, THERE))
    for one, other in zip(here.points, there.points, strict=True):
        assert other.moment_error == pytest.approx(one.moment_error, rel=0.2)
        assert other.accuracy == pytest.approx(one.accuracy, abs=0.03)
