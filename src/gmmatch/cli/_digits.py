"""The demo: what each method keeps of scikit-learn's digits when a third of the labels is wrong, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, MissingDependencyError, install_command
from gmmatch.files import replacing
from gmmatch.types import Indices, Mask

FLIPPED = 0.35
KEPT = 0.10
TEST_SHARE = 0.30
SPLIT_SEED = 0
UNIT_LENGTH = {"normalize": True, "unit_target": True}
ALL_ROWS = "all noisy rows"
CLEAN_ROWS = "as many clean rows, at random"
# Two colours of Okabe and Ito's palette, which stay apart for every kind of colour blindness; the shape
# of the marks says the same once more.
RIGHT, WRONG = "#0072B2", "#D55E00"
FAINT_RIGHT, FAINT_WRONG = "#BCD6E8", "#F2CDB4"
INK = "#1A1A1A"
DIGIT = 3
THUMBNAILS_PER_ROW = 7


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
PICTURED = CONTENDERS[:8]  # two full lines of four


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


@dataclass(frozen=True)
class Figures:
    """What is measured of one selection; lower is better but for the accuracy."""

    contamination: float
    """Share of the picks with a wrong label."""
    moment_error: float
    """‖mean of the picks labeled c − mean of the clean rows of class c‖, averaged over c."""
    mmd: float
    """Distance between the same two sets in a Gaussian kernel's space, averaged over c."""
    accuracy: float
    """Of a logistic regression trained on the picks with the labels they came with, on the test rows."""


def noisy_digits(seed: int, flipped: float = FLIPPED) -> NoisyDigits:
    """Return the digits with ``flipped`` of the training labels turned into another class.

    The split into training and test rows is the same for every seed; the seed decides which labels turn
    into what.
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


def measure(digits: NoisyDigits, picks: Indices) -> Figures:
    """Measure a selection against the correctly labeled rows."""
    from sklearn.linear_model import LogisticRegression

    from gmmatch.metrics import contamination
    from gmmatch.rows.parallel import blas_threads_for
    from gmmatch.yardsticks import Yardsticks

    with blas_threads_for(digits.images.size):
        found = Yardsticks(digits.images, digits.labels, reference=~digits.wrong).measure(picks)
        model = LogisticRegression(max_iter=2000).fit(digits.images[picks], digits.labels[picks])
        accuracy = float(model.score(digits.test_images, digits.test_labels))
    return Figures(
        contamination=contamination(picks, digits.wrong),
        moment_error=found.moment_error,
        mmd=found.mmd,
        accuracy=accuracy,
    )


def compare(seeds: Sequence[int], advance: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Run every method for every seed and return the figures as plain data, ready for JSON.

    Examples
    --------
    >>> result = compare(seeds=[0])
    >>> [row["label"] for row in result["rows"]][-1]
    'as many clean rows, at random'
    """
    import sklearn

    from gmmatch import __version__
    from gmmatch.selectors.registry import select

    if not seeds:
        raise InvalidInputError("seeds is empty: give one seed or more.")
    described = {contender.label: asdict(contender) for contender in CONTENDERS}
    described |= {label: {"label": label, "method": None, "options": {}} for label in (ALL_ROWS, CLEAN_ROWS)}
    labels = list(described)
    measured: dict[str, list[Figures]] = {label: [] for label in labels}
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
        "versions": {"gmmatch": __version__, "numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "rows": [
            {**described[label], "rows_kept": len(picks[label]), **_summary(measured[label])}
            for label in labels
        ],
    }


def steps(seeds: Sequence[int]) -> int:
    """Return how often :func:`compare` reports progress."""
    return len(seeds) * (len(CONTENDERS) + 2)


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


def draw(path: Path, seed: int = 0) -> None:
    """Write the picture; the ending of ``path`` decides the format."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            f"The picture needs matplotlib, which is not installed: {install_command('report')}."
        ) from error

    digits = noisy_digits(seed)
    members = np.flatnonzero(digits.labels == DIGIT)
    places = _places(digits.images, members)
    figure = Figure(figsize=(12.0, 8.6), facecolor="white")
    figure.suptitle(
        f"What each method keeps of {len(members)} images labeled “{DIGIT}”, {digits.wrong[members].sum()} of them "
        "mislabeled",
        fontsize=17.5,
        fontweight="bold",
        color=INK,
    )
    edges = {"left": 0.008, "right": 0.992, "top": 0.905, "bottom": 0.09, "wspace": 0.07, "hspace": 0.28}
    panels = figure.subplots(4, 4, height_ratios=(2.3, 1.0) * 2, gridspec_kw=edges)
    for contender, above, below in zip(PICTURED, panels[::2].flat, panels[1::2].flat, strict=True):
        picks = pick(digits, contender, seed)
        mine = picks[digits.labels[picks] == DIGIT]
        wrong = int(digits.wrong[mine].sum())
        above.set_title(contender.label, loc="left", fontsize=13.5, fontweight="bold", color=INK)
        _map(above, digits, members, places, mine)
        color = WRONG if wrong else RIGHT
        below.set_title(f"{wrong} of {len(mine)} wrong", loc="left", fontsize=14, color=color)
        below.imshow(_strip(digits, mine), interpolation="nearest", aspect="equal")
        below.set_anchor("NW")
        below.axis("off")
    marks = above.get_legend_handles_labels()
    figure.legend(*marks, loc="lower center", ncols=3, frameon=False, fontsize=14, labelcolor=INK)
    with replacing(path) as [temporary]:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _places(images: NDArray[np.float64], members: Indices) -> NDArray[np.float64]:
    """Every image's place on the map: the two main directions in which the class, as labeled, varies."""
    from sklearn.decomposition import PCA

    places: NDArray[np.float64] = PCA(2, random_state=0).fit(images[members]).transform(images)
    return places


def _map(
    axes: Any, digits: NoisyDigits, members: Indices, places: NDArray[np.float64], mine: Indices
) -> None:
    right, wrong = (members[digits.wrong[members] == flag] for flag in (False, True))
    good, bad = (mine[digits.wrong[mine] == flag] for flag in (False, True))
    axes.scatter(*places[good].T, s=75, c=RIGHT, ec="white", zorder=3, label="kept, label right")
    axes.scatter(*places[bad].T, s=95, c=WRONG, marker="X", ec="white", zorder=3, label="kept, label wrong")
    axes.scatter(*places[right].T, s=26, c=FAINT_RIGHT, label="left out, label right")
    axes.scatter(*places[wrong].T, s=30, c=FAINT_WRONG, marker="X", label="left out, label wrong")
    centre, mean = places[right].mean(axis=0), places[mine].mean(axis=0)
    star = {"c": "white", "marker": "*", "ec": INK, "zorder": 4}
    axes.scatter(*centre, s=330, **star, label="mean of the correctly labeled")
    axes.scatter(*mean, s=75, c=INK, marker="D", ec="white", zorder=5, label="mean of the kept")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_color("#CCCCCC")


def _strip(digits: NoisyDigits, mine: Indices) -> NDArray[np.float64]:
    """The kept images side by side, in the color that says whether their label is right."""
    from matplotlib.colors import to_rgb

    side, gap = 8, 2
    rows = -(-len(mine) // THUMBNAILS_PER_ROW)
    strip = np.ones((rows * (side + gap) - gap, THUMBNAILS_PER_ROW * (side + gap) - gap, 3))
    # The wrong ones last, so that their share can be seen at a glance.
    for number, row in enumerate(mine[np.argsort(digits.wrong[mine], kind="stable")]):
        ink = np.array(to_rgb(WRONG if digits.wrong[row] else RIGHT))
        shade = digits.images[row].reshape(side, side, 1)
        down, across = divmod(number, THUMBNAILS_PER_ROW)
        top, left = down * (side + gap), across * (side + gap)
        strip[top : top + side, left : left + side] = 1.0 - shade * (1.0 - ink)
    return strip
