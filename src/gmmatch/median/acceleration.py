"""Anderson's acceleration of a fixed-point iteration z ← z + step(z).

The last few steps predict where the iteration is heading; the prediction is only used where it does
better than the plain step, so that the descent of Weiszfeld's iteration is kept.

References
----------
Walker and Ni (2011), Anderson acceleration for fixed-point iterations, SIAM J. Numer. Anal. 49(4).
"""

from __future__ import annotations

import numpy as np

from gmmatch.types import Vector


class AndersonMixer:
    """Remembers the last points and steps and proposes the next point."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._points: list[Vector] = []
        self._steps: list[Vector] = []

    def forget(self) -> None:
        """Drop the history, as after a proposal that failed."""
        self._points.clear()
        self._steps.clear()

    def propose(self, point: Vector, successor: Vector) -> Vector:
        """Return the accelerated successor of ``point``, whose plain one is ``successor``."""
        step = successor - point
        self._points.append(point)
        self._steps.append(step)
        del self._points[: -self.depth - 1]
        del self._steps[: -self.depth - 1]
        if len(self._steps) < 2:
            return successor
        step_changes = np.diff(np.asarray(self._steps), axis=0).T
        point_changes = np.diff(np.asarray(self._points), axis=0).T
        # Columns differ by orders of magnitude as the iteration converges: scale before solving.
        scale = np.linalg.norm(step_changes, axis=0)
        scale[scale == 0.0] = 1.0
        mixing, *_ = np.linalg.lstsq(step_changes / scale, step, rcond=1e-10)
        proposal: Vector = successor - (point_changes + step_changes) @ (mixing / scale)
        return proposal if np.all(np.isfinite(proposal)) else successor
