"""Encoders: raw rows to vectors.

:func:`load_encoder` returns anything a user can name; what it returns follows the protocol
:class:`Encoder`. :func:`encode_batches` runs one over batches of a source.
"""

from gmmatch.encoders._callable import CallableEncoder
from gmmatch.encoders._efficientnet import EfficientNetEncoder
from gmmatch.encoders._simple import IdentityEncoder, PixelEncoder, WordsEncoder
from gmmatch.encoders._transformers import SentenceEncoder, TransformersEncoder
from gmmatch.encoders.base import Encoder, SmallerBatchWarning
from gmmatch.encoders.models import UnknownEncoderError
from gmmatch.encoders.pipeline import EncodedBatch, SkippedRow, encode_batches
from gmmatch.encoders.registry import load_encoder

__all__ = [
    "CallableEncoder",
    "EfficientNetEncoder",
    "EncodedBatch",
    "Encoder",
    "IdentityEncoder",
    "PixelEncoder",
    "SentenceEncoder",
    "SkippedRow",
    "SmallerBatchWarning",
    "TransformersEncoder",
    "UnknownEncoderError",
    "WordsEncoder",
    "encode_batches",
    "load_encoder",
]
