"""What `gmmatch compare` measures, in memory that does not grow with the rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.rows.rows import as_rows
from gmmatch.selection.labels import group_rows, plain_label
from gmmatch.types import Indices, Mask

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.selection.selection import Selection

# MMD compares every row with every other, so it takes a sample of large inputs.
SAMPLED_ROWS = 10_000
_BLOCK_ELEMENTS = 1 << 22


def read_truth(text: str | None, embeddings: Embeddings) -> list[Any] | None:
    """Return the true labels that ``--truth`` names, one per row.

    Parameters
    ----------
    text
        A file or a column of the input.
    embeddings
        The rows, with the labels that are given.

    Returns
    -------
    list or None
    """
    if text is None:
        return None
    from gmmatch.cli.io.inputs import labels_for

    if embeddings.labels is None:
        raise InvalidInputError(
            f"--truth {text}: {embeddings.path} has no labels to compare with; give some by --labels."
        )
    true, given = _plain(labels_for(embeddings, text, option="--truth")), _plain(embeddings.labels)
    types = {type(label) for label in given}
    # Everything in a text file is text, also the numbers.
    if {type(label) for label in true} <= {str, type(None)} and int in types and str not in types:
        try:
            true = [None if label is None else int(str(label)) for label in true]
        except ValueError:
            raise InvalidInputError(f"--truth {text} holds text, where the labels are numbers.") from None
    if not set(true) & set(given):
        raise InvalidInputError(
            f"--truth {text} has labels such as {true[0]!r}, and none of them is among those of "
            f"{embeddings.path}, such as {given[0]!r}: give labels of the same classes."
        )
    return true


def _plain(labels: Any) -> list[Any]:
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    return [plain_label(value) for value in values]


class Comparison:
    """The yardsticks for selections from the same rows.

    Parameters
    ----------
    embeddings
        The rows.
    truth
        Their true labels, if they are known.
    per_class
        None if labels are to be ignored.
    seed
        Of the sample.
    """

    def __init__(self, embeddings: Embeddings, truth: list[Any] | None, per_class: Any, seed: int) -> None:
        self.rows = as_rows(embeddings.rows)
        n = len(self.rows)
        given = None if embeddings.labels is None else _plain(embeddings.labels)
        self.wrong: Mask | None = None
        if truth is not None and given is not None:
            self.wrong = np.array([one != other for one, other in zip(given, truth, strict=True)])
        self.groups = group_rows(given, n=n, per_class=per_class, unlabeled="group")
        self.class_of = np.empty(n, dtype=np.int64)
        for number, group in enumerate(self.groups):
            self.class_of[group.rows] = number
        self.trusted: Mask = np.ones(n, dtype=np.bool_) if self.wrong is None else ~self.wrong
        random = np.random.default_rng(seed)
        self.seed = seed
        self.sample = np.sort(random.choice(n, min(n, SAMPLED_ROWS), replace=False))
        self.sampled = self.rows.gather(self.sample)
        self.means = self._class_means(np.flatnonzero(self.trusted))

    def describe(self) -> dict[str, Any]:
        """Say what is compared with what."""
        return {
            "n_rows": len(self.rows),
            "n_features": self.rows.n_features,
            "classes": len(self.groups) if self.groups[0].label is not None else None,
            "wrong_labels": None if self.wrong is None else float(self.wrong.mean()),
            "sampled_rows": len(self.sample),
        }

    def measure(self, selection: Selection) -> dict[str, Any]:
        """Return the figures of a selection."""
        picks = selection.indices
        nearest = self._coverage(np.unique(picks))
        return {
            "contamination": None if self.wrong is None else float(self.wrong[picks].mean()),
            "moment_error": self._moment_error(picks),
            "mmd": self._mmd(picks),
            "coverage_mean": float(nearest.mean()),
            "coverage_max": float(nearest.max()),
        }

    def _moment_error(self, picks: Indices) -> float | None:
        gaps = np.linalg.norm(self._class_means(picks) - self.means, axis=1)
        gaps = gaps[~np.isnan(gaps)]  # a class without picks or true rows has no mean
        return float(gaps.mean()) if len(gaps) else None

    def _class_means(self, positions: Indices) -> NDArray[np.float64]:
        """The mean of these rows in each class, summed block by block; NaN where there are none."""
        sums = np.zeros((len(self.groups), self.rows.n_features))
        counts = np.zeros(len(self.groups))
        for part in self._blocks(positions):
            block, classes = self.rows.gather(part), self.class_of[part]
            order = np.argsort(classes, kind="stable")
            present, starts = np.unique(classes[order], return_index=True)
            sums[present] += np.add.reduceat(block[order], starts, axis=0)
            counts[present] += np.bincount(classes)[present]
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts[:, None])

    def _blocks(self, positions: Indices) -> Iterator[Indices]:
        step = max(1, _BLOCK_ELEMENTS // self.rows.n_features)
        for start in range(0, len(positions), step):
            yield positions[start : start + step]

    def _mmd(self, picks: Indices) -> float | None:
        from gmmatch.metrics import mmd

        random = np.random.default_rng(self.seed)
        if len(picks) > SAMPLED_ROWS:
            picks = np.sort(random.choice(picks, SAMPLED_ROWS, replace=False))
        chosen, usable = self.rows.gather(picks), self.trusted[self.sample]
        values = []
        for number in range(len(self.groups)):
            mine = self.class_of[picks] == number
            reference = usable & (self.class_of[self.sample] == number)
            if mine.any() and reference.any():
                values.append(mmd(chosen[mine], self.sampled[reference]))
        return float(np.mean(values)) if values else None

    def _coverage(self, picks: Indices) -> NDArray[np.float64]:
        """The distance from each sampled row to its nearest pick."""
        from sklearn.metrics import pairwise_distances_argmin_min

        nearest = np.full(len(self.sample), np.inf)
        for part in self._blocks(picks):
            _, distances = pairwise_distances_argmin_min(self.sampled, self.rows.gather(part))
            np.minimum(nearest, distances, out=nearest)
        nearest[np.isin(self.sample, picks)] = 0.0
        return nearest
