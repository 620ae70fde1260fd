"""The result of every method."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmmatch._array import Indices, Mask, Vector
from gmmatch._checks import check_array, check_sample_weight, check_whole_number
from gmmatch._threads import cached_property
from gmmatch.budget import Budget, resolve_count
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.frames import Package, as_frame, count_rows, is_ray_dataset, take_rows, wrong_length
from gmmatch.groups import Label, plain_label
from gmmatch.problem import Problem
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.describe import as_html, copy_json, describe, drop_record_of_others, summarize
from gmmatch.selection.files import pick_table, read_selection, write_selection
from gmmatch.targets import Targets


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Selection:
    """The rows that a method picked; what every method returns. It does not change.

    Parameters
    ----------
    order : int array of shape (k,)
        Row numbers in the order of the picks: included rows, then the classes in turn, so that every prefix is close
        to proportional. Repeated if picked with replacement.
    n_rows : int
        Rows of the input.
    classes : sequence of G labels, optional
        The classes that were picked from; by default one group of all rows, ``[None]``.
    group_of_pick : int array of shape (k,), optional
        The position in ``classes`` of the class of each pick.
    group_sizes : int array of shape (G,), optional
        Rows of each class.
    residuals : array of shape (k,), optional
        ‖target − mean of the picks of the class so far‖; NaN where it was not computed.
    ids : array of shape (k,), optional
        The caller's ids of the picks, integers or strings, in pick order.
    weights : array of shape (k,), optional
        How much each pick counts, in pick order.
    provenance : mapping, optional
        How the selection was made, copied as JSON would.
    screening : ScreeningResult, optional
        Which rows are trusted, by a method that screens. Two selections are equal whatever their screening.

    Attributes
    ----------
    order_ids, order_weights
        In pick order; :attr:`ids` and :attr:`weights` are in the order of :attr:`indices`.

    Examples
    --------
    >>> selection = Selection([3, 0, 4], n_rows=5, ids=["d", "a", "e"], provenance={"method": "herding"})
    >>> selection
    Selection: 3 of 5 rows by herding
    >>> selection.indices, selection.ids
    (array([0, 3, 4]), array(['a', 'd', 'e'], dtype=object))
    >>> selection.apply(["zero", "one", "two", "three", "four"])
    ['zero', 'three', 'four']
    """

    order: Indices
    n_rows: int
    classes: list[Label]
    group_of_pick: Indices
    group_sizes: Indices
    residuals: Vector
    order_ids: NDArray[Any] | None
    order_weights: Vector | None
    provenance: dict[str, Any]
    screening: ScreeningResult | None

    def __init__(
        self,
        order: ArrayLike,
        n_rows: int,
        *,
        classes: Sequence[Label] | None = None,
        group_of_pick: ArrayLike | None = None,
        group_sizes: ArrayLike | None = None,
        residuals: ArrayLike | None = None,
        ids: Any = None,
        weights: Any = None,
        provenance: Mapping[str, Any] | None = None,
        screening: ScreeningResult | None = None,
    ) -> None:
        check_whole_number(n_rows, "n_rows", least=0)
        picks = check_numbers(order, n_rows, "order", "rows")
        labels = [None] if classes is None else list(map(plain_label, classes))
        k, n_groups = len(picks), len(labels)
        owners = np.zeros(k, dtype=np.int64) if group_of_pick is None else group_of_pick
        owners = check_numbers(owners, n_groups, "group_of_pick", "classes", length=k)
        if group_sizes is None:
            group_sizes = [n_rows] if n_groups == 1 else np.bincount(owners, minlength=n_groups)
        sizes = check_numbers(group_sizes, n_rows + 1, "group_sizes", "rows", length=n_groups)
        path = np.full(k, np.nan) if residuals is None else np.array(residuals, dtype=np.float64)
        if path.shape != (k,):
            raise InvalidInputError(f"residuals has shape {path.shape}: expected ({k},).")
        if screening is not None and len(screening) != n_rows:
            raise InvalidInputError(f"screening is about {len(screening)} rows, but n_rows={n_rows}.")
        if ids is not None:
            ids = freeze(check_ids(ids, len(picks), "picks"))
        if weights is not None:
            weights = freeze(check_sample_weight(np.array(weights), len(picks), name="weights"))
        values = (
            freeze(picks), int(n_rows), labels, freeze(owners), freeze(sizes), freeze(path), ids, weights,
            copy_json(provenance or {}), screening,
        )  # fmt: skip
        for attribute, value in zip(fields(self), values, strict=True):
            object.__setattr__(self, attribute.name, value)

    @classmethod
    def of(
        cls, problem: Problem, targets: Targets, order: Indices, *, ids: Any, provenance: dict[str, Any]
    ) -> Selection:
        """Join the included rows and the picks of all groups, ``order`` group after group."""
        included, quotas, codes = np.flatnonzero(problem.included), problem.quotas, problem.groups.codes
        picks = np.concatenate([included, order])
        owners = codes[picks]
        by_group = np.argsort(owners, kind="stable")
        residuals = np.empty(len(picks))
        residuals[by_group] = targets.measure_residuals(problem, picks[by_group], owners[by_group])
        # Pick j of a group with q picks stands at (j + 1/2) / q; the sort is stable, so ties go to the first group.
        starts = np.repeat(np.cumsum(quotas) - quotas, quotas)
        position = (np.arange(len(order)) - starts + 0.5) / np.repeat(quotas, quotas)
        merged = np.argsort(np.concatenate([np.full(len(included), -1.0), position]), kind="stable")
        picks = picks[merged]
        if ids is not None:
            ids = ids(picks) if callable(ids) else check_ids(ids, len(codes), "rows of X")[picks]
        return cls(
            picks, len(codes), classes=problem.groups.labels, group_of_pick=owners[merged],
            group_sizes=problem.groups.sizes, residuals=residuals[merged], ids=ids,
            provenance=provenance, screening=problem.screening,
        )  # fmt: skip

    @property
    def k(self) -> int:
        """How many picks there are."""
        return len(self.order)

    @cached_property
    def _by_row(self) -> Indices:
        return np.argsort(self.order, kind="stable")

    @property
    def indices(self) -> Indices:
        """The picked row numbers, ascending; a row picked twice is there twice."""
        return self.order[self._by_row]

    @property
    def ids(self) -> NDArray[Any] | None:
        """The caller's ids of the picks, in the order of :attr:`indices`; None if none were given."""
        return None if self.order_ids is None else self.order_ids[self._by_row]

    @property
    def weights(self) -> Vector | None:
        """How much each pick counts, in the order of :attr:`indices`; None unless :func:`~gmmatch.weigh` made them.

        Those of a class sum to the number of its rows: scikit-learn's ``sample_weight``.
        """
        return None if self.order_weights is None else self.order_weights[self._by_row]

    @property
    def labels(self) -> NDArray[Any]:
        """The class of each pick, in the order of :attr:`indices`."""
        labels = np.empty(len(self.classes), dtype=object)
        labels[:] = self.classes
        return labels[self.group_of_pick[self._by_row]]

    @property
    def mask(self) -> Mask:
        """Whether each row of the input was picked, shape (n_rows,)."""
        picked = np.zeros(self.n_rows, dtype=bool)
        picked[self.order] = True
        return picked

    @property
    def counts(self) -> dict[Label, int]:
        """The number of picks per class."""
        counts = np.bincount(self.group_of_pick, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))

    @property
    def residual(self) -> dict[Label, float]:
        """‖target − mean of picks‖ per class; NaN where it was not computed."""
        last = np.full(len(self.classes), np.nan)
        last[self.group_of_pick] = self.residuals  # of several picks of a class, the last one counts
        return dict(zip(self.classes, last.tolist(), strict=True))

    @property
    def residual_path(self) -> dict[Label, Vector]:
        """‖target − mean of the first t picks‖ per class, for t = 1, 2, ..."""
        return {label: self.residuals[self.group_of_pick == g] for g, label in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        names = [attribute.name for attribute in fields(self) if attribute.name != "screening"]
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come back from a pickle or a copy as ones that can be written to.
        for name, value in state.items():
            self.__dict__[name] = freeze(value) if isinstance(value, np.ndarray) else value

    def __repr__(self) -> str:
        return summarize(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def describe(self) -> str:
        """Summarize the selection in plain text: a line for each class and each entry of its provenance.

        Examples
        --------
        >>> print(Selection([3, 0], n_rows=5, provenance={"method": "herding", "seed": 0}).describe())
        Selection: 2 of 5 rows by herding
          all rows: 2 of 5
          method: herding
          seed: 0
        """
        return describe(self)

    def to_frame(self, package: Package = "pandas") -> Any:
        """Return the picks as a table, one line per pick, in pick order.

        Its columns are ``row``, ``group`` (the class), ``residual``, and ``id`` and ``weight`` where there are any.

        Parameters
        ----------
        package : "pandas", "polars" or "pyarrow"

        Examples
        --------
        >>> Selection([3, 0], n_rows=5, ids=["d", "a"]).to_frame()[["row", "id"]]
           row id
        0    3  d
        1    0  a
        """
        return as_frame(pick_table(self), package)

    def prefix(self, k: Budget) -> Selection:
        """Return the first k picks as a smaller selection, without weights, which are those of all picks together.

        Parameters
        ----------
        k : int, float or str
            How many picks, or which fraction of them.

        Examples
        --------
        >>> Selection([3, 0, 4, 1], n_rows=5).prefix("50%").order
        array([3, 0])
        """
        if not self.k:
            raise InvalidInputError("An empty selection has no prefix.")
        count = resolve_count(k, self.k, unit="picks")
        provenance = {**drop_record_of_others(self.provenance, self.order[:count]), "prefix": count}
        return self.change(slice(count), provenance=provenance)

    def change(self, picks: slice | Indices, **changes: Any) -> Selection:
        """Return a selection of some of the picks, given by position, without weights; ``changes`` are arguments."""
        arguments = {
            "classes": self.classes, "group_of_pick": self.group_of_pick[picks], "group_sizes": self.group_sizes,
            "residuals": self.residuals[picks], "ids": None if self.order_ids is None else self.order_ids[picks],
            "provenance": self.provenance, "screening": self.screening,
        }  # fmt: skip
        return Selection(self.order[picks], self.n_rows, **{**arguments, **changes})

    def rerun(self, X: Any, y: Any = None, **changes: Any) -> Selection:
        """Select again with the same method, parameters and random seed; see :func:`gmmatch.rerun`.

        Examples
        --------
        >>> from gmmatch import Herding
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> selection = Herding(k=6).select(X)
        >>> selection.rerun(X) == selection, selection.rerun(X, k=12).k
        (True, 12)
        """
        import gmmatch

        again: Selection = gmmatch.rerun(self, X, y, **changes)
        return again

    def report(self, path: str | os.PathLike[str], X: Any, y: Any = None, **options: Any) -> None:
        """Write a page about the selection.

        A map, and what was left out and why; see :func:`gmmatch.write_report`.
        """
        import gmmatch

        gmmatch.write_report(self, path, X, y, **options)

    def apply(self, dataset: Any, *, order: bool = False) -> Any:
        """Take the picked rows of a dataset.

        Parameters
        ----------
        dataset
            What the selection was made from, or anything with a row for each of its rows: a list, an array, a pandas
            or polars DataFrame or Series, a torch tensor or Dataset, a Hugging Face Dataset, a pyarrow Table, a SciPy
            sparse matrix, a Ray Data Dataset, or any other sequence.
        order : bool
            Take the rows in pick order instead of the dataset's order.

        Returns
        -------
        The same kind of thing; ``torch.utils.data.Subset`` for a torch Dataset, a list for any other sequence.

        Examples
        --------
        >>> Selection([3, 0], n_rows=4).apply(np.array([10, 11, 12, 13]), order=True)
        array([13, 10])
        """
        rows = self.order if order else self.indices
        if is_ray_dataset(dataset):
            from gmmatch.rows.dataset import filter_dataset

            return filter_dataset(dataset, rows, self.n_rows, ranked=order)
        length = count_rows(dataset)
        if length != self.n_rows:
            raise InvalidInputError(wrong_length(length, self.n_rows))
        return take_rows(dataset, rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection to a file.

        Parameters
        ----------
        path
            ``.parquet``: one line per pick, in pick order, with columns ``row``, ``group``, ``id``, ``residual`` and
            ``weight``, from which :meth:`load` restores it exactly. ``.csv``: the same lines for people.

        Examples
        --------
        >>> import tempfile
        >>> selection = Selection([3, 0], n_rows=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     selection.save(f"{folder}/picks.parquet")
        ...     Selection.load(f"{folder}/picks.parquet") == selection
        True
        """
        write_selection(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selection:
        """Read a selection that :meth:`save` wrote; see there for an example."""
        return cls(**read_selection(path))


def freeze(values: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view."""
    view = values.view()
    view.setflags(write=False)
    return view


def check_numbers(
    values: ArrayLike, limit: int, name: str, unit: str, *, length: int | None = None
) -> Indices:
    """Return numbers from 0 to below ``limit`` as a new array, as many as ``length`` asks for."""
    array = np.array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"{name} needs whole numbers; got dtype {array.dtype}, shape {array.shape}.")
    if length is not None and len(array) != length:
        raise InvalidInputError(f"{name} has shape {array.shape}: expected ({length},).")
    if array.size and (array.min() < 0 or array.max() >= limit):
        bad = array[(array < 0) | (array >= limit)][0]
        raise InvalidInputError(f"{name} holds {bad}, of {limit:,} {unit}: expected 0 to {limit - 1}.")
    return array.astype(np.int64)


def check_ids(ids: Any, n: int, what: str) -> NDArray[Any]:
    """Return ids as an int64 array or an object array of strings; one for each of ``n`` rows or picks."""
    if not isinstance(ids, Iterable):
        raise InvalidTypeError(f"ids has type {type(ids).__name__}: give integers or strings, one per row.")
    values = check_array(ids, "ids", "one id per row").tolist() if hasattr(ids, "tolist") else list(ids)
    if len(values) != n:
        raise InvalidInputError(f"ids has {len(values):,} entries for {n:,} {what}: give one each.")
    kinds = {type(value) for value in values}
    if kinds <= {int}:
        return np.array(
            values, dtype=np.int64 if all(-(2**63) <= value < 2**63 for value in values) else object
        )
    if not kinds <= {str}:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidTypeError(f"ids hold values of type {names}: give integers or strings, all of one type.")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return np.array_equal(left, right, equal_nan=left.dtype.kind == "f" and right.dtype.kind == "f")
    if isinstance(left, list) and isinstance(
        right, list
    ):  # 1, 1.0 and True are equal, but not the same label
        return left == right and list(map(type, left)) == list(map(type, right))
    return bool(type(left) is type(right) and left == right)
