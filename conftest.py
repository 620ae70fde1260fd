"""What pytest must not import on this machine, and how hypothesis draws its cases."""

from __future__ import annotations

import os
from importlib.util import find_spec

# The kernels' modules need Triton, which comes with torch for CUDA.
collect_ignore_glob = (
    []
    if find_spec("triton")
    else [
        "src/gmmatch/backends/cuda/*_triton.py",
        "paper/src/gmmatch_paper/training/networks/norm_kernels.py",
    ]
)

# The same cases on every machine, so that a failure means a change; HYPOTHESIS_PROFILE=search draws new ones.
# A busy machine is slow, which is no failure.
if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("same", derandomize=True, deadline=None)
    settings.register_profile("search", deadline=None, print_blob=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
