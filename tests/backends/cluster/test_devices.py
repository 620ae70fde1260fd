"""Workers that compute with torch find what the compiled loops find, on any device.

On a machine with a GPU: ``python -m pytest tests/backends/cluster/test_devices.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.backends.cluster.compute import Compute, ScanState, compute_for, pass_over
from gmmatch.backends.cluster.pieces import Piece
from gmmatch.backends.cluster.worker import ShardWorker
from gmmatch.errors import InvalidInputError
from gmmatch.median import loops
from gmmatch.median.passes import distances_of
from gmmatch.types import on_host
from tests.backends.cluster.test_faults import MortalEngine, MortalPlacement

torch = pytest.importorskip("torch")
from gmmatch.backends.cluster.on_device import OnDevice, usable_gpus  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.fixture
def few_rows(clouds, tmp_path):
    np.save(tmp_path / "few.npy", clouds[::5])
    return tmp_path / "few.npy"


class TorchPlacement(MortalPlacement):
    """Workers that compute with torch."""

    def made(self, spec):
        return ShardWorker(spec, lambda: OnDevice(self.device, room=self.room))


def torch_engine(workers, device, room=None, chance=lambda placement, number: 0.0):
    return MortalEngine(
        workers, chance, kind=type("Placed", (TorchPlacement,), {"device": device, "room": room})
    )


LABELS = np.arange(600) % 2
CASES = [
    (np.float16, None, {"y": LABELS, "batches": 2}),
    (np.float32, 0, {"normalize": True}),
    (np.float32, 9000, {"target": "mean", "batches": 3}),
    (np.float64, 9000, {"y": LABELS}),
    (np.int16, None, {"batches": 2}),
    (np.dtype(">f4"), 9000, {"y": LABELS, "normalize": True, "unit_target": True}),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("dtype", "room", "options"), CASES)
def test_the_picks_are_those_of_the_compiled_loops(clouds, tmp_path, device, dtype, room, options):
    """Whether all rows stay on the device, none, or some."""
    np.save(tmp_path / "rows.npy", np.round(clouds[::5] * 64).astype(dtype))
    asked = {"k": 120, "random_state": 0, "method": "moment-matching", **options}
    here = gm.select(tmp_path / "rows.npy", engine=LocalEngine(2), **asked)
    there = gm.select(tmp_path / "rows.npy", engine=torch_engine(2, device=device, room=room), **asked)
    assert there.order.tolist() == here.order.tolist()
    for one, other in zip(there.groups, here.groups, strict=True):
        assert one.residuals == pytest.approx(other.residuals, rel=1e-6, abs=1e-9)
    assert there.provenance["engine"]["devices"][0].startswith(device)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_number_of_workers_does_not_change_a_bit(few_rows, device):
    found = [
        gm.select(
            few_rows,
            engine=torch_engine(workers, device=device),
            y=LABELS,
            k=120,
            random_state=0,
            method="gm-matching",
        )
        for workers in (1, 3, 4)
    ]
    for other in found[1:]:
        assert other.order.tobytes() == found[0].order.tobytes()
        assert other.groups == found[0].groups


@pytest.mark.parametrize("device", DEVICES)
def test_a_worker_that_forgets_its_picks_is_told_again(few_rows, device):
    asked = {"k": 70, "batches": 2, "random_state": 0, "method": "gm-matching"}

    def at_the_third_scan(placement, number):
        scans = placement.traffic.get("scan")
        return float(number == 1 and not placement.deaths and scans is not None and scans.calls > 6)

    found = gm.select(few_rows, engine=torch_engine(2, device, chance=at_the_third_scan), **asked)
    assert found.provenance["engine"]["replaced_workers"] == 1
    assert found.order.tolist() == gm.select(few_rows, engine=LocalEngine(1), **asked).order.tolist()


def piece_of(rows, labels=None, n_classes=1):
    if labels is None:
        return Piece(rows, slice(0, len(rows)), 0, None, np.array([len(rows)]))
    order = np.argsort(labels, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(labels, minlength=n_classes))
    return Piece(rows, slice(0, len(rows)), 0, order, ends)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("s", [1, 7, 64])
@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_a_pass_over_a_piece_is_that_of_the_compiled_loop(device, s, delta):
    random = np.random.default_rng(s)
    rows = random.normal(size=(501, s)).astype(np.float32)
    rows[[100, 300, 400]] = rows[200]  # copies
    labels = random.integers(0, 3, 501)
    labels[[100, 200, 300, 400]] = 1
    cases = [
        (piece_of(rows), 0, random.normal(size=s)),
        (piece_of(rows), 0, rows[200].astype(np.float64)),  # four rows at the point
        (piece_of(rows, labels, 3), 1, rows[200].astype(np.float64) + 1e-7),  # four copies are the nearest
        (piece_of(rows, labels, 3), 2, random.normal(size=s)),
    ]
    for piece, number, point in cases:
        parts = []
        for compute in (Compute(), OnDevice(device)):
            found = compute.block(piece), compute.index(piece, number)
            parts.append(pass_over(*found, compute.put(point), delta))
            parts.append(on_host(distances_of(*found, compute.put(point))))
        (pull, sums, row), distances, there, others = parts
        assert there[0] == pytest.approx(pull, rel=1e-11, abs=1e-9 * sums[loops.INVERSE_DISTANCES])
        assert there[1][:2] == pytest.approx(sums[:2], rel=1e-12)
        for exact in (loops.COINCIDENT, loops.NEAREST_ROW, loops.NEAREST_WEIGHT):
            assert there[1][exact] == sums[exact]
        assert there[1][loops.NEAREST_DISTANCE] == pytest.approx(sums[loops.NEAREST_DISTANCE], rel=1e-15)
        assert there[2].tobytes() == row.tobytes() and there[2].dtype == row.dtype
        assert others == pytest.approx(distances, rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_a_piece_of_nothing_but_copies_of_the_point_has_no_nearest_row(device):
    compute = OnDevice(device)
    piece = piece_of(np.ones((5, 3)))
    pull, sums, _ = pass_over(compute.block(piece), compute.index(piece, 0), compute.put(np.ones(3)), 0.0)
    assert sums.tolist() == [0.0, 0.0, 5.0, np.inf, -1.0, 0.0]
    assert pull.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("span", [1 << 24, 300])
def test_scores_that_differ_by_rounding_alone_are_decided_as_on_the_processor(device, span, monkeypatch):
    """Permuted columns give the same score but for its rounding, which must be that of the left-to-right sum."""
    monkeypatch.setattr("gmmatch.backends.cuda.blocks._SPAN", span)
    random = np.random.default_rng(0)
    values = random.normal(size=40)
    rows = np.stack([random.permutation(values) for _ in range(2000)])
    thetas = np.ones((4, 40)) * [[1.0], [0.1], [-0.3], [3.0]]
    pieces = [Piece(rows, slice(first, first + 1000), first, None, np.array([1000])) for first in (0, 1000)]
    state = ScanState(0, random.integers(0, 5, 2000).astype(np.uint32), random.random(2000) < 0.7)
    table = np.array([2, 0, 1, 0, 3, -1], dtype=np.int32)
    here = Compute().scan(pieces, state, table, thetas)
    compute = OnDevice(device)
    there = compute.scan(pieces, state, table, thetas)
    assert there[1].tolist() == here[1].tolist() and there[0].tolist() == here[0].tolist()
    state.available[here[1]] = False
    compute.mark(here[1])
    again = compute.scan(pieces, state, table, thetas)
    assert again[1].tolist() == Compute().scan(pieces, state, table, thetas)[1].tolist()
    assert not set(again[1].tolist()) & set(here[1].tolist())


def test_a_gpu_is_used_if_there_is_one_and_missed_if_it_is_asked_for(few_rows):
    count, _ = usable_gpus()
    found = gm.select(few_rows, engine=LocalEngine(2, device="auto"), k=20, method="gm-matching")
    assert found.provenance["engine"]["devices"] == (
        sorted({f"cuda:{number % count}" for number in range(2)}) if count else ["cpu"]
    )
    assert (
        found.order.tolist()
        == gm.select(few_rows, engine=LocalEngine(1), k=20, method="gm-matching").order.tolist()
    )
    if count:
        assert LocalEngine(device="cuda").workers == count
        assert compute_for("cuda", count + 1).name == f"cuda:{(count + 1) % count}"
    else:
        with pytest.raises(InvalidInputError, match='device="cuda": torch finds no CUDA device here'):
            gm.select(few_rows, engine=LocalEngine(1, device="cuda"), k=20, method="gm-matching")


def test_an_unknown_device_is_refused():
    with pytest.raises(InvalidInputError, match='device=\'tpu\': expected "cpu", "cuda" or "auto"'):
        LocalEngine(device="tpu")
