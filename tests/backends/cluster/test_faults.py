"""Workers that die and files that cannot be read."""

from __future__ import annotations

import random

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import (
    LocalEngine,
    UnreadableShardError,
    WorkerLostError,
    open_shards,
)
from gmmatch.backends.cluster.placement import Died, LocalPlacement


class MortalPlacement(LocalPlacement):
    """Workers of which some die, before they do what they are asked or before they can tell."""

    def __init__(self, specs, chance, seed):
        super().__init__(specs)
        self.random, self.chance, self.deaths = random.Random(seed), chance, []

    def wait(self, number, pending):
        moment = self.random.random()
        if moment >= self.chance(self, number):
            return super().wait(number, pending)
        if moment % 0.01 < 0.005:
            pending.result()  # the work was done, but its result is lost
        self.objects[number] = None  # with all that it knew
        self.deaths.append(number)
        raise Died("as the test wanted it")


class MortalEngine(LocalEngine):
    def __init__(self, workers, chance, seed=0, kind=MortalPlacement):
        super().__init__(workers)
        self.chance, self.seed, self.kind = chance, seed, kind

    def place(self, specs):
        self.placement = self.kind(specs, self.chance, self.seed)
        return self.placement


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]
)
def test_workers_that_die_at_random_change_nothing(rows_file, clouds, seed):
    labels = np.arange(len(clouds)) % 2
    arguments = {"y": labels, "k": 200, "batches": 3, "random_state": 0, "method": "gm-matching"}
    expected = gm.select(rows_file, engine=LocalEngine(1), **arguments)
    engine = MortalEngine(3, lambda placement, number: 0.1, seed)
    found = gm.select(rows_file, engine=engine, **arguments)
    assert engine.placement.deaths and found.provenance["engine"]["replaced_workers"] >= 5
    assert found.order.tolist() == expected.order.tolist()
    assert found.groups == expected.groups


def test_a_worker_that_keeps_dying_ends_the_job(rows_file):
    engine = MortalEngine(2, lambda placement, number: float(number == 1 and "evaluate" in placement.traffic))
    with pytest.raises(WorkerLostError, match="Worker 1 died 6 times in the same step"):
        gm.select(rows_file, engine=engine, k=20, method="gm-matching")


@pytest.fixture
def files(clouds, tmp_path):
    paths = [tmp_path / f"part-{number}.npy" for number in range(5)]
    for path, part in zip(paths, np.split(clouds, [100, 900, 901, 2000]), strict=True):
        np.save(path, part)
    return paths


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def replace_by_another_shape(path):
    np.save(path, np.zeros((3, 2)))


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), truncate, replace_by_another_shape])
def test_a_file_that_cannot_be_read_is_named(files, damage):
    shards = open_shards(files)
    damage(files[3])
    with pytest.raises(
        UnreadableShardError, match=r"part-3\.npy cannot be (read|used).*Nothing was selected"
    ):
        gm.select(shards, engine=LocalEngine(2), k=50, method="gm-matching")


@pytest.mark.parametrize("workers", [1, 3])
def test_the_job_goes_on_without_unreadable_files_if_asked_to(files, clouds, workers, tmp_path):
    labels = np.arange(len(clouds)) % 2
    shards = open_shards(files)
    truncate(files[3])
    files[0].unlink()
    found = gm.select(
        shards,
        engine=LocalEngine(workers, skip_unreadable=True),
        y=labels,
        k=60,
        random_state=0,
        method="gm-matching",
    )
    gone = np.r_[0:100, 901:2000]
    assert not set(found.indices.tolist()) & set(gone.tolist())
    assert [group.n_rows for group in found.groups] == [
        int((np.delete(labels, gone) == label).sum()) for label in (0, 1)
    ]
    assert found.k == 60 and found.n_rows == 3000
    listed = found.provenance["engine"]["unreadable"]
    assert sorted(location for location, _ in listed) == [str(files[0]), str(files[3])]
    # The same as if these rows had never been there, but for the batches, of which there is one here.
    left = tmp_path / "left.npy"
    np.save(left, np.delete(clouds, gone, axis=0))
    alone = gm.select(
        left, engine=LocalEngine(1), y=np.delete(labels, gone), k=60, random_state=0, method="gm-matching"
    )
    assert np.delete(np.arange(3000), gone)[alone.order].tolist() == found.order.tolist()


def test_a_header_that_cannot_be_read_takes_its_file_out_of_the_count(files):
    files[1].write_bytes(b"not an array")
    with pytest.raises(UnreadableShardError, match=r"part-1\.npy cannot be read"):
        gm.select(files, engine=LocalEngine(1), k=20, method="gm-matching")
    found = gm.select(files, engine=LocalEngine(1, skip_unreadable=True), k=20, method="gm-matching")
    assert found.n_rows == 2200
    assert [location for location, _ in found.provenance["engine"]["unreadable"]] == [str(files[1])]


def test_nothing_left_is_an_error(files):
    shards = open_shards(files[:1])
    files[0].unlink()
    with pytest.raises(UnreadableShardError, match="No row is left"):
        gm.select(shards, engine=LocalEngine(1, skip_unreadable=True), k=5, method="gm-matching")


def test_a_share_is_one_of_the_rows_that_can_be_read(files):
    shards = open_shards(files)
    files[4].unlink()
    assert (
        gm.select(shards, engine=LocalEngine(1, skip_unreadable=True), k="10%", method="gm-matching").k == 200
    )
