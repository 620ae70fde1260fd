"""EL2N and GraNd of a model against autograd, one row at a time."""

from __future__ import annotations

import copy
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.baselines.gradients import el2n_scores, grand_scores  # noqa: E402


def seeded(make):
    """Make a network whose weights do not depend on other tests, and leave torch's own seed alone."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make()


def multilayer():
    return nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 4))


class Convolutional(nn.Module):
    """With batch normalization, dropout and a last layer that is called ``head``."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 4)
        self.body = nn.Sequential(
            nn.Conv2d(3, 6, 2, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True), nn.Dropout(0.5)
        )

    def forward(self, x):
        return self.head(self.body(x.reshape(len(x), 3, 2, 2)).flatten(1))


MODELS = {
    "multilayer": multilayer,
    "convolutional": Convolutional,
    "without bias": lambda: nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 4, bias=False)),
}


@pytest.fixture(params=MODELS)
def model(request):
    model = seeded(MODELS[request.param])
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):  # statistics as after some training
            module.running_mean += 0.3
            module.running_var *= 2.0
    return model


@pytest.fixture
def data():
    random = torch.Generator().manual_seed(1)
    return torch.randn(23, 12, generator=random), torch.randint(0, 4, (23,), generator=random)


def batches(data, size=8):
    return list(zip(*(part.split(size) for part in data), strict=True))


def one_by_one(model, data, only=None):
    """The length of each row's gradient by plain autograd, in float64."""
    exact = copy.deepcopy(model).double().eval()
    lengths = []
    for x, y in zip(*data, strict=True):
        exact.zero_grad()
        nn.functional.cross_entropy(exact(x[None].double()), y[None]).backward()
        parameters = exact.parameters() if only is None else only(exact).parameters()
        lengths.append(sum(float(value.grad.square().sum()) for value in parameters) ** 0.5)
    return np.array(lengths)


def last(model):
    return [module for module in model.modules() if isinstance(module, nn.Linear)][-1]


def test_el2n_is_the_length_of_the_gradient_by_the_logits(model, data):
    scores = el2n_scores(model, batches(data))
    model.eval()
    for x, y, score in zip(*data, scores, strict=True):
        logits = model(x[None]).detach().double().requires_grad_()
        nn.functional.cross_entropy(logits, y[None]).backward()
        assert score == pytest.approx(float(logits.grad.norm()), rel=1e-5)


def test_grand_of_the_last_layer(model, data):
    head = (lambda model: model.head) if hasattr(model, "head") else last
    assert grand_scores(model, batches(data)) == pytest.approx(one_by_one(model, data, head), rel=1e-5)


@pytest.mark.parametrize("chunk_size", [None, 1, 5])
def test_grand_of_all_parameters(model, data, chunk_size):
    scores = grand_scores(model, batches(data), "all", chunk_size=chunk_size)
    assert scores == pytest.approx(one_by_one(model, data), rel=1e-4)


def test_parameters_that_take_no_gradient_do_not_count(data):
    model = seeded(multilayer)
    for module in (model[0], model[2]):
        module.requires_grad_(False)
    assert grand_scores(model, batches(data), "all") == pytest.approx(
        grand_scores(model, batches(data)), rel=1e-5
    )


def test_the_model_is_left_as_it_was(model, data):
    model.train()
    first = next(module for module in model.modules() if isinstance(module, nn.Linear))
    first.eval()
    before = [value.clone() for value in model.state_dict().values()]
    for parameters in ("last-layer", "all"):
        grand_scores(model, batches(data), parameters)
    assert model.training and not first.training
    assert all(torch.equal(*pair) for pair in zip(before, model.state_dict().values(), strict=True))
    assert all(value.grad is None for value in model.parameters())


def test_shuffled_batches_with_row_numbers_give_scores_in_the_order_of_the_rows(model, data):
    order = torch.randperm(23, generator=torch.Generator().manual_seed(2))
    shuffled = batches((order, data[0][order], data[1][order]), size=6)
    assert grand_scores(model, shuffled) == pytest.approx(grand_scores(model, batches(data)), rel=1e-5)
    assert el2n_scores(model, shuffled) == pytest.approx(el2n_scores(model, batches(data)), rel=1e-5)
    with pytest.raises(InvalidInputError, match="each row once: expected the row numbers 0 to 17"):
        el2n_scores(model, shuffled[:3])


def test_a_model_whose_output_is_not_its_last_linear_layers(data):
    model = seeded(lambda: nn.Sequential(nn.Linear(12, 4), nn.Tanh()))
    with pytest.raises(InvalidInputError, match=r'not that of its last linear layer.*parameters="all"'):
        grand_scores(model, batches(data))
    assert grand_scores(model, batches(data), "all") == pytest.approx(one_by_one(model, data), rel=1e-4)
    with pytest.raises(InvalidInputError, match=r"no torch.nn.Linear layer"):
        grand_scores(nn.Identity(), batches(data))


def test_wrong_arguments(data):
    model = seeded(multilayer)
    with pytest.raises(InvalidInputError, match='parameters=\'first\': expected "last-layer" or "all"'):
        grand_scores(model, batches(data), "first")
    with pytest.raises(InvalidInputError, match="batches is empty"):
        el2n_scores(model, [])
    with pytest.raises(InvalidInputError, match=r"must hold \(inputs, labels\)"):
        el2n_scores(model, [data[0]])
    with pytest.raises(InvalidInputError, match="labels runs from 0 to 9"):
        el2n_scores(model, [(data[0], torch.arange(23) % 10)])
    with pytest.raises(InvalidInputError, match="chunk_size=0"):
        grand_scores(model, batches(data), "all", chunk_size=0)


def test_rows_pass_through_one_batch_at_a_time(data):
    """Batches are taken from a stream, and none is asked for before the one before is done with."""
    model = seeded(multilayer)
    alive = []

    def stream():
        for number in range(5):
            x = data[0] + number
            alive.append(weakref.ref(x))
            yield x, data[1]
            del x
            assert sum(batch() is not None for batch in alive[:-1]) <= 1

    for parameters in ("last-layer", "all"):
        assert len(grand_scores(model, stream(), parameters)) == 5 * 23
        alive.clear()
