"""
A score or a method of your own
===============================

A ranking needs one number per row. Pass the numbers, or write a small class, which then has budgets, classes, ids and
everything else that the built-in methods have.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

import gmmatch as gm
from gmmatch.selectors.ranking import Ranking

digits = load_digits()
X, y = digits.data, digits.target

# %%
# **Scores of your own**: the rows with the highest are kept. Here the score is the amount of ink.
ink = X.sum(axis=1)
boldest = gm.select(X, y=y, k=20, method="el2n", scores=ink)
print(f"mean ink of the picks {ink[boldest.indices].mean():.0f}, of all rows {ink.mean():.0f}")


# %%
# **A method**: rows whose tenth-nearest neighbor within the class is near, where data are dense.
@dataclass(kw_only=True, eq=False, repr=False)
class Densest(Ranking):
    """Keep the rows with the nearest neighbors."""

    neighbors: int = 10
    method = "densest"
    keep = "lowest"

    def scores_of(self, task):
        """Return a number for each row of a class."""
        rows = task.rows.copied()
        distances, _ = NearestNeighbors(n_neighbors=self.neighbors + 1).fit(rows).kneighbors(rows)
        return distances[:, -1]


picks = Densest(k="2%", per_class="balanced").select(X, y)
print(picks)
print("picks per class:", picks.counts)
print("parameters that it records:", picks.provenance["parameters"]["neighbors"], "neighbors")

# %%
figure, axes = plt.subplots(2, 10, figsize=(9, 2.4), layout="constrained")
for line, (chosen, name) in zip(axes, ((boldest, "boldest"), (picks, "densest")), strict=True):
    for label, axis in enumerate(line):
        row = next(row for row in chosen.order if y[row] == label)
        axis.imshow(digits.images[row], cmap="gray_r")
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()
