"""Training with the network's call compiled; by backends that need no compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gmmatch.errors import GMMatchWarning  # noqa: E402
from gmmatch.training import compiling, step  # noqa: E402
from gmmatch.training.compiling import choose_backend  # noqa: E402
from gmmatch.training.dynamics import Dynamics  # noqa: E402
from gmmatch.training.images import put_images  # noqa: E402
from gmmatch.training.loop import train  # noqa: E402
from gmmatch.training.recipes import Recipe  # noqa: E402

RECIPE = Recipe("quick", epochs=3, batch_size=16, learning_rate=0.05, weight_decay=5e-4, crop_padding=1)


class Small(nn.Module):
    """A network with what a step changes beside weights (a batch norm) and what it draws (dropout)."""

    def __init__(self, dropout):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(4 * 4, 2)

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(torch.relu(self.norm(self.convolution(x))), 2)
        return self.head(self.dropout(x.flatten(1)))


class Unsuitable(Small):
    """Decides by a number that only a run gives: no compiler can make one graph of it."""

    def forward(self, x):
        return super().forward(x if x.mean().item() > -1e9 else -x)


def small(kind=Small, dropout=0.3):
    torch.manual_seed(0)
    return kind(dropout)


def weights(trained):
    return {name: value.clone() for name, value in trained.model.state_dict().items()}


def assert_same_run(one, other):
    assert [epoch.loss for epoch in one.history] == [epoch.loss for epoch in other.history]
    assert list(weights(one)) == list(weights(other))
    assert all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    torch.compiler.reset()


@pytest.fixture
def plain(stripes):
    return train(small(), *stripes(40), recipe=RECIPE)


def test_the_run_is_the_same_and_so_are_the_names_of_the_weights(stripes, plain):
    images, labels = stripes(40)
    done = train(
        small(), images, labels, test_images=images, test_labels=labels, recipe=RECIPE, compiled="eager"
    )
    assert done.compiled
    assert not plain.compiled
    assert type(done.model) is Small
    assert not done.model.training
    assert_same_run(done, plain)
    with torch.no_grad():
        data = put_images(images, labels)
        guesses = plain.model(data.normalized(data.pixels)).argmax(dim=1)
    assert done.accuracy == pytest.approx(float((guesses == data.codes).double().mean()))


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_backward_pass_of_its_own_gives_the_same_losses(stripes, optimizer):
    recipe = replace(RECIPE, optimizer=optimizer, learning_rate=0.01)
    # Without dropout: a compiled one may draw other numbers.
    plain, compiled = (
        train(small(dropout=0.0), *stripes(40), recipe=recipe, compiled=backend)
        for backend in (False, "aot_eager")
    )
    assert compiled.compiled
    expected = [epoch.loss for epoch in plain.history]
    assert [epoch.loss for epoch in compiled.history] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("then", ["eager", False])
def test_an_interrupted_run_is_resumed_compiled_or_not(stripes, plain, tmp_path, then):
    def interrupt(done, epochs):
        if done == 1:
            raise KeyboardInterrupt

    arguments = {"recipe": RECIPE, "checkpoint": tmp_path / "run.pt", "checkpoint_seconds": 0.0}
    with pytest.raises(KeyboardInterrupt):
        train(small(), *stripes(40), progress=interrupt, compiled="eager", **arguments)
    resumed = train(small(), *stripes(40), compiled=then, **arguments)
    assert resumed.compiled == bool(then)
    assert_same_run(resumed, plain)


def test_a_recorder_is_told_the_same(stripes):
    images, labels = stripes(40)
    recorders = {}
    for backend in (False, "eager"):
        recorders[backend] = Dynamics(len(images))
        train(small(), images, labels, recipe=RECIPE, compiled=backend, on_batch=recorders[backend].update)
    for score in ("forgetting", "el2n"):
        plain, compiled = (getattr(recorder, score)() for recorder in recorders.values())
        assert plain.tolist() == compiled.tolist()


def test_what_was_compiled_serves_further_networks_of_the_kind(stripes):
    train(small(), *stripes(40), recipe=RECIPE, compiled="eager")
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    torch.manual_seed(1)
    again = train(Small(0.3), *stripes(48, seed=1), recipe=RECIPE, compiled="eager", seed=1)
    assert again.compiled
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs


@pytest.mark.parametrize(("kind", "backend"), [(Small, "no-such-backend"), (Unsuitable, "eager")])
def test_what_cannot_be_compiled_is_trained_as_it_is(stripes, plain, kind, backend):
    with pytest.warns(GMMatchWarning, match="not compiled and trains as it is"):
        done = train(small(kind), *stripes(40), recipe=RECIPE, compiled=backend)
    assert not done.compiled
    assert_same_run(done, plain)


def test_a_failure_halfway_leaves_no_trace(stripes, plain, monkeypatch):
    """The batch norm has counted, the dropout has drawn, and only then it fails."""

    def compiled_call(model, backend):
        def call(x):
            model(x)
            raise RuntimeError("of a kind nobody foresaw\nand so on for pages")

        return call

    monkeypatch.setattr(step, "compiled_call", compiled_call)
    with pytest.warns(GMMatchWarning, match=r"RuntimeError: of a kind nobody foresaw\)"):
        done = train(small(), *stripes(40), recipe=RECIPE, compiled="eager")
    assert_same_run(done, plain)


def test_an_interruption_is_not_taken_for_a_failure(stripes, monkeypatch):
    def compiled_call(model, backend):
        raise KeyboardInterrupt

    monkeypatch.setattr(step, "compiled_call", compiled_call)
    with pytest.raises(KeyboardInterrupt):
        train(small(), *stripes(40), recipe=RECIPE, compiled="eager")


def test_torchs_own_compiler_is_for_cuda_and_needs_triton(monkeypatch):
    assert choose_backend(True, torch.device("cpu")) is None
    assert choose_backend(False, torch.device("cuda")) is None
    monkeypatch.setattr(compiling, "find_spec", lambda name: object())
    assert choose_backend(True, torch.device("cuda")) == "inductor"
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    with pytest.warns(GMMatchWarning, match="Triton is not installed"):
        assert choose_backend(True, torch.device("cuda")) is None


@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_cuda_a_compiled_network_learns_the_same(stripes):
    recipe = replace(RECIPE, epochs=6)
    plain, compiled = (
        train(small(dropout=0.0), *stripes(64), recipe=recipe, device="cuda", compiled=choice)
        for choice in (False, True)
    )
    assert compiled.compiled
    assert list(weights(compiled)) == list(weights(plain))
    expected = [epoch.loss for epoch in plain.history]
    assert [epoch.loss for epoch in compiled.history] == pytest.approx(expected, rel=0.05, abs=0.01)
