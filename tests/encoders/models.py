"""Tiny models with random weights, saved as real ones are, and small pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def processor(name: str):
    """The version of an image processor that uses Pillow; version 4 of transformers calls it otherwise."""
    import transformers

    found = getattr(transformers, f"{name}ImageProcessorPil", None)
    return found or getattr(transformers, f"{name}ImageProcessor")


def _clip(folder: Path) -> None:
    from transformers import CLIPConfig, CLIPModel

    vision = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "image_size": 32,
        "patch_size": 8,
    }
    text = {
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 50,
    }
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=12)
    CLIPModel(config).save_pretrained(folder)
    size = {"shortest_edge": 32}
    processor("CLIP")(size=size, crop_size={"height": 32, "width": 32}).save_pretrained(folder)


def _clip_vision(folder: Path) -> None:
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
        projection_dim=20,
    )
    CLIPVisionModelWithProjection(config).save_pretrained(folder)
    size = {"shortest_edge": 32}
    processor("CLIP")(size=size, crop_size={"height": 32, "width": 32}).save_pretrained(folder)


def _resnet(folder: Path) -> None:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", num_channels=3
    )
    ResNetModel(config).save_pretrained(folder)
    # Below 384 pixels this processor enlarges, then crops to the middle.
    processor("ConvNext")(size={"shortest_edge": 32}, crop_pct=0.875).save_pretrained(folder)


def _uncropped(folder: Path) -> None:
    """The aspect ratio stays, and pictures of one batch have several shapes."""
    _resnet(folder)
    processor("MobileNetV2")(size={"shortest_edge": 32}, do_center_crop=False).save_pretrained(folder)


def _mobilenet(folder: Path) -> None:
    from transformers import MobileNetV2Config, MobileNetV2Model

    config = MobileNetV2Config(depth_multiplier=0.1, image_size=32, depth_divisible_by=4, min_depth=4)
    model = MobileNetV2Model(config)
    _settle(model)
    model.save_pretrained(folder)
    size = {"shortest_edge": 36}
    processor("MobileNetV2")(size=size, crop_size={"height": 32, "width": 32}).save_pretrained(folder)


def _settle(model) -> None:
    """Let batch norm measure its input, without which random weights fade everything to zero."""
    import torch

    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
    with torch.no_grad():
        model.train()(pixel_values=torch.rand(8, 3, 96, 96))
    model.eval()


_VIT = {
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "image_size": 32,
    "patch_size": 8,
}


def _vit(folder: Path) -> None:
    from transformers import ViTConfig, ViTModel

    ViTModel(ViTConfig(**_VIT)).save_pretrained(folder)
    processor("ViT")(size={"height": 32, "width": 32}).save_pretrained(folder)


def _vit_classifier(folder: Path) -> None:
    """A checkpoint without weights for the pooler, as most classifiers are."""
    from transformers import ViTConfig, ViTForImageClassification

    ViTForImageClassification(ViTConfig(**_VIT, num_labels=3)).save_pretrained(folder)
    processor("ViT")(size={"height": 32, "width": 32}).save_pretrained(folder)


def _dinov2(folder: Path) -> None:
    from transformers import Dinov2Config, Dinov2Model

    config = Dinov2Config(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, image_size=28, patch_size=7, mlp_ratio=2
    )
    Dinov2Model(config).save_pretrained(folder)
    processor("Bit")(size={"shortest_edge": 32}, crop_size={"height": 28, "width": 28}).save_pretrained(
        folder
    )


MODELS = {
    "clip": _clip,
    "clip-vision": _clip_vision,
    "resnet": _resnet,
    "uncropped": _uncropped,
    "mobilenet": _mobilenet,
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
