"""What a call must give: exactly k distinct rows, the same for any number of threads, and the reference's picks.

``outcome_of(call)`` makes a call and returns one word: "picked", "refused" (a valid call of arguments that do not go
together) or "rejected" (a wrong argument). Whatever else happens is a :class:`BrokenPromiseError`.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine
from gmmatch.backends.cluster.rows import rows_on
from gmmatch.errors import GMMatchError, GMMatchWarning
from gmmatch.kernels.kernels import resolve_kernel
from gmmatch.matching.reference import reference_picks
from gmmatch.rows.checks import check_sample_weight
from gmmatch.rows.rows import Rows, as_rows
from gmmatch.selection.labels import group_rows
from gmmatch.selectors.registry import make_selector
from tests.reliability.fuzz_calls import Call

SELECT_ARGUMENTS = ("y", "sample_weight", "include", "exclude", "ids", "engine")


class BrokenPromiseError(AssertionError):
    """A call did what none may do."""


def outcome_of(call: Call) -> str:
    """Make a call and judge what comes of it."""
    with placed(call) as (X, extra):
        try:
            first = select(call, X, extra, n_jobs=1)
        except GMMatchError as error:
            return judge_error(call, str(error))
        if call.wrong is not None:
            raise BrokenPromiseError(f"{call.wrong} is wrong, and nothing was said")
        judge_selection(call, first)
        if call.number % 3 == 0:
            same("three threads", first, select(call, X, extra, n_jobs=3))
        if X is not call.X and "memory_limit" in call.options:  # which makes batches of rows in files
            return "picked"
        # The median that workers find is another one within its certificate, and ties fall otherwise.
        if X is not call.X and not (extra and median_of(call)):
            carry = {"carry": False} if extra and hasattr(gm.method_class(call.method), "carry") else {}
            there = replace(call, options={**carry, **call.options})
            same("memory", first, select(there, call.X, {}, n_jobs=1))
        with rows_on(extra["engine"], X) if extra else nullcontext(as_rows(X)) as rows:
            judge_picks(call, first, rows)
    return "picked"


def select(call: Call, X: Any, extra: dict[str, Any], n_jobs: int) -> gm.Selection:
    """Make a call; only warnings of the package's own may reach its user."""
    options = {"n_jobs": n_jobs, **call.options, **extra}
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = gm.select(X, y=call.y, method=call.method, **options)
    foreign = [one for one in given if not issubclass(one.category, GMMatchWarning)]
    if foreign:
        where = f"{Path(foreign[0].filename).name}:{foreign[0].lineno}"
        raise BrokenPromiseError(
            f"foreign warning: {foreign[0].category.__name__}: {foreign[0].message} ({where})"
        )
    return found


@contextmanager
def placed(call: Call) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Give the rows where the call wants them: in memory, in a file or with an engine."""
    plain = isinstance(call.X, np.ndarray) and call.X.dtype != object
    if call.layout not in ("memory map", "store", "engine") or not plain or call.wrong is not None:
        yield call.X, {}
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, call.X)
        if call.layout == "engine" and call.X.dtype.kind in "fiu":
            yield [path], {"engine": LocalEngine(workers=2)}
        elif call.layout == "store" and call.X.dtype in (np.float16, np.float32) and call.X.dtype.isnative:
            from gmmatch.embeddings import StoreWriter, open_store

            with StoreWriter(
                path.with_suffix(".emb"), encoder="x", encoder_fingerprint="1", dtype=call.X.dtype
            ) as out:
                out.append(call.X, ids=list(range(len(call.X))))
                out.finish()
            yield open_store(path.with_suffix(".emb")).as_array(), {}
        else:
            yield np.load(path, mmap_mode="r"), {}


def judge_error(call: Call, message: str) -> str:
    """A wrong argument is named; arguments that do not go together are named as well."""
    if call.wrong is not None:
        if not names(call.wrong, message):
            raise BrokenPromiseError(f"{call.wrong} is wrong, but the message does not name it: {message}")
        return "rejected"
    given = [*(one.name for one in fields(gm.method_class(call.method))), *SELECT_ARGUMENTS]
    if not any(names(name, message) for name in given):
        raise BrokenPromiseError(f"a valid call was refused: {message}")
    return "refused: " + re.sub(r"\d[\d,.]*", "#", message)[:90]


def kernel_of(call: Call) -> Any:
    """Return the kernel of the space that a call picks in."""
    return resolve_kernel(
        call.options.get("kernel", getattr(gm.method_class(call.method), "kernel", "linear"))
    )


def median_of(call: Call) -> bool:
    """Whether a call looks for a geometric median."""
    method: Any = gm.method_class(call.method)
    wanted = [getattr(method, name, None) for name in ("target", "center") if name not in call.options]
    return "geometric-median" in (*wanted, call.options.get("target"), call.options.get("center"))


def names(argument: str, message: str) -> bool:
    """Whether a message names an argument."""
    return re.search(rf"(?<![A-Za-z_]){argument}(?![A-Za-z_])", message) is not None


def judge_selection(call: Call, found: gm.Selection) -> None:
    """As many rows as were asked for, none twice, none that was left out, all with what belongs to them."""
    order, n = found.order, found.n_rows
    replacement = bool(call.options.get("replacement", False))
    expected = expected_count(call, found)
    require(len(order) == expected, f"{len(order)} picks instead of {expected}")
    require(len(order) and order.min() >= 0 and order.max() < n, "a pick is no row")
    require(replacement or len(set(order.tolist())) == len(order), "a row was picked twice")
    require(sum(found.counts.values()) == len(order), "the counts of the classes do not sum to k")
    require(
        set(np.atleast_1d(call.options.get("include", []))) <= set(order.tolist()),
        "an included row is missing",
    )
    require(
        set(np.atleast_1d(call.options.get("exclude", []))).isdisjoint(order.tolist()),
        "an excluded row was picked",
    )
    for group in found.groups:
        included = np.isin(group.order, call.options.get("include", []))[: len(group.residuals)]
        require(
            np.isfinite(group.residuals[~included]).all(), f"the residuals of {group.label!r} are not finite"
        )
    if found.weights is not None:
        require(np.isfinite(found.weights).all() and (found.weights >= 0).all(), "weights are not finite")
    if "ids" in call.options:
        require(list(found.order_ids) == [call.options["ids"][row] for row in order], "ids of other rows")


def expected_count(call: Call, found: gm.Selection) -> int:
    """What the budget means, worked out anew."""
    excluded = np.zeros(found.n_rows, dtype=bool)
    excluded[np.atleast_1d(call.options.get("exclude", [])).astype(int)] = True
    k = call.options.get("k", 0.1)
    if isinstance(k, str):
        k = float(k[:-1]) / 100 if k.endswith("%") else int(k)
    if isinstance(k, (int, np.integer)):
        return int(k)
    if call.options.get("duplicates") == "one":  # a share of the rows that these leave
        return len(found.order)
    size = int(grouped(call, found.n_rows).counts(~excluded).sum())
    return max(1, floor(k * size + 0.5 + 1e-9))


def grouped(call: Call, n: int) -> Any:
    """Return the rows of every class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return group_rows(
            call.y, n=n, per_class=call.options.get("per_class", "proportional"),
            unlabeled=call.options.get("unlabeled", "drop"),
        )  # fmt: skip


def same(what: str, one: gm.Selection, other: gm.Selection) -> None:
    """Two selections have the same picks, in the same order."""
    require(
        np.array_equal(one.order, other.order), f"{what}: {one.order.tolist()} against {other.order.tolist()}"
    )


def judge_picks(call: Call, found: gm.Selection, rows: Any) -> None:
    """Picks are those of the plain loop, and of the plain ranking, where nothing else was asked for."""
    plain = {"k", "y", "random_state", "n_jobs", "ids", "exclude", "sample_weight", "per_class", "unlabeled",
             "weights", "target", "center", "start", "replacement", "unit_target", "strategy", "eps", "max_iter",
             "delta", "memory_limit", "updatable", "kernel"}  # fmt: skip
    matching = call.method in ("herding", "gm-matching", "moment-matching", "kernel-herding")
    ranking = call.method in ("easy", "hard", "moderate")
    if not (matching or ranking) or not set(call.options) <= plain:
        return
    selector: Any = make_selector(
        call.method, None, {k: v for k, v in call.options.items() if k in plain_fields(call)}
    )
    if not kernel_of(call).is_linear:
        return
    weights = check_sample_weight(call.options.get("sample_weight"), len(rows))
    available = np.ones(len(rows), dtype=bool)
    available[call.options.get("exclude", [])] = False
    groups = {group.label: group.rows for group in grouped(call, len(rows))}
    for group in found.groups:
        if not len(group.order):
            continue
        own = groups[group.label]
        target = selector.moment_target() if matching else gm_center(selector.center)
        moment = target.of(rows.subset(own), weights[own], np.random.default_rng(0), 1)
        wide, free = rows.gather(own), available[own]
        if hasattr(rows.source, "cluster"):
            judge_target(moment, target.of(Rows(wide), weights[own], np.random.default_rng(0), 1), wide)
        position = np.searchsorted(own, group.order)
        if matching:
            judge_matching(selector, wide, moment, free, position)
        else:
            judge_ranking(call.method, wide, moment.point, weights[own], free, position)


def plain_fields(call: Call) -> list[str]:
    """The options that are parameters of the method."""
    return [
        name
        for name in call.options
        if name not in ("ids", "exclude", "include", "sample_weight", "engine", "k")
    ]


def gm_center(name: str) -> Any:
    """Return a centre of a ranking as a target."""
    from gmmatch.targets import resolve_target

    return resolve_target(name)


def judge_target(there: Any, here: Any, wide: Any) -> None:
    """Workers find the mean to the last bit, and a median within its certificate."""
    if "median_gap" not in here.details:
        require(np.array_equal(there.point, here.point), "the mean of workers has other bits")
        return
    with np.errstate(all="ignore"):
        found, known = (np.sqrt(((wide - one.point) ** 2).sum(axis=1)).sum() for one in (there, here))
        for one, least, other in ((there, found, known), (here, known, found)):
            require(
                not least > (1.0 + one.details["median_gap"]) * other * (1.0 + 1e-12),
                f"a median's certificate of {one.details['median_gap']} is wrong: {least} against {other}",
            )


def judge_matching(selector: Any, wide: Any, moment: Any, free: Any, position: Any) -> None:
    """Compare with the textbook loop."""
    point = moment.point
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(point)) if selector.unit_target else 0.0
        point = point / length if length > 0.0 else point
        expected = reference_picks(
            wide, point, len(position), start=selector.start, replacement=selector.replacement, available=free
        )
    require(
        np.array_equal(position, expected), f"picks {position.tolist()}, the reference's {expected.tolist()}"
    )


def judge_ranking(method: str, wide: Any, center: Any, weights: Any, free: Any, position: Any) -> None:
    """No row that was left is clearly better than one that was picked."""
    distances = np.sqrt(((wide - center) ** 2).sum(axis=1))
    if method == "moderate":
        if not np.all(weights == weights[0]):
            return
        wanted = np.abs(distances - np.median(distances))
    else:
        wanted = distances if method == "easy" else -distances
    left = np.setdiff1d(np.flatnonzero(free), position)
    if len(left):
        worst, best = wanted[position].max(), wanted[left].min()
        require(
            worst <= best + 1e-9 * distances.max(),
            f"row {left[wanted[left].argmin()]} of the class ranks better than a pick",
        )


def require(held: Any, otherwise: str) -> None:
    """Raise a failure unless something holds."""
    if not held:
        raise BrokenPromiseError(otherwise)
