"""Models of Hugging Face ``transformers`` and ``sentence-transformers``, by their name on the hub or by folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import JPEG_SCALE, load_image
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, check_texts, sha256_of
from gmmatch.encoders.models import MINILM, ModelEncoder, named_weights
from gmmatch.errors import GMMatchError, InvalidInputError, first_line

Pooling: TypeAlias = Literal["auto", "cls", "mean"]
_VISION = ("a vision model of transformers", "transformers", "vision")
_CLS_TOKENS = ("cls_token", "class_embedding")


class TransformersEncoder(ModelEncoder):
    """A vision model of ``transformers``.

    A vector is the first of these that there is:

    1. what the model was trained to compare pictures and texts by, projected (CLIP, SigLIP);
    2. its ``pooler_output`` (ResNet, MobileNetV2, ViT, DINOv2);
    3. the CLS token of its last hidden state;
    4. the mean of its last hidden state over all positions.

    Pictures are made RGB by :func:`gmmatch.data.load_image` and then treated by the model's own image
    processor (its Pillow version). Some processors keep the aspect ratio: pictures of one shape are then
    encoded together.

    Parameters
    ----------
    model
        A folder or a name on the hub.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    dtype
        ``"auto"`` (half precision on a GPU, else single), ``"float32"``, ``"float16"``, ``"bfloat16"``.
    pooling
        ``"auto"``, or only ``"cls"`` or ``"mean"`` of the last hidden state.
    image_size
        Resize to this many pixels instead of what the processor says. For convolutional networks.
    trust_pickle
        Whether weights may be a pickle, which can run code when it is loaded.

    Notes
    -----
    The same batches on the same machine give the same bits. Batches of another size may differ in the
    last digits, as libraries choose other ways to add up for other sizes.

    Examples
    --------
    >>> encoder = TransformersEncoder("openai/clip-vit-base-patch32")  # doctest: +SKIP
    >>> encoder.encode(encoder.prepare(["cat.jpg"])).shape  # doctest: +SKIP
    (1, 512)
    """

    kind: Kind = "image"
    settings = ("pooling", "folder", *ModelEncoder.settings)

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        pooling: Pooling = "auto",
        image_size: int | None = None,
        trust_pickle: bool = False,
    ) -> None:
        spec, self._pooling = str(model), pooling
        if pooling not in ("auto", "cls", "mean"):
            raise InvalidInputError(f"pooling={pooling!r}: use auto, cls or mean.")
        super().__init__(device, dtype, "vision")
        with self._loading(spec, _VISION, trust_pickle) as (path, options, weights):
            self.processor = _load_processor(path, image_size, **options)
            self.model, self._missing = _load_model(path, weights, **options)
        gaps = sorted(key for key in self._missing if "pooler" not in key)
        if gaps:
            raise InvalidInputError(
                f"encoder={spec!r}: its checkpoint has no weights for {gaps[0]} ({len(gaps)} missing): it is not a "
                f"whole {type(self.model).__name__}."
            )
        self._place_model()
        state = self.model.state_dict().items()
        known = {name: value for name, value in state if not (self._missing and "pooler" in name)}
        # Without what a version of transformers adds to it.
        every = self.processor.to_dict().items()
        settings = {key: value for key, value in every if value is not None and key[0] != "_"}
        sizes = [dict(settings.get(name) or {}).values() for name in ("size", "crop_size")]
        edges = [edge for size in sizes for edge in size if edge]
        self._edge = max(edges, default=None) if settings.get("do_resize") else None
        self.n_features = self._try_out()
        self.fingerprint = sha256_of(
            {
                "encoder": "transformers",
                "model": type(self.model).__name__,
                "weights": sha256_of("weights", named_weights(known)),
                "pooling": self.pooling,
                "processor": settings,
                "jpeg_scale": JPEG_SCALE if self._edge else None,
            }
        )

    def prepare(self, items: Items) -> list[NDArray[np.float32]]:
        """Decode and preprocess; numbers of shape (3, height, width)."""
        return [self._pixels(item) for item in items]

    def _pixels(self, item: Any) -> NDArray[np.float32]:
        image = load_image(item, self._edge)
        pixels = np.asarray(self.processor(images=[image], return_tensors="np")["pixel_values"])
        if pixels.ndim != 4 or len(pixels) != 1:
            raise InvalidInputError(
                f"encoder: {type(self.processor).__name__} makes {pixels.shape} numbers of one picture; gmmatch "
                "handles processors that make one picture of it, of shape (1, channels, height, width)."
            )
        numbers: NDArray[np.float32] = pixels[0].astype(np.float32, copy=False)
        return numbers

    def encode(self, batch: Sequence[NDArray[np.float32]]) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, picture in enumerate(batch):
            groups.setdefault(picture.shape, []).append(position)
        parts = [self._forward([batch[position] for position in group]) for group in groups.values()]
        order = np.argsort(np.concatenate(list(groups.values())))
        return np.concatenate(parts)[order]

    def _forward(self, pictures: list[NDArray[np.float32]]) -> Vectors:
        torch = self._torch
        # Whoever asks for float32 means it: by default a GPU multiplies with 10 bits of its 23.
        flags = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        exact = torch.backends.cudnn.flags(**flags) if self.device.startswith("cuda") else nullcontext()
        with torch.inference_mode(), exact:
            pixels = torch.from_numpy(np.stack(pictures)).to(
                self.device, getattr(torch, self.dtype), memory_format=torch.channels_last
            )
            vectors, self.pooling = self.forward(pixels)
            return self._numbers(vectors)

    def forward(self, pixels: Any) -> tuple[Any, str]:
        """Return the vectors, and what was taken: ``features``, ``pooler``, ``cls`` or ``mean``."""
        model, is_auto = self.model, self._pooling == "auto"
        has_towers = hasattr(model, "get_image_features")
        if is_auto and has_towers:
            features = model.get_image_features(pixel_values=pixels)
            # Version 5 of transformers returns the whole output, version 4 the vectors alone.
            return getattr(features, "pooler_output", features), "features"
        output = (model.vision_model if has_towers else model)(pixel_values=pixels)
        if is_auto and getattr(output, "image_embeds", None) is not None:
            return output.image_embeds, "features"
        if is_auto and not self._missing and getattr(output, "pooler_output", None) is not None:
            return output.pooler_output.flatten(1), "pooler"
        hidden = output.last_hidden_state
        has_cls = any(name.endswith(_CLS_TOKENS) for name, _ in model.named_parameters())
        if self._pooling == "cls" and not has_cls:
            raise InvalidInputError(f"pooling='cls': {type(model).__name__} has no CLS token; use mean.")
        if self._pooling != "mean" and has_cls:
            return hidden[:, 0], "cls"
        return hidden.mean(dim=(2, 3) if hidden.ndim == 4 else 1), "mean"

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up."""
        return {**super().describe(), "model": type(self.model).__name__}

    def _try_out(self) -> int:
        """Encode a picture, which finds out how vectors are pooled; return how long they are."""
        from PIL import Image

        try:
            return int(self.encode(self.prepare([Image.new("RGB", (64, 64), (128, 64, 32))])).shape[1])
        except GMMatchError:
            raise
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"encoder={self.name!r} fails: {first_line(error)}.") from error


def _load_processor(path: str, image_size: int | None, **options: Any) -> Any:
    import transformers

    # The version with Pillow: torchvision is not needed, and nothing differs between machines.
    major = int(transformers.__version__.partition(".")[0])
    options |= {"backend": "pil"} if major >= 5 else {"use_fast": False}
    load = transformers.AutoImageProcessor.from_pretrained
    processor = load(path, **options)
    if image_size is not None:
        for name in ("size", "crop_size"):
            edges = dict(getattr(processor, name, None) or {}).items()
            options |= (
                {name: {edge: image_size for edge, pixels in edges if pixels is not None}} if edges else {}
            )
        processor = load(path, **options)
    return processor


def _load_model(path: str, weights: dict[str, bool], **options: bool) -> tuple[Any, set[str]]:
    """Return the model and the names of the weights that the checkpoint does not have."""
    import transformers

    config = transformers.AutoConfig.from_pretrained(path, **options)
    architecture = (config.architectures or [""])[0]
    loader = transformers.AutoModel
    if architecture.endswith("VisionModelWithProjection"):
        # AutoModel would leave the projection out.
        loader = getattr(transformers, architecture)
    model, loading = loader.from_pretrained(path, output_loading_info=True, **weights, **options)
    return model, set(loading["missing_keys"])


_TEXT = ("a text model of sentence-transformers", "sentence_transformers", "text")


class SentenceEncoder(ModelEncoder):
    """A text model of ``sentence-transformers``, called as that package calls it.

    Parameters
    ----------
    model
        ``"minilm"``, which needs no hub: all-MiniLM-L6-v2, whose weights are a package. Or a folder, a name on the
        hub, or the short name of one of the package's own models (``all-mpnet-base-v2``).
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    dtype
        ``"auto"`` (half precision on a GPU, else single), ``"float32"``, ``"float16"``, ``"bfloat16"``.
    prompt
        Put before every text; some models want ``"query: "`` or the like.
    trust_pickle
        Whether weights may be a pickle, which can run code when it is loaded.

    Notes
    -----
    Texts longer than the model reads are cut off, as the package does. Texts of a batch are padded to one
    length, so the last digits of a vector depend on its batch: the same batches give the same bits.

    Examples
    --------
    >>> encoder = SentenceEncoder("minilm")  # doctest: +SKIP
    >>> encoder.encode(encoder.prepare(["a cat", "a dog"])).shape  # doctest: +SKIP
    (2, 384)
    """

    kind: Kind = "text"
    settings = ("folder", *ModelEncoder.settings, "prompt")

    def __init__(
        self,
        model: str = MINILM,
        *,
        device: str = "auto",
        dtype: str = "auto",
        prompt: str = "",
        trust_pickle: bool = False,
    ) -> None:
        spec = str(model)
        if "/" not in spec and spec != MINILM and not Path(spec).is_dir():
            spec = f"sentence-transformers/{spec}"
        super().__init__(device, dtype, "text")
        with self._loading(spec, _TEXT, trust_pickle) as (path, options, weights):
            from sentence_transformers import SentenceTransformer

            self.model = SentenceTransformer(path, device="cpu", model_kwargs=weights, **options)
        self.prompt = prompt
        # Texts of a batch are sorted by length, so that smaller ones compute less padding.
        self._at_once, self.batch_size = self.batch_size, 256
        self._place_model()
        self.fingerprint = sha256_of(
            {
                "encoder": "sentence-transformers",
                "modules": str(self.model),  # names the layers and how words are pooled
                "max_length": self.model.max_seq_length,
                "vocabulary": sorted(self.model.tokenizer.get_vocab().items()),
                "default_prompt": self.model.default_prompt_name,
                "prompts": self.model.prompts,
                "prompt": prompt,
            },
            named_weights(self.model.state_dict()),
        )
        self.n_features = self.encode(self.prepare(["a text"])).shape[1]

    def prepare(self, items: Items) -> list[str]:
        """Check that the items are texts."""
        return check_texts(items, self.name)

    def encode(self, batch: Sequence[str]) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        return self._numbers(
            self.model.encode(
                list(batch),
                batch_size=min(len(batch), self._at_once),
                prompt=self.prompt or None,
                show_progress_bar=False,
                convert_to_tensor=True,
            )
        )
