"""
From a folder of images to picks and a page to look at
======================================================

The commands of the command line, one after another: embed the images, select, look at the page, and export the picks
to a folder of their own. ``pixels`` takes the picture itself as its vector and needs no model; for photos, name a
vision model of the Hugging Face hub instead.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch.cli import build_app

gmmatch = build_app()
folder = tempfile.TemporaryDirectory()
home = Path(folder.name)

# %%
# Images in a folder for each class.
digits = load_digits()
for row in range(300):
    place = home / "photos" / f"digit-{digits.target[row]}"
    place.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 - digits.images[row] * 15.9).astype(np.uint8)).save(place / f"{row:03}.png")

# %%
# The same as ``gmmatch embed photos -o photos.emb --encoder pixels:8x8`` and so on in a shell.
for line in (
    f"embed {home}/photos -o {home}/photos.emb --encoder pixels:8x8",
    f"select {home}/photos.emb -k 10% -o {home}/picks.parquet --report {home}/picks.html",
    f"export {home}/picks.parquet {home}/photos -o {home}/picked",
):
    gmmatch(line.split(), standalone_mode=False)

# %%
picks = gm.Selection.load(home / "picks.parquet")
exported = sorted((home / "picked").rglob("*.png"))
print(f"{len(exported)} images exported, the first of them {exported[0].relative_to(home)}")
print("ids of the picks are the files:", picks.ids[0])
page = (home / "picks.html").stat().st_size
print(f"the page is one file of {page / 1e6:.1f} MB, to be opened in a browser")
folder.cleanup()
