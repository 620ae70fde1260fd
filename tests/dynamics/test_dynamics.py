"""The recorder of training dynamics, against histories that were worked out by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from gmmatch.dynamics.recorder import Dynamics
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

RIGHT, WRONG = [2.0, 0.0], [0.0, 2.0]
# Rows: always right, forgotten twice, never learnt, learnt late, forgotten at the end.
HISTORY = ["+++++", "+-+-+", "-----", "--+++", "++++-"]


def play(history, recorder, order=None):
    """Present every row once per epoch, all with label 0, in batches of two."""
    rows = np.arange(len(history)) if order is None else np.asarray(order)
    for epoch in range(len(history[0])):
        for batch in np.array_split(rows, -(-len(rows) // 2)):
            logits = [RIGHT if history[row][epoch] == "+" else WRONG for row in batch]
            recorder.update(batch, logits, np.zeros(len(batch), dtype=int))
        recorder.end_epoch()
    return recorder


def test_forgetting_of_a_history_written_by_hand():
    recorder = play(HISTORY, Dynamics(5))
    assert recorder.forgetting().tolist() == [0, 2, np.inf, 0, 1]
    assert recorder.first_learnt.tolist() == [0, 0, -1, 2, 0]
    assert recorder.presentations.tolist() == [5] * 5
    assert recorder.epoch == 5


def test_the_order_of_rows_within_an_epoch_does_not_matter():
    straight, shuffled = (play(HISTORY, Dynamics(5), order) for order in (None, [3, 1, 4, 0, 2]))
    assert np.array_equal(straight.forgetting(), shuffled.forgetting())
    assert np.allclose(straight.el2n(), shuffled.el2n(), rtol=1e-15)


def test_a_row_presented_twice_in_a_batch_is_observed_twice_in_that_order():
    recorder = Dynamics(2)
    recorder.update([0, 1, 0, 1], [RIGHT, WRONG, WRONG, RIGHT], [0, 0, 0, 0])
    assert recorder.forgetting().tolist() == [1, 0]
    assert recorder.presentations.tolist() == [2, 2]
    recorder.update([1], [WRONG], [0])
    assert recorder.forgetting().tolist() == [1, 1]


def test_a_row_left_out_of_an_epoch_keeps_what_it_has_and_one_never_seen_has_no_score():
    recorder = Dynamics(3)
    recorder.update([0, 1], [RIGHT, RIGHT], [0, 0])
    recorder.end_epoch()
    recorder.update([0], [RIGHT], [0])
    recorder.end_epoch()
    recorder.update([0, 1], [RIGHT, WRONG], [0, 0])
    assert recorder.forgetting().tolist()[:2] == [0, 1]
    for score in (recorder.forgetting(), recorder.el2n(), recorder.area_under_margin()):
        assert np.isnan(score).tolist() == [False, False, True]
    assert recorder.presentations.tolist() == [3, 2, 0]


def test_margin_and_el2n_by_hand():
    recorder = Dynamics(1)
    recorder.update([0], [[1.0, 3.0, 0.0]], [0])  # margin 1 − 3
    recorder.update([0], [[5.0, 3.0, 4.0]], [0])  # margin 5 − 4
    assert recorder.area_under_margin().tolist() == [-0.5]
    by_hand = []
    for logits in ([1.0, 3.0, 0.0], [5.0, 3.0, 4.0]):
        shares = np.exp(logits) / np.exp(logits).sum()
        by_hand.append(np.sqrt((1 - shares[0]) ** 2 + shares[1] ** 2 + shares[2] ** 2))
    assert recorder.el2n()[0] == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_huge_logits_do_not_overflow():
    recorder = Dynamics(2)
    recorder.update([0, 1], [[1e4, -1e4], [1e4, -1e4]], [0, 1])
    assert recorder.el2n() == pytest.approx([0.0, np.sqrt(2.0)])


def test_last_layer_grand_needs_features_and_is_el2n_times_their_length():
    recorder = Dynamics(1)
    recorder.update([0], [[0.3, -0.2]], [0])
    with pytest.raises(InvalidInputError, match=r"GraNd was not recorded: give update\(..., features="):
        recorder.grand()
    recorder = Dynamics(1)
    recorder.update([0], [[0.3, -0.2]], [0], features=[[3.0, 4.0]])
    assert recorder.grand()[0] == pytest.approx(recorder.el2n()[0] * np.sqrt(26.0))


def test_averages_over_the_first_epochs_the_last_one_and_all():
    whole, early = Dynamics(1, history=True), Dynamics(1, first_epochs=2)
    values = []
    for step in range(4):
        logits = [[float(step), 0.0]]
        for recorder in (whole, early):
            recorder.update([0], logits, [0])
            recorder.end_epoch()
        values.append(np.sqrt(2.0) / (1.0 + np.exp(step)))
    assert whole.el2n()[0] == pytest.approx(np.mean(values))
    assert early.el2n()[0] == pytest.approx(np.mean(values[:2]))
    assert early.el2n("last")[0] == whole.el2n("last")[0] == pytest.approx(values[-1])
    assert whole.history("el2n")[:, 0] == pytest.approx(values)
    assert early.area_under_margin()[0] == pytest.approx(np.mean([0, 1, 2, 3]))
    with pytest.raises(InvalidInputError, match=r"history was not kept: .*history=True"):
        early.history("el2n")


def test_several_runs_are_averaged():
    first, second = play(["+-+", "---", "---"], Dynamics(3)), play(["+-+", "-+-", "---"], Dynamics(3))
    whole = Dynamics.merged([first, second])
    assert whole.forgetting().tolist() == [1, 0.5, np.inf]
    assert whole.first_learnt.tolist() == [0, 1, -1]
    assert np.allclose(whole.el2n(), (first.el2n() + second.el2n()) / 2)
    assert whole.runs == 2
    assert Dynamics.merged([whole, first]).runs == 3
    with pytest.raises(InvalidInputError, match=r"runs have \[2, 3\] rows"):
        Dynamics.merged([first, Dynamics(2)])
    with pytest.raises(InvalidTypeError, match="one or more Dynamics"):
        Dynamics.merged([])


@pytest.mark.parametrize("history", [False, True])
def test_saving_restores_everything_and_recording_goes_on(tmp_path, history):
    half = Dynamics(5, first_epochs=3, history=history)
    play([row[:2] for row in HISTORY], half)
    half.update([0], [RIGHT], [0], features=[[1.0]])  # in the middle of an epoch
    half.save(tmp_path / "half.npz")
    restored = Dynamics.load(tmp_path / "half.npz")
    for recorder in (half, restored):
        recorder.update([1, 2, 3, 4], [RIGHT, WRONG, RIGHT, RIGHT], [0] * 4)
        recorder.end_epoch()
        play([row[3:] for row in HISTORY], recorder)
    assert restored.forgetting().tolist() == [0, 2, np.inf, 0, 1]
    for name in ("el2n", "area_under_margin", "grand"):
        assert np.array_equal(getattr(restored, name)(), getattr(half, name)(), equal_nan=True)
    assert np.array_equal(restored.el2n("last"), half.el2n("last"))
    assert (restored.epoch, restored.first_epochs) == (5, 3)
    if history:
        assert np.array_equal(restored.history("margin"), half.history("margin"))


def test_files_that_are_none(tmp_path):
    with pytest.raises(DataFileNotFoundError, match="there is no such file"):
        Dynamics.load(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    for name in ("text.npz", "other.npz"):
        with pytest.raises(InvalidInputError, match="is not a recording of training dynamics"):
            Dynamics.load(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [RIGHT], [0]), r"indices has shape \(2,\): expected 1 row numbers"),
        (([3], [RIGHT], [0]), "indices must be whole numbers from 0 to 2.* from 3 to 3"),
        (([-1], [RIGHT], [0]), "indices must be whole numbers from 0 to 2"),
        (([0.5], [RIGHT], [0]), "indices must be whole numbers .*float64"),
        (([0], RIGHT, [0]), r"logits has shape \(2,\): expected \(rows, classes\)"),
        (([0], [RIGHT], [0, 1]), r"labels has shape \(2,\).*expected 1 class numbers"),
        (([0], [RIGHT], [0.0]), "labels has .*float64: expected 1 class numbers"),
        (([0], [RIGHT], [2]), "labels runs from 2 to 2: expected class numbers from 0 to 1"),
        (([0], [RIGHT], [-1]), "labels runs from -1 to -1"),
        (([0], [RIGHT], [0], [1.0]), r"features has shape \(1,\): expected \(1, features\)"),
    ],
)
def test_wrong_batches_are_refused_and_leave_no_trace(arguments, message):
    recorder = Dynamics(3)
    with pytest.raises(InvalidInputError, match=message):
        recorder.update(*arguments)
    assert recorder.presentations.tolist() == [0, 0, 0]
    assert np.isnan(recorder.forgetting()).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 0}, "n_rows=0: expected a whole number"),
        ({"n_rows": 2.5}, "n_rows=2.5"),
        ({"n_rows": 3, "first_epochs": 0}, "first_epochs=0: expected a whole number"),
    ],
)
def test_wrong_sizes(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        Dynamics(**arguments)


def test_memory_does_not_grow_with_the_epochs():
    random = np.random.default_rng(0)
    tracemalloc.start()
    recorder = Dynamics(20_000)

    def epoch():
        for rows in np.array_split(random.permutation(20_000), 50):
            recorder.update(rows, random.normal(size=(len(rows), 10)), rows % 10)
        recorder.end_epoch()

    epoch(), epoch()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(4):
        epoch()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000  # less than a byte per row, where an epoch's numbers would be 80,000 bytes each


class TestTensors:
    torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
    def test_tensors_give_what_arrays_give(self, dtype):
        torch = self.torch
        logits = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
        features = torch.ones(40, 3, requires_grad=True)
        rows, labels = torch.arange(40).flip(0), torch.arange(40) % 5
        ours, theirs = Dynamics(40), Dynamics(40)
        ours.update(rows, logits.requires_grad_(), labels, features)
        theirs.update(rows.numpy(), logits.detach().double().numpy(), labels.numpy(), np.ones((40, 3)))
        assert np.array_equal(ours.forgetting(), theirs.forgetting())
        for name in ("el2n", "grand", "area_under_margin"):
            assert getattr(ours, name)() == pytest.approx(getattr(theirs, name)(), rel=1e-5)

    def test_nothing_is_kept_of_the_graph_and_the_loop_may_reuse_its_tensors(self):
        torch = self.torch
        recorder = Dynamics(2)
        rows, labels = torch.tensor([0]), torch.tensor([1])
        logits = torch.tensor([[0.0, 1.0]], requires_grad=True) * 1.0
        recorder.update(rows, logits, labels)
        rows.fill_(1), labels.fill_(0)
        assert recorder.presentations.tolist() == [1, 0]
        assert recorder.forgetting()[0] == 0

    def test_what_waits_on_a_device_is_fetched_before_it_is_read(self, monkeypatch):
        """A device's results wait; here the fetching is put off by hand, as a GPU's would be."""
        torch = self.torch
        waiting = Dynamics(5)
        fetch = waiting._fetch
        for epoch in range(5):
            monkeypatch.setattr(waiting, "_fetch", lambda: None)
            for row in range(5):
                values = torch.tensor([RIGHT if HISTORY[row][epoch] == "+" else WRONG])
                waiting.update(torch.tensor([row]), values, torch.tensor([0]))
            assert waiting._pending_rows == 5
            monkeypatch.setattr(waiting, "_fetch", fetch)
            waiting.end_epoch()
            assert waiting._pending_rows == 0
        assert waiting.forgetting().tolist() == [0, 2, np.inf, 0, 1]
        assert waiting.first_learnt.tolist() == [0, 0, -1, 2, 0]
