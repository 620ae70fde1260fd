"""
Larger than memory
==================

A store holds embeddings on disk, in shards, with their labels and ids. It is never loaded as a whole. Rows are
matched in random batches, one in memory at a time; the target is the geometric median of *all* rows.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gmmatch as gm
from gmmatch.store import StoreWriter

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

store = gm.open_store(path)
size = sum(file.stat().st_size for file in path.glob("*.arrow"))
print(f"{len(store):,} rows of {store.n_features} numbers, {size / 1e6:.0f} MB")

# %%
# ``memory_limit`` bounds the rows that are held at a time; ``gmmatch select --memory`` does the same.
selection = gm.GMMatching(k=500, random_state=0).select(store, memory_limit=4_000_000)
print(selection)

target = gm.geometric_median(store).point
near = np.linalg.norm(store.to_numpy(selection.indices).mean(axis=0, dtype=float) - target)
chance = store.to_numpy(random.choice(len(store), 500, replace=False))
print(f"mean of the picks to the target: {near:.4f}, of as many random rows: ", end="")
print(f"{np.linalg.norm(chance.mean(axis=0, dtype=float) - target):.4f}")

# %%
# Which rows were picked, from the first file to the last.
plt.figure(figsize=(6, 2.6))
plt.hist(selection.indices, bins=24, range=(0, len(store)))
plt.xlabel("row number")
plt.ylabel("picks")
plt.show()
folder.cleanup()
