"""The demo: what each method keeps of scikit-learn's digits when a third of the labels is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.types import Indices, Mask

FLIPPED = 0.35
KEPT = 0.10
TEST_SHARE = 0.30
SPLIT_SEED = 0


@dataclass(frozen=True)
class Contender:
    """A method of the registry with options, and what it is called in the table."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


UNIT_LENGTH = {"normalize": True, "unit_target": True}

CONTENDERS = (
    Contender("random", "random"),
    Contender("easy", "easy"),
    Contender("hard", "hard"),
    Contender("moderate", "moderate"),
    Contender("herding", "herding"),
    Contender("kernel-herding", "kernel-herding"),
    Contender("gm-matching", "gm-matching"),
    # What the paper's authors' code does, which is not what the paper's text says.
    Contender("gm-matching (unit length)", "gm-matching", UNIT_LENGTH),
)
ALL_ROWS = "all noisy rows"
CLEAN_ROWS = "as many clean rows, at random"


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

    @property
    def classes(self) -> list[int]:
        """The ten digits."""
        return [int(digit) for digit in np.unique(self.truth)]


@dataclass(frozen=True)
class Figures:
    """What is measured of one selection; lower is better but for the accuracy."""

    contamination: float
    """Share of the picks with a wrong label."""
    moment_error: float
    """‖mean of the picks labelled c − mean of the clean rows of class c‖, averaged over c."""
    mmd: float
    """Distance between the same two sets in a Gaussian kernel's space, averaged over c."""
    accuracy: float
    """Of a logistic regression trained on the picks with the labels they came with, on the test rows."""


def noisy_digits(seed: int, flipped: float = FLIPPED) -> NoisyDigits:
    """Return the digits with ``flipped`` of the training labels turned into another class.

    The split into training and test rows is the same for every seed; the seed decides which labels turn
    into what.

    Examples
    --------
    >>> digits = noisy_digits(seed=0)
    >>> digits.images.shape, int(digits.wrong.sum())
    ((1257, 64), 440)
    """
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    images, digits = load_digits(return_X_y=True)
    images = images / 16.0  # the brightest pixel
    train, test, truth, test_labels = train_test_split(
        images, digits, test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=digits
    )
    random = np.random.default_rng(seed)
    chosen = random.choice(len(truth), size=round(flipped * len(truth)), replace=False)
    labels = truth.copy()
    labels[chosen] = (truth[chosen] + random.integers(1, 10, size=len(chosen))) % 10
    return NoisyDigits(train, labels, truth, test, test_labels)


def pick(digits: NoisyDigits, contender: Contender, seed: int) -> Indices:
    """Return the rows that a method keeps, per class of the noisy labels.

    Examples
    --------
    >>> digits = noisy_digits(seed=0)
    >>> picks = pick(digits, CONTENDERS[1], seed=0)
    >>> len(picks), int(digits.wrong[picks].sum())
    (126, 0)
    """
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


def measure(digits: NoisyDigits, picks: Indices) -> Figures:
    """Measure a selection against the correctly labelled rows.

    Examples
    --------
    >>> digits = noisy_digits(seed=0)
    >>> measure(digits, np.flatnonzero(~digits.wrong)).moment_error
    0.0
    """
    from sklearn.linear_model import LogisticRegression

    from gmmatch.metrics import Yardsticks, contamination

    found = Yardsticks(digits.images, digits.labels, reference=~digits.wrong).measure(picks)
    model = LogisticRegression(max_iter=2000).fit(digits.images[picks], digits.labels[picks])
    return Figures(
        contamination=contamination(picks, digits.wrong),
        moment_error=found.moment_error,
        mmd=found.mmd,
        accuracy=float(model.score(digits.test_images, digits.test_labels)),
    )


def compare(seeds: Sequence[int], advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run every method for every seed and return the figures as plain data, ready for JSON.

    Parameters
    ----------
    seeds : sequence of int
        One noisy version of the digits each.
    advance : callable
        Called after each of the ``steps(seeds)`` pieces of work.

    Examples
    --------
    >>> result = compare(seeds=[0])
    >>> [row["label"] for row in result["rows"]][-1]
    'as many clean rows, at random'
    """
    if not seeds:
        raise InvalidInputError("seeds is empty: give one seed or more.")
    labels = [contender.label for contender in CONTENDERS] + [ALL_ROWS, CLEAN_ROWS]
    measured: dict[str, list[Figures]] = {label: [] for label in labels}
    for seed in seeds:
        digits = noisy_digits(seed)
        picks = {contender.label: pick(digits, contender, seed) for contender in CONTENDERS}
        picks[ALL_ROWS] = np.arange(len(digits.labels))
        picks[CLEAN_ROWS] = _random_clean_rows(digits, seed)
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
        "versions": _versions(),
        "rows": [
            {**_described(label), "rows_kept": len(picks[label]), **_summary(measured[label])}
            for label in labels
        ],
    }


def steps(seeds: Sequence[int]) -> int:
    """Return how often :func:`compare` reports progress.

    Examples
    --------
    >>> steps(range(5))
    50
    """
    return len(seeds) * (len(CONTENDERS) + 2)


def _random_clean_rows(digits: NoisyDigits, seed: int) -> Indices:
    """As many rows as a method keeps, drawn per class from those whose label is right."""
    from gmmatch.selectors.registry import select

    count = round(KEPT * len(digits.labels))
    return select(
        digits.images, y=digits.labels, k=count, method="random", exclude=digits.wrong, random_state=seed
    ).indices


def _described(label: str) -> dict[str, Any]:
    for contender in CONTENDERS:
        if contender.label == label:
            return asdict(contender)
    return {"label": label, "method": None, "options": {}}


def _summary(figures: Sequence[Figures]) -> dict[str, dict[str, float | None]]:
    """Mean and sample deviation over the seeds; no deviation can be told from a single one."""
    values = {name: [asdict(one)[name] for one in figures] for name in asdict(figures[0])}
    return {
        name: {
            "mean": round(float(np.mean(numbers)), 6),
            "deviation": round(float(np.std(numbers, ddof=1)), 6) if len(numbers) > 1 else None,
        }
        for name, numbers in values.items()
    }


def _versions() -> dict[str, str]:
    import sklearn

    from gmmatch import __version__

    return {"gmmatch": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__}
