"""Encoders by name."""

from __future__ import annotations

import re
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, cast

from gmmatch.data.source import Kind
from gmmatch.encoders._callable import CallableEncoder, import_callable
from gmmatch.encoders._efficientnet import NAME as EFFICIENTNET
from gmmatch.encoders._efficientnet import EfficientNetEncoder
from gmmatch.encoders._simple import IdentityEncoder, PixelEncoder, WordsEncoder
from gmmatch.encoders._transformers import SentenceEncoder, TransformersEncoder
from gmmatch.encoders.base import Encoder
from gmmatch.encoders.models import MINILM
from gmmatch.errors import InvalidInputError

_FUNCTION = re.compile(r"[\w./\\~ -]+:[A-Za-z_][\w.]*")


def load_encoder(
    spec: Any = None,
    *,
    kind: Kind | None = None,
    device: str = "auto",
    dtype: str = "auto",
    **options: Any,
) -> Encoder:
    """Return the encoder that a user names.

    Parameters
    ----------
    spec
        One of

        - None: ``"efficientnet-lite2"`` for images, ``"minilm"`` for text, ``"identity"`` for vectors. The weights of
          these two come with the extras ``vision`` and ``text``, so they need no network;
        - a folder with a model, or the name of a model on the Hugging Face hub. These are larger and usually better:
          ``"openai/clip-vit-base-patch32"`` and ``"facebook/dinov2-base"`` for images,
          ``"sentence-transformers/all-mpnet-base-v2"`` for text;
        - ``"pixels"``, ``"pixels:HxW"``, ``"pixels:HxW:gray"``: the picture itself;
        - ``"words"``: which words and pairs of words a text has (TF-IDF), without a model;
        - ``"identity"``: rows that are vectors already;
        - ``"module:function"``, ``"file.py:function"`` or a function: see
          :class:`~gmmatch.encoders.CallableEncoder`;
        - an :class:`~gmmatch.encoders.Encoder`, which is returned as it is.
    kind
        What the rows are: ``"image"``, ``"text"`` or ``"embedding"``. Without it a hub model is taken
        as one for images unless its name says ``sentence-transformers``, and a folder as what its files
        say.
    device
        Where a model runs: ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"``, ``"mps"``.
    dtype
        In which precision it computes: ``"auto"`` (half on a GPU, else single), ``"float32"``,
        ``"float16"``, ``"bfloat16"``.
    **options
        Of the encoder's class: ``pooling``, ``image_size`` (images); ``prompt`` (text); ``trust_pickle`` (both).

    Returns
    -------
    Encoder

    Examples
    --------
    >>> load_encoder("pixels:8x8").n_features
    192
    >>> load_encoder("statistics:mean", kind="embedding").name
    'statistics:mean'
    """
    if spec is None:
        spec = {"embedding": "identity", "text": MINILM}.get(str(kind), EFFICIENTNET)
    encoder = _without_model(spec, kind)
    if encoder is not None:
        _check_options(encoder.name, options, set())
        return encoder
    name = str(spec)
    kind = kind or _guess_kind(name)
    if kind == "embedding":
        raise InvalidInputError(f"encoder={name!r}: the rows are vectors already; use identity.")
    make: Any = partial(SentenceEncoder if kind == "text" else TransformersEncoder, name)
    if name == EFFICIENTNET and kind == "image":
        options.pop("trust_pickle", None)  # its weights are no pickle that could run code
        make = EfficientNetEncoder
    _check_options(name, options, signature(make).parameters.keys() - {"device", "dtype"})
    return cast(Encoder, make(device=device, dtype=dtype, **options))


def _without_model(spec: Any, kind: Kind | None) -> Encoder | None:
    """Return the encoder that is meant; None if it is the name of a model."""
    function, name = spec, None
    if isinstance(spec, (str, Path)):
        name = str(spec)
        if name in ("identity", "words"):
            return IdentityEncoder() if name == "identity" else WordsEncoder()
        if re.match(r"pixels(:|$)", name):
            return PixelEncoder.from_spec(name)
        if not _FUNCTION.fullmatch(name) or Path(name).is_dir():
            return None
        function = import_callable(name)
    elif not isinstance(spec, type) and isinstance(spec, Encoder):
        return spec
    takes: Any = kind or getattr(function, "kind", "image")
    return CallableEncoder(function, takes, name)


def _check_options(name: str, options: dict[str, Any], known: set[str]) -> None:
    for option in options:
        if option not in known:
            has = " and ".join(sorted(known)) or "none"
            raise InvalidInputError(f"{option}= is not an option of encoder={name!r}; it has {has}.")


def _guess_kind(name: str) -> Kind:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return "text" if name == MINILM or name.startswith("sentence-transformers/") else "image"
    files = {path.name for path in folder.iterdir()}
    # Newer processors are part of one file for everything that a model reads.
    reads_images = "preprocessor_config.json" in files or (
        "processor_config.json" in files
        and b'"image_processor"' in (folder / "processor_config.json").read_bytes()
    )
    is_text = "modules.json" in files or ("tokenizer_config.json" in files and not reads_images)
    return "text" if is_text else "image"
