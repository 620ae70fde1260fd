"""
Larger than memory
==================

A store holds embeddings on disk, in shards, and is read as one array that is never loaded as a whole. Rows are
matched in random batches, one in memory at a time; the target is the geometric median of *all* rows.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gmmatch as gm
from gmmatch.embeddings import StoreWriter, open_store

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.emb"

# %%
# Written in pieces, as an encoder would. A writer resumes if interrupted.
random = np.random.default_rng(0)
with StoreWriter(path, encoder="mine", encoder_fingerprint="1", rows_per_shard=16_384) as writer:
    for start in range(0, 120_000, 10_000):
        rows = random.normal(size=(10_000, 32)) + start / 60_000  # they drift, as sorted data do
        writer.append(rows, ids=np.arange(start, start + 10_000))
    writer.finish()

X = open_store(path).as_array()
print(f"{X.shape[0]:,} rows of {X.shape[1]} numbers in {X.n_shards} files, {X.nbytes / 1e6:.0f} MB")

# %%
# ``memory_limit`` bounds what the matching works in; ``gmmatch select --memory`` does the same.
selection = gm.GMMatching(k=500, memory_limit=4_000_000, random_state=0).select(X)
print(selection)

target = gm.geometric_median(X).point
near = np.linalg.norm(np.asarray(selection.apply(X), dtype=float).mean(axis=0) - target)
rows = np.asarray(X[np.sort(random.choice(len(X), 500, replace=False))], dtype=float)
print(f"mean of the picks to the target: {near:.4f}, of as many random rows: ", end="")
print(f"{np.linalg.norm(rows.mean(axis=0) - target):.4f}")

# %%
# Which rows were picked, from the first file to the last.
plt.figure(figsize=(6, 2.6))
plt.hist(selection.indices, bins=24, range=(0, len(X)))
plt.xlabel("row number")
plt.ylabel("picks")
plt.show()
folder.cleanup()
