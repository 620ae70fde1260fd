"""
Outliers without labels
=======================

A quarter of the rows are corrupted, and lie in a cluster far from the others. They move the mean of all rows far,
and the geometric median much less. Yet a matching to the median may still *pick* corrupted rows and balance them with
others. ``robust`` decides first which rows to trust.
"""

import matplotlib.pyplot as plt
import numpy as np

import gmmatch as gm

random = np.random.default_rng(0)
corrupted = random.permutation(1000) < 250
X = random.normal(size=(1000, 2))
X[corrupted] = [10.0, 0.0] + 0.2 * X[corrupted]
clean = X[~corrupted]

center = clean.mean(axis=0)
print(f"the mean of all rows is off by       {np.linalg.norm(X.mean(axis=0) - center):6.2f}")
print(f"their geometric median is off by     {np.linalg.norm(gm.geometric_median(X).point - center):6.2f}")

# %%
names = ("herding", "gm-matching", "robust")
found = {name: gm.select(X, k=100, method=name, random_state=0) for name in names}
for name, picks in found.items():
    off = gm.metrics.moment_error(picks.apply(X), clean)
    share = gm.metrics.contamination(picks, corrupted)
    print(f"{name:12} mean of the picks off by {off:6.2f}, {share:4.0%} of the picks corrupted")

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharex=True, sharey=True, layout="constrained")
for axis, (name, picks) in zip(axes, found.items(), strict=True):
    axis.scatter(*X[~corrupted].T, s=5, c="#9ecae1", label="rows")
    axis.scatter(*X[corrupted].T, s=5, c="#d55e00", label="corrupted rows")
    axis.scatter(*X[picks.indices].T, s=12, c="black", label="picked")
    axis.set_title(name)
axes[0].legend(loc="lower left", fontsize=8)
plt.show()
