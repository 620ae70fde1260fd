"""What `gmmatch compare` measures, in memory that does not grow with the rows."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from gmmatch.errors import InvalidInputError
from gmmatch.metrics import Yardsticks, contamination
from gmmatch.rows.rows import as_rows
from gmmatch.selection.labels import group_rows, plain_label
from gmmatch.types import Indices, Mask

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.selection.selection import Selection

# MMD compares every row with every other, so it takes a sample of large inputs.
SAMPLED_ROWS = 10_000


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
    """The yardsticks for selections from the same rows, and which rows they are held against.

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
        rows = as_rows(embeddings.rows)
        given = None if embeddings.labels is None else _plain(embeddings.labels)
        self.wrong: Mask | None = None
        if truth is not None and given is not None:
            self.wrong = np.array([one != other for one, other in zip(given, truth, strict=True)])
        self.trusted: Mask = np.ones(len(rows), dtype=np.bool_) if self.wrong is None else ~self.wrong
        classes: Indices | None = None
        if given is not None and per_class is not None:
            classes = np.full(len(rows), -1, dtype=np.int64)
            for number, group in enumerate(group_rows(given, n=len(rows), unlabeled="group")):
                if group.label is not None:
                    classes[group.rows] = number
        self.labeled = classes is not None and bool((classes >= 0).any())
        self.yardsticks = Yardsticks(
            rows,
            classes if self.labeled else None,
            reference=self.trusted,
            cover_all=True,
            sampled_rows=SAMPLED_ROWS,
            covered_rows=SAMPLED_ROWS,
            seed=seed,
        )

    def describe(self) -> dict[str, Any]:
        """Say what is compared with what."""
        rows = self.yardsticks.rows
        return {
            "n_rows": len(rows),
            "n_features": rows.n_features,
            "classes": self.yardsticks.n_classes if self.labeled else None,
            "wrong_labels": None if self.wrong is None else float(self.wrong.mean()),
            "sampled_rows": len(self.yardsticks.covered),
        }

    def measure(self, selection: Selection) -> dict[str, Any]:
        """Return the figures of a selection; None for one that is not known."""
        figures = asdict(self.yardsticks.measure(selection.indices))
        return {
            "contamination": None if self.wrong is None else contamination(selection, self.wrong),
            **{name: None if np.isnan(value) else value for name, value in figures.items()},
        }
