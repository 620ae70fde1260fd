"""What the library says, as someone at a terminal would say it: options for arguments, on one line."""

from __future__ import annotations

import re
from collections.abc import Collection

# An argument of the library with its value, as messages name it: batch_size=0, text_column='body'. Only values that
# are written like that count, as a path may well begin with "split=".
_ARGUMENT = re.compile(
    r"(?<![\w./-])(?:--)?([a-z][a-z_]*)=(?=['\"\d.\[(-]|nan\b|inf\b|True\b|False\b|None\b)"
)
_ARGUMENT_ALONE = re.compile(r"(?<![\w./-])([a-z][a-z_]*)=(?=[,; ]|$)")
_PATH = re.compile(r"^path=(['\"])(.*?)\1")
_FIRST = re.compile(r"^[a-z][a-z_]*=(?=['\"])")
# Options that go by another name than the argument.
_OPTIONS = {
    "k": ("-k", "--k"),
    "method": ("--method", "--methods"),
    "n_jobs": ("--jobs",),
    "random_state": ("--seed",),
    "memory_limit": ("--memory",),
    "label_column": ("--label-column", "--labels"),
    "text_column": ("--text", "--text-column"),
    "projection": ("--map",),
}
# Arguments that are no options, where a sentence names them alone: neither quoted nor within a path.
_WORDS = {
    "X": "the input",
    "X_new": "the input",
    "y": "the labels",
    "y_new": "--labels",
    "memory_limit": "--memory",
    "min_confidence": "--min-confidence",
    "n_jobs": "--jobs",
    "per_class": "--per-class",
    "pred_probs": "--pred-probs",
    "random_state": "--seed",
    "reference_weight": "--reference-weight",
}
_WORD = re.compile(rf"(?<![\w'\"./=-])({'|'.join(_WORDS)})(?![\w'\"/=-]|\.\w)")


def translate(message: str, options: Collection[str]) -> str:
    """Return a message of the library with options as they are typed, on one line.

    Only options that the command has: another command's would be refused.

    Examples
    --------
    >>> translate("id_column='a' and text_column='b':\\n  X has two.", ["--id-column"])
    "--id-column 'a' and text_column='b': the input has two."
    """

    line = join_lines(message)
    if line.startswith("--set "):  # a setting is typed as the library names it
        return line

    def find_option(match: re.Match[str]) -> str | None:
        names = _OPTIONS.get(match[1], (f"--{match[1].replace('_', '-')}",))
        return next((name for name in names if name in options), None)

    line = _ARGUMENT_ALONE.sub(lambda match: find_option(match) or match[1], _PATH.sub(r"\2", line))
    line = _ARGUMENT.sub(lambda match: f"{name} " if (name := find_option(match)) else match[0], line)
    line = _FIRST.sub("", line)  # of an argument that has no option, the value says enough
    line = _WORD.sub(lambda match: _WORDS[match[1]], line)
    return line[:1].upper() + line[1:] if line.startswith("the ") else line


def join_lines(message: object) -> str:
    """Return a message on one line."""
    return " ".join(str(message).split())
