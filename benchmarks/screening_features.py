"""``python -m benchmarks.screening_features``: the embeddings of images that the benchmarks of the screening read.

Images come as an array of bytes (n, height, width, 3), are enlarged, and go through a model folder as
``AutoModel.from_pretrained`` reads it; its pooled output is kept in float16. CIFAR-10 with a ResNet-50 without its
last stage, for one: ``--images cifar10.npz --key x_train --encoder resnet50-3stage --pixels 96 --out train.npy``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def embed(images: NDArray[np.uint8], encoder: Path, pixels: int, batch: int = 100) -> NDArray[np.float16]:
    """Return the pooled output of the encoder for every image."""
    import torch
    from transformers import AutoModel

    model = AutoModel.from_pretrained(encoder).float().eval()
    settings = json.loads((encoder / "preprocessor_config.json").read_text(encoding="utf-8"))
    mean, deviation = (torch.tensor(settings[name]).view(1, 3, 1, 1) for name in ("image_mean", "image_std"))
    found: list[Any] = []
    with torch.inference_mode():
        for first in range(0, len(images), batch):
            block = torch.from_numpy(images[first : first + batch]).permute(0, 3, 1, 2).float() / 255.0
            block = torch.nn.functional.interpolate(
                block, size=(pixels, pixels), mode="bicubic", antialias=True, align_corners=False
            ).clamp(0.0, 1.0)
            found.append(model((block - mean) / deviation).pooler_output.flatten(1).half().numpy())
    return np.concatenate(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read, embed, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_features", description=__doc__)
    parser.add_argument("--images", type=Path, required=True, help=".npz file with arrays of images")
    parser.add_argument("--key", default="x_train", help="name of the array")
    parser.add_argument("--encoder", type=Path, required=True, help="folder of a Hugging Face image model")
    parser.add_argument("--pixels", type=int, default=96, help="side of the enlarged images")
    parser.add_argument("--rows", type=int, help="embed the first images only")
    parser.add_argument("--out", type=Path, required=True, help=".npy file to write")
    options = parser.parse_args(arguments)
    with np.load(options.images) as archive:
        images = archive[options.key][: options.rows]
    np.save(options.out, embed(images, options.encoder, options.pixels))


if __name__ == "__main__":
    main()
