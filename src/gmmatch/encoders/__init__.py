"""Encoders: raw rows to vectors.

:func:`load_encoder` returns anything a user can name; what it returns follows the protocol
:class:`Encoder`. :func:`encode_batches` runs one over batches of a source.
"""

from gmmatch.encoders._callable import CallableEncoder as CallableEncoder
from gmmatch.encoders._efficientnet import EfficientNetEncoder as EfficientNetEncoder
from gmmatch.encoders._simple import IdentityEncoder as IdentityEncoder
from gmmatch.encoders._simple import PixelEncoder as PixelEncoder
from gmmatch.encoders._simple import WordsEncoder as WordsEncoder
from gmmatch.encoders._transformers import SentenceEncoder as SentenceEncoder
from gmmatch.encoders._transformers import TransformersEncoder as TransformersEncoder
from gmmatch.encoders.base import Encoder as Encoder
from gmmatch.encoders.base import SmallerBatchWarning as SmallerBatchWarning
from gmmatch.encoders.models import UnknownEncoderError as UnknownEncoderError
from gmmatch.encoders.pipeline import EncodedBatch as EncodedBatch
from gmmatch.encoders.pipeline import SkippedRow as SkippedRow
from gmmatch.encoders.pipeline import encode_batches as encode_batches
from gmmatch.encoders.registry import load_encoder as load_encoder
