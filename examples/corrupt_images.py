"""
Synthetic corruption of images
==============================

To test a method, corrupt clean images and keep the ground truth: which images are corrupted, and how. Then count how
many corrupted images each method picks.

Corruptions are part of the package gmmatch-paper: ``pip install . ./paper`` in a clone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import gmmatch as gm
from gmmatch_paper.corruption import ImageCorruption

digits = load_digits()
images = (digits.images / 16).astype(np.float32)
bad = ImageCorruption(kind="generation-mixture", rate=0.3, severity=4, seed=0).apply(images)
print("corrupted:", dict(bad.counts))

# %%
X = bad.data.reshape(len(images), -1)
print(f"in the data   {bad.mask.mean():6.1%} corrupted")
for method in ("random", "gm-matching", "easy", "robust"):
    picks = gm.select(X, digits.target, k="10%", method=method, random_state=0)
    print(f"{method:12}  {gm.metrics.contamination(picks, bad.mask):6.1%} of the picks")

# %%
kinds = sorted(bad.counts)
figure, axes = plt.subplots(2, len(kinds), figsize=(9, 3.9), layout="constrained")
for kind, (above, below) in zip(kinds, axes.T, strict=True):
    row = int(np.flatnonzero(bad.kinds == kind)[0])
    above.imshow(images[row], cmap="gray_r", vmin=0, vmax=1)
    below.imshow(bad.data[row], cmap="gray_r", vmin=0, vmax=1)
    below.set_xlabel(kind)
    for axis in (above, below):
        axis.set(xticks=[], yticks=[])
axes[0, 0].set_ylabel("before")
axes[1, 0].set_ylabel("after")
plt.show()
