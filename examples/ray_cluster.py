"""
Run on the workers of a cluster
===============================

With ``engine=gm.RayEngine(...)``, each worker keeps its share of the rows; only sums and picked rows move. Here Ray
is started on this machine. ``gm.RayEngine(address="auto")`` uses the machines of a running Ray cluster, and makes the
same picks.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gmmatch as gm

folder = tempfile.TemporaryDirectory()
random = np.random.default_rng(0)
files = []
for number in range(4):
    rows = random.normal(size=(20_000, 16)) + number  # each file differs from the others
    files.append(Path(folder.name) / f"part-{number}.npy")
    np.save(files[-1], rows.astype(np.float32))

# %%
# The picks depend on the rows and the random seed, not on the number of workers. Random batches pick at the same
# time, so that there are fewer rounds of questions to the workers.
method = gm.GMMatching(k=400, batches=gm.Independent(8), random_state=0)
selections = {
    "without an engine": method.select(files),
    "1 worker": method.select(files, engine=gm.RayEngine(1)),
    "2 workers": method.select(files, engine=gm.RayEngine(2)),
}
same = len({tuple(selection.order) for selection in selections.values()}) == 1
print("the same picks without an engine, with 1 and with 2 workers:", same)

# %%
# Files may be sorted in any way. (A matching makes the mean of its picks right. It need not pick equally from each
# file: rows at opposite ends balance each other.)
selection = selections["2 workers"]
print("picks from each file:", np.bincount(selection.indices // 20_000).tolist())
print(f"distance from the mean of the picks to the geometric median: {selection.residual[None]:.3f}")

plt.figure(figsize=(6, 2.6))
plt.hist(selection.indices, bins=40, range=(0, 80_000))
plt.xlabel("row number")
plt.ylabel("picks")
plt.show()
folder.cleanup()
