"""What is asked of an engine, checked and turned into the specs of its workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cluster.batching import batch_counts
from gmmatch.backends.cluster.layout import assign_pieces, piece_bounds, piece_count
from gmmatch.backends.cluster.pieces import WorkerSpec
from gmmatch.backends.cluster.sources import Shards, UnreadableShardError
from gmmatch.errors import InvalidInputError, did_you_mean
from gmmatch.kernels.kernels import resolve_kernel
from gmmatch.selection.budget import PerClass, quotas
from gmmatch.selection.labels import Group, Label, group_rows
from gmmatch.selectors.arguments import class_budgets
from gmmatch.selectors.base import DEFAULT_SHARE
from gmmatch.selectors.moment_matching import MomentMatching
from gmmatch.selectors.registry import method_class
from gmmatch.types import Indices, Mask

# Parameters that have a meaning where rows are spread over workers.
_USED = {
    "k", "per_class", "unlabeled", "random_state", "target", "normalize", "unit_target", "start", "batches", "eps",
    "max_iter", "delta", "carry", "kernel", "preprocess",
}  # fmt: skip


def engine_selector(method: str, k: Any, options: dict[str, Any]) -> MomentMatching:
    """Return the method as an object, after checking that an engine can run what is asked of it.

    Examples
    --------
    >>> engine_selector("gm-matching", 5, {}).carry
    False
    >>> engine_selector("easy", 5, {})
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: method='easy' does not run on an engine: gm-matching, herding and
    moment-matching do.
    """
    cls = method_class(method)
    if not issubclass(cls, MomentMatching):
        raise InvalidInputError(
            f"method={method!r} does not run on an engine: gm-matching, herding and moment-matching do."
        )
    known = {field.name for field in fields(cls)}
    for name in options:
        if name not in known:
            raise InvalidInputError(
                f"{name}= is not a parameter of method {method!r}.{did_you_mean(name, known)}"
            )
        if name not in _USED:
            raise InvalidInputError(f"{name}= has no meaning on an engine: leave it out.")
    # Batches that hand θ on to each other would have to wait for each other.
    selector = cls(**{"k": k, "carry": False, **options})
    selector._check_parameters()
    if selector.carry:
        raise InvalidInputError("carry=True: batches on an engine are independent; leave it out.")
    if not resolve_kernel(selector.kernel).is_linear:
        raise InvalidInputError(f"kernel={selector.kernel!r}: an engine matches in the linear kernel only.")
    if selector.target == "coordinate-median":
        raise InvalidInputError(
            'target="coordinate-median" does not run on an engine: use "geometric-median".'
        )
    if selector.preprocess not in (None, [], "unit", ["unit"]):
        raise InvalidInputError(f'preprocess={selector.preprocess!r}: an engine knows "unit" only.')
    return selector


@dataclass(frozen=True)
class Classes:
    """The classes to pick from, without files that cannot be read.

    Attributes
    ----------
    labels, sizes, quota
        Per class: its label, its rows, and how many of them are picked.
    codes
        The class of each row, -1 for none; None if all rows are of one class.
    groups
        The rows of each class as they were given; None if labels play no part.
    """

    labels: list[Label]
    sizes: Indices
    quota: Indices
    codes: NDArray[Any] | None
    groups: list[Group] | None


def labelled_groups(selector: MomentMatching, y: Any, n: int) -> tuple[list[Group] | None, PerClass]:
    """Return the rows of each class (None if all rows are one), and how the picks are shared among them."""
    per_class = class_budgets(selector.per_class, y)
    if y is None or per_class is None:
        return None, per_class
    return group_rows(y, n=n, per_class=per_class, unlabeled=selector.unlabeled), per_class


def make_classes(
    selector: MomentMatching, groups: list[Group] | None, per_class: PerClass, n: int, absent: Mask | None
) -> Classes:
    """Count the rows of each class and share the picks among the classes.

    Parameters
    ----------
    selector
        Says how many.
    groups, per_class
        What :func:`labelled_groups` returned.
    n
        All rows.
    absent
        Which rows cannot be read; None if there are none.
    """
    codes: NDArray[Any] | None = None
    if groups is None:
        labels: list[Label] = [None]
        sizes = np.array([n if absent is None else int((~absent).sum())])
        if absent is not None:
            codes = np.where(absent, -1, 0).astype(np.int16)
    else:
        present = [group.rows if absent is None else group.rows[~absent[group.rows]] for group in groups]
        kept = [place for place, rows in enumerate(present) if len(rows)]
        groups = [Group(groups[place].label, present[place]) for place in kept]
        labels = [group.label for group in groups]
        sizes = np.array([len(group.rows) for group in groups], dtype=np.int64)
        codes = np.full(n, -1, dtype=np.int16 if len(groups) < 1 << 15 else np.int32)
        for number, group in enumerate(groups):
            codes[group.rows] = number
    if sizes.sum() == 0:
        raise UnreadableShardError("No row is left: none of the files could be read.")
    k = selector.k
    if k is None and not isinstance(per_class, Mapping):
        k = DEFAULT_SHARE
    unit = "rows" if absent is None else "rows that can be read"
    return Classes(labels, sizes, quotas(k, labels, sizes, per_class, unit=unit), codes, groups)


def make_specs(
    shards: Shards,
    classes: Classes,
    selector: MomentMatching,
    seed: int,
    workers: int,
    absent: frozenset[str],
) -> tuple[list[WorkerSpec], Indices]:
    """Return a spec for each worker, and the number of batches of each class.

    Parameters
    ----------
    shards, classes, selector, seed
        What is asked.
    workers
        How many there can be; there are never more than pieces.
    absent
        Locations of files to do without.
    """
    n, s = len(shards), shards.n_features
    n_pieces = piece_count(n, s)
    bounds = piece_bounds(n, n_pieces)
    batches = batch_counts(classes.quota, classes.sizes, s, selector.batches)
    streams = np.random.SeedSequence(seed).spawn(len(classes.labels))
    seeds = tuple(int(stream.generate_state(1, np.uint64)[0]) for stream in streams)
    specs = []
    for number, (first, stop) in enumerate(assign_pieces(n_pieces, min(workers, n_pieces))):
        start, end = int(bounds[first]), int(bounds[stop])
        specs.append(
            WorkerSpec(
                number=number,
                first_piece=first,
                bounds=bounds[first : stop + 1],
                files=tuple(file for file in shards.files if file.start < end and file.stop > start),
                n_features=s,
                dtype=shards.dtype,
                n_classes=len(classes.labels),
                batches=batches,
                seeds=seeds,
                absent=absent,
                codes=None if classes.codes is None else classes.codes[start:end],
                unit=selector.normalize or selector.preprocess in ("unit", ["unit"]),
            )
        )
    return specs, batches


def rows_of(shards: Shards, locations: Sequence[str]) -> Mask:
    """Return which rows lie in some of the files."""
    mask = np.zeros(len(shards), dtype=bool)
    for file in shards.files:
        if file.location in locations:
            mask[file.start : file.stop] = True
    return mask
