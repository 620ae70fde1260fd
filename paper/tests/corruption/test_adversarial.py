"""Attacks on models: inside the ball, worse than before, and exact where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

torch = pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")

from gmmatch.errors import InvalidInputError, InvalidTypeError  # noqa: E402
from gmmatch_paper.corruption import FGSM, PGD  # noqa: E402

ATTACKS = {
    "pgd": PGD(epsilon=0.15, iterations=8, seed=0),
    "fgsm": FGSM(epsilon=0.15),
}


@pytest.fixture(scope="module")
def digits():
    images, labels = load_digits(return_X_y=True)
    return torch.tensor(images / 16.0, dtype=torch.float32), torch.tensor(labels)


@pytest.fixture(scope="module")
def trained(digits):
    """A small network with dropout and batch normalisation, trained on the digits."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 48),
        torch.nn.BatchNorm1d(48),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(48, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(digits[0]), digits[1]).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model.eval()


def accuracy(model, images, labels) -> float:
    with torch.no_grad():
        return float((model(images).argmax(dim=1) == labels).float().mean())


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_attacks_stay_inside_the_ball_and_lower_the_accuracy(attack, digits, trained):
    images, labels = digits
    before = images.clone()
    result = attack.apply(images, labels, trained)
    assert torch.equal(images, before)
    assert float((result.data - images).abs().max()) <= 0.15 + 1e-6
    assert float(result.data.min()) >= 0.0 and float(result.data.max()) <= 1.0
    assert accuracy(trained, images, labels) > 0.95
    assert accuracy(trained, result.data, labels) < 0.5
    assert result.counts == {attack.name: len(images)}


def test_a_linear_model_of_two_classes_has_a_closed_form():
    random = np.random.default_rng(0)
    model = torch.nn.Linear(20, 2)
    images = torch.tensor(random.random((50, 4, 5)), dtype=torch.float32)
    labels = torch.tensor(random.integers(0, 2, 50))
    # Away from the true class w_y: the gradient's sign is the same everywhere.
    weights = model.weight.detach()
    signs = (weights[1 - labels] - weights[labels]).sign().reshape(50, 4, 5)
    expected = (images + 0.2 * signs).clamp(0.0, 1.0)
    flat = torch.nn.Sequential(torch.nn.Flatten(), model)
    attack = PGD(epsilon=0.2, step=0.05, iterations=8)
    assert torch.allclose(attack.apply(images, labels, flat).data, expected, atol=1e-6, rtol=0.0)
    one_step = FGSM(epsilon=0.2).apply(images, labels, flat).data
    assert torch.allclose(one_step, expected, atol=1e-6, rtol=0.0)


def test_only_a_share_is_attacked_and_batches_make_no_difference(digits, trained):
    images, labels = digits[0][:101], digits[1][:101]
    results = [
        PGD(epsilon=0.1, rate=0.3, batch_size=size, seed=2).apply(images, labels, trained) for size in (7, 64)
    ]
    assert results[0].mask.sum() == 30
    assert torch.equal(results[0].data[~results[0].mask], images[~results[0].mask])
    # A model may round differently in other batches, and where a gradient is about 0 its sign then differs.
    differs = (results[0].data - results[1].data).abs() > 1e-5
    assert float(differs.float().mean()) < 0.01
    again = PGD(epsilon=0.1, rate=0.3, batch_size=64, seed=2).apply(images, labels, trained)
    assert torch.equal(again.data, results[1].data)
    other = PGD(epsilon=0.1, rate=0.3, batch_size=64, seed=3).apply(images, labels, trained)
    assert not np.array_equal(other.mask, again.mask)


def test_the_model_is_left_as_it_was(digits, trained):
    trained.train()
    trained[3].eval()  # of some parts only
    trained[0].weight.requires_grad_(False)
    state = {name: value.clone() for name, value in trained.state_dict().items()}
    try:
        with torch.no_grad():
            PGD(iterations=2).apply(digits[0][:64], digits[1][:64], trained)
        assert [part.training for part in trained.modules()] == [True, True, True, True, False, True]
        assert all(parameter.grad is None for parameter in trained.parameters())
        assert [parameter.requires_grad for parameter in trained.parameters()][:2] == [False, True]
        assert all(torch.equal(value, state[name]) for name, value in trained.state_dict().items())
    finally:
        trained[0].weight.requires_grad_(True)
        trained.eval()


def test_arrays_come_back_as_arrays_and_inference_mode_is_no_obstacle(digits, trained):
    images, labels = digits[0][:32], digits[1][:32]
    expected = FGSM(epsilon=0.1).apply(images, labels, trained).data
    found = FGSM(epsilon=0.1).apply(images.double().numpy(), labels.numpy(), trained).data
    assert isinstance(found, np.ndarray) and found.dtype == np.float64
    assert np.abs(found - expected.numpy()).max() < 1e-6
    with torch.inference_mode():
        inside = FGSM(epsilon=0.1).apply(images.clone(), labels, trained).data
    assert torch.equal(inside, expected)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda images, labels, model: PGD(epsilon=-1.0), InvalidInputError, "epsilon=-1.0"),
        (lambda images, labels, model: PGD(step=0.0), InvalidInputError, "step=0.0"),
        (lambda images, labels, model: PGD(iterations=0), InvalidInputError, "iterations=0"),
        (lambda images, labels, model: FGSM(batch_size=0), InvalidInputError, "batch_size=0"),
        (lambda images, labels, model: FGSM().apply(images * 3, labels, model), InvalidInputError, "0 to 1"),
        (lambda images, labels, model: FGSM().apply(images, labels[:3], model), InvalidInputError, "shape"),
        (
            lambda images, labels, model: FGSM().apply(images, labels.float(), model),
            InvalidInputError,
            "float",
        ),
        (lambda images, labels, model: FGSM().apply(images.int(), labels, model), InvalidTypeError, "int32"),
    ],
)
def test_what_cannot_be_done_is_explained(make, error, message, digits, trained):
    with pytest.raises(error, match=message):
        make(*digits, trained)
