"""Identity: rows that are vectors already."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, describe_encoder, sha256_of


class IdentityEncoder:
    """Pass vectors on as they are: float16 and float32 unchanged, anything else as float32.

    Examples
    --------
    >>> IdentityEncoder().encode(np.array([[1, 2], [3, 4]]))
    array([[1., 2.],
           [3., 4.]], dtype=float32)
    """

    name = "identity"
    kind: Kind = "embedding"
    fingerprint = sha256_of({"encoder": "identity"})
    n_features: int | None = None
    batch_size = 4096

    def prepare(self, items: Items) -> NDArray[Any]:
        """Return the rows as one array."""
        return np.asarray(items)

    def encode(self, batch: Any) -> Vectors:
        """Return the rows as floats."""
        rows = np.asarray(batch)
        floats: Vectors = rows if rows.dtype in (np.float16, np.float32) else rows.astype(np.float32)
        return floats

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is."""
        return describe_encoder(self)
