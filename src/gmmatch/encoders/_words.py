"""An encoder for texts that needs no model: which words and pairs of words a text has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from gmmatch.data.source import Kind
from gmmatch.encoders.base import Described, Items, Vectors, check_texts, sha256_of
from gmmatch.errors import InvalidInputError

_HASHES = 1 << 16
_N_FEATURES = 256
_FITTED_TEXTS = 10_000


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
            raise InvalidInputError("encoder='words' has no texts to learn from.")
        self._pipeline: Any = make_pipeline(
            HashingVectorizer(n_features=_HASHES, ngram_range=(1, 2), alternate_sign=False, norm=None),
            TfidfTransformer(sublinear_tf=True),
            TruncatedSVD(min(_N_FEATURES, len(sample)), n_iter=2, random_state=0),
            Normalizer(copy=False),
        )
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
