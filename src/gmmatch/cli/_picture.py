"""The demo's picture: which of the images labeled "3" each method keeps, as SVG, which needs no other package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gmmatch.cli._digits import CONTENDERS, NoisyDigits, noisy_digits, pick
from gmmatch.files import replacing
from gmmatch.types import Indices

DIGIT = 3
PICTURED = CONTENDERS[:8]  # two full lines of four
THUMBNAILS_PER_ROW = 7
# Two colors of Okabe and Ito's palette, which stay apart for every kind of color blindness; the shape
# of the marks says the same once more.
RIGHT, WRONG = "#0072B2", "#D55E00"
INK = "#1A1A1A"
# The marks, in the order of the legend: name, words and shape.
_CROSS = 'd="M-2.4 0-5-2.6-2.6-5 0-2.4 2.6-5 5-2.6 2.4 0 5 2.6 2.6 5 0 2.4-2.6 5-5 2.6z"'
_STAR = 'd="M0-12 2.7-3.7 11.4-3.7 4.4 1.4 7.1 9.7 0 4.6-7.1 9.7-4.4 1.4-11.4-3.7-2.7-3.7z"'
MARKS = (
    ("right", "kept, label right", f'<circle r="6.5" fill="{RIGHT}" stroke="white"/>'),
    ("wrong", "kept, label wrong", f'<path {_CROSS} transform="scale(1.5)" fill="{WRONG}" stroke="white"/>'),
    ("left-right", "left out, label right", '<circle r="4.5" fill="#BCD6E8"/>'),
    ("left-wrong", "left out, label wrong", f'<path {_CROSS} fill="#F2CDB4"/>'),
    ("center", "mean of the correctly labeled", f'<path {_STAR} fill="white" stroke="{INK}"/>'),
    ("mean", "mean of the kept", f'<path d="M0-8 8 0 0 8-8 0z" fill="{INK}" stroke="white"/>'),
)
# A panel: its width, how much lies between two of them, and the height of its map.
WIDTH, STEP, MAP_HEIGHT = 280, 300, 200


def draw(path: Path, seed: int = 0) -> None:
    """Write the picture as SVG."""
    digits = noisy_digits(seed)
    members = np.flatnonzero(digits.labels == DIGIT)
    places = _places(digits.images, members)
    title = f"What each method keeps of {len(members)} images labeled “{DIGIT}”, "
    title += f"{digits.wrong[members].sum()} of them mislabeled"
    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1200 860" font-family="Verdana, sans-serif">',
        f"<title>{title}</title>",
        '<rect width="1200" height="860" fill="white"/>',
        "<defs>",
        *(f'<g id="{name}">{shape}</g>' for name, _, shape in MARKS),
        '<g id="left-out">',
        *_marks("left-right", places[members[~digits.wrong[members]]]),
        *_marks("left-wrong", places[members[digits.wrong[members]]]),
        "</g></defs>",
        _text(600, 36, title, 23, bold=True, anchor="middle"),
    ]
    for number, contender in enumerate(PICTURED):
        picks = pick(digits, contender, seed)
        down, across = divmod(number, 4)
        lines.append(f'<g transform="translate({10 + STEP * across} {60 + 370 * down})">')
        lines += [
            _text(0, 14, contender.label, 17, bold=True),
            *_panel(digits, members, places, picks),
            "</g>",
        ]
    for number, (name, words, _) in enumerate(MARKS):
        across, down = divmod(number, 2)
        x, y = 180 + 275 * across, 810 + 30 * down
        lines += [f'<use href="#{name}" x="{x}" y="{y}"/>', _text(x + 25, y + 6, words, 18)]
    with replacing(path) as [temporary]:
        temporary.write_text("\n".join([*lines, "</svg>\n"]), encoding="utf-8")


def _places(images: NDArray[np.float64], members: Indices) -> NDArray[np.float64]:
    """Every image's place on the map: the two main directions in which the class, as labeled, varies."""
    centered = images - images[members].mean(axis=0)
    directions = np.linalg.svd(centered[members], full_matrices=False)[2][:2]
    # Either sign is right; this one does not depend on the machine.
    largest = np.abs(directions).argmax(axis=1)
    places = centered @ (directions * np.sign(directions[[0, 1], largest])[:, None]).T
    low, high = places[members].min(axis=0), places[members].max(axis=0)
    # Within the panel, and upwards as in a plot.
    share = (places - low) / (high - low)
    return np.stack([12 + (WIDTH - 24) * share[:, 0], 34 + (MAP_HEIGHT - 24) * (1.0 - share[:, 1])], axis=1)


def _panel(digits: NoisyDigits, members: Indices, places: NDArray[np.float64], picks: Indices) -> list[str]:
    mine = picks[digits.labels[picks] == DIGIT]
    wrong = digits.wrong[mine]
    center = places[members[~digits.wrong[members]]].mean(axis=0)
    said = f"{wrong.sum()} of {len(mine)} wrong"
    return [
        f'<rect y="22" width="{WIDTH}" height="{MAP_HEIGHT}" fill="none" stroke="#CCCCCC"/>',
        '<use href="#left-out"/>',
        *_marks("right", places[mine[~wrong]]),
        *_marks("wrong", places[mine[wrong]]),
        *_marks("center", center[None]),
        *_marks("mean", places[mine].mean(axis=0)[None]),
        _text(0, MAP_HEIGHT + 46, said, 17, color=WRONG if wrong.any() else RIGHT),
        f'<g transform="translate(0 {MAP_HEIGHT + 56}) scale(4.1)" shape-rendering="crispEdges">',
        *_thumbnails(digits, mine),
        "</g>",
    ]


def _marks(name: str, places: NDArray[np.float64]) -> list[str]:
    return [f'<use href="#{name}" x="{x:.1f}" y="{y:.1f}"/>' for x, y in places]


def _thumbnails(digits: NoisyDigits, mine: Indices) -> list[str]:
    """The kept images side by side, in the color that says whether their label is right."""
    paths: dict[tuple[str, float], str] = {}
    # The wrong ones last, so that their share can be seen at a glance.
    for number, row in enumerate(mine[np.argsort(digits.wrong[mine], kind="stable")]):
        top, left = 10 * np.array(divmod(number, THUMBNAILS_PER_ROW))
        image = digits.images[row].reshape(8, 8)
        for y, x in np.argwhere(image > 0.0):
            shade = (WRONG if digits.wrong[row] else RIGHT, float(image[y, x]))
            paths[shade] = paths.get(shade, "") + f"M{left + x} {top + y}h1v1h-1z"
    return [f'<path fill="{color}" opacity="{depth}" d="{path}"/>' for (color, depth), path in paths.items()]


def _text(
    x: float, y: float, words: str, size: int, *, bold: bool = False, anchor: str = "start", color: str = INK
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>{words}</text>'
