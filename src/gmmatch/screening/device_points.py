"""Points that stay on the device that holds their rows: what is computed from all of them is computed there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import TensorRows, on_device, tensor_beside, whole_precision
from gmmatch.rows.rows import Rows
from gmmatch.screening.algebra import Square
from gmmatch.screening.cloud import Cloud
from gmmatch.screening.device_cloud import DeviceCloud
from gmmatch.screening.points import Block, Points
from gmmatch.types import Indices, Vector


class DevicePoints(Points):
    """Points whose rows are those of a tensor."""

    def gather(self, positions: Indices) -> Block:
        """Return the points at these positions, on the host."""
        found: Block = self._on_device(positions).cpu().numpy()
        return found

    def sample(self, positions: Indices) -> DeviceSample:
        """Return the points at these positions, to be multiplied where they are."""
        return DeviceSample(self._on_device(positions))

    def held(self, values: Block) -> DeviceSample:
        """Return rows made from these points, on their device."""
        return DeviceSample(TensorRows(self.rows).to_device(values))

    def cloud(self, values: Block) -> Cloud:
        """Return rows made from these points as a cloud on their device."""
        return DeviceCloud(TensorRows(self.rows).to_device(values))

    def projected(self, positions: Indices, axes: NDArray[Any]) -> Block:
        """Return the coordinates of the points at these positions along ``axes``."""
        return self.sample(positions).times(slice(None), axes)

    def scored(self, slopes: NDArray[Any], offsets: NDArray[Any]) -> Block:
        """Return ``points @ slopes + offsets`` of all points."""
        found = np.empty((len(self), slopes.shape[1]), dtype=np.float32)
        for span in TensorRows(self.rows).spans():
            found[span] = DeviceSample(self._on_device(span)).times(slice(None), slopes)
            found[span] += offsets.astype(np.float32)
        return found

    def _on_device(self, positions: Indices | slice) -> Any:
        import torch

        rows = TensorRows(self.rows)
        stored = rows.gather(positions)
        # Subtracted before it is narrowed: rows far from 0 keep the digits of their differences.
        block = (stored - rows.to_device(self.origin).to(stored.dtype)) * (1.0 / self.scale)
        block = block.to(torch.float32)
        with whole_precision():
            if self.axes is not None:
                block = block @ rows.to_device(self.axes)
            if self.frequencies is not None:
                phases = block @ rows.to_device(self.frequencies)
                block = torch.cat([phases.cos(), phases.sin()], dim=1)
        if self.centers is not None and self.given is not None:
            block -= rows.to_device(self.centers)[rows.to_device(self.given[positions])]
        return block


class DeviceSample:
    """Some points on a device, see :class:`~gmmatch.screening.points.HostSample`."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))

    def ordered(self, order: Indices) -> DeviceSample:
        """Return the points in another order."""
        return DeviceSample(self.values[tensor_beside(self.values, order)])

    def gram(self, part: slice, *, wide: bool = False) -> Square:
        """Return Σ x xᵀ, which stays on the device."""
        with whole_precision():
            found = self.values[part].T @ self.values[part]
        return found.double() if wide else found

    def totals(self, part: slice, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return Σ wᵢ xᵢ for each column of weights."""
        with whole_precision():
            found: NDArray[np.float32] = (
                (tensor_beside(self.values, weights).T @ self.values[part]).cpu().numpy()
            )
        return found

    def times(self, part: slice, slopes: NDArray[Any]) -> NDArray[np.float32]:
        """Return the points' products with the columns of ``slopes``."""
        with whole_precision():
            turned = tensor_beside(self.values, slopes, self.values.dtype)
            found: NDArray[np.float32] = (self.values[part] @ turned).cpu().numpy()
        return found


def points_of(rows: Rows, origin: Vector, scale: float) -> Points:
    """Return the rows as points, on the device that holds them."""
    return (DevicePoints if on_device(rows) else Points)(rows, origin, scale)
