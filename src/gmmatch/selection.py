"""Selection: which rows were picked, in which order, how well they match, and how that came about."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmmatch.budget import Budget, Label, plain_label, resolve_count
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.selection_files import SelectionRecord, damaged, read_record, write_record
from gmmatch.types import Indices, Mask, Vector

_Array = TypeVar("_Array", bound=NDArray[Any])


@dataclass(frozen=True, eq=False)
class SelectedGroup:
    """The picks of one class, or of all rows when labels are ignored.

    Parameters
    ----------
    label
        The class; None for rows without a label, or for all rows.
    order
        Row numbers in the order they were picked, shape (q,).
    n_rows
        How many rows the class has.
    residuals
        ‖target − mean of the first t picks‖ for t = 1, ..., q; empty if it was not computed.

    Examples
    --------
    >>> SelectedGroup("cat", [7, 3], n_rows=5, residuals=[0.5, 0.1]).residual
    0.1
    """

    label: Label
    order: Indices
    n_rows: int
    residuals: Vector = ()  # type: ignore[assignment]

    def __post_init__(self) -> None:
        label = plain_label(self.label)
        if label is None and self.label is not None:
            raise InvalidInputError(f"label={self.label!r}: a group without a label has label=None.")
        order = _frozen_row_numbers(self.order, "order")
        residuals = np.array(self.residuals, dtype=np.float64)
        if residuals.shape not in ((0,), order.shape):
            raise InvalidInputError(
                f"residuals has shape {residuals.shape} for {len(order)} picks of group {label!r}: "
                "give one per pick, or none."
            )
        residuals.setflags(write=False)
        values = {"label": label, "order": order, "residuals": residuals}
        for name, value in (values | {"n_rows": _row_count(self.n_rows)}).items():
            object.__setattr__(self, name, value)

    @property
    def residual(self) -> float:
        """The residual after the last pick; NaN if it was not computed."""
        return float(self.residuals[-1]) if len(self.residuals) else math.nan

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SelectedGroup):
            return NotImplemented
        return (
            # 1, 1.0 and True are equal, but not the same label.
            (type(self.label), self.label, self.n_rows) == (type(other.label), other.label, other.n_rows)
            and np.array_equal(self.order, other.order)
            and np.array_equal(self.residuals, other.residuals, equal_nan=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that arrays are read-only again after unpickling or copying.
        return SelectedGroup, (self.label, self.order, self.n_rows, self.residuals)


def interleave(groups: Sequence[SelectedGroup]) -> Indices:
    """Merge the groups' picks into one order of which every prefix is close to proportional.

    Pick j = 0, 1, ... of a group with q picks is placed at (j + 1/2) / q; ties go to the first group.

    Parameters
    ----------
    groups
        G groups with picks, q₁, ..., q_G of them, K in all; groups without picks do not count.

    Returns
    -------
    array of int64, shape (K,)

    Notes
    -----
    Among the first t picks, group i has its proportional share t·qᵢ/K up to an error of at most
    1/2 + (G − 2)·qᵢ/(2K) (for G ≥ 2; none for G = 1). With groups of equal size that is below 1; with
    two groups it is 1/2. With one large group among many small ones it can exceed 1, because all
    groups of one pick are placed at 1/2.

    Examples
    --------
    >>> interleave([SelectedGroup("a", [10, 11, 12, 13], 9), SelectedGroup("b", [20, 21], 9)])
    array([10, 20, 11, 12, 21, 13])
    """
    if not groups:
        return np.empty(0, dtype=np.int64)
    places = np.concatenate([(np.arange(len(group.order)) + 0.5) / len(group.order) for group in groups])
    # The sort is stable and the groups are in order, so that ties fall to the first group.
    return np.concatenate([group.order for group in groups])[np.argsort(places, kind="stable")]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Selection:
    """The rows that a selector picked; what every selector returns. It does not change.

    Parameters
    ----------
    order
        Row numbers in the order they were picked, shape (k,); repeated if picked with replacement.
    n_rows
        How many rows the input has.
    groups
        The picks per class. They share no row, and each one's picks stand in ``order`` in the same
        sequence, as :func:`interleave` makes them. Without any, all picks form one group.
    ids
        The caller's own ids of the picked rows, integers or strings, *in pick order*, shape (k,).
    provenance
        How the selection was made: method, parameters, seed, ... Copied as JSON would: tuples become
        lists, keys become strings, infinity and NaN the strings ``"inf"`` and ``"nan"``.

    Attributes
    ----------
    order, n_rows, groups, provenance
        As above; arrays are read-only.
    order_ids
        The ids in pick order, or None; :attr:`ids` has them in the order of :attr:`indices`.

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
    groups: tuple[SelectedGroup, ...]
    order_ids: NDArray[Any] | None
    provenance: dict[str, Any]
    _group_of_pick: Indices

    def __init__(
        self,
        order: ArrayLike,
        n_rows: int,
        groups: Sequence[SelectedGroup] = (),
        ids: Any = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> None:
        picks = _frozen_row_numbers(order, "order")
        rows = _row_count(n_rows)
        if len(picks) and int(picks.max()) >= rows:
            raise InvalidInputError(f"order names row {picks.max()}, but n_rows={rows}: rows count from 0.")
        parts = tuple(groups) or (SelectedGroup(None, picks, rows),)
        values = {
            "order": picks,
            "n_rows": rows,
            "groups": parts,
            "order_ids": None if ids is None else _frozen_ids(ids, len(picks)),
            "provenance": _json_copy(provenance or {}),
            "_group_of_pick": _match_groups(picks, parts),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def k(self) -> int:
        """How many picks there are."""
        return len(self.order)

    @cached_property
    def _by_row(self) -> Indices:
        return np.argsort(self.order, kind="stable")

    @cached_property
    def indices(self) -> Indices:
        """The picked row numbers, ascending; a row picked twice is there twice."""
        return _frozen(self.order[self._by_row])

    @property
    def ids(self) -> NDArray[Any] | None:
        """The caller's ids of the picks, in the order of :attr:`indices`; None if none were given."""
        return None if self.order_ids is None else self.order_ids[self._by_row]

    @property
    def labels(self) -> NDArray[Any]:
        """The label of each pick's group, in the order of :attr:`indices`."""
        of_groups = [group.label for group in self.groups]
        array = np.empty(len(of_groups), dtype=object)
        array[:] = of_groups
        if {type(label) for label in of_groups} in ({int}, {float}, {bool}):
            array = np.array(of_groups)
        return array[self._group_of_pick[self._by_row]]

    @property
    def mask(self) -> Mask:
        """Whether each row of the input was picked, shape (n_rows,)."""
        picked = np.zeros(self.n_rows, dtype=np.bool_)
        picked[self.order] = True
        return picked

    @property
    def counts(self) -> dict[Label, int]:
        """The number of picks per group."""
        return {group.label: len(group.order) for group in self.groups}

    @property
    def residual(self) -> dict[Label, float]:
        """‖target − mean of picks‖ per group; NaN where it was not computed."""
        return {group.label: group.residual for group in self.groups}

    @property
    def residual_path(self) -> dict[Label, Vector]:
        """‖target − mean of the first t picks‖ per group, for t = 1, 2, ...; empty if not computed."""
        return {group.label: group.residuals for group in self.groups}

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        if self.order_ids is None or other.order_ids is None:
            same_ids = self.order_ids is other.order_ids
        else:
            same_ids = np.array_equal(self.order_ids, other.order_ids)
        return (
            same_ids
            and (self.n_rows, self.groups) == (other.n_rows, other.groups)
            and np.array_equal(self.order, other.order)
            and self.provenance == other.provenance
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Selection, (self.order, self.n_rows, self.groups, self.order_ids, self.provenance)

    def __repr__(self) -> str:
        distinct = len(np.unique(self.order))
        picks = f"{self.k:,}" if distinct == self.k else f"{self.k:,} picks ({distinct:,} distinct)"
        parts = [f"Selection: {picks} of {self.n_rows:,} rows"]
        if self.provenance.get("method"):
            parts[0] += f" by {self.provenance['method']}"
        classes = sum(group.label is not None for group in self.groups)
        if classes:
            parts.append(f"{classes:,} class" + ("es" if classes > 1 else ""))
        known = [value for value in self.residual.values() if not math.isnan(value)]
        if known:
            low, high = f"{min(known):.3g}", f"{max(known):.3g}"
            parts.append(f"residual {low}" + (f" to {high}" if low != high else ""))
        return ", ".join(parts)

    def describe(self) -> str:
        """Summarise the selection in plain text, a line for each group and each fact of its provenance.

        Examples
        --------
        >>> print(Selection([3, 0], n_rows=5, provenance={"method": "herding", "seed": 0}).describe())
        Selection: 2 of 5 rows by herding
          all rows: 2 of 5
          method: herding
          seed: 0
        """
        lines = [repr(self)]
        for group in self.groups:
            name = "rows without a label" if group.label is None else f"class {group.label!r}"
            name = "all rows" if group.label is None and len(self.groups) == 1 else name
            known = "" if math.isnan(group.residual) else f", residual {group.residual:.3g}"
            lines.append(f"  {name}: {len(group.order):,} of {group.n_rows:,}{known}")
        return "\n".join(lines + [f"  {key}: {value}" for key, value in self.provenance.items()])

    def prefix(self, k: Budget) -> Selection:
        """The first k picks as a smaller selection.

        Parameters
        ----------
        k
            How many picks, or which fraction of them.

        Returns
        -------
        Selection
            With the groups and their residuals cut to match, and ``prefix`` in the provenance.

        Examples
        --------
        >>> Selection([3, 0, 4, 1], n_rows=5).prefix("50%").order
        array([3, 0])
        """
        if not self.k:
            raise InvalidInputError("An empty selection has no prefix.")
        count = resolve_count(k, self.k, unit="picks")
        sizes = np.bincount(self._group_of_pick[:count], minlength=len(self.groups))
        return Selection(
            order=self.order[:count],
            n_rows=self.n_rows,
            groups=[
                SelectedGroup(group.label, group.order[:size], group.n_rows, group.residuals[:size])
                for group, size in zip(self.groups, sizes.tolist(), strict=True)
            ],
            ids=None if self.order_ids is None else self.order_ids[:count],
            provenance={**self.provenance, "prefix": count},
        )

    def apply(self, dataset: Any, *, order: bool = False) -> Any:
        """Take the picked rows of a dataset.

        Parameters
        ----------
        dataset
            What the selection was made from, or anything with a row for each of its rows: a list, a NumPy
            array, a pandas DataFrame or Series, a torch tensor or Dataset, a Hugging Face Dataset, a
            pyarrow Table, a SciPy sparse matrix, or any other sequence.
        order
            Take the rows in pick order instead of the dataset's order.

        Returns
        -------
        The same kind of thing; ``torch.utils.data.Subset`` for a torch Dataset, a list for any other
        sequence.

        Examples
        --------
        >>> Selection([3, 0], n_rows=4).apply(np.array([10, 11, 12, 13]), order=True)
        array([13, 10])
        """
        length = _length_of(dataset)
        if length != self.n_rows:
            raise InvalidInputError(
                f"dataset has {length:,} rows, but the selection was made from {self.n_rows:,}: "
                "apply it to the dataset it was made from."
            )
        return _take(dataset, np.array(self.order if order else self.indices))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection to a file, from which :meth:`load` restores it exactly.

        Parameters
        ----------
        path
            ``.parquet``: one line per pick, in pick order, with columns ``row``, ``group``, ``id`` and
            ``residual``. ``.json``: everything as text. ``.npy``: the row numbers in pick order for other
            tools, and the rest in ``<name>.npy.json`` beside it.

        Examples
        --------
        >>> import tempfile
        >>> selection = Selection([3, 0], n_rows=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     selection.save(f"{folder}/picks.parquet")
        ...     Selection.load(f"{folder}/picks.parquet") == selection
        True
        """
        write_record(
            SelectionRecord(
                n_rows=self.n_rows,
                order=self.order,
                group_of_pick=self._group_of_pick,
                labels=[group.label for group in self.groups],
                group_sizes=[group.n_rows for group in self.groups],
                residuals=[group.residuals for group in self.groups],
                ids=self.order_ids,
                provenance=self.provenance,
            ),
            path,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Selection:
        """Read a selection that :meth:`save` wrote; see there for an example."""
        record = read_record(path)
        by_group = np.argsort(record.group_of_pick, kind="stable")
        ends = np.cumsum(np.bincount(record.group_of_pick, minlength=len(record.labels)))
        orders = np.split(record.order[by_group], ends[:-1])
        parts = zip(record.labels, orders, record.group_sizes, record.residuals, strict=True)
        try:
            groups = [SelectedGroup(*part) for part in parts]
            return cls(record.order, record.n_rows, groups, record.ids, record.provenance)
        except (InvalidInputError, InvalidTypeError) as error:
            raise damaged(path, error) from None


def _frozen(array: _Array) -> _Array:
    array.setflags(write=False)
    return array


def _frozen_row_numbers(values: ArrayLike, name: str) -> Indices:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidInputError(f"{name} must be a one-dimensional array of row numbers.")
    rows = np.array(array, dtype=np.int64)
    if rows.size and rows.min() < 0:
        raise InvalidInputError(f"{name} names row {rows.min()}: rows count from 0.")
    return _frozen(rows)


def _row_count(n_rows: object) -> int:
    if isinstance(n_rows, bool) or not isinstance(n_rows, (int, np.integer)) or n_rows < 0:
        raise InvalidInputError(f"n_rows={n_rows!r}: give the number of rows, an integer of at least 0.")
    return int(n_rows)


def _frozen_ids(ids: Any, k: int) -> NDArray[Any]:
    """Ids as int64 (uint64 where they need it), or as Python strings, which NumPy's own would clip."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InvalidTypeError(f"ids has type {type(ids).__name__}: give a list or an array.")
    values = list(ids.tolist() if hasattr(ids, "tolist") else ids)
    if len(values) != k:
        raise InvalidInputError(f"ids has {len(values):,} entries for {k:,} picks: give the id of each pick.")
    types = {type(value) for value in values}
    if types == {str}:
        array = np.empty(k, dtype=object)
        array[:] = values
        return _frozen(array)
    low, high = (min([0, *values]), max([0, *values])) if types <= {int} else (0, 2**64)
    if low >= -(2**63) and high < 2**63:
        return _frozen(np.array(values, dtype=np.int64))
    if low >= 0 and high < 2**64:
        return _frozen(np.array(values, dtype=np.uint64))
    raise InvalidTypeError(
        "ids must be all integers of 64 bits or all strings; [str(i) for i in ids] makes them so."
    )


def _match_groups(order: Indices, groups: tuple[SelectedGroup, ...]) -> Indices:
    """The position of each pick's group, after checking that groups and order say the same."""
    if len({group.label for group in groups}) < len(groups):
        raise InvalidInputError("groups must have different labels.")
    picks = np.concatenate([group.order for group in groups])
    owners = np.repeat(np.arange(len(groups)), [len(group.order) for group in groups])
    rows, first = np.unique(picks, return_index=True)
    where = np.searchsorted(rows, order)
    if len(picks) != len(order) or not np.array_equal(rows, np.unique(order)):
        raise InvalidInputError("groups and order must hold the same rows.")
    owner_of_row = owners[first]
    if not np.array_equal(owner_of_row[np.searchsorted(rows, picks)], owners):
        raise InvalidInputError("groups must not share a row.")
    owner_of_pick: Indices = owner_of_row[where]
    if not np.array_equal(order[np.argsort(owner_of_pick, kind="stable")], picks):
        raise InvalidInputError("order must have each group's picks in the group's own sequence.")
    return _frozen(owner_of_pick)


def _json_copy(value: Any, name: str = "provenance") -> Any:
    """A deep copy made of what JSON can hold."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _json_copy(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_copy(item, f"{name}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InvalidTypeError(
        f"{name} has type {type(value).__name__}, which JSON cannot hold: use numbers, text and lists."
    )


def _bases(dataset: object) -> set[str]:
    """Names such as "torch.Dataset" (top package and class) of a type and its bases.

    Telling types apart by name spares importing the packages they come from.
    """
    return {f"{base.__module__.partition('.')[0]}.{base.__qualname__}" for base in type(dataset).__mro__}


def _length_of(dataset: Any) -> int:
    if isinstance(dataset, Mapping):
        raise InvalidTypeError(
            "dataset is a mapping, not rows: apply the selection to one of its values (dataset['train'])."
        )
    streamed = any(name.endswith(".IterableDataset") for name in _bases(dataset))
    if not streamed and hasattr(dataset, "__getitem__") and not isinstance(dataset, (str, bytes)):
        try:
            return len(dataset)
        except (TypeError, NotImplementedError):
            # Sparse matrices refuse to say, but have a shape.
            shape = getattr(dataset, "shape", None)
            if shape:
                return int(shape[0])
    raise InvalidTypeError(
        f"dataset has type {type(dataset).__name__}, whose rows cannot be looked up by number: give a list, "
        "an array, a DataFrame, a Table, or a dataset with a length (list(dataset) makes one)."
    )


def _take(dataset: Any, rows: Indices) -> Any:
    bases = _bases(dataset)
    packages = {name.partition(".")[0] for name in bases}
    if isinstance(dataset, np.ndarray):
        return dataset[rows]
    if "torch.Tensor" in bases:
        import torch

        return dataset.index_select(0, torch.from_numpy(rows).to(dataset.device))
    if "torch.Dataset" in bases:
        from torch.utils.data import Subset

        return Subset(dataset, rows.tolist())
    if "datasets" in packages and hasattr(dataset, "select"):
        return dataset.select(rows)
    if hasattr(dataset, "iloc"):
        return dataset.iloc[rows]
    if packages & {"pandas", "pyarrow"} and hasattr(dataset, "take"):
        return dataset.take(rows)
    if "scipy" in packages:
        return dataset.tocsr()[rows].asformat(dataset.format)
    return [dataset[row] for row in rows.tolist()]
