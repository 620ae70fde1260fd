"""Vision models of Hugging Face ``transformers``, by their name on the hub or by folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gmmatch.data.images import load_image
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, sha256_of
from gmmatch.encoders.image_processor import ImageProcessor
from gmmatch.encoders.models import FoundModelEncoder, Model, named_weights
from gmmatch.encoders.replay import Replayed
from gmmatch.encoders.resizing import Decoding, Resizer
from gmmatch.errors import GMMatchError, InvalidInputError, first_line

Pooling: TypeAlias = Literal["auto", "cls", "mean"]
_WHAT = ("a vision model of transformers", "transformers", "vision")
_CLS_TOKENS = ("cls_token", "class_embedding")


class TransformersEncoder(FoundModelEncoder):
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
    settings = ("pooling", *FoundModelEncoder.settings)

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
        spec, self._image_size = str(model), image_size
        super().__init__(spec, _WHAT, device, dtype, trust_pickle)
        torch, missing = self._torch, self._missing
        self.batch_size = 32 if self.device == "cpu" else 256
        gaps = sorted(key for key in missing if "pooler" not in key)
        if gaps:
            raise InvalidInputError(
                f"encoder={spec!r}: its checkpoint has no weights for {gaps[0]} ({len(gaps)} missing): it is not a "
                f"whole {type(self.model).__name__}."
            )
        self._place_model()
        weights = sha256_of("weights", named_weights(self.model, without="pooler" if missing else None))
        # Convolutions are about twice as fast on a CPU in this layout, and tensor cores want it too.
        self.model = self.model.to(memory_format=torch.channels_last)
        # A GPU has time for the preprocessing, a CPU would only take it from the model.
        self.looks_up = self.processor.table is not None and self.device != "cpu"
        self._pixel_of = None if self.processor.table is None else self._lookup(self.processor.table)
        recipe = self.processor.recipe
        self.resizer = None if recipe is None else Resizer(recipe, torch, self.device)
        self._copies = torch.cuda.Stream(self.device) if self.device.startswith("cuda") else None
        self.pooler = Pooler(self.model, pooling, trained=not missing)
        self._vectors = Replayed(
            self._work, torch, lambda: None if self.resizer is None else self.resizer.known
        )
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

    def _load(self, location: Model) -> None:
        self.processor = ImageProcessor(_load_processor(location, self._image_size))
        self.model, self._missing = _load_model(location)

    def prepare(self, items: Items) -> list[NDArray[Any]]:
        """Decode and preprocess; a GPU gets bytes of shape (height, width, 3), and does the rest itself."""
        if self.preparation is not None:
            return self.preparation(items)
        pictures = (load_image(item) for item in items)
        if self.looks_up:
            return [self.processor.levels(picture) for picture in pictures]
        return [self.processor(picture) for picture in pictures]

    @property
    def preparation(self) -> Decoding | None:
        """What other processes can do instead of :meth:`prepare`; None if threads will do.

        A model on a CPU takes far longer than its pictures, and leaves no core free.
        """
        return self.resizer.decoding if self.looks_up and self.resizer is not None else None

    def fetch(self, flat: NDArray[Any]) -> Any:
        """Bring what a process prepared to the device, beside the model's work; the memory is free then."""
        torch = self._torch
        if self._copies is None:
            return torch.from_numpy(flat.copy()).to(self.device)
        pinned = torch.empty(flat.shape, dtype=getattr(torch, str(flat.dtype)), pin_memory=True)
        np.copyto(pinned.numpy(), flat)
        with torch.cuda.stream(self._copies):
            return pinned.to(self.device, non_blocking=True)

    def collate(self, parts: Sequence[Any]) -> Any:
        """Join what was fetched or prepared: a tensor of pictures of one shape, else a list."""
        torch = self._torch
        if self._copies is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_stream(self._copies)
            for fetched in (
                picture for chunk in parts for picture in ([chunk] if torch.is_tensor(chunk) else chunk)
            ):
                if torch.is_tensor(fetched):
                    fetched.record_stream(stream)
        if all(torch.is_tensor(chunk) and chunk.shape[1:] == parts[0].shape[1:] for chunk in parts):
            return torch.cat(list(parts))
        return [picture for chunk in parts for picture in chunk]

    def encode(self, batch: Items) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        return self.start(batch)()

    def start(self, batch: Items) -> Callable[[], Vectors]:
        """Start the model, and return what waits for its vectors: a GPU need not wait for whoever stores them."""
        if not isinstance(batch, list):
            return self._numbers(self._forward(batch))
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, picture in enumerate(batch):
            groups.setdefault(self._shape(picture), []).append(position)
        parts = [
            self._forward(self._on_device([batch[position] for position in group]))
            for group in groups.values()
        ]
        order = np.argsort(np.concatenate(list(groups.values())))
        vectors = self._torch.cat(parts)
        return self._numbers(vectors if len(parts) == 1 else vectors[self._torch.from_numpy(order)])

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up."""
        return {**super().describe(), "model": type(self.model).__name__}

    def _shape(self, picture: Any) -> tuple[int, ...]:
        """The shape in which the model sees a picture."""
        if self.preparation is None:
            return tuple(picture.shape)
        return tuple(axis[3] for axis in self.preparation.recipe.axes(*picture.shape[:2]))

    def _on_device(self, pictures: list[Any]) -> Any:
        """One tensor of pictures of one shape, else a list."""
        torch = self._torch
        alike = len({tuple(picture.shape) for picture in pictures}) == 1
        if alike and not any(map(torch.is_tensor, pictures)):
            return torch.from_numpy(np.stack(pictures)).to(self.device)
        tensors = [
            picture if torch.is_tensor(picture) else torch.tensor(picture, device=self.device)
            for picture in pictures
        ]
        return torch.stack(tensors) if alike else tensors

    def _forward(self, pictures: Any) -> Any:
        torch = self._torch
        # Whoever asks for float32 means it: by default a GPU multiplies with 10 bits of its 23.
        flags = {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        exact = torch.backends.cudnn.flags(**flags) if pictures[0].is_cuda else nullcontext()
        with torch.inference_mode(), exact:
            alike = torch.is_tensor(pictures)
            return self._vectors(pictures if alike else self._pixels(pictures))

    def _work(self, pictures: Any) -> Any:
        """From bytes of pictures, or pixels, to vectors, by commands that depend on their shape alone."""
        torch = self._torch
        pixels = self._pixels(pictures) if pictures.dtype == torch.uint8 else pictures
        pixels = pixels.to(getattr(torch, self.dtype), memory_format=torch.channels_last)
        vectors, self._taken = self.pooler(pixels)
        return vectors

    def _pixels(self, pictures: Any) -> Any:
        """What the model sees of bytes of pictures, a tensor or a list."""
        assert self._pixel_of is not None
        levels = pictures.permute(0, 1, 3, 2) if self.resizer is None else self.resizer(pictures)
        return self._pixel_of(levels).permute(0, 2, 1, 3)

    def _lookup(self, table: NDArray[np.float32]) -> Callable[[Any], Any]:
        """Return what turns levels of shape (pictures, height, 3, width) into the numbers of a table.

        A line does that in one pass where it gives the same numbers; in half precision it usually does.
        """
        torch = self._torch
        values = torch.from_numpy(table).to(self.device, getattr(torch, self.dtype))
        wide = table.astype(np.float64)
        ends = (wide[:, -1:] - wide[:, :1]) / (table.shape[1] - 1), wide[:, :1]
        slope, start = (torch.from_numpy(end.astype(np.float32)).to(self.device) for end in ends)

        def by_line(levels: Any) -> Any:
            pictures, height, channels, width = levels.shape
            shape = (pictures, height, width, channels)
            pixels = torch.empty(shape, dtype=values.dtype, device=levels.device).permute(0, 1, 3, 2)
            return torch.addcmul(start, levels, slope, out=pixels)

        def by_table(levels: Any) -> Any:
            starts = table.shape[1] * torch.arange(3, device=self.device, dtype=torch.int32)
            return values.view(-1)[levels.int() + starts[:, None]]

        every = torch.arange(table.shape[1], dtype=torch.uint8, device=self.device).expand(1, 1, 3, -1)
        with suppress(RuntimeError):  # of a device that cannot mix types
            if torch.equal(by_line(every), by_table(every)):
                return by_line
        return by_table

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


def _load_processor(location: Model, image_size: int | None) -> Any:
    transformers: Any = import_module("transformers")
    # The version with Pillow: torchvision is not needed, and nothing differs between machines.
    major = int(transformers.__version__.partition(".")[0])
    options: dict[str, Any] = {"backend": "pil"} if major >= 5 else {"use_fast": False}
    options |= {"local_files_only": location.local, "trust_remote_code": False}
    processor = transformers.AutoImageProcessor.from_pretrained(location.path, **options)
    if image_size is None:
        return processor
    for name in ("size", "crop_size"):
        size = getattr(processor, name, None)
        if size:
            edges = {edge: image_size for edge, pixels in dict(size).items() if pixels is not None}
            options[name] = edges
    return transformers.AutoImageProcessor.from_pretrained(location.path, **options)


def _load_model(location: Model) -> tuple[Any, set[str]]:
    """Return the model and the names of the weights that the checkpoint does not have."""
    transformers: Any = import_module("transformers")
    options = {"local_files_only": location.local, "trust_remote_code": False}
    config = transformers.AutoConfig.from_pretrained(location.path, **options)
    architecture = (config.architectures or [""])[0]
    loader = transformers.AutoModel
    if architecture.endswith("VisionModelWithProjection"):
        # AutoModel would leave the projection out.
        loader = getattr(transformers, architecture)
    model, loading = loader.from_pretrained(location.path, output_loading_info=True, **options)
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
