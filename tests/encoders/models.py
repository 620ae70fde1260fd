"""Tiny models with random weights, saved as real ones are, and small pictures."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np


def processor(name: str):
    """The version of an image processor that uses Pillow; version 4 of transformers calls it otherwise."""
    import transformers

    found = getattr(transformers, f"{name}ImageProcessorPil", None)
    return found or getattr(transformers, f"{name}ImageProcessor")


# A vision transformer that is as small as it gets.
_VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
_WHOLE, _SQUARE = {"shortest_edge": 32}, {"height": 32, "width": 32}


def _clip(folder: Path) -> None:
    from transformers import CLIPConfig, CLIPModel

    text = {**_VISION, "num_hidden_layers": 1, "vocab_size": 50}
    CLIPModel(CLIPConfig(text_config=text, vision_config=_VISION, projection_dim=12)).save_pretrained(folder)
    processor("CLIP")(size=_WHOLE, crop_size=_SQUARE).save_pretrained(folder)


def _clip_vision(folder: Path) -> None:
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    CLIPVisionModelWithProjection(CLIPVisionConfig(**_VISION, projection_dim=20)).save_pretrained(folder)
    processor("CLIP")(size=_WHOLE, crop_size=_SQUARE).save_pretrained(folder)


def _resnet(folder: Path) -> None:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_channels=3
    )
    ResNetModel(config).save_pretrained(folder)
    # Below 384 pixels this processor enlarges, then crops to the middle.
    processor("ConvNext")(size=_WHOLE, crop_pct=0.875).save_pretrained(folder)


def _uncropped(folder: Path) -> None:
    """The aspect ratio stays, and pictures of one batch have several shapes."""
    _resnet(folder)
    processor("MobileNetV2")(size=_WHOLE, do_center_crop=False).save_pretrained(folder)


def _vit(folder: Path) -> None:
    from transformers import ViTConfig, ViTModel

    ViTModel(ViTConfig(**_VISION)).save_pretrained(folder)
    processor("ViT")(size=_SQUARE).save_pretrained(folder)


def _vit_classifier(folder: Path) -> None:
    """A checkpoint without weights for the pooler, as most classifiers are."""
    from transformers import ViTConfig, ViTForImageClassification

    ViTForImageClassification(ViTConfig(**_VISION, num_labels=3)).save_pretrained(folder)
    processor("ViT")(size=_SQUARE).save_pretrained(folder)


def _dinov2(folder: Path) -> None:
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=28, patch_size=7, mlp_ratio=2
    )
    Dinov2Model(config).save_pretrained(folder)
    processor("Bit")(size=_WHOLE, crop_size={"height": 28, "width": 28}).save_pretrained(folder)


MODELS = {
    "clip": _clip,
    "clip-vision": _clip_vision,
    "resnet": _resnet,
    "uncropped": _uncropped,
    "vit": _vit,
    "vit-classifier": _vit_classifier,
    "dinov2": _dinov2,
}


def picture(seed: int, size: tuple[int, int] = (40, 32), mode: str = "RGB"):
    """A smooth random picture, so that resizing it does something."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).convert(mode)


class Executed:
    """A pickle of it makes a folder where it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))
