"""Encoders that need no model: vectors as they are, and pixels, the picture itself, small and flat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import JPEG_SCALE, load_image, pillow
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Described, Items, Vectors, sha256_of
from gmmatch.errors import InvalidInputError

_PATTERN = re.compile(r"pixels(?::(\d+)x(\d+))?(:gray)?")


class IdentityEncoder(Described):
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


@dataclass(frozen=True)
class PixelEncoder(Described):
    """Resize every picture to one size, scale to 0..1 and flatten: row by row, colors together.

    Parameters
    ----------
    height, width
        The size. The whole picture is squeezed into it (bilinear, with antialiasing); nothing is cut off.
    gray
        One number per pixel instead of three.

    Examples
    --------
    >>> from PIL import Image
    >>> encoder = PixelEncoder(2, 2, gray=True)
    >>> encoder.encode(encoder.prepare([Image.new("L", (8, 8), 255)]))
    array([[1., 1., 1., 1.]], dtype=float32)
    """

    height: int = 32
    width: int = 32
    gray: bool = False

    kind: ClassVar[Kind] = "image"
    batch_size: ClassVar[int] = 256
    settings = ("height", "width", "gray")

    @classmethod
    def from_spec(cls, spec: str) -> PixelEncoder:
        """Read ``pixels``, ``pixels:HxW`` or ``pixels:HxW:gray``.

        Examples
        --------
        >>> PixelEncoder.from_spec("pixels:28x24:gray")
        PixelEncoder(height=28, width=24, gray=True)
        """
        match = _PATTERN.fullmatch(spec)
        if match is None or "0" in (match[1], match[2]):
            raise InvalidInputError(
                f"encoder={spec!r}: write pixels, pixels:HxW or pixels:HxW:gray, as in pixels:28x28:gray."
            )
        pillow()  # before any image is read
        gray = match[3] is not None
        return cls(gray=gray) if match[1] is None else cls(int(match[1]), int(match[2]), gray)

    @property
    def name(self) -> str:
        """What :meth:`from_spec` reads."""
        return f"pixels:{self.height}x{self.width}" + (":gray" if self.gray else "")

    @property
    def fingerprint(self) -> str:
        """A SHA-256 of the settings."""
        return sha256_of({"encoder": self.name, "resample": "bilinear", "jpeg_scale": JPEG_SCALE})

    @property
    def n_features(self) -> int:
        """Pixels times colors."""
        return self.height * self.width * (1 if self.gray else 3)

    def prepare(self, items: Items) -> list[NDArray[np.uint8]]:
        """Decode and resize."""
        return [self._pixels(item) for item in items]

    def _pixels(self, item: Any) -> NDArray[np.uint8]:
        from PIL.Image import Resampling

        picture = load_image(item, max(self.height, self.width)).convert("L" if self.gray else "RGB")
        return np.asarray(picture.resize((self.width, self.height), Resampling.BILINEAR)).ravel()

    def encode(self, batch: Sequence[NDArray[np.uint8]]) -> Vectors:
        """Scale to 0..1."""
        return np.stack(batch).astype(np.float32) / np.float32(255.0)
