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
COLUMNS = 4
THUMBNAILS_PER_ROW = 7
# Inches: the figure is laid out by hand, because every panel is a title, a map and a strip of images.
WIDTH, MARGIN, GAP = 12.0, 0.12, 0.16
HEADLINE, TITLE, MAP, STRIP, BETWEEN = 1.08, 0.66, 2.0, 0.86, 0.20


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
PICTURED = CONTENDERS[:8]  # two full lines of panels


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
    rows = -(-len(PICTURED) // COLUMNS)
    height = HEADLINE + rows * (TITLE + MAP + STRIP) + (rows - 1) * BETWEEN + MARGIN
    figure = Figure(figsize=(WIDTH, height), facecolor="white")
    _fill(figure, digits, seed)
    with replacing(path) as [temporary]:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)


def _fill(figure: Any, digits: NoisyDigits, seed: int) -> None:
    members = np.flatnonzero(digits.labels == DIGIT)
    places = _places(digits.images, members)
    _headline(figure, len(members), int(digits.wrong[members].sum()))
    width, height = figure.get_size_inches()
    panel = (width - 2 * MARGIN - (COLUMNS - 1) * GAP) / COLUMNS
    for number, contender in enumerate(PICTURED):
        row, column = divmod(number, COLUMNS)
        left = (MARGIN + column * (panel + GAP)) / width
        top = height - HEADLINE - row * (TITLE + MAP + STRIP + BETWEEN)
        picks = pick(digits, contender, seed)
        mine = picks[digits.labels[picks] == DIGIT]
        _title(figure, left, top / height, contender.label, int(digits.wrong[mine].sum()), len(mine))
        map_bottom = top - TITLE - MAP
        axes = figure.add_axes((left, map_bottom / height, panel / width, MAP / height))
        _map(axes, digits, members, places, mine)
        strip_bottom = map_bottom - STRIP
        axes = figure.add_axes((left, strip_bottom / height, panel / width, (STRIP - 0.08) / height))
        axes.imshow(_strip(digits, mine), interpolation="nearest", aspect="equal")
        axes.set_anchor("N")
        axes.axis("off")


def _places(images: NDArray[np.float64], members: Indices) -> NDArray[np.float64]:
    """Every image's place on the map: the two main directions in which the class, as labeled, varies."""
    from sklearn.decomposition import PCA

    places: NDArray[np.float64] = PCA(2, random_state=0).fit(images[members]).transform(images)
    return places


def _headline(figure: Any, count: int, wrong: int) -> None:
    from matplotlib.legend_handler import HandlerTuple

    height = figure.get_size_inches()[1]
    figure.text(
        MARGIN / WIDTH, 1 - 0.14 / height,
        f"What each method keeps of {count} images labeled “{DIGIT}”, {wrong} of them mislabeled",
        fontsize=18.5, fontweight="bold", color=INK, va="top",
    )  # fmt: skip
    axes = figure.add_axes((MARGIN / WIDTH, 1 - 1.0 / height, 1 - 2 * MARGIN / WIDTH, 0.42 / height))
    axes.axis("off")

    def mark(shape: str, color: str, edge: str, size: float) -> Any:
        return axes.plot([], [], shape, color=color, mec=edge, ms=size)[0]

    entries = {
        "kept, label right": mark("o", RIGHT, "white", 12),
        "kept, label wrong": mark("X", WRONG, "white", 13),
        "left out": (mark("o", FAINT_RIGHT, FAINT_RIGHT, 8), mark("X", FAINT_WRONG, FAINT_WRONG, 8)),
        "mean of the correctly labeled": mark("*", "white", INK, 17),
        "mean of the kept": mark("D", INK, "white", 10),
    }
    axes.legend(
        entries.values(), entries.keys(), loc="center", mode="expand", ncols=len(entries), frameon=False,
        fontsize=14.5, labelcolor=INK, handletextpad=0.3, handlelength=1.4, borderpad=0, borderaxespad=0,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.4)},
    )  # fmt: skip


def _title(figure: Any, left: float, top: float, label: str, wrong: int, count: int) -> None:
    height = figure.get_size_inches()[1]
    name, _, variant = label.partition(" (")
    result = f"{wrong} of {count} wrong"
    if variant:
        result = f"{variant.rstrip(')')}: {result}"
    color = WRONG if wrong else RIGHT
    figure.text(left, top - 0.05 / height, name, fontsize=17, fontweight="bold", color=INK, va="top")
    figure.text(left, top - 0.34 / height, result, fontsize=15.5, color=color, va="top")


def _map(
    axes: Any, digits: NoisyDigits, members: Indices, places: NDArray[np.float64], mine: Indices
) -> None:
    wrong = digits.wrong
    right_rows, wrong_rows = members[~wrong[members]], members[wrong[members]]
    axes.scatter(*places[right_rows].T, s=26, c=FAINT_RIGHT, linewidths=0)
    axes.scatter(*places[wrong_rows].T, s=30, c=FAINT_WRONG, marker="X", linewidths=0)
    good, bad = mine[~wrong[mine]], mine[wrong[mine]]
    axes.scatter(*places[good].T, s=75, c=RIGHT, edgecolors="white", linewidths=0.9, zorder=3)
    axes.scatter(*places[bad].T, s=95, c=WRONG, marker="X", edgecolors="white", linewidths=0.9, zorder=3)
    axes.scatter(
        *places[right_rows].mean(axis=0),
        s=330,
        c="white",
        marker="*",
        edgecolors=INK,
        linewidths=1.2,
        zorder=4,
    )
    axes.scatter(
        *places[mine].mean(axis=0), s=75, c=INK, marker="D", edgecolors="white", linewidths=1.2, zorder=5
    )
    axes.set(xticks=[], yticks=[])
    axes.margins(0.06)
    for side in axes.spines.values():
        side.set_color("#CCCCCC")


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
