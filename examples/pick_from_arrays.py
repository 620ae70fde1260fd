"""
Pick rows from an array
=======================

Any array of shape (n, s) will do: embeddings, features, pixels. Here it is 1,797 images of digits. ``gm-matching``,
the method of the paper, picks a tenth of each class, so that the mean of the picks approaches the geometric median.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import gmmatch as gm

X, y = load_digits(return_X_y=True)
selection = gm.GMMatching(k="10%", random_state=0).select(X, y)
print(selection)
print("picks per class:", selection.counts)

# %%
# ``apply`` takes the picked rows of anything that has the same rows.
X_small, y_small = selection.apply(X), selection.apply(y)
print("kept:", X_small.shape, "of", X.shape)

# %%
# The picks have an order, and the first of them are a smaller selection. How near to its target is the mean of a
# class's first picks, compared with that of as many random rows?
fours = X[y == 4]
target = gm.geometric_median(fours).point
order = gm.GMMatching(k=64, random_state=0).select(fours).order
sizes = np.arange(1, 65)
error = [np.linalg.norm(fours[order[:k]].mean(axis=0) - target) for k in sizes]
random = np.random.default_rng(0)
chance = [
    np.mean(
        [np.linalg.norm(fours[random.permutation(len(fours))[:k]].mean(axis=0) - target) for _ in range(50)]
    )
    for k in sizes
]
print(f"distance to the target with 64 picks: {error[-1]:.2f}, at random: {chance[-1]:.2f}")

# %%
points = PCA(2).fit_transform(X)
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.scatter(*points.T, c="0.8", s=6, label="all rows")
left.scatter(*points[selection.indices].T, c=y_small, cmap="tab10", s=14)
left.set(title="A tenth of the digits, colored by class", xticks=[], yticks=[])
right.loglog(sizes, error, label="GM Matching")
right.loglog(sizes, chance, label="random picks, mean of 50")
right.set(xlabel="picks", ylabel="distance to the target", title="The fours: their picks' mean")
right.legend()
plt.show()
