"""What can go wrong where work is spread over workers."""

from __future__ import annotations

from gmmatch.errors import GMMatchError, InvalidInputError


class UnreadableShardError(InvalidInputError):
    """A file of rows cannot be read; the message names it."""


class WorkerLostError(GMMatchError, RuntimeError):
    """A worker died and could not be replaced."""
