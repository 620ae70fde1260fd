"""Models and pictures that several tests of this folder use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .models import MODELS, picture

# Before anything of Hugging Face is imported: no test may wait for a network.
os.environ["HF_HUB_OFFLINE"] = "1"
# Some virtual machines announce AMX and stop a process that uses it, as torch does for bfloat16.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Return a function from the name of a tiny model to its folder."""
    pytest.importorskip("torch", reason="needs the extra gmmatch[vision]: torch")
    pytest.importorskip("transformers", reason="needs the extra gmmatch[vision]: transformers")
    import torch
    import transformers

    root = tmp_path_factory.mktemp("models")

    def folder(name: str) -> Path:
        path = root / name
        if not path.exists():
            transformers.utils.logging.disable_progress_bar()
            with torch.random.fork_rng():
                torch.manual_seed(sum(name.encode()))
                MODELS[name](path)
        return path

    # Once before any test, as most of the time goes into imports.
    from gmmatch.encoders import TransformersEncoder

    TransformersEncoder(str(folder("clip")), device="cpu")
    return folder


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory):
    """60 pictures in a folder, of a few sizes."""
    pytest.importorskip("PIL", reason="needs the extra gmmatch[vision]: Pillow")
    folder = tmp_path_factory.mktemp("pictures")
    sizes = [(40, 32), (32, 40), (64, 64), (33, 31)]
    for number in range(60):
        picture(number, sizes[number % 4]).save(folder / f"{number:03d}.png")
    return folder
