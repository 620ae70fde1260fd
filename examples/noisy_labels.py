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
    picks = gm.select(X, y, k="10%", method=method, random_state=0)
    print(f"picked by {method:15}  {gm.metrics.contamination(picks, wrong):6.1%}")

# %%
# The last selection says which rows it does not trust. Here the truth is known: how good are the verdicts?
screening = picks.screening
print(screening.summary)
suspects = ~screening.trusted
print(f"of the wrong labels, {suspects[wrong].mean():.1%} are not trusted")
print(f"of the right labels, {suspects[~wrong].mean():.1%} are not trusted either")
detected = suspects & wrong
agrees = screening.suggested[detected] == truth[detected]
print(f"of those detected, {np.mean(agrees):.1%} get their true label suggested")

# %%
# The most suspicious rows, with the label they were given and the one they look like.
worst = screening.ranking[:12]
figure, axes = plt.subplots(2, 6, figsize=(9, 3.6), layout="constrained")
for row, axis in zip(worst, axes.flat, strict=True):
    axis.imshow(digits.images[row], cmap="gray_r")
    axis.set_title(f"given {y[row]}, looks like {screening.suggested[row]}", fontsize=8)
    axis.axis("off")
plt.show()
