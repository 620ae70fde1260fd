"""Smaller batches when memory runs out."""

from __future__ import annotations

import warnings

import numpy as np

from gmmatch.encoders.base import Encoder, Items, SmallerBatchWarning, Vectors
from gmmatch.encoders.devices import free_memory, is_out_of_memory
from gmmatch.errors import GMMatchError


class OutOfMemoryError(GMMatchError, MemoryError):
    """Not even one row at a time fits into memory."""


class BackingOff:
    """Encodes batches whole as long as memory lasts, then in halves, quarters and so on.

    A batch during which memory ran out is encoded again from its first row, in pieces of half the size; so
    are all that follow. Where one piece ends and the next begins hence depends on the size alone.

    Parameters
    ----------
    encoder
        Whose ``encode`` to call.

    Attributes
    ----------
    limit : int or None
        The most rows that are encoded at a time; None as long as memory did not run out.

    Examples
    --------
    >>> from gmmatch.encoders import CallableEncoder
    >>> def small_memory(texts):
    ...     if len(texts) > 3:
    ...         raise RuntimeError("out of memory")
    ...     return np.array([[len(text)] for text in texts])
    >>> encode = BackingOff(CallableEncoder(small_memory, "text"))
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     encode(["a", "bb", "ccc", "dd", "e"]).ravel(), encode.limit
    (array([1., 2., 3., 2., 1.], dtype=float32), 3)
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.limit: int | None = None

    def __call__(self, batch: Items) -> Vectors:
        """Encode what the encoder's ``prepare`` returned."""
        while True:
            size = len(batch) if self.limit is None else min(self.limit, len(batch))
            try:
                parts = [self.encoder.encode(batch[i : i + size]) for i in range(0, len(batch), size)]
                return parts[0] if len(parts) == 1 else np.concatenate(parts)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                reason = str(error) or type(error).__name__
            # Only here, where the error and with it the model's intermediate results are gone, is there
            # anything to free.
            self._back_off(size, reason)

    def _back_off(self, size: int, reason: str) -> None:
        device = str(getattr(self.encoder, "device", "cpu"))
        free_memory(device)
        if size == 1:
            raise OutOfMemoryError(
                f"encoder={self.encoder.name!r}: one row alone does not fit into the memory of device={device!r} "
                f"({reason.splitlines()[0]}): use a smaller model, or device='cpu'."
            )
        if self.limit is None:
            warnings.warn(
                f"Memory ran out with {size} rows at a time; going on with {(size + 1) // 2}, or fewer if "
                "need be.",
                SmallerBatchWarning,
                stacklevel=4,
            )
        self.limit = (size + 1) // 2
