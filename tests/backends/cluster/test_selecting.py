"""Selecting on an engine: the picks of the plain algorithm, whatever the number of workers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.errors import (
    ConvergenceWarning,
    FarRowWarning,
    InvalidInputError,
    NotFiniteError,
)
from gmmatch.matching.batches import batch_of_rows

from ...matching.plain import plain_picks


def class_seed(seed: int, number: int, n_classes: int) -> int:
    stream = np.random.SeedSequence(seed).spawn(n_classes)[number]
    return int(stream.generate_state(1, np.uint64)[0])


@pytest.mark.parametrize("start", ["target", "zero"])
@pytest.mark.parametrize(("k", "batches"), [(40, 1), (200, 2), (330, 5), (700, 8)])
def test_the_picks_are_those_of_the_plain_algorithm(clouds, rows_file, k, batches, start):
    found = gm.select(
        rows_file,
        engine=LocalEngine(2),
        k=k,
        batches=batches,
        start=start,
        random_state=3,
        eps=1e-12,
        method="gm-matching",
    )
    target = gm.geometric_median(clouds, eps=1e-12).point
    batch = batch_of_rows(np.arange(len(clouds)), batches, class_seed(3, 0, 1))
    assert found.order.tolist() == plain_picks(clouds, target, k, batch, batches, start).tolist()


def test_every_class_is_picked_from_like_data_of_its_own(clouds, rows_file):
    labels = np.random.default_rng(0).integers(0, 3, len(clouds))
    found = gm.select(
        rows_file,
        engine=LocalEngine(3),
        y=labels,
        k=300,
        batches=3,
        random_state=1,
        target="mean",
        method="gm-matching",
    )
    for number, group in enumerate(found.groups):
        rows = np.flatnonzero(labels == number)
        n_batches = min(3, len(group.order) // 32)  # a batch makes at least 32 picks
        batch = batch_of_rows(rows, n_batches, class_seed(1, number, 3))
        plain = plain_picks(clouds[rows], clouds[rows].mean(axis=0), len(group.order), batch, n_batches)
        assert group.order.tolist() == rows[plain].tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, pytest.param(np.int16, marks=pytest.mark.slow)])
def test_the_number_of_workers_does_not_change_a_bit(clouds, tmp_path, dtype):
    rows = np.round(clouds * 8).astype(dtype)  # with many equal rows
    np.save(tmp_path / "rows.npy", rows)
    labels = np.arange(len(rows)) % 2
    found = [
        gm.select(
            tmp_path / "rows.npy",
            engine=LocalEngine(workers),
            y=labels,
            k=250,
            batches=3,
            random_state=0,
            method="gm-matching",
        )
        for workers in (1, 2, 3, 4, 7)
    ]
    for other in found[1:]:
        assert other.order.tobytes() == found[0].order.tobytes()
        assert other.groups == found[0].groups  # residuals included
        assert other.provenance["groups"] == found[0].provenance["groups"]


def test_sorted_shards_do_as_well_as_shuffled_ones(clouds, tmp_path):
    random = np.random.default_rng(0)
    by_size = clouds[np.argsort(clouds.sum(axis=1))]
    residuals = []
    for name, rows in (("sorted", by_size), ("shuffled", random.permutation(by_size))):
        np.save(tmp_path / f"{name}.npy", rows)
        found = gm.select(
            tmp_path / f"{name}.npy",
            engine=LocalEngine(2),
            k=300,
            batches=8,
            random_state=0,
            method="gm-matching",
        )
        residuals.append(found.residual[None])
    assert max(residuals) < 3.0 * min(residuals)


def test_the_residual_is_close_to_that_of_one_batch_in_memory(clouds, rows_file):
    in_memory = gm.GMMatching(k=400).select(clouds).residual[None]
    found = gm.select(
        rows_file, engine=LocalEngine(2), k=400, batches=12, random_state=0, method="gm-matching"
    )
    by_chance = np.linalg.norm(
        gm.Random(k=400, random_state=0).select(clouds).apply(clouds).mean(axis=0)
        - gm.geometric_median(clouds).point
    )
    assert found.residual[None] < 4.0 * in_memory
    assert found.residual[None] < 0.05 * by_chance


def test_the_reported_residual_is_that_of_the_picks(clouds, rows_file):
    found = gm.select(
        rows_file, engine=LocalEngine(2), k=200, batches=4, random_state=0, method="gm-matching"
    )
    target = gm.geometric_median(clouds).point
    path = found.residual_path[None]
    for count in (1, 50, 200):
        assert path[count - 1] == pytest.approx(
            np.linalg.norm(target - clouds[found.order[:count]].mean(axis=0)), rel=1e-6
        )


def test_far_from_the_origin_batches_do_not_err_together(clouds, tmp_path):
    far = clouds + 50.0
    np.save(tmp_path / "far.npy", far)
    found = gm.select(
        tmp_path / "far.npy", engine=LocalEngine(1), k=600, batches=16, random_state=0, method="gm-matching"
    )
    assert found.residual[None] < 2.0 * gm.GMMatching(k=600).select(far).residual[None]


def test_quotas_are_exact(rows_file, clouds):
    labels = np.where(np.arange(len(clouds)) < 2500, "many", "few")
    for per_class, expected in (
        ("proportional", {"few": 50, "many": 250}),
        ("balanced", {"few": 150, "many": 150}),
        ({"few": 7}, {"few": 7, "many": 0}),
    ):
        k = 300 if isinstance(per_class, str) else None
        found = gm.select(
            rows_file,
            engine=LocalEngine(2),
            y=labels,
            k=k,
            per_class=per_class,
            batches=4,
            method="gm-matching",
        )
        assert found.counts == expected
        assert len(np.unique(found.order)) == sum(expected.values())


def test_all_rows_can_be_picked(rows_file, clouds):
    found = gm.select(
        rows_file, engine=LocalEngine(2), k=len(clouds), batches=20, random_state=0, method="gm-matching"
    )
    assert found.indices.tolist() == list(range(len(clouds)))


def test_few_rows_for_many_pieces(tmp_path):
    rows = np.array([[0.0], [1.0], [2.0], [9.0]])
    np.save(tmp_path / "few.npy", rows)
    found = [
        gm.select(tmp_path / "few.npy", engine=LocalEngine(workers), k=2, method="gm-matching").order.tolist()
        for workers in (1, 3, 4)
    ]
    assert found == [gm.GMMatching(k=2).select(rows).order.tolist()] * 3


def test_one_batch_picks_what_is_picked_in_memory(clouds, rows_file):
    labels = (np.arange(len(clouds)) % 5).tolist()
    for options in ({}, {"normalize": True}, {"normalize": True, "unit_target": True}, {"start": "zero"}):
        asked = {"k": 100, "random_state": 0, "method": "gm-matching", **options}
        there = gm.select(rows_file, engine=LocalEngine(3), y=labels, **asked)
        here = gm.GMMatching(k=100, random_state=0, **options).select(clouds, labels)
        assert there.order.tolist() == here.order.tolist()
    there = gm.select(rows_file, engine=LocalEngine(3), y=labels, k=100, method="herding")
    assert there.order.tolist() == gm.Herding(k=100).select(clouds, labels).order.tolist()


def test_provenance_tells_how_it_was_made(clouds, rows_file):
    found = gm.select(
        rows_file, engine=LocalEngine(2), k=40, random_state=5, ids=np.arange(3000) * 2, method="gm-matching"
    )
    here = gm.GMMatching(k=40, random_state=5).select(clouds)
    facts = found.provenance
    assert facts["input"] == here.provenance["input"]
    assert (facts["method"], facts["seed"], facts["parameters"]["carry"]) == ("gm-matching", 5, False)
    assert facts["engine"]["workers"] == 2 and facts["engine"]["unreadable"] == []
    assert np.array_equal(found.ids, found.indices * 2)


def test_progress_ends_where_it_should(rows_file, clouds):
    seen = []
    labels = np.arange(len(clouds)) % 3
    engine = LocalEngine(2, progress=lambda *step: seen.append(step))
    gm.select(rows_file, engine=engine, y=labels, k=99, random_state=0, method="gm-matching")
    assert [step for step in seen if step[0] == "median"][-1] == ("median", 3, 3)
    assert [step for step in seen if step[0] == "picks"][-1] == ("picks", 99, 99)
    done = [step[1] for step in seen if step[0] == "picks"]
    assert done == sorted(done)


def test_rows_without_a_number_are_named(clouds, tmp_path):
    clouds[[5, 2222], 1] = np.nan, np.inf
    np.save(tmp_path / "bad.npy", clouds)
    with pytest.raises(NotFiniteError, match=r"in 2 of 3000 rows \(first: 5, 2222\)"):
        gm.select(tmp_path / "bad.npy", engine=LocalEngine(2), k=10, method="gm-matching")


def test_a_far_row_and_an_early_stop_are_warned_about(clouds, tmp_path):
    clouds[1234] = 1e5
    np.save(tmp_path / "far.npy", clouds)
    with pytest.warns(FarRowWarning, match="Row 1234 lies"):
        gm.select(tmp_path / "far.npy", engine=LocalEngine(2), k=10, method="gm-matching")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FarRowWarning)
        with pytest.warns(ConvergenceWarning, match="stopped at max_iter=1"):
            gm.select(tmp_path / "far.npy", engine=LocalEngine(2), k=10, max_iter=1, method="gm-matching")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf", "approximation": None}, "by features; leave it out"),
        ({"strategy": "coded"}, "strategy= has no meaning on an engine"),
        ({"sample_weight": np.ones(3000)}, "counts every row alike"),
        ({"carry": True}, "batches on an engine are independent"),
        ({"normalise": True}, "Did you mean 'normalize'"),
        ({"preprocess": ["pca:7"]}, '"pca:6" is the most'),
        ({"k": 4000}, "k=4000 exceeds the number of rows"),
    ],
)
def test_what_an_engine_cannot_do_is_refused(rows_file, options, message):
    with pytest.raises(InvalidInputError, match=message):
        gm.select(rows_file, engine=LocalEngine(1), **{"k": 10, "method": "gm-matching", **options})


def test_what_is_wrong_is_said_before_anything_is_read(tmp_path):
    with pytest.raises(InvalidInputError, match="pass carry=False, or batches=1"):
        gm.GMMatching(k=10).select(tmp_path / "missing.npy", engine="local")
    with pytest.raises(InvalidInputError, match="engine='dask': expected"):
        gm.select(tmp_path / "missing.npy", engine="dask", k=10, method="gm-matching")


@pytest.mark.grid
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batches": 3},
        {"batches": 3, "include": [3, 1700, 40], "exclude": np.arange(500, 900)},
        {"batches": 2, "replacement": True},
        {"start": "zero", "method": "herding", "k": 700},
    ],
)
@pytest.mark.parametrize("labelled", [False, True])
def test_an_engine_picks_what_the_same_call_picks_without(clouds, rows_file, options, labelled):
    y = np.arange(3000) % 2 if labelled else None
    asked = {"k": 300, "y": y, "random_state": 2, "method": "gm-matching", **options}
    here = gm.select(clouds, carry=False, **asked)
    for source in (rows_file, clouds):
        there = gm.select(source, engine=LocalEngine(3), **asked)
        assert there.order.tolist() == here.order.tolist()
        assert there.provenance["input"] == here.provenance["input"]
        assert there.provenance["parameters"] == here.provenance["parameters"]
        for one, other in zip(there.groups, here.groups, strict=True):
            np.testing.assert_allclose(one.residuals, other.residuals, rtol=1e-5)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-200, 1e-155, 1e-100, 1.0, 1e100, 1e149])
def test_numbers_of_any_size_give_the_picks_of_the_reference(scale):
    X = np.random.default_rng(0).normal(size=(60, 7)).clip(-3, 3) / 3 * scale
    with np.errstate(all="ignore"):
        here = gm.Herding(k=30).select(X).order
        there = gm.Herding(k=30, batches=1).select(X, engine=LocalEngine(2)).order
    assert there.tolist() == here.tolist()
