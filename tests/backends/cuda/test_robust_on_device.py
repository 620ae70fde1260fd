"""Robust on the rows of a tensor: the same code on the CPU's tensors, which every machine has, and on a GPU's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cuda.blocks import TensorRows, TensorSource
from gmmatch.median.passes import distances_to
from gmmatch.rows.rows import Rows
from gmmatch.screening import algebra
from gmmatch.screening.cloud import HostCloud
from gmmatch.screening.core import coordinates, robust_center
from gmmatch.screening.device_cloud import DeviceCloud
from gmmatch.screening.device_points import DevicePoints, points_of
from gmmatch.screening.groups import find_groups
from gmmatch.screening.points import Points

torch = pytest.importorskip("torch")

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")),
]
# Far from 0: what is subtracted late loses digits.
FAR = 1000.0


def labelled(n: int = 3000, width: int = 24, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return rows of five classes, a fifth of the labels wrong and a tenth of the rows moved, and both masks."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 5, n)
    X = (rng.standard_normal((n, width)) + 6.0 * np.eye(width)[true]).astype(np.float32)
    wrong = rng.random(n) < 0.2
    y = np.where(wrong, (true + 1 + rng.integers(0, 4, n)) % 5, true)
    foreign = rng.random(n) < 0.1
    X[foreign, -1] += 14.0
    return X, y, foreign | wrong


def as_source(X: Any, device: str) -> TensorSource:
    return TensorSource(torch.from_numpy(np.array(X)).to(device))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_products_are_those_of_the_host(device: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((200, 7)) + (10.0 if dtype == np.float16 else FAR)).astype(dtype)
    order = rng.permutation(200)[:150]
    origin, axes = X.astype(np.float64).mean(axis=0), rng.standard_normal((7, 3)).astype(np.float32)
    host = Points(Rows(X, order), origin, 2.0, axes=axes)
    there = DevicePoints(Rows(as_source(X, device), order), origin, 2.0, axes=axes)
    some = np.array([3, 140, 7])
    slopes, offsets = rng.standard_normal((3, 2)), np.array([1.0, -1.0])
    close = {"rtol": 2e-5, "atol": 2e-3 if dtype == np.float32 else 2e-5}
    np.testing.assert_allclose(there.gather(some), host.gather(some), **close)
    np.testing.assert_allclose(there.scored(slopes, offsets), host.scored(slopes, offsets), **close)
    np.testing.assert_allclose(there.projected(some, slopes), host.projected(some, slopes), **close)
    parts, weights = slice(1, 3), np.array([[1.0], [2.0]], dtype=np.float32)
    one, other = there.sample(some), host.sample(some)
    np.testing.assert_allclose(one.gram(parts).cpu(), other.gram(parts), **close)
    assert one.gram(parts, wide=True).dtype == torch.float64
    np.testing.assert_allclose(one.totals(parts, weights), other.totals(parts, weights), **close)
    np.testing.assert_allclose(one.times(parts, slopes), other.times(parts, slopes), **close)
    turned = np.array([2, 0, 1])
    expected = there.sample(some[turned]).gram(parts).cpu()
    np.testing.assert_array_equal(one.ordered(turned).gram(parts).cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_points_from_class_centers_and_in_a_kernel(device: str) -> None:
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    given, centers = np.arange(60) % 3, np.random.default_rng(1).standard_normal((3, 4))
    host, there = Points(Rows(X), np.zeros(4)), points_of(Rows(as_source(X, device)), np.zeros(4), 1.0)
    assert isinstance(there, DevicePoints)
    every = np.arange(60)
    for one, other in (
        (there.from_centers(centers, given), host.from_centers(centers, given)),
        (there.lifted(every, 20), host.lifted(every, 20)),
    ):
        np.testing.assert_allclose(one.gather(every), other.gather(every), atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_distances_and_coordinates_keep_their_digits_far_from_zero(device: str) -> None:
    X = (np.random.default_rng(0).standard_normal((50, 3)) + FAR).astype(np.float32)
    there, host = Rows(as_source(X, device)), Rows(X)
    point = X[0].astype(np.float64) + 0.125
    np.testing.assert_allclose(TensorRows(there).distances_to(point), distances_to(host, point), rtol=1e-12)
    center, axes = robust_center(host), np.eye(3)[:, :2]
    expected = X.astype(np.float64)[:, :2] - center.point[:2]
    np.testing.assert_allclose(coordinates(there, center, axes), expected, atol=1e-10)


@pytest.mark.parametrize("device", DEVICES)
def test_labelled_rows_on_a_device_are_screened_and_picked_as_on_the_host(device: str) -> None:
    X, y, bad = labelled()
    host = gm.select(X, y=y, k=300, method="robust", random_state=0)
    there = gm.Robust(k=300, random_state=0).select(as_source(X, device), y)
    # Rounding may move a row across the threshold, not more.
    assert np.mean(host.screening.kept != there.screening.kept) <= 0.002
    assert bad[there.indices].mean() <= 0.03
    assert there.counts == host.counts
    assert any("device" in details for details in there.provenance["groups"])
    # The same features, up to rounding: the picks follow the clean distribution just as closely.
    clean = X[~bad]
    apart = [np.linalg.norm(X[one.indices].mean(axis=0) - clean.mean(axis=0)) for one in (host, there)]
    assert apart[1] <= 1.1 * apart[0] + 0.02


@pytest.mark.parametrize("device", DEVICES)
def test_picks_on_a_device_are_those_of_a_plain_loop_over_its_features(device: str) -> None:
    from gmmatch.backends.cuda.features import match_on_device

    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((90, 6)).astype(np.float32)).to(device)
    members = [np.arange(0, 90, 2), np.arange(1, 90, 2)]
    targets = [rng.standard_normal(6), rng.standard_normal(6)]
    for number, picks in enumerate(match_on_device(values, members, targets, [20, 5])):
        rows = values.cpu().numpy().astype(np.float64)[members[number]]
        theta, left = targets[number].copy(), np.ones(len(rows), dtype=bool)
        for chosen in picks.order:
            assert chosen == np.argmax(np.where(left, rows @ theta, -np.inf))
            left[chosen] = False
            theta += targets[number] - rows[chosen]


@pytest.mark.parametrize("device", DEVICES)
def test_rows_without_labels_and_rows_that_are_picked_already(device: str) -> None:
    X, y, _ = labelled(1500)
    found = gm.Robust(k=60, random_state=0).select(as_source(X, device), y, include=[5, 9])
    assert set(found.indices[:2].tolist()) == {5, 9}
    assert len(set(found.indices.tolist())) == 60
    rng = np.random.default_rng(0)
    cloud = rng.standard_normal((400, 3)).astype(np.float32)
    cloud[:100] += 20.0
    there = gm.Robust(k=40, random_state=0).select(as_source(cloud, device))
    assert np.array_equal(there.indices, gm.Robust(k=40, random_state=0).select(cloud).indices)
    assert not there.mask[:100].any()


@pytest.mark.parametrize("device", DEVICES)
def test_a_more_careful_target_is_the_same_on_a_device(device: str) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(3000) % 5
    X = (rng.standard_normal((3000, 20)) + 1.4 * np.eye(5, 20)[truth]).astype(np.float32)
    y = np.where(rng.random(3000) < 0.3, (truth + rng.integers(1, 5, 3000)) % 5, truth)
    here = gm.Robust(k=0.2, random_state=0).select(X, y)
    there = gm.Robust(k=0.2, random_state=0).select(as_source(X, device), y)
    for found in (here, there):
        assert {group["target"] for group in found.provenance["groups"]} == {"kept rows"}
    assert np.mean(np.isin(there.indices, here.indices)) > 0.95


@pytest.mark.parametrize("device", DEVICES)
def test_many_rows_without_labels_go_through_the_features_on_the_device(device: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12_000, 4)).astype(np.float32)
    X[:4000] += 15.0
    found = gm.Robust(k=100, random_state=0, n_frequencies=64).select(as_source(X, device))
    assert "device" in found.provenance["groups"][0]
    assert not found.mask[:4000].any()
    assert np.linalg.norm(X[found.indices].mean(axis=0) - X[4000:].mean(axis=0)) < 0.1


@pytest.mark.parametrize("device", DEVICES)
def test_algebra_on_a_device_is_that_of_the_host(device: str) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 12))
    squares = [rows[:200].T @ rows[:200], rows[200:].T @ rows[200:]]
    left, right, sides = (
        rng.standard_normal((2, 12)),
        rng.standard_normal((2, 12)),
        rng.standard_normal((12, 3)),
    )
    host = algebra.combined(squares, left, left, 400.0)
    there = algebra.combined([torch.from_numpy(one).to(device) for one in squares], left, left, 400.0)
    np.testing.assert_allclose(there.cpu(), host, rtol=1e-12)
    uneven = algebra.combined([torch.from_numpy(one).to(device) for one in squares], left, right, 2.0)
    np.testing.assert_allclose(uneven.cpu(), algebra.combined(squares, left, right, 2.0), rtol=1e-12)
    assert algebra.trace(there) == pytest.approx(algebra.trace(host))
    assert algebra.narrowed(there).dtype == torch.float32
    found = algebra.shrunk_solutions(there, [0.0, 0.3], 2.0, 0.1, sides)
    for one, other in zip(found, algebra.shrunk_solutions(host, [0.0, 0.3], 2.0, 0.1, sides), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    axes, expected = algebra.leading_directions(there, 4), algebra.leading_directions(host, 4)
    np.testing.assert_allclose(np.abs(np.sum(axes * expected, axis=0)), 1.0, rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_sums_over_a_cloud_on_a_device_are_those_of_the_host(device: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((300, 5)).astype(np.float32)
    host, there = HostCloud(values), DeviceCloud(torch.from_numpy(values).to(device))
    centers, offsets = (
        2.0 * rng.standard_normal((5, 4)).astype(np.float32),
        rng.standard_normal(4).astype(np.float32),
    )
    beside, some = rng.standard_normal(300).astype(np.float32), np.array([1, 30, 7, 299])
    assert there.shape == host.shape
    np.testing.assert_array_equal(there.rows(some), host.rows(some))
    pairs = [
        (there.times(centers), host.times(centers)),
        (there.turned(centers).times(np.eye(4)), host.turned(centers).times(np.eye(4))),
        (there.cubed(centers, some), host.cubed(centers, some)),
    ]
    for gained in (False, True):
        pairs += zip(
            there.climb(centers, offsets, beside, some, gained),
            host.climb(centers, offsets, beside, some, gained),
            strict=True,
        )
    pairs += zip(there.expect(centers, offsets), host.expect(centers, offsets), strict=True)
    pairs += zip(there.totals(values[:, :2]), host.totals(values[:, :2]), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_a_cloud_on_a_device_has_the_same_groups(device: str) -> None:
    points = np.random.default_rng(0).standard_normal((3000, 6)).astype(np.float32)
    points[:200, 0] += 9.0
    white = (points - points.mean(axis=0)) / points.std(axis=0)
    clouds = HostCloud(white), DeviceCloud(torch.from_numpy(white).to(device))
    nearest = [find_groups(cloud).scores(cloud).argmax(axis=1) for cloud in clouds]
    own = [np.bincount(one[:200]).argmax() for one in nearest]
    assert np.mean((nearest[0] == own[0]) != (nearest[1] == own[1])) < 0.01
