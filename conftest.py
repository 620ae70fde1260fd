"""What pytest must not import on this machine."""

from __future__ import annotations

from importlib.util import find_spec

# The kernels' modules need Triton, which comes with torch for CUDA.
collect_ignore_glob = [] if find_spec("triton") else ["src/gmmatch/gpu/*_kernels.py"]
