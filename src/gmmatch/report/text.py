"""What stands in the data as a page may show it: cut to a length, without characters that no page can hold."""

from __future__ import annotations

import re

LONGEST_NAME = 60
"""Characters of a class's name that a page shows."""

# Controls, and halves of characters (they come from file names that are no UTF-8), which no file can hold.
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def shown(value: object, longest: int, *, keep_end: bool = False) -> str:
    """Return a text of at most ``longest`` characters, on one line.

    Parameters
    ----------
    value
        Anything; its text is shown.
    longest
        Characters, the dots that stand for what was cut included.
    keep_end
        Cut at the front, where paths have what tells them apart at their end.

    Examples
    --------
    >>> shown("one\\ntwo   three", 10), shown("photos/cat/12.png", 12, keep_end=True)
    ('one two t…', '…/cat/12.png')
    """
    # Of a book only the beginning (or the end) is looked at.
    text = str(value)
    text = text[-4 * longest :] if keep_end else text[: 4 * longest]
    text = " ".join(_UNSHOWABLE.sub("\ufffd", text).split())
    if len(text) <= longest and len(str(value)) <= 4 * longest:
        return text
    return f"…{text[-(longest - 1) :]}" if keep_end else f"{text[: longest - 1]}…"
