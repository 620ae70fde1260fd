"""Vision models of Hugging Face ``transformers``, by their name on the hub or by folder."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import load_image
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, sha256_of
from gmmatch.encoders.image_processor import ImageProcessor, PrepareLevels
from gmmatch.encoders.models import Model, ModelEncoder, named_weights
from gmmatch.errors import GMMatchError, InvalidInputError, first_line

DEFAULT_MODEL = "openai/clip-vit-base-patch32"
Pooling: TypeAlias = Literal["auto", "cls", "mean"]
_WHAT = ("a vision model of transformers", "transformers", "vision")
_CLS_TOKENS = ("cls_token", "class_embedding")


class TransformersEncoder(ModelEncoder):
    """A vision model of ``transformers``.

    CLIP and similar models give the projected image embedding; ResNet, MobileNetV2, ViT and DINOv2 their
    pooled output; see :class:`~gmmatch.encoders._transformers.Pooler` for the rest.

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
        ``"auto"``, or ``"cls"`` or ``"mean"`` of the last hidden state.
    image_size
        Resize to this many pixels instead of what the processor says. For convolutional networks.
    trust_pickle
        Whether weights of a folder may be a pickle, which can run code when it is loaded.

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
    settings = ("pooling", *ModelEncoder.settings)

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        device: str = "auto",
        dtype: str = "auto",
        pooling: Pooling = "auto",
        image_size: int | None = None,
        trust_pickle: bool = False,
    ) -> None:
        spec, self._image_size = str(model), image_size
        super().__init__(spec, _WHAT, device, dtype, trust_pickle)
        torch, missing = self._torch, self._missing
        self.batch_size = 32 if self.device == "cpu" else 128
        gaps = sorted(key for key in missing if "pooler" not in key)
        if gaps:
            raise InvalidInputError(
                f"encoder={spec!r}: its checkpoint has no weights for {gaps[0]} ({len(gaps)} missing): it is not a "
                f"whole {type(self.model).__name__}."
            )
        weights = sha256_of("weights", named_weights(self.model, without="pooler" if missing else None))
        # Convolutions are about twice as fast on a CPU in this layout, and tensor cores want it too.
        self.model = self.model.to(self.device, memory_format=torch.channels_last)
        # A GPU has time for the last step of the preprocessing, a CPU would only take it from the model.
        self.looks_up = self.processor.table is not None and self.device != "cpu"
        self._table: Any = None
        if self.processor.table is not None:
            self._table = torch.from_numpy(self.processor.table.ravel()).to(self.device)
        self.pooler = Pooler(self.model, pooling, trained=not missing)
        self.pooling, self.n_features = self._try_out()
        self.fingerprint = sha256_of(
            {
                "encoder": "transformers",
                "model": type(self.model).__name__,
                "weights": weights,
                "pooling": self.pooling,
                "processor": self.processor.settings(),
            }
        )

    def _load(self, found: Model) -> None:
        self.processor = ImageProcessor(_load_processor(found, self._image_size))
        self.model, self._missing = _load_model(found)

    def prepare(self, items: Items) -> list[NDArray[Any]]:
        """Decode and preprocess; a GPU gets bytes of shape (height, width, 3), and looks them up itself."""
        pictures = (load_image(item) for item in items)
        if self.looks_up:
            return [self.processor.levels(picture) for picture in pictures]
        return [self.processor(picture) for picture in pictures]

    @property
    def preparation(self) -> PrepareLevels | None:
        """What other processes can do instead of :meth:`prepare`; None if threads will do.

        A model on a CPU takes far longer than its pictures, and leaves no core free.
        """
        recipe = self.processor.recipe
        return PrepareLevels(recipe) if self.looks_up and recipe is not None else None

    def collate(self, batch: Sequence[NDArray[Any]]) -> Items:
        """Gather pictures of one shape in memory from which a GPU can fetch them by itself."""
        if not self.device.startswith("cuda") or len({picture.shape for picture in batch}) != 1:
            return batch
        kind = getattr(self._torch, str(batch[0].dtype))
        gathered: NDArray[Any] = self._torch.empty(
            (len(batch), *batch[0].shape), dtype=kind, pin_memory=True
        ).numpy()
        np.stack(batch, out=gathered)
        return gathered

    def encode(self, batch: Items) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        if isinstance(batch, np.ndarray):
            return self._forward(batch)
        if len({picture.shape for picture in batch}) <= 1:
            return self._forward(np.stack(batch))
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, picture in enumerate(batch):
            groups.setdefault(picture.shape, []).append(position)
        parts = [
            self._forward(np.stack([batch[position] for position in group])) for group in groups.values()
        ]
        vectors = np.empty((len(batch), parts[0].shape[1]), dtype=parts[0].dtype)
        for group, part in zip(groups.values(), parts, strict=True):
            vectors[group] = part
        return vectors

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up."""
        return {**super().describe(), "model": type(self.model).__name__}

    def _forward(self, batch: NDArray[Any]) -> Vectors:
        torch = self._torch
        pixels = torch.from_numpy(batch).to(self.device, non_blocking=True)
        if pixels.dtype == torch.uint8:
            starts = 256 * torch.arange(3, device=self.device, dtype=torch.int32)
            pixels = self._table[pixels.int() + starts].permute(0, 3, 1, 2)
        pixels = pixels.to(getattr(torch, self.dtype), memory_format=torch.channels_last)
        # Whoever asks for float32 means it: by default a GPU multiplies with 10 bits of its 23.
        flags = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        exact = torch.backends.cudnn.flags(**flags) if pixels.is_cuda else nullcontext()
        with torch.inference_mode(), exact:
            vectors, self._taken = self.pooler(pixels)
        return self._numbers(vectors)

    def _try_out(self) -> tuple[str, int]:
        from PIL import Image

        try:
            vectors = self.encode(self.prepare([Image.new("RGB", (64, 64), (128, 64, 32))]))
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, GMMatchError):
                raise
            raise InvalidInputError(
                f"encoder={self.name!r} cannot encode a picture: {first_line(error)}."
            ) from error
        return self._taken, vectors.shape[1]


def _load_processor(found: Model, image_size: int | None) -> Any:
    transformers: Any = import_module("transformers")
    # The version with Pillow: torchvision is not needed, and nothing differs between machines.
    major = int(transformers.__version__.partition(".")[0])
    options: dict[str, Any] = {"backend": "pil"} if major >= 5 else {"use_fast": False}
    options |= {"local_files_only": found.local, "trust_remote_code": False}
    processor = transformers.AutoImageProcessor.from_pretrained(found.path, **options)
    if image_size is None:
        return processor
    for name in ("size", "crop_size"):
        size = getattr(processor, name, None)
        if size:
            edges = {edge: image_size for edge, pixels in dict(size).items() if pixels is not None}
            options[name] = edges
    return transformers.AutoImageProcessor.from_pretrained(found.path, **options)


def _load_model(found: Model) -> tuple[Any, set[str]]:
    """Return the model and the names of the weights that the checkpoint does not have."""
    transformers: Any = import_module("transformers")
    options = {"local_files_only": found.local, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(found.path, **options)
    architecture = (config.architectures or [""])[0]
    loader = transformers.AutoModel
    if architecture.endswith("VisionModelWithProjection"):
        # AutoModel would leave the projection out.
        loader = getattr(transformers, architecture)
    model, loading = loader.from_pretrained(found.path, output_loading_info=True, **options)
    return model, set(loading["missing_keys"])


class Pooler:
    """Runs a model and takes one vector per picture from its output.

    ``"auto"`` takes the first of these that there is:

    1. what the model was trained to compare pictures and texts by, projected (CLIP, SigLIP);
    2. its ``pooler_output`` (ResNet, MobileNetV2, ViT, DINOv2);
    3. the CLS token of its last hidden state;
    4. the mean of its last hidden state over all positions.
    """

    def __init__(self, model: Any, pooling: Pooling, *, trained: bool) -> None:
        if pooling not in ("auto", "cls", "mean"):
            raise InvalidInputError(f"pooling={pooling!r}: use auto, cls or mean.")
        self.model = model
        self.pooling = pooling
        self.trained = trained
        self.has_cls = any(name.endswith(_CLS_TOKENS) for name, _ in model.named_parameters())

    def __call__(self, pixels: Any) -> tuple[Any, str]:
        """Return the vectors, and what was taken: ``features``, ``pooler``, ``cls`` or ``mean``."""
        if self.pooling == "auto" and hasattr(self.model, "get_image_features"):
            features = self.model.get_image_features(pixel_values=pixels)
            # Version 5 of transformers returns the whole output, version 4 the vectors alone.
            return getattr(features, "pooler_output", features), "features"
        both_towers = hasattr(self.model, "get_image_features")
        output = (self.model.vision_model if both_towers else self.model)(pixel_values=pixels)
        if self.pooling == "auto":
            if getattr(output, "image_embeds", None) is not None:
                return output.image_embeds, "features"
            if self.trained and getattr(output, "pooler_output", None) is not None:
                return output.pooler_output.flatten(1), "pooler"
        hidden = output.last_hidden_state
        if self.pooling == "cls" or (self.pooling == "auto" and self.has_cls):
            if not self.has_cls:
                raise InvalidInputError(
                    f"pooling='cls': {type(self.model).__name__} has no CLS token; use mean or auto."
                )
            return hidden[:, 0], "cls"
        return hidden.mean(dim=(2, 3) if hidden.ndim == 4 else 1), "mean"
