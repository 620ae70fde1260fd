"""
Compare methods by training on their picks
==========================================

Several methods keep 5 to 40% of the digits, a third of which are mislabeled. A classifier is trained on each subset,
wrong labels included, and tested on clean labels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import gmmatch as gm

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X / 16, y, test_size=0.3, random_state=0, stratify=y)
random = np.random.default_rng(0)
wrong = random.permutation(len(y)) < len(y) / 3
noisy = np.where(wrong, (y + random.integers(1, 10, len(y))) % 10, y)


def accuracy(rows: np.ndarray, labels: np.ndarray) -> float:
    """Train on some rows, and return the share of test images that are classified correctly."""
    return LogisticRegression(max_iter=200).fit(rows, labels).score(X_test, y_test)


shares = (0.05, 0.1, 0.2, 0.4)
methods = ("random", "easy", "moderate", "gm-matching", "robust")
results: dict[str, list[float]] = {method: [] for method in methods}
print("kept   " + "".join(f"{method:>14}" for method in methods))
# Picks have an order: the first of them are the method's smaller selection.
most = {m: gm.select(X, noisy, k=max(shares), method=m, random_state=0) for m in methods}
for share in shares:
    for method in methods:
        picks = most[method].prefix(round(share * len(X)))
        results[method].append(accuracy(picks.apply(X), picks.apply(noisy)))
    print(f"{share:4.0%}   " + "".join(f"{results[method][-1]:14.1%}" for method in methods))
everything = accuracy(X, noisy)
print(f"all {len(X):,} noisy rows: {everything:.1%}")

# %%
figure, axis = plt.subplots(figsize=(6.5, 4), layout="constrained")
for method, values in results.items():
    axis.plot([f"{share:.0%}" for share in shares], values, marker="o", label=method)
axis.axhline(everything, color="0.5", linestyle="--", label="all noisy rows")
axis.set(xlabel="kept", ylabel="accuracy on clean test images", title="Digits, a third of the labels wrong")
axis.legend()
plt.show()
