"""Data that several tests of this folder read."""

from __future__ import annotations

import os

import pytest

from .helpers import png

# Before `datasets` is imported: no test may wait for a network.
os.environ["HF_HUB_OFFLINE"] = "1"


@pytest.fixture
def image_folder(tmp_path):
    """photos/{cat,dog} with five images."""
    folder = tmp_path / "photos"
    for i, name in enumerate(["dog/img10.png", "dog/img9.png", "cat/1.png", "cat/b/2.PNG", "dog/img09.png"]):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png((i, 0, 0)))
    return folder
