"""
Run on a cluster, or on threads
===============================

Each worker of an engine keeps its share of the rows; only sums and picked rows move. Here the workers are threads.
``RayEngine(address="auto")`` instead of ``LocalEngine`` uses the machines of a Ray cluster, and makes the same picks.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gmmatch as gm
from gmmatch.backends.cluster import LocalEngine, open_shards

folder = tempfile.TemporaryDirectory()
random = np.random.default_rng(0)
files = []
for number in range(4):
    rows = random.normal(size=(20_000, 16)) + number  # each file differs from the others
    files.append(Path(folder.name) / f"part-{number}.npy")
    np.save(files[-1], rows.astype(np.float32))

shards = open_shards(files)
print(f"{len(shards):,} rows of {shards.n_features} numbers in {len(files)} files")

# %%
# The picks depend on the rows and the seed, not on the number of workers.
selections = [
    gm.select(shards, engine=LocalEngine(workers=count), k=400, random_state=0, method="gm-matching")
    for count in (1, 2, 3)
]
print("the same picks with 1, 2 and 3 workers:", len({tuple(one.order) for one in selections}) == 1)

# %%
# Files may be sorted in any way. (A matching makes the mean of its picks right. It need not pick equally from each
# file: rows at opposite ends balance each other.)
selection = selections[-1]
print("picks from each file:", np.bincount(selection.indices // 20_000).tolist())
print(f"distance from the mean of the picks to the geometric median: {selection.residual[None]:.3f}")

# %%
# Workers send back little.
moved = selection.provenance["engine"]["bytes"]
size = sum(file.stat().st_size for file in files)
print(f"rows on disk: {size / 1e6:.1f} MB; received from the workers: {moved['received'] / 1e6:.1f} MB")

plt.figure(figsize=(6, 2.6))
plt.bar(["rows on disk", "received"], [size / 1e6, moved["received"] / 1e6])
plt.ylabel("MB")
plt.show()
folder.cleanup()
