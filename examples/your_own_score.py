"""
A score or a method of your own
===============================

A ranking needs one number per row. Pass the numbers, or write a small class, which then has budgets, classes, ids and
everything else that the built-in methods have.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

import gmmatch as gm
from gmmatch.methods.ranking import Ranking

digits = load_digits()
X, y = digits.data, digits.target

# %%
# **Scores of your own**. Here the score is the amount of ink, and the rows with the highest are kept.
ink = X.sum(axis=1)
boldest = gm.select(X, y, k=20, method="by-score", scores=ink, keep="highest")
print(f"mean ink of the picks {ink[boldest.indices].mean():.0f}, of all rows {ink.mean():.0f}")


# %%
# **A method**: rows whose tenth-nearest neighbor within the class is near, where data are dense.
@dataclass(kw_only=True, eq=False, repr=False)
class Densest(Ranking):
    """Keep the rows with the nearest neighbors."""

    neighbors: int = 10
    name = "densest"
    keep = "lowest"

    def scores(self, problem, targets):
        """Return a number for each row, class by class."""
        scores = np.zeros(len(problem.rows))
        for numbers in problem.groups.split(problem.available):
            rows = problem.rows.take(numbers)
            distances, _ = NearestNeighbors(n_neighbors=self.neighbors + 1).fit(rows).kneighbors(rows)
            scores[numbers] = distances[:, -1]
        return scores


picks = Densest(k="2%", per_class="balanced").select(X, y)
print(picks.counts, "with", picks.provenance["parameters"]["neighbors"], "neighbors")

# %%
figure, axes = plt.subplots(2, 10, figsize=(9, 2.4), layout="constrained")
for line, (chosen, name) in zip(axes, ((boldest, "boldest"), (picks, "densest")), strict=True):
    for label, axis in enumerate(line):
        row = next(row for row in chosen.order if y[row] == label)
        axis.imshow(digits.images[row], cmap="gray_r")
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
plt.show()
