"""A cloud of rows on a device, see :class:`~gmmatch.screening.cloud.Cloud`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import tensor_beside, whole_precision
from gmmatch.screening.cloud import MOST_ODDS, Climbed, Expected
from gmmatch.types import Indices, Vector

Array = NDArray[Any]


class DeviceCloud:
    """A tensor of float32 rows; sums are float64 where the host's are."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.shape = (int(values.shape[0]), int(values.shape[1]))

    def rows(self, positions: Indices) -> Array:
        """Return the rows at these positions."""
        return _host(self.values[tensor_beside(self.values, positions)])

    def times(self, matrix: Array) -> Array:
        """Return the product of all rows with a matrix."""
        return _host(self.turned(matrix).values)

    def turned(self, matrix: Array) -> DeviceCloud:
        """Return that product as a cloud."""
        with whole_precision():
            return DeviceCloud(self.values @ self._tensor(matrix))

    def climb(
        self, centers: Array, offsets: Array, beside: Array, without: Indices | None, gained: bool
    ) -> Climbed:
        """Return the sums for Gaussians beside a fixed density."""
        import torch

        with whole_precision():
            odds = self.values @ self._tensor(centers)
            odds += self._tensor(offsets)
            odds += self._tensor(beside)[:, None]
            gains = np.zeros(centers.shape[1])
            if gained:
                gains = _host(
                    torch.nn.functional.softplus(odds, threshold=MOST_ODDS).sum(dim=0, dtype=torch.float64)
                )
            shares = torch.sigmoid(odds.clip_(-MOST_ODDS, MOST_ODDS))
            if without is not None:
                shares[
                    tensor_beside(self.values, without), torch.arange(len(without), device=shares.device)
                ] = 0.0
            totals = np.zeros(centers.shape, dtype=np.float32) if gained else _host(self.values.T @ shares)
            return Climbed(totals, _host(shares.sum(dim=0, dtype=torch.float64)), gains)

    def totals(self, shares: Array) -> tuple[Array, Vector]:
        """Return Σ share · x and Σ share for each column of shares."""
        return self._totals(self._tensor(shares))

    def _totals(self, shares: Any) -> tuple[Array, Vector]:
        import torch

        with whole_precision():
            return _host(shares.T @ self.values), _host(shares.sum(dim=0, dtype=torch.float64))

    def expect(self, slopes: Array, offsets: Array) -> Expected:
        """Return the sums for shares in proportion to exp(x · slope + offset)."""
        import torch

        scores = self.turned(slopes).values + self._tensor(offsets)
        top = scores.logsumexp(dim=1)
        shares = (scores - top[:, None]).exp_()
        return Expected(*self._totals(shares), float(top.mean(dtype=torch.float64)))

    def cubed(self, directions: Array, positions: Indices) -> Array:
        """Return the mean of x (x · direction)³ over the rows at these positions, for each direction."""
        some = self.values[tensor_beside(self.values, positions)]
        with whole_precision():
            return _host(some.T @ (some @ self._tensor(directions)).pow(3) / len(some))

    def _tensor(self, array: Array) -> Any:
        return tensor_beside(self.values, array, self.values.dtype)


def _host(tensor: Any) -> Array:
    found: Array = tensor.cpu().numpy()
    return found
