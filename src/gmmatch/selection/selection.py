"""Selection: which rows were picked, in which order, how well they match, and how that came about."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gmmatch.errors import InvalidInputError, imported
from gmmatch.frames import Package, as_frame
from gmmatch.rows.checks import check_sample_weight
from gmmatch.rows.taking import count_rows, take_rows
from gmmatch.screening.result import Screening, labels_at
from gmmatch.selection.budget import Budget, resolve_count
from gmmatch.selection.files import pick_table, read_selection, write_selection
from gmmatch.selection.groups import (
    MergedPicks,
    SelectedGroup,
    SelectedGroups,
    frozen,
    frozen_ids,
    grouped_picks,
    interleave,
    row_count,
)
from gmmatch.selection.labels import Label
from gmmatch.selection.past import Past
from gmmatch.selection.record import as_html, described, json_copy, record_of_others, summary
from gmmatch.types import Indices, Mask, Vector

__all__ = ["SelectedGroup", "Selection", "interleave"]


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
    screening
        Which rows could be picked at all and why the others could not, by a method that screens. Two
        selections are equal whatever their screening.
    weights
        How much each pick counts, *in pick order*, shape (k,).
    past
        What :meth:`update` needs, if the selection was made with ``updatable=True``.

    Attributes
    ----------
    order, n_rows, groups, provenance, screening, past
        As above; arrays are read-only.
    group_of_pick, order_ids, order_weights
        In pick order: the position in ``groups`` of each pick's group, the ids, the weights. :attr:`ids` and
        :attr:`weights` are in the order of :attr:`indices`.

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
    groups: SelectedGroups
    order_ids: NDArray[Any] | None
    provenance: dict[str, Any]
    screening: Screening | None
    order_weights: Vector | None
    past: Past | None
    group_of_pick: Indices

    def __init__(
        self,
        order: ArrayLike | MergedPicks,
        n_rows: int,
        groups: Sequence[SelectedGroup] = (),
        ids: Any = None,
        provenance: Mapping[str, Any] | None = None,
        screening: Screening | None = None,
        weights: Any = None,
        past: Past | None = None,
    ) -> None:
        rows, (picks, parts, owners) = row_count(n_rows), grouped_picks(order, groups, n_rows)
        if screening is not None and len(screening) != rows:
            raise InvalidInputError(f"screening is about {len(screening)} rows, but n_rows={rows}.")
        if past is not None and len(past.rows) != len(picks):
            raise InvalidInputError(f"past has {len(past.rows)} rows for {len(picks)} picks.")
        ids = None if ids is None else frozen_ids(ids, len(picks), "picks")
        if weights is not None:
            weights = frozen(check_sample_weight(np.array(weights), len(picks), name="weights"))
        facts = (picks, rows, parts, ids, json_copy(provenance or {}), screening, weights, past, owners)
        for field, value in zip(fields(self), facts, strict=True):
            object.__setattr__(self, field.name, value)

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
        return frozen(self.order[self._by_row])

    @property
    def ids(self) -> NDArray[Any] | None:
        """The caller's ids of the picks, in the order of :attr:`indices`; None if none were given."""
        return None if self.order_ids is None else self.order_ids[self._by_row]

    @property
    def weights(self) -> Vector | None:
        """How much each pick counts, in the order of :attr:`indices`; None unless they were asked for.

        Those of a class sum to the number of its rows: scikit-learn's ``sample_weight``.
        """
        return None if self.order_weights is None else self.order_weights[self._by_row]

    @property
    def labels(self) -> NDArray[Any]:
        """The label of each pick's group, in the order of :attr:`indices`."""
        return labels_at(self.groups.labels, self.group_of_pick[self._by_row])

    @property
    def mask(self) -> Mask:
        """Whether each row of the input was picked, shape (n_rows,)."""
        picked = np.zeros(self.n_rows, dtype=np.bool_)
        picked[self.order] = True
        return picked

    @property
    def counts(self) -> dict[Label, int]:
        """The number of picks per group."""
        return dict(zip(self.groups.labels, self.groups.sizes.tolist(), strict=True))

    @property
    def residual(self) -> dict[Label, float]:
        """‖target − mean of picks‖ per group; NaN where it was not computed."""
        return dict(zip(self.groups.labels, self.groups.last_residuals, strict=True))

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
        return (
            np.array_equal(self.order_ids, other.order_ids)  # type: ignore[arg-type]
            and np.array_equal(self.order_weights, other.order_weights)  # type: ignore[arg-type]
            and (self.n_rows, self.groups) == (other.n_rows, other.groups)
            and np.array_equal(self.order, other.order)
            and self.provenance == other.provenance
        )

    def __reduce__(self) -> tuple[Any, ...]:
        facts = (self.order_ids, self.provenance, self.screening, self.order_weights, self.past)
        return Selection, (self.order, self.n_rows, self.groups, *facts)

    def __repr__(self) -> str:
        return summary(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def describe(self) -> str:
        """Summarize the selection in plain text, a line for each group and each fact of its provenance.

        Examples
        --------
        >>> print(Selection([3, 0], n_rows=5, provenance={"method": "herding", "seed": 0}).describe())
        Selection: 2 of 5 rows by herding
          all rows: 2 of 5
          method: herding
          seed: 0
        """
        return described(self)

    def to_frame(self, package: Package = "pandas") -> Any:
        """Return the picks as a table, one line per pick, in pick order.

        Its columns are ``row``, ``group`` (the class), ``residual``, and ``id`` and ``weight`` where there are any.

        Parameters
        ----------
        package
            Whose table: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.

        Examples
        --------
        >>> Selection([3, 0], n_rows=5, ids=["d", "a"]).to_frame()[["row", "id"]]
           row id
        0    3  d
        1    0  a
        """
        return as_frame(pick_table(self), package)

    def prefix(self, k: Budget) -> Selection:
        """The first k picks as a smaller selection.

        Parameters
        ----------
        k
            How many picks, or which fraction of them.

        Returns
        -------
        Selection
            With the groups and their residuals cut to match, and ``prefix`` in the provenance. Without weights
            and what an update needs, which are those of all picks together.

        Examples
        --------
        >>> Selection([3, 0, 4, 1], n_rows=5).prefix("50%").order
        array([3, 0])
        """
        if not self.k:
            raise InvalidInputError("An empty selection has no prefix.")
        count = resolve_count(k, self.k, unit="picks")
        sizes = np.bincount(self.group_of_pick[:count], minlength=len(self.groups))
        return Selection(
            order=self.order[:count],
            n_rows=self.n_rows,
            groups=self.groups.prefix(sizes),
            ids=None if self.order_ids is None else self.order_ids[:count],
            provenance={**record_of_others(self.provenance, self.order[:count]), "prefix": count},
            screening=self.screening,
        )

    def rerun(self, X: Any, y: Any = None, **options: Any) -> Selection:
        """Select again as this selection was made: the same method, parameters and random seed.

        Parameters
        ----------
        X, y
            Rows and labels: the same ones for the same picks, or others.
        **options
            What is to differ (``k=200``), and what the selection does not hold: ``ids``, ``sample_weight``,
            ``include``, ``exclude``, ``reference``, ``scores``.

        Examples
        --------
        >>> from gmmatch import Herding
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> selection = Herding(k=6).select(X)
        >>> selection.rerun(X) == selection, selection.rerun(X, k=12).k
        (True, 12)
        """
        from gmmatch.selectors.provenance import arguments_again
        from gmmatch.selectors.registry import select

        found = select(X, y, **arguments_again(self, options))
        return found.prefix(self.k) if "prefix" in self.provenance and "k" not in options else found

    def apply(self, dataset: Any, *, order: bool = False) -> Any:
        """Take the picked rows of a dataset.

        Parameters
        ----------
        dataset
            What the selection was made from, or anything with a row for each of its rows: a list, an array, a pandas
            or polars DataFrame or Series, a torch tensor or Dataset, a Hugging Face Dataset, a pyarrow Table, a SciPy
            sparse matrix, or any other sequence.
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
        length = count_rows(dataset)
        if length != self.n_rows:
            raise InvalidInputError(
                f"dataset has {length:,} rows, but the selection was made from {self.n_rows:,}: "
                "apply it to the dataset it was made from."
            )
        return take_rows(dataset, self.order if order else self.indices)

    def sampler(self, num_samples: int | None = None, generator: Any = None) -> Any:
        """Return torch's ``WeightedRandomSampler`` of what :meth:`apply` takes, by the weights of the picks.

        Parameters
        ----------
        num_samples, generator
            How many rows an epoch draws, as many as there are picks by default; and torch's random numbers.

        Examples
        --------
        >>> selection = Selection([3, 0], n_rows=4, weights=[3.0, 1.0])
        >>> selection.weights, len(list(selection.sampler()))
        (array([1., 3.]), 2)
        """
        if self.weights is None:
            raise InvalidInputError("The selection has no weights: select with weights=True.")
        sampler = imported("torch", "sampler() needs torch", "torch").utils.data.WeightedRandomSampler
        return sampler(self.weights.tolist(), num_samples or self.k, generator=generator)

    def update(self, X: Any, y: Any = None, *, ids: Any = None) -> Selection:
        """Take new rows into account: as many picks as before, from these and from the new rows.

        The earlier rows are not read again. The target is that of all rows so far, by sums that the selection keeps;
        a method that screens judges the new rows beside the picks.

        Parameters
        ----------
        X, y, ids
            The new rows, made by the same encoder, shape (m, s); their labels, if the picks are per class; their ids
            (or a callable), if the picks have ids.

        Returns
        -------
        Selection
            From all rows, the new ones numbered after the old; with ``updates`` in the provenance.

        Examples
        --------
        >>> from gmmatch import Herding
        >>> X = np.random.default_rng(0).standard_normal((60, 2))
        >>> selection = Herding(k=6, updatable=True).select(X[:50]).update(X[50:])
        >>> selection.k, selection.n_rows, selection.provenance["updates"][0]["n_rows"]
        (6, 60, 10)
        """
        from gmmatch.updating.update import update_selection

        return update_selection(self, X, y, ids)

    def report(self, path: str | os.PathLike[str], X: Any, y: Any = None, **options: Any) -> None:
        """Write a page about the selection: a map, how good it is, what was left out and why.

        Parameters
        ----------
        path, X, y
            Ends in ``.html``; the rows that the selection was made from; their labels.
        **options
            ``source`` (the pictures or texts behind the rows), ``class_names``, ``projection`` (``"pca"``,
            ``"tsne"``, ``"umap"``) and ``ids``, as in :func:`gmmatch.report.write_report`.

        Examples
        --------
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Selection([3, 0], n_rows=4).report(f"{folder}/picks.html", np.eye(4), source=["a", "b", "c", "d"])
        """
        from gmmatch.report import write_report

        write_report(self, path, X, y, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the selection to a file, from which :meth:`load` restores it exactly.

        Parameters
        ----------
        path
            ``.parquet``: one line per pick, in pick order, with columns ``row``, ``group``, ``id``,
            ``residual`` and ``weight``. ``.json``: everything as text. ``.npy``: the row numbers in pick order for
            other tools, and the rest in ``<name>.npy.json`` beside it.

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
        return read_selection(cls, path)
