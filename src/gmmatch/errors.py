"""What can go wrong, and what is worth a warning.

Every exception is a :class:`GMMatchError` and also the builtin that a caller would expect, so both
``except GMMatchError`` and ``except ValueError`` work.
"""

from __future__ import annotations


class GMMatchError(Exception):
    """Base class of every exception that gmmatch raises on purpose."""


class InvalidInputError(GMMatchError, ValueError):
    """An argument has a value that cannot be used; the message says what would be right."""


class NotFiniteError(InvalidInputError):
    """The rows hold NaN, infinity or a value too large to square."""


class InvalidTypeError(GMMatchError, TypeError):
    """An argument has a type that cannot be used; the message says which would be right."""


class UnknownMethodError(GMMatchError, ValueError):
    """No method goes by that name; the message lists the nearest ones."""


class MissingDependencyError(GMMatchError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class DataFileNotFoundError(GMMatchError, FileNotFoundError):
    """A file or folder that was asked for does not exist."""


class GMMatchWarning(UserWarning):
    """Base class of every warning that gmmatch gives."""


class FarRowWarning(GMMatchWarning):
    """A row lies so far out that linear matching may pick it and lose the target."""


class ConvergenceWarning(GMMatchWarning):
    """An iteration stopped before it reached the accuracy that was asked for."""


class UnlabeledRowsWarning(GMMatchWarning):
    """Rows without a label were left out of a selection per class."""


class ApproximationWarning(GMMatchWarning):
    """An exact computation would not fit the memory limit and was replaced by an approximation."""
