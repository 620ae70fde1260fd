"""Rankings, random draws and bandwidths on a device are those of the CPU, for all groups at once."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gmmatch as gm  # noqa: E402
from gmmatch.backends.cuda import kernel_space, sums  # noqa: E402
from gmmatch.backends.cuda.blocks import TensorSource  # noqa: E402
from gmmatch.backends.cuda.groups import DeviceGroups  # noqa: E402
from gmmatch.kernels.distances import median_distance  # noqa: E402
from gmmatch.median.result import Spread  # noqa: E402
from gmmatch.rows.rows import Rows  # noqa: E402
from gmmatch.scores.prototypes import find_prototypes  # noqa: E402
from gmmatch.selectors.places import place_of  # noqa: E402
from gmmatch.selectors.tasks import Tasks  # noqa: E402
from gmmatch.targets.moments import weighted_column_medians  # noqa: E402

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])

METHODS = [
    ("easy", {}),
    ("hard", {}),
    ("moderate", {}),
    ("easy", {"center": "geometric-median"}),
    ("moderate", {"center": "coordinate-median"}),
    ("random", {"random_state": 3}),
    ("random", {"random_state": 3, "replacement": True}),
    ("self-supervised", {"random_state": 0, "n_clusters": 5}),
    ("el2n", {"scores": np.random.default_rng(7).integers(0, 40, 900)}),
]
ASKED = [
    {"y": np.random.default_rng(5).integers(0, 7, 900)},
    {},
    {"y": np.arange(900) % 3, "include": [3, 4, 5, 50], "exclude": np.arange(100, 300)},
    {"y": np.arange(900) // 300, "sample_weight": np.random.default_rng(6).integers(0, 4, 900)},
    {"y": ["a"] * 500 + ["b"] * 400, "per_class": {"b": 30}, "k": None},
]


def rows(dtype: str) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=(900, 6)) + 1.0).astype(dtype)


@devices
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("method", "options"), METHODS)
def test_picks_and_residuals_are_those_of_the_cpu(device, dtype, asked, method, options, monkeypatch):
    monkeypatch.setattr(sums, "_TILE", 64)  # several tiles to a group, and several blocks of tiles
    monkeypatch.setattr(sums, "_BLOCK_ELEMENTS", 2000)
    X = rows(dtype)
    wanted = {"k": 120, "method": method, **asked, **options}
    here = gm.select(X, **wanted)
    there = gm.select(TensorSource(torch.from_numpy(X).to(device)), **wanted)
    assert there.order.tolist() == here.order.tolist()
    for one, other in zip(there.groups, here.groups, strict=True):
        np.testing.assert_allclose(one.residuals, other.residuals, rtol=1e-6, atol=1e-9)
    places = [about.get("device", "")[:4] for about in there.provenance["groups"] if about]
    assert places and set(places) <= {"cpu", "cuda"} and places[0] == device


@devices
@pytest.mark.parametrize("steps", [["unit"], ["center", "scale"], ["scale", "pca:3", "unit"]])
@pytest.mark.parametrize("method", ["gm-matching", "herding", "easy", "self-supervised"])
def test_rows_are_preprocessed_where_they_lie(device, method, steps):
    X = rows("float64")
    X[7] = 0.0
    asked = {"k": 60, "y": np.arange(900) % 4, "method": method, "preprocess": steps, "random_state": 0}
    asked |= {"eps": 1e-12} if method == "gm-matching" else {}
    tensor = torch.from_numpy(X).to(device)
    here, there = gm.select(X, **asked), gm.select(TensorSource(tensor), **asked)
    assert there.order.tolist() == here.order.tolist()
    assert all(about["device"].startswith(device) for about in there.provenance["groups"])
    assert np.array_equal(tensor.cpu(), X)


@devices
@pytest.mark.parametrize(
    "options",
    [
        {"target": "coordinate-median"},
        {"target": "geometric-median", "median_fraction": 0.4, "eps": 1e-12},
        {"target": "geometric-median", "median_fraction": 0.4, "eps": 1e-12, "batches": 3, "include": [5, 6]},
        {"kernel": "rbf", "approximation": "nystroem", "n_components": 40},
        {"kernel": ("rbf", {"bandwidth": 2.0}), "approximation": "fourier", "n_components": 60, "batches": 2},
        {
            "kernel": "polynomial",
            "approximation": "nystroem",
            "n_components": 12,
            "sample_weight": np.arange(900),
        },
        {"kernel": "laplacian", "approximation": "fourier", "n_components": 40, "target": "geometric-median"},
    ],
)
def test_matchings_of_samples_and_features_stay_on_the_device(device, options):
    X = rows("float64")
    asked = {"k": 60, "y": np.arange(900) % 4, "method": "moment-matching", "random_state": 0, **options}
    tensor = torch.from_numpy(X).to(device)
    here, there = gm.select(X, **asked), gm.select(TensorSource(tensor), **asked)
    # Features are float32, of which the last digit may differ.
    least = 0.95 if "kernel" in options else 1.0
    assert np.isin(there.order, here.order).mean() >= least
    assert all(about["device"].startswith(device) for about in there.provenance["groups"])


@devices
def test_prototypes_of_many_clusters_are_those_of_scikit_learn(device):
    random = np.random.default_rng(9)
    X = random.normal(size=(2000, 5)) + 8.0 * random.normal(size=(40, 5))[random.integers(0, 40, 2000)]
    weights = random.integers(0, 3, 2000).astype(float)
    here = find_prototypes(Rows(X), 40, weights, np.random.default_rng(1))
    there = find_prototypes(
        Rows(TensorSource(torch.from_numpy(X).to(device))), 40, weights, np.random.default_rng(1)
    )
    np.testing.assert_allclose(there, here, rtol=1e-9)


@devices
def test_sums_of_long_groups_are_added_up_in_tiles(device):
    X = np.random.default_rng(1).normal(size=(70_000, 2))
    weights = np.random.default_rng(2).random(70_000)
    members = [np.arange(66_000), np.array([5]), np.arange(69_000, 65_000, -1)]
    groups = DeviceGroups.of(torch.from_numpy(X).to(device), members)
    flat = weights[np.concatenate(members)]
    found = sums.grouped_means(groups, groups.to_device(flat)).cpu().numpy()
    expected = [np.average(X[own], axis=0, weights=weights[own]) for own in members]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@devices
@pytest.mark.parametrize("weighted", [False, True])
def test_coordinate_medians_of_groups(device, weighted):
    random = np.random.default_rng(3)
    X = random.integers(0, 6, (200, 5)).astype(np.float32)
    weights = random.integers(0, 3, 200).astype(float) if weighted else np.ones(200)
    members = np.split(random.permutation(200), [1, 8, 60])
    groups = DeviceGroups.of(torch.from_numpy(X).to(device), members)
    flat = groups.to_device(weights[np.concatenate(members)]) if weighted else None
    found = sums.grouped_coordinate_medians(groups, flat).cpu().numpy()
    for number, own in enumerate(members):
        if weights[own].any():
            assert found[number].tolist() == weighted_column_medians(X[own], weights[own]).tolist()


@devices
def test_spreads_of_groups(device):
    random = np.random.default_rng(4)
    distances, available = random.integers(0, 9, 80).astype(float), random.random(80) < 0.7
    distances[33] = 4000.0
    tasks = Tasks(
        rows=Rows(TensorSource(torch.zeros((80, 1), device=device))), labels=[0, 1, 2, 3], numbers=np.arange(4),
        row_numbers=np.arange(80), offsets=np.array([0, 1, 8, 30, 80]), weights=np.ones(80), available=available,
        included=np.zeros(80, dtype=bool), quotas=np.ones(4, dtype=int), weighted=False, seed=0, threads=1,
        side_by_side=1,
    )  # fmt: skip
    place = place_of(tasks)
    found = place.spreads(place.beside(distances))
    assert found[3] == Spread.of(distances[30:], available[30:]) and found[3].far == 1
    assert found[:3] == [Spread(0.0, 0, 0.0)] * 3


@devices
def test_bandwidths_of_groups_are_those_of_the_cpu(device):
    random = np.random.default_rng(8)
    X = np.concatenate(
        [
            random.normal(size=(1300, 7)) + 100.0,  # sampled
            random.normal(size=(40, 7)) * 1e-3 + 5.0,
            np.repeat(random.normal(size=(2, 7)), [30, 2], axis=0),  # most pairs are duplicates
            np.ones((9, 7)),
            np.zeros((1, 7)),
        ]
    )
    members = np.split(np.arange(len(X)), np.cumsum([1300, 40, 32, 9]))
    groups = DeviceGroups.of(torch.from_numpy(X).to(device), members)
    found = kernel_space.median_distances(groups)
    np.testing.assert_allclose(found, [median_distance(X[own], "euclidean") for own in members], rtol=1e-12)
