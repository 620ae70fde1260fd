"""The demo: what each method keeps of scikit-learn's digits when a third of the labels is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import distribution, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.types import Indices, Mask

FLIPPED = 0.35
KEPT = 0.10
TEST_ROWS = 540
SPLIT_SEED = 0
UNIT_LENGTH = {"normalize": True, "unit_target": True}
ALL_ROWS = "all noisy rows"
CLEAN_ROWS = "as many clean rows, at random"


@dataclass(frozen=True)
class Contender:
    """A method of the registry with options, and what it is called in the table."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


CONTENDERS = (
    Contender("robust", "robust"),
    Contender("gm-matching (paper)", "gm-matching"),
    # What the paper's authors' code does, which is not what the paper's text says.
    Contender("gm-matching (unit length)", "gm-matching", UNIT_LENGTH),
    Contender("kernel-herding", "kernel-herding"),
    Contender("herding", "herding"),
    Contender("moderate", "moderate"),
    Contender("easy", "easy"),
    Contender("random", "random"),
    Contender("hard", "hard"),
)


@dataclass(frozen=True)
class NoisyDigits:
    """A fixed split of the digits, with some training labels replaced.

    ``labels`` are what the methods see; ``truth`` is what only the measurements see.
    """

    images: NDArray[np.float64]
    labels: Indices
    truth: Indices
    test_images: NDArray[np.float64]
    test_labels: Indices

    @property
    def wrong(self) -> Mask:
        """Which training rows have a label that is not theirs."""
        return np.not_equal(self.labels, self.truth)


def noisy_digits(seed: int) -> NoisyDigits:
    """Return the digits with 35% of the training labels turned into another class.

    The split into training and test rows is the same for every seed; the seed decides which labels turn
    into what.
    """
    images, digits, tested = _split()
    truth = digits[~tested]
    random = np.random.default_rng(seed)
    chosen = random.choice(len(truth), size=round(FLIPPED * len(truth)), replace=False)
    labels = truth.copy()
    labels[chosen] = (truth[chosen] + random.integers(1, 10, size=len(chosen))) % 10
    return NoisyDigits(images[~tested], labels, truth, images[tested], digits[tested])


def _split() -> tuple[NDArray[np.float64], Indices, Mask]:
    """Return the digits, their classes and which of them are for testing, as many of each class as it has."""
    from gmmatch.selectors.registry import select

    # What load_digits reads. Importing scikit-learn takes longer than anything else that the demo does.
    file = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    table = np.loadtxt(str(file), dtype=np.int64, delimiter=",")
    images, digits = table[:, :-1] / 16.0, table[:, -1]  # 16 is the brightest pixel
    return (
        images,
        digits,
        select(images, y=digits, k=TEST_ROWS, method="random", random_state=SPLIT_SEED).mask,
    )


def pick(digits: NoisyDigits, contender: Contender, seed: int) -> Indices:
    """Return the rows that a method keeps, per class of the noisy labels."""
    from gmmatch.selectors.registry import select

    selection = select(
        digits.images,
        y=digits.labels,
        k=KEPT,
        method=contender.method,
        random_state=seed,
        **contender.options,
    )
    return selection.indices


def measure(digits: NoisyDigits, picks: Indices) -> dict[str, float]:
    """Measure a selection against the correctly labeled rows; lower is better but for the accuracy.

    The share of picks with a wrong label; two distances between picks and clean rows of a class, averaged over the
    classes; and the accuracy of a logistic regression trained on the picks as they are labeled, on the test rows.
    """
    from gmmatch.metrics import contamination
    from gmmatch.rows.parallel import blas_threads_for
    from gmmatch.yardsticks import Yardsticks

    with blas_threads_for(digits.images.size):
        yardsticks = Yardsticks(digits.images, digits.labels, reference=~digits.wrong)
        return {
            "contamination": contamination(picks, digits.wrong),
            "moment_error": float(yardsticks.moment_errors(picks, np.array([len(picks)]))[0]),
            "mmd": yardsticks.mmd(picks),
            "accuracy": float((classified(digits, picks) == digits.test_labels).mean()),
        }


def classified(digits: NoisyDigits, picks: Indices) -> Indices:
    """Return the classes of the test rows by a logistic regression that is trained on the picks as labeled.

    It is the one that scikit-learn's LogisticRegression fits by default: pixels as they are, and half the squared
    weights beside the summed losses.
    """
    from gmmatch.scores.softmax_regression import SoftmaxRegression, Standardization

    s, n = digits.images.shape[1], len(picks)
    model = SoftmaxRegression(
        np.insert(digits.images[picks], s, 1.0, axis=1), digits.labels[picks], np.full(n, 1.0 / n), n_classes=10,
        strength=1.0 / n, scale=Standardization(np.zeros(s), np.ones(s)), decay_bias=False,
    )  # fmt: skip
    parameters = model.fit(gradient_tolerance=1e-5)
    logits = digits.test_images @ parameters[:, :-1].T + parameters[:, -1]
    return np.asarray(logits.argmax(axis=1))


def compare(seeds: Sequence[int], advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run every method for every seed and return the figures as plain data, ready for JSON.

    Examples
    --------
    >>> result = compare(seeds=[0])
    >>> [row["label"] for row in result["rows"]][-1]
    'as many clean rows, at random'
    """
    from gmmatch import __version__
    from gmmatch.selectors.registry import select

    if not seeds:
        raise InvalidInputError("seeds is empty: give one seed or more.")
    described = {contender.label: asdict(contender) for contender in CONTENDERS}
    described |= {label: {"label": label, "method": None, "options": {}} for label in (ALL_ROWS, CLEAN_ROWS)}
    labels = list(described)
    measured: dict[str, list[dict[str, float]]] = {label: [] for label in labels}
    for seed in seeds:
        digits = noisy_digits(seed)
        picks = {contender.label: pick(digits, contender, seed) for contender in CONTENDERS}
        picks[ALL_ROWS] = np.arange(len(digits.labels))
        arguments = {"k": round(KEPT * len(digits.labels)), "exclude": digits.wrong, "random_state": seed}
        picks[CLEAN_ROWS] = select(digits.images, y=digits.labels, method="random", **arguments).indices
        for label in labels:
            measured[label].append(measure(digits, picks[label]))
            advance()
    return {
        "data": {
            "name": "scikit-learn digits",
            "training_rows": len(digits.labels),
            "test_rows": len(digits.test_labels),
            "flipped": FLIPPED,
            "kept": KEPT,
            "seeds": list(seeds),
        },
        "versions": {
            "gmmatch": __version__,
            "numpy": np.__version__,
            "scikit-learn": version("scikit-learn"),
        },
        "rows": [
            {**described[label], "rows_kept": len(picks[label]), **_summary(measured[label])}
            for label in labels
        ],
    }


def steps(seeds: Sequence[int]) -> int:
    """Return how often :func:`compare` reports progress."""
    return len(seeds) * (len(CONTENDERS) + 2)


def _summary(figures: Sequence[dict[str, float]]) -> dict[str, dict[str, float | None]]:
    """Mean and sample deviation over the seeds; no deviation can be told from a single one."""
    values = {name: [one[name] for one in figures] for name in figures[0]}
    return {
        name: {
            "mean": round(float(np.mean(numbers)), 6),
            "deviation": round(float(np.std(numbers, ddof=1)), 6) if len(numbers) > 1 else None,
        }
        for name, numbers in values.items()
    }
