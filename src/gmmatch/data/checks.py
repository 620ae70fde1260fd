"""Checks of the rows themselves that need no model: pictures and texts that are worth a look whatever their label."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import load_image
from gmmatch.data.source import Source
from gmmatch.errors import GMMatchError

_SIDE, _SMALL = 128, 16
_BATCH = 256
# Of brightness from 0 to 1: a picture is dark if 99% of its pixels are below the first, bright if 95% are above the
# second; those of cleanvision.
_DARK, _BRIGHT = 0.32, 0.95
# The shorter edge by the longer one; and the area, as a factor of the median.
_SHAPE, _SIZE = 0.35, 20.0
# The standard deviation of gray levels; the correlation of neighboring pixels; and, with at least 64 pixels
# a side, the deviation of second differences by that of gray levels.
_PLAIN, _NOISE, _BLUR = 0.005, 0.3, 0.03
# Deviations of log lengths from their median, in units of their median deviation, and at least this factor.
_FAR, _FACTOR = 6.0, 4.0


def check_rows(source: Source, *, progress: Callable[[int, int], object] | None = None) -> NDArray[Any]:
    """Return what is odd about each picture or text itself.

    Parameters
    ----------
    source : Source
        What :func:`gmmatch.data.open_source` returns.
    progress : callable, optional
        Called with the rows that are done, and how many there are.

    Returns
    -------
    object array of shape (n,)
        "one color", "noise", "dark", "bright", "blurry", "odd size" or "odd shape"; "empty", "short", "long" or
        "other script"; "" for most rows, and for those that cannot be read.

    Examples
    --------
    >>> from gmmatch.data import open_source
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "texts.csv")
    ...     _ = path.write_text("text\\n" + "a sentence of some words\\n" * 20 + "?\\n")
    ...     [reason for reason in check_rows(open_source(path)) if reason]
    ['short']
    """
    if source.kind == "embedding":
        return np.full(source.n_rows, "", dtype=object)
    measure: Callable[[Any], Any] = _measure_image if source.kind == "image" else _measure_text
    lines: list[Any] = []
    for batch in source.batches(_BATCH):
        for item in batch.rows:
            try:
                lines.append(measure(item))
            except GMMatchError:
                lines.append(None)
        if progress is not None:
            progress(len(lines), source.n_rows)
    known = [line for line in lines if line is not None]
    judge: Callable[[Any], list[str]] = _judge_images if source.kind == "image" else _judge_texts
    reasons = iter(judge(known) if known else [])
    return np.array(["" if line is None else next(reasons) for line in lines], dtype=object)


def _measure_image(item: Any) -> tuple[int, int, str]:
    """Return width and height, and what is odd about the pixels."""
    picture = load_image(item)
    width, height = picture.size
    picture.thumbnail((_SIDE, _SIDE))
    pixels = np.asarray(picture, dtype=np.float64) / 255.0
    gray = np.sqrt(pixels**2 @ [0.241, 0.691, 0.068])
    deviation = float(gray.std())
    if deviation < _PLAIN:
        return width, height, "one color"
    if min(gray.shape) >= _SMALL:
        across = np.corrcoef(gray[:, 1:].ravel(), gray[:, :-1].ravel())[0, 1]
        if across < _NOISE:
            return width, height, "noise"
        curved = 4.0 * gray[1:-1, 1:-1] - gray[:-2, 1:-1] - gray[2:, 1:-1] - gray[1:-1, :-2] - gray[1:-1, 2:]
        if min(width, height) >= 64 and curved.std() < _BLUR * deviation:
            return width, height, "blurry"
    low, high = np.quantile(gray, [0.05, 0.99])
    return width, height, "dark" if high < _DARK else "bright" if low > _BRIGHT else ""


def _judge_images(lines: list[tuple[int, int, str]]) -> list[str]:
    area = float(np.median([width * height for width, height, _ in lines]))
    reasons = []
    for width, height, reason in lines:
        if not reason and not 1.0 / _SIZE < width * height / area < _SIZE:
            reason = "odd size"
        if not reason and min(width, height) < _SHAPE * max(width, height):
            reason = "odd shape"
        reasons.append(reason)
    return reasons


def _measure_text(item: Any) -> tuple[int, str]:
    """Return the length, and the script of most letters."""
    if isinstance(item, GMMatchError):
        raise item
    text = item.strip()
    letters = (character for character in text[:500] if character.isalpha())
    scripts = Counter(unicodedata.name(letter, "?").partition(" ")[0] for letter in letters)
    return len(text), scripts.most_common(1)[0][0] if scripts else ""


def _judge_texts(lines: list[tuple[int, str]]) -> list[str]:
    logs = np.log([max(1, length) for length, _ in lines])
    middle = float(np.median(logs))
    far = max(_FAR * float(np.median(np.abs(logs - middle))), np.log(_FACTOR))
    usual = Counter(script for _, script in lines if script).most_common(1)
    script, count = usual[0] if usual else ("", 0)
    is_usual = count > 0.9 * len(lines)

    def judge(length: int, own_script: str, log: float) -> str:
        if not length:
            return "empty"
        if is_usual and own_script not in ("", script):
            return "other script"
        return "short" if log < middle - far else "long" if log > middle + far else ""

    return [
        judge(length, own_script, float(log)) for (length, own_script), log in zip(lines, logs, strict=True)
    ]
