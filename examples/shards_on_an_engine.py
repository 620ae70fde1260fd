"""
Spread the work over workers
============================

An engine has workers that keep their share of the rows at hand; sums, picks and picked rows are all that moves. Here
they are threads of this machine. ``RayEngine(address="auto")`` in place of ``LocalEngine`` takes the machines of a
Ray cluster, and gives the same picks.
"""

import tempfile
from pathlib import Path

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
    gm.select(shards, engine=LocalEngine(workers=count), k=400, random_state=0) for count in (1, 2, 3)
]
print("the same picks with 1, 2 and 3 workers:", len({tuple(one.order) for one in selections}) == 1)

# %%
# Files may be sorted by whatever they like. (A matching asks of its picks that their mean is right, not that each
# file is represented: rows at opposite ends balance each other.)
selection = selections[-1]
print("picks from each file:", np.bincount(selection.indices // 20_000).tolist())
print(f"distance from the mean of the picks to the geometric median: {selection.residual[None]:.3f}")

# %%
# Little moves between the workers and the one who asks them.
moved = selection.provenance["engine"]["bytes"]
size = sum(file.stat().st_size for file in files)
print(f"rows on disk: {size / 1e6:.1f} MB; received from the workers: {moved['received'] / 1e6:.1f} MB")
folder.cleanup()
