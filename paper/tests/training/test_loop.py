"""Training from scratch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.training.evaluation import accuracy, predict, top_accuracies  # noqa: E402
from gmmatch_paper.training.images import put_images  # noqa: E402
from gmmatch_paper.training.loop import train  # noqa: E402
from gmmatch_paper.training.recipes import Recipe  # noqa: E402

RECIPE = Recipe(
    "quick", epochs=3, batch_size=16, learning_rate=0.05, weight_decay=5e-4, crop_padding=1, milestones=(2,)
)


class Small(nn.Module):
    """A network that trains in no time and, with dropout, draws random numbers."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(8 * 16, 2)

    def features(self, x):
        x = torch.relu(self.norm(self.convolution(x)))
        return self.dropout(nn.functional.adaptive_avg_pool2d(x, 4).flatten(1))

    def forward(self, x):
        return self.head(self.features(x))


def small(dropout=0.0):
    torch.manual_seed(0)
    return Small(dropout)


def weights(trained):
    return torch.cat([value.double().flatten() for value in trained.model.state_dict().values()])


def test_it_learns(stripes):
    images, labels = stripes(64)
    test_images, test_labels = stripes(40, seed=1)
    done = train(small(), images, labels, test_images=test_images, test_labels=test_labels, recipe=RECIPE)
    assert done.accuracy > 0.95
    assert done.history[-1].loss < done.history[0].loss
    assert not done.model.training


def test_one_step_is_plain_sgd(stripes):
    images, labels = stripes(16)
    recipe = replace(RECIPE, epochs=1, crop_padding=0, label_smoothing=0.1)
    peer = small()
    done = train(small(), images, labels, recipe=recipe, device="cpu")
    data = put_images(images, labels)
    optimizer = torch.optim.SGD(peer.parameters(), 0.05, momentum=0.9, weight_decay=5e-4)
    loss = nn.functional.cross_entropy(peer(data.normalized(data.pixels)), data.codes, label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    for ours, theirs in zip(done.model.parameters(), peer.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)
    assert done.history[0].loss == pytest.approx(loss.item(), rel=1e-5)


@pytest.mark.slow
def test_the_seed_decides_and_global_random_state_is_left_alone(stripes):
    images, labels = stripes(40)
    before = torch.get_rng_state()
    one, same, other = (train("resnet18", images, labels, recipe=RECIPE, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(one), weights(same))
    assert not torch.equal(weights(one), weights(other))


def test_every_row_is_seen_in_every_epoch_and_the_last_batch_is_full(stripes):
    images, labels = stripes(40)
    seen = []
    train(
        small(),
        images,
        labels,
        recipe=RECIPE,
        on_batch=lambda rows, *others: seen.append(rows.tolist()),
    )
    assert [len(rows) for rows in seen] == [16] * 9  # 40 rows: three batches, the last topped up with 8
    for epoch in range(3):
        rows = [row for batch in seen[3 * epoch : 3 * epoch + 3] for row in batch]
        assert set(rows) == set(range(40))
    assert seen[0] != seen[3]


def test_what_a_recorder_is_given_belongs_together(stripes):
    images, labels = stripes(40)
    counted = []

    def count(rows, logits, codes, features):
        assert codes.tolist() == labels[rows.numpy()].tolist()
        counted.append((logits.argmax(dim=1) == codes).double().mean().item())

    done = train(small(), images, labels, recipe=RECIPE, device="cpu", on_batch=count)
    by_epoch = np.mean(np.reshape(counted, (3, 3)), axis=1)
    assert by_epoch == pytest.approx([epoch.accuracy for epoch in done.history])


def test_top_accuracies_by_hand():
    logits = torch.tensor([[4.0, 3, 2, 1], [4, 3, 2, 1], [4, 3, 2, 1], [1, 1, 1, 1]])
    codes = torch.tensor([0, 1, 3, 2])
    # The last row's logits are all equal: its class is only sure to be among the first four.
    assert top_accuracies(logits, codes, (1, 2, 4)) == {1: 0.25, 2: 0.5, 4: 1.0}


def test_prediction_is_in_evaluation_mode_and_leaves_the_mode_alone(stripes):
    images, labels = stripes(30)
    data, model = put_images(images, labels), small(0.5)
    model.train()
    one = predict(model, data, batch_size=7)
    assert torch.equal(one, predict(model, data, batch_size=7))
    assert model.training
    model.eval()
    with torch.no_grad():
        expected = model(data.normalized(data.pixels))
    assert torch.allclose(one, expected, atol=1e-5)
    features = predict(model, data, of=model.features)
    assert features.shape == (30, 128)
    assert accuracy(model, data)[1] == float((expected.argmax(1) == data.codes).double().mean())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"recipe": "quik"}, "recipe='quik': there is no such recipe"),
        ({"n_classes": 1}, "n_classes=1"),
        ({"network": "resnet19"}, "resnet18"),
        ({"device": "cuda:99"}, "device='cuda:99'"),
    ],
)
def test_errors_name_the_argument(stripes, arguments, message):
    images, labels = stripes(8)
    given = {"network": "resnet18", "recipe": RECIPE, **arguments}
    with pytest.raises(InvalidInputError, match=message):
        train(given.pop("network"), images, labels, **given)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
class TestOnCuda:
    def test_a_captured_step_is_the_eager_step(self, stripes, monkeypatch):
        from gmmatch_paper.training.step import TrainingStep

        images, labels = stripes(64)
        captured = train(small(), images, labels, recipe=RECIPE, device="cuda")

        def eager(self, inputs, codes, rate):
            for group in self.optimizer.param_groups:
                group["lr"].fill_(rate)
            return self._work(inputs, codes)

        monkeypatch.setattr(TrainingStep, "__call__", eager)
        plain = train(small(), images, labels, recipe=RECIPE, device="cuda")
        assert torch.allclose(weights(captured), weights(plain), rtol=1e-2, atol=1e-3)
        assert captured.history[0].loss == pytest.approx(plain.history[0].loss, rel=1e-2)

    @pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
    def test_it_learns(self, stripes, optimizer):
        recipe = replace(RECIPE, optimizer=optimizer, learning_rate=0.01, epochs=6, milestones=())
        assert train(small(0.1), *stripes(64), recipe=recipe, device="cuda").history[-1].accuracy > 0.9


def test_the_best_epoch_is_recorded_and_changes_nothing():
    images = np.random.default_rng(0).integers(0, 255, (32, 8, 8, 3)).astype(np.uint8)
    labels = np.arange(32) % 2
    data = {"test_images": images, "test_labels": labels, "recipe": RECIPE, "device": "cpu", "seed": 1}
    runs = []
    for test_epochs in (False, True):
        torch.manual_seed(0)
        runs.append(train(Small(dropout=0.1), images, labels, test_epochs=test_epochs, **data))
    last, tested = runs
    assert last.best is None and tested.best is not None
    assert last.accuracy == tested.accuracy <= tested.best
    for first, second in zip(last.model.parameters(), tested.model.parameters(), strict=True):
        assert torch.equal(first, second)
