"""Which methods can be treated alike: all of them look at rows, some learn from the labels first."""

from __future__ import annotations

from importlib.util import find_spec

import gmmatch as gm

NEEDS_TORCH = ("forgetting", "grand", "el2n")
NEEDS_LABELS = (*NEEDS_TORCH, "optimization")
MODEL_BASED = (*NEEDS_LABELS, "self-supervised")
# Rule rows out by what all rows look like, so that copies, weights and other classes matter differently.
SCREENING = ("robust",)
ROW_BASED = tuple(name for name in gm.methods() if name not in (*MODEL_BASED, *SCREENING))
# Every method that runs on this machine.
RUNNABLE = tuple(name for name in gm.methods() if name not in NEEDS_TORCH or find_spec("torch") is not None)
