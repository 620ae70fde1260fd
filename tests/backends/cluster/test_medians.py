"""Medians of rows that are spread over workers, and what is sent for them."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.backends.cluster.medians import _evaluate, class_means, class_medians, class_spreads
from gmmatch.backends.cluster.rows import rows_on


@contextmanager
def cluster_of(path, workers, labels=None):
    """Workers with the rows of a file in their hands, and the size of each class."""
    with rows_on(LocalEngine(workers), path) as rows:
        y = np.zeros(len(rows)) if labels is None else labels
        classes = [np.flatnonzero(y == label) for label in np.unique(y)]
        rows.source.cluster.assign(classes, [1] * len(classes), [0] * len(classes))
        yield rows.source.cluster, {number: len(own) for number, own in enumerate(classes)}


def medians_of(path, workers, labels=None, eps=1e-8):
    with cluster_of(path, workers, labels) as (cluster, sizes):
        return class_medians(cluster, sizes, eps=eps, max_iter=1000)


@pytest.mark.parametrize("n_rows", [1, 2, 3, 50, 9000])
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_the_median_is_that_of_the_rows_in_memory(tmp_path, n_rows, offset):
    rows = np.random.default_rng(n_rows).normal(size=(n_rows, 4)) ** 3 + offset
    np.save(tmp_path / "rows.npy", rows)
    found = medians_of(tmp_path / "rows.npy", 3, eps=1e-9)[0]
    expected = gm.geometric_median(rows, eps=1e-9)
    assert found.converged and found.gap <= 1e-9
    objective = np.linalg.norm(rows - found.point, axis=1).sum()
    assert objective <= expected.objective * (1.0 + 2e-9)
    assert found.objective == pytest.approx(objective, rel=1e-9)


def test_classes_share_passes_and_do_not_mix(tmp_path):
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 2000)
    rows = random.normal(size=(2000, 5)) + 10.0 * labels[:, None]
    np.save(tmp_path / "rows.npy", rows)
    with cluster_of(tmp_path / "rows.npy", 2, labels) as (cluster, sizes):
        found = class_medians(cluster, sizes, eps=1e-8, max_iter=1000)
        calls = cluster.placement.traffic["evaluate"].calls
    for number in range(4):
        expected = gm.geometric_median(rows[labels == number]).point
        assert np.allclose(found[number].point, expected, atol=1e-4)
    assert calls == 2 * max(median.iterations for median in found.values())


def test_a_row_with_many_copies_on_all_workers_is_found_as_the_median(tmp_path):
    random = np.random.default_rng(1)
    rows = random.normal(size=(640, 3))
    rows[::3] = [0.3, 0.1, 0.2]  # a third of the weight in one point, spread over all pieces
    np.save(tmp_path / "rows.npy", rows)
    points = [medians_of(tmp_path / "rows.npy", workers)[0] for workers in (1, 2, 3)]
    assert all(best.gap <= 1e-8 and best.point.tolist() == [0.3, 0.1, 0.2] for best in points)
    with cluster_of(tmp_path / "rows.npy", 2) as (cluster, _):
        assert _evaluate(cluster, {0: rows[0]}, 0.0, sample=False)[0].coincident_weight == 214


def test_the_mean_and_the_farthest_row(tmp_path, clouds, rows_file):
    with cluster_of(rows_file, 3) as (cluster, _):
        mean = class_means(cluster, [0])[0]
        spread = class_spreads(cluster, {0: mean})[0]
    distances = np.linalg.norm(clouds - clouds.mean(axis=0), axis=1)
    assert np.allclose(mean, clouds.mean(axis=0), rtol=1e-13)
    assert (spread.position, spread.farthest) == (int(distances.argmax()), pytest.approx(distances.max()))
    assert spread.typical == pytest.approx(np.median(distances), rel=0.1)


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("n_classes", [1, 3])
def test_a_pass_sends_little_whatever_the_number_of_rows(tmp_path, workers, n_classes):
    s = 24
    rows = np.random.default_rng(0).normal(size=(9000 * n_classes, s)).astype(np.float16)
    np.save(tmp_path / "rows.npy", rows)
    labels = np.arange(len(rows)) % n_classes
    with cluster_of(tmp_path / "rows.npy", workers, labels) as (cluster, sizes):
        class_medians(cluster, sizes, eps=1e-8, max_iter=1000)
        traffic = cluster.placement.traffic
    allowed = (s + 8) * 8 * n_classes
    assert traffic["evaluate"].calls >= 3 * workers
    for message in (traffic["evaluate"], traffic["take"]):
        assert message.largest_sent <= allowed and message.largest_received <= allowed
    # A row is fetched now and then, to be tried as the median, and not with every pass.
    assert traffic["take"].received <= 4 * n_classes * s * rows.itemsize


def test_only_picked_rows_and_those_of_the_fingerprint_travel(rows_file, clouds):
    k, s = 200, clouds.shape[1]
    found = gm.select(rows_file, engine=LocalEngine(4), k=k, batches=4, random_state=0, method="gm-matching")
    moved = found.provenance["engine"]["bytes"]["by_call"]
    fetched = moved["take"]["received"] // (s * 8)
    # Picks of several batches once more, for the residuals of their joined order; and a few for the median.
    assert 2 * k + 1024 <= fetched <= 2 * k + 1024 + 50
    assert found.provenance["engine"]["bytes"]["received"] == sum(part["received"] for part in moved.values())
