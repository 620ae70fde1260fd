"""
A folder of images, from the command line
=========================================

Embed the images, pick, write a report, and export the picks to a new folder. ``pixels`` uses the image itself as its
vector and needs no model; for photos, use a vision model of the Hugging Face hub.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
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
    digit = home / "photos" / f"digit-{digits.target[row]}"
    digit.mkdir(parents=True, exist_ok=True)
    Image.fromarray((255 - digits.images[row] * 15.9).astype(np.uint8)).save(digit / f"{row:03}.png")

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
print(f"the page is one file of {page / 1e6:.1f} MB; open it in a browser")

figure, panels = plt.subplots(2, 5, figsize=(6, 2.6))
for panel, file in zip(panels.flat, exported[::3], strict=True):
    panel.imshow(Image.open(file), cmap="gray")
    panel.set_axis_off()
plt.show()
folder.cleanup()
