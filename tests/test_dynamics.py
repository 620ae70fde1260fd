"""The recorder of training dynamics, on training runs that were worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from gmmatch import Dynamics
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

RIGHT, WRONG = [2.0, 0.0], [0.0, 2.0]
# Rows: always correct, forgotten twice, never learned, learned late, forgotten at the end.
OUTCOMES = ["+++++", "+-+-+", "-----", "--+++", "++++-"]


def record(outcomes, dynamics, order=None):
    """Present every row once per epoch, all with label 0, in batches of two."""
    rows = np.arange(len(outcomes)) if order is None else np.asarray(order)
    for epoch in range(len(outcomes[0])):
        for batch in np.array_split(rows, -(-len(rows) // 2)):
            logits = [RIGHT if outcomes[row][epoch] == "+" else WRONG for row in batch]
            dynamics.update(batch, logits, np.zeros(len(batch), dtype=int))
        dynamics.end_epoch()
    return dynamics


def el2n_by_hand(logits, label):
    shares = np.exp(logits) / np.exp(logits).sum()
    return np.linalg.norm(shares - np.eye(len(logits))[label])


@pytest.mark.parametrize("order", [None, [3, 1, 4, 0, 2]])
def test_forgetting_by_hand_in_any_order_of_the_rows(order):
    dynamics = record(OUTCOMES, Dynamics(5), order)
    assert dynamics.forgetting().tolist() == [0, 2, np.inf, 0, 1]
    assert dynamics.first_learned.tolist() == [0, 0, -1, 2, 0]
    assert dynamics.presentations.tolist() == [5] * 5
    assert dynamics.epoch == 5


def test_a_row_presented_twice_in_a_batch_is_recorded_twice_in_that_order():
    dynamics = Dynamics(2)
    dynamics.update([0, 1, 0, 1], [RIGHT, WRONG, WRONG, RIGHT], [0, 0, 0, 0])
    assert dynamics.forgetting().tolist() == [1, 0]
    assert dynamics.presentations.tolist() == [2, 2]
    dynamics.update([1], [WRONG], [0])
    assert dynamics.forgetting().tolist() == [1, 1]


def test_a_row_left_out_of_an_epoch_keeps_its_scores_and_one_never_presented_has_none():
    dynamics = Dynamics(3)
    for rows, logits in (
        ([0, 1], [RIGHT, RIGHT]),
        ([0], [RIGHT]),
        ([], np.empty((0, 2))),
        ([0, 1], [RIGHT, WRONG]),
    ):
        dynamics.update(np.array(rows, dtype=int), logits, np.zeros(len(rows), dtype=int))
        dynamics.end_epoch()
    assert dynamics.forgetting().tolist()[:2] == [0, 1]
    for scores in (dynamics.forgetting(), dynamics.el2n(), dynamics.area_under_margin()):
        assert np.isnan(scores).tolist() == [False, False, True]
    assert dynamics.presentations.tolist() == [3, 2, 0]


def test_margin_el2n_and_grand_by_hand():
    dynamics = Dynamics(1)
    first, second = [1.0, 3.0, 0.0], [5.0, 3.0, 4.0]
    for logits in (first, second):
        dynamics.update([0], [logits], [0], features=[[3.0, 4.0]])
    assert dynamics.area_under_margin().tolist() == [((1 - 3) + (5 - 4)) / 2]
    expected = (el2n_by_hand(first, 0) + el2n_by_hand(second, 0)) / 2
    assert dynamics.el2n()[0] == pytest.approx(expected, rel=1e-12)
    # The gradient by weights and bias is an outer product: its length is that of the error times ‖(3, 4, 1)‖.
    assert dynamics.grand()[0] == pytest.approx(expected * np.sqrt(26.0), rel=1e-12)


def test_grand_needs_features():
    dynamics = Dynamics(1)
    dynamics.update([0], [RIGHT], [0])
    with pytest.raises(InvalidInputError, match=r"GraNd was not recorded: pass update\(..., features="):
        dynamics.grand()


def test_large_logits_and_a_single_class():
    dynamics = Dynamics(2)
    dynamics.update([0, 1], [[1e4, -1e4], [1e4, -1e4]], [0, 1])
    assert dynamics.el2n() == pytest.approx([0.0, np.sqrt(2.0)])
    alone = Dynamics(1)
    alone.update([0], [[3.0]], [0])
    assert alone.el2n().tolist() == alone.area_under_margin().tolist() == [0.0]


def test_el2n_of_the_first_epochs_and_the_margin_of_all():
    all_epochs, early = Dynamics(1), Dynamics(1, first_epochs=2)
    for step in range(4):
        for dynamics in (all_epochs, early):
            dynamics.update([0], [[float(step), 0.0]], [0])
            dynamics.end_epoch()
    values = [el2n_by_hand([float(step), 0.0], 0) for step in range(4)]
    assert all_epochs.el2n()[0] == pytest.approx(np.mean(values))
    assert early.el2n()[0] == pytest.approx(np.mean(values[:2]))
    assert early.area_under_margin()[0] == pytest.approx(np.mean([0, 1, 2, 3]))


def test_several_runs_are_averaged():
    first, second = record(["+-+", "---", "---"], Dynamics(3)), record(["+-+", "-+-", "---"], Dynamics(3))
    merged = Dynamics.merge([first, second])
    assert merged.forgetting().tolist() == [1, 0.5, np.inf]
    assert merged.first_learned.tolist() == [0, 1, -1]
    assert merged.el2n() == pytest.approx((first.el2n() + second.el2n()) / 2)
    assert Dynamics.merge([merged, first]).runs == 3
    with pytest.raises(InvalidInputError, match=r"runs have \[2, 3\] rows"):
        Dynamics.merge([first, Dynamics(2)])
    with pytest.raises(InvalidTypeError, match="one or more Dynamics"):
        Dynamics.merge([])


def test_a_saved_recording_goes_on_where_it_was(tmp_path):
    half = Dynamics(5, first_epochs=3)
    record([row[:2] for row in OUTCOMES], half)
    half.update([0], [RIGHT], [0], features=[[1.0]])  # in the middle of an epoch
    half.save(tmp_path / "half.npz")
    restored = Dynamics.load(tmp_path / "half.npz")
    for dynamics in (half, restored):
        dynamics.update([1, 2, 3, 4], [RIGHT, WRONG, RIGHT, RIGHT], [0] * 4)
        dynamics.end_epoch()
        record([row[3:] for row in OUTCOMES], dynamics)
    assert restored.forgetting().tolist() == [0, 2, np.inf, 0, 1]
    for name in ("el2n", "area_under_margin", "grand"):
        np.testing.assert_array_equal(getattr(restored, name)(), getattr(half, name)())
    assert (restored.epoch, restored.first_epochs) == (5, 3)


def test_files_that_are_no_recordings(tmp_path):
    with pytest.raises(DataFileNotFoundError, match="no such file"):
        Dynamics.load(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.arange(3))
    for name in ("text.npz", "other.npz"):
        with pytest.raises(InvalidInputError, match="is not a recording of training dynamics"):
            Dynamics.load(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 1], [RIGHT], [0]), "indices names 2 rows: expected 1"),
        (([3], [RIGHT], [0]), "indices names row 3; X has rows 0 to 2"),
        (([-1], [RIGHT], [0]), "indices names row -1; X has rows 0 to 2"),
        (([0.5], [RIGHT], [0]), "indices must be a list of row numbers.*float64"),
        (([0], RIGHT, [0]), r"logits has shape \(2,\): expected \(rows, classes\)"),
        (([0], [RIGHT], [0, 1]), r"labels has shape \(2,\).*expected 1 class numbers"),
        (([0], [RIGHT], [0.0]), "labels has .*float64: expected 1 class numbers"),
        (([0], [RIGHT], [2]), "labels runs from 2 to 2: expected class numbers from 0 to 1"),
        (([0], [RIGHT], [-1]), "labels runs from -1 to -1"),
        (([0], [RIGHT], [0], [1.0]), r"features has shape \(1,\): expected \(1, features\)"),
    ],
)
def test_wrong_batches_are_refused_and_leave_no_trace(arguments, message):
    dynamics = Dynamics(3)
    with pytest.raises(InvalidInputError, match=message):
        dynamics.update(*arguments)
    assert dynamics.presentations.tolist() == [0, 0, 0]
    assert np.isnan(dynamics.forgetting()).all()


def test_wrong_sizes():
    with pytest.raises(InvalidInputError, match="n_rows=0: expected a whole number"):
        Dynamics(0)
    with pytest.raises(InvalidInputError, match="first_epochs=0: expected a whole number"):
        Dynamics(3, first_epochs=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_tensors_give_what_arrays_give(dtype):
    torch = pytest.importorskip("torch")
    logits = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    rows, labels = torch.arange(40).flip(0), torch.arange(40) % 5
    of_tensors, of_arrays = Dynamics(40), Dynamics(40)
    of_tensors.update(rows, logits.requires_grad_(), labels, torch.ones(40, 3, requires_grad=True))
    of_arrays.update(rows.numpy(), logits.detach().double().numpy(), labels.numpy(), np.ones((40, 3)))
    np.testing.assert_array_equal(of_tensors.forgetting(), of_arrays.forgetting())
    for name in ("el2n", "grand", "area_under_margin"):
        assert getattr(of_tensors, name)() == pytest.approx(getattr(of_arrays, name)(), rel=1e-5)


def test_a_loop_may_reuse_its_tensors():
    torch = pytest.importorskip("torch")
    dynamics = Dynamics(2)
    rows, labels = torch.tensor([0]), torch.tensor([1])
    dynamics.update(rows, torch.tensor([[0.0, 1.0]], requires_grad=True) * 1.0, labels)
    rows.fill_(1), labels.fill_(0)
    assert dynamics.presentations.tolist() == [1, 0]
    assert dynamics.forgetting()[0] == 0
