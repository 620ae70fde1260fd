"""Encoders that need no model: vectors as they are, the pixels of a picture, and which words a text has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import JPEG_SCALE, load_image, pillow
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Described, Items, Vectors, as_floats, check_texts, sha256_of
from gmmatch.errors import InvalidInputError

_HASHES = 1 << 16
_N_FEATURES = 256
_FITTED_TEXTS = 10_000
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
        return as_floats(np.asarray(batch))


@dataclass
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

    def __post_init__(self) -> None:
        self.name = f"pixels:{self.height}x{self.width}" + (":gray" if self.gray else "")
        self.fingerprint = sha256_of({"encoder": self.name, "resample": "bilinear", "jpeg_scale": JPEG_SCALE})
        self.n_features = self.height * self.width * (1 if self.gray else 3)

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


class WordsEncoder(Described):
    """Words and pairs of words, weighted by how rare they are (TF-IDF), in the directions in which texts differ most.

    It has to be fitted to texts like those to encode: :func:`gmmatch.embed` takes the first 10,000 of a source.
    A store of its vectors can be continued, but not extended: other texts would have other directions.

    Examples
    --------
    >>> encoder = WordsEncoder().fit(["a red apple", "a green apple", "the tax law"])
    >>> apple, pear, law = encoder.encode(encoder.prepare(["red apple", "a green pear", "tax law"]))
    >>> bool(apple @ pear > apple @ law)
    True
    """

    name = "words"
    kind: Kind = "text"
    batch_size = 1024
    n_features: int | None = None
    fingerprint = sha256_of({"encoder": "words"})

    def fit(self, texts: Iterable[str]) -> WordsEncoder:
        """Learn which words are rare and which directions matter, from the first texts of many."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import Normalizer

        sample = self.prepare(list(islice(texts, _FITTED_TEXTS)))
        if not sample:
            raise InvalidInputError(
                "encoder='words' has no texts to learn from: give a source that has some."
            )
        self._pipeline: Any = make_pipeline(
            HashingVectorizer(n_features=_HASHES, ngram_range=(1, 2), alternate_sign=False, norm=None),
            TfidfTransformer(sublinear_tf=True),
            TruncatedSVD(min(_N_FEATURES, len(sample)), n_iter=2, random_state=0),
            Normalizer(copy=False),
        )
        with np.errstate(invalid="ignore"):  # texts that are all the same have no variance
            self._pipeline.fit(sample)
        self.n_features = self._pipeline[2].components_.shape[0]
        self.fingerprint = sha256_of({"encoder": "words", "hashes": _HASHES, "fitted": sample})
        return self

    def prepare(self, items: Items) -> list[str]:
        """Check that the items are texts."""
        return check_texts(items, self.name)

    def encode(self, batch: Sequence[str]) -> Vectors:
        """Count words and project; rows of length 1, or of zeros for a text without a known word."""
        if self.n_features is None:
            raise InvalidInputError("encoder='words' is not fitted: call fit(texts) first, or use gm.embed.")
        vectors: Vectors = self._pipeline.transform(batch).astype(np.float32)
        return vectors
