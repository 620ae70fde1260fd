"""Workers that compute with torch find what the compiled loops find, on any device.

On a machine with a GPU: ``python -m pytest tests/backends/cluster/test_devices.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.backends.cluster.compute import Compiled, compute_for
from gmmatch.backends.cluster.pieces import Piece
from gmmatch.backends.cluster.placement import Died, LocalPlacement
from gmmatch.backends.cluster.worker import ShardWorker
from gmmatch.errors import InvalidInputError

torch = pytest.importorskip("torch")
from gmmatch.backends.cluster.on_device import OnDevice, usable_gpus  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


@pytest.fixture
def few_rows(clouds, tmp_path):
    np.save(tmp_path / "few.npy", clouds[::5])
    return tmp_path / "few.npy"


class TorchPlacement(LocalPlacement):
    """Workers that compute with torch; the one of ``mortal`` forgets everything at its third scan."""

    device, room, mortal = "cpu", None, -1

    def made(self, spec):
        return ShardWorker(spec, OnDevice(self.device, room=self.room))

    def wait(self, number, pending):
        found = super().wait(number, pending)
        scans = self.traffic.methods.get("scan")
        if number == self.mortal and scans is not None and scans.calls > 6:
            self.mortal = -1
            raise Died("as the test wanted it")
        return found


def torch_engine(workers, **settings):
    engine = LocalEngine(workers)
    kind = type("Placement", (TorchPlacement,), settings)
    engine.place = kind
    return engine


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
    found = gm.select(few_rows, engine=torch_engine(2, device=device, mortal=1), **asked)
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
        for compute in (Compiled(), OnDevice(device)):
            found = compute.rows_of(piece)
            parts.append(found.evaluate(number, compute.point(point), delta, False))
            parts.append((found.total(number), found.distances(number, compute.point(point))))
        here, sums, there, others = parts
        assert there.pull == pytest.approx(here.pull, rel=1e-11, abs=1e-9 * here.inverse)
        assert (there.inverse, there.objective) == pytest.approx((here.inverse, here.objective), rel=1e-12)
        assert (there.coincident, there.weight) == (here.coincident, here.weight)
        assert (there.nearest, there.distance) == (here.nearest, pytest.approx(here.distance, rel=1e-15))
        assert there.row.tobytes() == here.row.tobytes() and there.row.dtype == here.row.dtype
        assert others[0] == pytest.approx(sums[0], rel=1e-12, abs=1e-12)
        assert others[1] == pytest.approx(sums[1], rel=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_a_piece_of_nothing_but_copies_of_the_point_has_no_nearest_row(device):
    compute = OnDevice(device)
    found = compute.rows_of(piece_of(np.ones((5, 3)))).evaluate(0, compute.point(np.ones(3)), 0.0, False)
    assert (found.nearest, found.coincident, found.objective) == (-1, 5.0, 0.0)
    assert found.pull.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("span", [1 << 24, 300])
def test_scores_that_differ_by_rounding_alone_are_decided_as_on_the_processor(device, span, monkeypatch):
    """Permuted columns give the same score but for its rounding, which must be that of the left-to-right sum."""
    monkeypatch.setattr("gmmatch.backends.cluster.on_device._SPAN", span)
    random = np.random.default_rng(0)
    values = random.normal(size=40)
    rows = np.stack([random.permutation(values) for _ in range(2000)])
    thetas = np.ones((4, 40)) * [[1.0], [0.1], [-0.3], [3.0]]
    pieces = []
    for first in (0, 1000):
        piece = Piece(rows, slice(first, first + 1000), first, None, np.array([1000]))
        piece.batch = random.integers(0, 5, 1000).astype(np.uint32)
        piece.available = random.random(1000) < 0.7
        pieces.append(piece)
    table = np.array([2, 0, 1, 0, 3, -1], dtype=np.int32)
    here = Compiled().scan(pieces, table, thetas)
    compute = OnDevice(device)
    there = compute.scan(pieces, table, thetas)
    assert there[1].tolist() == here[1].tolist() and there[0].tolist() == here[0].tolist()
    for piece in pieces:
        taken = here[1][(here[1] >= piece.first_row) & (here[1] < piece.first_row + 1000)]
        piece.available[taken - piece.first_row] = False
    compute.mark(here[1])
    again = compute.scan(pieces, table, thetas)
    assert again[1].tolist() == Compiled().scan(pieces, table, thetas)[1].tolist()
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
