"""
Label noise
===========

A third of the digits get a wrong label. ``robust`` decides which labels to trust, and then picks; the other methods
take the labels as they are.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import gmmatch as gm

digits = load_digits()
X, truth = digits.data, digits.target
random = np.random.default_rng(0)
wrong = random.permutation(len(X)) < len(X) / 3
y = np.where(wrong, (truth + random.integers(1, 10, len(X))) % 10, truth)
print(f"wrong labels in the data:  {wrong.mean():6.1%}")

for method in ("random", "gm-matching", "robust"):
    picks = gm.select(X, y=y, k="10%", method=method, random_state=0)
    print(f"picked by {method:15}  {gm.metrics.contamination(picks, wrong):6.1%}")

# %%
# The last selection says which rows it did not trust. Here the truth is known: how good is that judgement?
screening = picks.screening
dropped = ~screening.kept
print(f"of the wrong labels, {dropped[wrong].mean():.1%} were found")
print(f"of the right labels, {dropped[~wrong].mean():.1%} were dropped as well")
found = dropped & wrong
agrees = screening.suggested_labels[found] == truth[found]
print(f"of those found, {np.mean(agrees):.1%} look like the class they are of")

# %%
# The most suspicious rows, with the label they were given and the one they look like.
worst = np.argsort(-screening.probability)[:12]
figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for row, axis in zip(worst, axes.flat, strict=True):
    axis.imshow(digits.images[row], cmap="gray_r")
    axis.set_title(f"given {y[row]}, looks like {screening.suggested_labels[row]}", fontsize=8)
    axis.axis("off")
plt.show()
