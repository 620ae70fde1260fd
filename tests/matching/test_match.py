"""Every fast path makes the picks of the textbook loop."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from gmmatch.errors import InvalidInputError
from gmmatch.matching import coded, scan, team
from gmmatch.matching import codes as coding
from gmmatch.matching.batches import batch_of_rows, partition, shares
from gmmatch.matching.codes import Codes
from gmmatch.matching.cost import choose_strategy, working_memory
from gmmatch.matching.loops import Picking
from gmmatch.matching.match import match
from gmmatch.matching.reference import reference_picks
from gmmatch.matching.walk import Walk
from gmmatch.rows.rows import Rows, as_rows

from .plain import plain_picks

STRATEGIES = ("direct", "coded")


@st.composite
def problems(draw):
    """Rows of many kinds, with a target and a number of picks up to all of them."""
    seed = draw(st.integers(0, 100_000))
    random = np.random.default_rng(seed)
    n, s = draw(st.integers(1, 90)), draw(st.integers(1, 40))
    rows = random.standard_normal((n, s)) * random.exponential(size=s)
    kind = draw(st.sampled_from(["plain", "duplicates", "integers", "offset", "far row", "zeros"]))
    if kind == "duplicates":
        rows = rows[random.integers(0, n, n)]
    elif kind == "integers":
        rows = np.round(2 * rows)
    elif kind == "offset":
        rows = rows + 1e3
    elif kind == "far row":
        rows[0] *= 1e4
    elif kind == "zeros":
        rows[:] = 0.0
    target = draw(st.sampled_from([rows.mean(axis=0), np.median(rows, axis=0), np.zeros(s)]))
    k = draw(st.one_of(st.integers(1, n), st.just(n)))
    return rows, target, k


@given(
    problem=problems(),
    dtype=st.sampled_from([np.float32, np.float64, np.float16]),
    start=st.sampled_from(["target", "zero"]),
    replacement=st.booleans(),
    threads=st.sampled_from([1, 2]),
    memory=st.sampled_from([None, 0]),
)
@settings(max_examples=150, deadline=None)
def test_every_strategy_picks_like_the_reference(problem, dtype, start, replacement, threads, memory):
    rows, target, k = problem
    rows = np.clip(rows, -6e4, 6e4).astype(dtype)
    expected = reference_picks(rows.astype(np.float64), target, k, start=start, replacement=replacement)
    for strategy in (*STRATEGIES, "auto"):
        picks = match(
            as_rows(rows), target, k, start=start, replacement=replacement, strategy=strategy,
            threads=threads, memory_limit=memory,
        )  # fmt: skip
        assert picks.order.tolist() == expected.tolist(), strategy


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("k", [1, 60, 599, 600])
def test_larger_problem_up_to_all_rows(strategy, k):
    random = np.random.default_rng(5)
    rows = (random.standard_normal((600, 96)) + random.standard_normal(96)).astype(np.float32)
    target = rows.astype(np.float64).mean(axis=0)
    expected = reference_picks(rows.astype(np.float64), target, k)
    assert match(as_rows(rows), target, k, strategy=strategy).order.tolist() == expected.tolist()


@pytest.mark.parametrize("strategy", ["direct", "coded"])
def test_threads_and_chunks_do_not_change_the_picks(strategy, monkeypatch):
    """Many chunks and the scan per pick from Python, against one chunk and the compiled loop."""
    rows = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
    target = rows.astype(np.float64).mean(axis=0)
    alone = match(as_rows(rows), target, 200, strategy=strategy, threads=1)
    monkeypatch.setattr("gmmatch.rows.rows.CHUNK_ELEMENTS", 1 << 10)
    monkeypatch.setattr("gmmatch.matching.strategies._THREADED_BYTES", 1)
    for threads in (2, 3):
        split = match(as_rows(rows), target, 200, strategy=strategy, threads=threads)
        assert split.order.tolist() == alone.order.tolist()
        assert split.residuals == pytest.approx(alone.residuals, rel=1e-12)


def test_bfloat16_and_strange_layouts():
    torch = pytest.importorskip("torch")
    tensor = torch.randn(200, 24, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
    wide = tensor.to(torch.float64).numpy()
    target = wide.mean(axis=0)
    expected = reference_picks(wide, target, 120).tolist()
    kinds = [tensor, np.asfortranarray(wide), np.repeat(wide, 2, axis=0)[::2], wide.astype(">f4")]
    for kind in kinds:
        for strategy in STRATEGIES:
            for memory in (None, 0):
                picks = match(as_rows(kind), target, 120, strategy=strategy, memory_limit=memory)
                assert picks.order.tolist() == expected


def test_ties_go_to_the_lowest_row():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    for strategy in STRATEGIES:
        picks = match(as_rows(rows), np.array([0.5, 0.5]), 5, strategy=strategy)
        assert picks.order.tolist() == [0, 1, 2, 3, 4]


def test_unavailable_rows_are_never_picked_and_included_ones_steer():
    random = np.random.default_rng(0)
    rows, target = random.standard_normal((40, 5)), np.zeros(5)
    available = random.random(40) < 0.6
    for strategy in STRATEGIES:
        picks = match(as_rows(rows), target, 10, available=available, strategy=strategy)
        assert available[picks.order].all()
        assert picks.order.tolist() == reference_picks(rows, target, 10, available=available).tolist()
    first = match(as_rows(rows), target, 6)
    rest = np.ones(40, dtype=bool)
    rest[first.order[:3]] = False
    resumed = match(as_rows(rows), target, 3, already=first.order[:3], available=rest)
    assert resumed.order.tolist() == first.order[3:].tolist()
    assert resumed.residuals == pytest.approx(first.residuals[3:])


def test_residuals_are_those_of_the_picks():
    random = np.random.default_rng(2)
    rows, target = random.standard_normal((100, 4)), random.standard_normal(4)
    picks = match(as_rows(rows), target, 30)
    for t in (1, 7, 30):
        expected = np.linalg.norm(target - rows[picks.order[:t]].mean(axis=0))
        assert picks.residuals[t - 1] == pytest.approx(expected)


@given(seed=st.integers(0, 1000), s=st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_residual_falls_like_one_over_k(seed, s):
    """With replacement and a target inside the hull, k times the residual stays bounded (the proof's r/κ)."""
    rows = np.random.default_rng(seed).standard_normal((400, s))
    target = np.median(rows, axis=0)
    picks = match(as_rows(rows), target, 2000, replacement=True, start="zero")
    scaled = picks.residuals * np.arange(1, 2001)
    radius = np.linalg.norm(rows - target, axis=1).max()
    assert scaled.max() < 3.0 * radius


def test_start_at_zero_does_not_depend_on_the_origin():
    random = np.random.default_rng(0)
    rows = np.round(random.standard_normal((80, 3)) * 256) / 256  # exact under the shift
    target = np.round(rows.mean(axis=0) * 256) / 256
    here = match(as_rows(rows), target, 40, start="zero").order
    there = match(as_rows(rows + 64.0), target + 64.0, 40, start="zero").order
    assert here.tolist() == there.tolist()
    paper = match(as_rows(rows), target, 40).order
    moved = match(as_rows(rows + 64.0), target + 64.0, 40).order
    assert paper.tolist() != moved.tolist()  # the paper's start does depend on it


def test_codes_never_rule_out_the_best_row():
    """The bound behind the one-byte codes, on rows with columns of very different sizes."""
    random = np.random.default_rng(0)
    rows = as_rows(random.standard_normal((500, 60)) * 10.0 ** random.uniform(-4, 4, 60) + 1e3)
    center = np.full(60, 1e3)
    codes, shared = Codes.of(rows, center, 1), scan.Shared.among(2, 500, 60)
    for _ in range(20):
        theta = random.standard_normal(60) * 10.0 ** random.uniform(-4, 4, 60)
        scan.prepare(theta, codes.spread, shared)
        exact = (rows.gather(np.arange(500)) - center) @ theta
        floor = max(scan.bound_part(codes, shared, 0, part) for part in range(2)) * shared.norm[0]
        assert floor <= exact.max() * (1 + 1e-6)
        found = {
            row for part in range(2) for row in shared.rivals[0, part, : shared.counts[0, part]].tolist()
        }
        assert int(exact.argmax()) in found
        assert len(found) < 400  # and many rows are ruled out


@pytest.mark.parametrize("instructions", ["four", "two", "none"])
def test_products_of_codes_are_exact_up_to_the_largest(instructions, monkeypatch):
    """Whatever a processor multiplies bytes with: sums of two products must not overflow 16 bits."""
    has_two, has_four = coding._ADDS_TWO, coding._ADDS_FOUR
    if (instructions == "four" and not has_four) or (instructions == "two" and not has_two):
        pytest.skip("this processor has no such instruction")
    monkeypatch.setattr(coding, "_ADDS_FOUR", instructions == "four")
    monkeypatch.setattr(coding, "_ADDS_TWO", instructions == "two")

    @njit
    def products(codes, query, out):
        for slab in range(codes.shape[0]):
            coding.slab_dots(codes, slab, query, out, slab * coding.SLAB)

    random, limit = np.random.default_rng(0), 64 if instructions == "two" else coding.LIMIT
    rows = random.integers(0, 256, (64, 48), dtype=np.uint8)
    rows[0], rows[1] = 255, 0
    codes = rows.reshape(4, 16, 12, 4).transpose(0, 2, 1, 3).reshape(4, -1).copy()
    for query in (np.full(48, limit), np.full(48, -limit), random.integers(-limit, limit + 1, 48)):
        out = np.empty(64, dtype=np.int32)
        products(codes, query.astype(np.int8), out)
        assert out.tolist() == (rows.astype(np.int64) @ query).tolist()


def test_a_query_stays_within_what_the_processor_multiplies():
    query = np.zeros(48, dtype=np.int8)
    coding.quantise(np.linspace(-1.0, 1.0, 48), np.ones(48), query)
    assert np.abs(query.astype(int)).max() == coding._QUERY_LIMIT
    assert coding._ADDS_FOUR or not coding._ADDS_TWO or 2 * 255 * coding._QUERY_LIMIT < 2**15


def rows_of_kind(kind):
    random = np.random.default_rng(5)
    rows = random.standard_normal((700, 40)) @ random.standard_normal((40, 520))
    rows += 0.3 * random.standard_normal(rows.shape)
    if kind == "duplicates":
        rows[350:] = rows[:350]
    if kind == "lattice":
        rows = np.round(rows / 3.0)
    if kind == "outliers":
        rows[random.choice(700, 9, replace=False)] *= 10.0 ** random.uniform(1, 8, (9, 1))
    return rows.astype(np.float32) if kind != "outliers" else rows


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("kind", ["low rank", "duplicates", "lattice", "outliers"])
def test_picks_with_helpers_are_those_of_the_reference(kind, replacement, monkeypatch):
    monkeypatch.setattr(coded, "_BYTES_PER_THREAD", 1 << 16)
    monkeypatch.setattr(coded, "available_cores", lambda: 4)
    monkeypatch.setattr(coded, "_UNINTERRUPTED", 1 << 24)
    rows = rows_of_kind(kind)
    target = np.median(rows, axis=0).astype(np.float64)
    expected = reference_picks(rows.astype(np.float64), target, 150, replacement=replacement)
    for threads in (1, 2, 4):
        picks = match(Rows(rows), target, 150, strategy="coded", replacement=replacement, threads=threads)
        assert picks.order.tolist() == expected.tolist()


def test_the_thread_of_the_caller_leads_whoever_begins(monkeypatch):
    """Ctrl-C reaches the main thread alone, which must not be one that waits for another."""
    led = []
    lead = coded.CodedPicks._lead
    monkeypatch.setattr(coded, "_BYTES_PER_THREAD", 1 << 16)
    monkeypatch.setattr(coded, "available_cores", lambda: 2)
    monkeypatch.setattr(
        coded.CodedPicks,
        "_lead",
        lambda self, shared: led.append(threading.get_ident()) or lead(self, shared),
    )

    def others_first(work, count, threads):
        other = threading.Thread(target=work, args=(0,))
        other.start()
        for number in range(1, count):
            work(number)
        other.join()

    rows = rows_of_kind("low rank")
    target = rows.mean(axis=0, dtype=np.float64)
    expected = reference_picks(rows.astype(np.float64), target, 50)
    walk, available = Walk.begin(target, "target"), np.ones(700, dtype=bool)
    picks = coded.CodedPicks(Rows(rows), walk, available, 50, replacement=False, threads=2, directly=list)
    monkeypatch.setattr(coded, "map_in_order", others_first)
    assert picks.run().order.tolist() == expected.tolist()
    assert led == [threading.get_ident()]


@pytest.mark.parametrize("stuck", [False, True])
def test_a_leader_needs_no_helper(stuck):
    """Nobody takes the second part, or somebody claims it and never finishes."""
    rows = Rows(rows_of_kind("low rank"))
    target, available = np.zeros(520), np.ones(700, dtype=bool)
    walk, order = Walk.begin(np.ones(520), "target"), np.empty(30, dtype=np.int64)
    picking = Picking(
        rows.source, rows.index, target, walk.theta, walk.drift, 0, available, False, order, np.empty(30)
    )
    shared = scan.Shared.among(2, 700, 520)
    if stuck:
        assert all(team.claim(shared.words, 1, step) for step in (1, 1000))
    done, _ = scan.pick_one_by_one(picking, Codes.of(rows, target, 1), shared, 0, 30)
    assert done == 30
    shifted = np.ones(520)
    expected, free = [], np.ones(700)
    for _ in range(30):
        scores = np.where(free > 0, rows.source.astype(np.float64) @ shifted, -np.inf)
        expected.append(int(scores.argmax()))
        free[expected[-1]] = 0
        shifted -= rows.source[expected[-1]]
    assert order.tolist() == expected


def test_int32_sums_do_not_overflow():
    rows = np.full((3, 70_000), 1.0, dtype=np.float32)
    rows[1] = -1.0
    rows[2, ::2] = -1.0
    target = np.zeros(70_000)
    picks = match(as_rows(rows), target, 3, strategy="coded", already=np.array([1]))
    expected = reference_picks(rows.astype(np.float64), target, 3)
    assert sorted(picks.order.tolist()) == sorted(expected.tolist())
    assert picks.order[0] == 0


# ------------------------------------------------------------------ batches


def reference_batches(rows, target, k, batches, seed):
    """The paper's listing with batches: θ is carried from one to the next."""
    theta, picks = target.copy(), []
    parts = partition(np.arange(len(rows)), batches, seed)
    for part, count in zip(parts, shares(k, parts), strict=True):
        left = list(part)
        for _ in range(count):
            scores = np.cumsum(rows[left] * theta, axis=1)[:, -1]
            picks.append(left.pop(int(np.argmax(scores))))
            theta = theta + (target - rows[picks[-1]])
    return picks


@pytest.mark.parametrize("batches", [2, 7, 40, 400])
def test_carried_batches_are_the_papers_listing(batches):
    rows = np.random.default_rng(1).standard_normal((200, 6))
    target = rows.mean(axis=0)
    expected = reference_batches(rows, target, 90, batches, seed=3)
    for strategy in STRATEGIES:
        picks = match(as_rows(rows), target, 90, batches=batches, random_state=3, strategy=strategy)
        assert picks.order.tolist() == expected


@given(n=st.integers(1, 60), batches=st.integers(1, 80), seed=st.integers(0, 100), data=st.data())
@settings(max_examples=60, deadline=None)
def test_batches_partition_the_rows_and_their_picks_sum_to_k(n, batches, seed, data):
    k = data.draw(st.integers(1, n))
    parts = partition(np.arange(n), batches, seed)
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    assert all(len(part) for part in parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert shares(k, parts).sum() == k
    rows = np.random.default_rng(seed).standard_normal((n, 2))
    for carry in (True, False):
        picks = match(as_rows(rows), np.zeros(2), k, batches=batches, carry=carry, random_state=seed)
        assert len(set(picks.order.tolist())) == k


@pytest.mark.parametrize("batches", [4, 50, 200])
def test_independent_batches_do_not_all_err_the_same_way(batches):
    """A far cluster, few picks per batch: alone, every batch would start with the same far rows."""
    random = np.random.default_rng(0)
    matrix = random.standard_normal((20_000, 4))
    matrix[::5] += 10.0
    rows, target = as_rows(matrix), np.full(4, 0.3)
    carried = match(rows, target, 800, batches=batches, random_state=0)
    alone = match(rows, target, 800, batches=batches, carry=False, random_state=0)
    assert alone.residuals[-1] < 0.1
    assert carried.residuals[-1] < 0.05
    recomputed = np.linalg.norm(target - rows.gather(alone.order).mean(axis=0))
    assert alone.residuals[-1] == pytest.approx(recomputed)


@pytest.mark.parametrize(("k", "batches"), [(320, 8), (960, 30)])
def test_far_from_the_origin_independent_batches_do_as_well_as_carried_ones(k, batches):
    """The paper's start costs ‖μ‖/k. It must not cost that of each batch, which all err in its direction."""
    matrix = np.random.default_rng(0).standard_normal((6000, 8)) + 30.0
    rows, target = as_rows(matrix), np.full(8, 30.0)
    alone = match(rows, target, k, batches=batches, carry=False, random_state=0).residuals[-1]
    carried = match(rows, target, k, batches=batches, random_state=0).residuals[-1]
    assert alone < 1.2 * carried
    assert carried == pytest.approx(np.linalg.norm(target) / k, rel=0.2)


@pytest.mark.parametrize("start", ["target", "zero"])
def test_independent_batches_share_the_start_and_correct_each_other(start):
    """The textbook version: alone from θ₀/B, then by pairs of batches, then by all."""
    matrix = np.random.default_rng(3).standard_normal((300, 4)) + 1.0
    target, k, batches = matrix.mean(axis=0), 120, 3
    seed = int(np.random.default_rng(5).integers(0, 2**63))
    batch = batch_of_rows(np.arange(300), batches, seed)
    order = plain_picks(matrix, target, k, batch, batches, start).tolist()
    for strategy in STRATEGIES:
        found = match(
            as_rows(matrix), target, k, batches=batches, carry=False, start=start, random_state=5, strategy=strategy
        )  # fmt: skip
        assert found.order.tolist() == order


def test_independent_batches_do_not_depend_on_threads():
    rows = as_rows(np.random.default_rng(0).standard_normal((500, 4)))
    first = match(rows, np.zeros(4), 100, batches=10, carry=False, random_state=1, threads=1)
    second = match(rows, np.zeros(4), 100, batches=10, carry=False, random_state=1, threads=3)
    assert first.order.tolist() == second.order.tolist()


def test_rows_in_a_bad_order_do_not_ruin_batches():
    """Sorted rows would give every batch another mean; the random partition does not care."""
    rows = np.sort(np.random.default_rng(0).standard_normal((10_000, 3)), axis=0)
    picks = match(as_rows(rows), rows.mean(axis=0), 500, batches=20, random_state=0)
    assert picks.residuals[-1] < 0.05


# ------------------------------------------------------------------ choice of strategy, errors


def test_cost_model_respects_memory():
    assert choose_strategy(5000, 512, 500, memory=1 << 30) == "coded"
    assert choose_strategy(5000, 512, 500, memory=0) == "direct"
    assert choose_strategy(200_000, 512, 10**5, memory=64 << 20) == "direct"
    assert choose_strategy(10, 512, 5, memory=1 << 30) == "direct"
    # By default, codes may take half of what the rows take.
    assert choose_strategy(200_000, 512, 2_000, memory=working_memory(None, 200_000 * 512 * 4)) == "coded"


def test_bad_requests_are_refused():
    rows = Rows(np.zeros((3, 2)))
    with pytest.raises(InvalidInputError, match="k=4 picks"):
        match(rows, np.zeros(2), 4)
    with pytest.raises(InvalidInputError, match="only 0 rows"):
        match(rows, np.zeros(2), 1, available=np.zeros(3, dtype=bool))
    with pytest.raises(InvalidInputError, match="strategy='fast'"):
        match(rows, np.zeros(2), 1, strategy="fast")
    with pytest.raises(InvalidInputError, match="batches=0"):
        match(rows, np.zeros(2), 1, batches=0)
