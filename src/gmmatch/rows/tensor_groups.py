"""Rows of a tensor in groups of different sizes, and how the work on them is cut into tiles for a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gmmatch._array import Indices, start_indices, to_numpy


@dataclass(frozen=True, eq=False)
class TensorGroups:
    """Group g has the rows ``rows[starts[g]:starts[g + 1]]`` of a tensor, in ascending order.

    Attributes
    ----------
    data : tensor of shape (n, s)
        All rows; the columns of a row are next to each other.
    rows : int64 tensor
        Row numbers, group after group.
    starts : int64 tensor of shape (G + 1,)
    sizes : int64 array of shape (G,)
        Rows of each group, in main memory.

    Examples
    --------
    >>> codes = torch.tensor([1, 0, -1, 1])
    >>> groups = TensorGroups.of(torch.zeros(4, 2), codes, torch.tensor([True, True, True, True]), 3)
    >>> groups.rows.tolist(), groups.sizes.tolist()
    ([1, 0, 3], [1, 2, 0])
    """

    data: torch.Tensor
    rows: torch.Tensor
    starts: torch.Tensor
    sizes: Indices

    @classmethod
    def of(cls, data: torch.Tensor, codes: torch.Tensor, mask: torch.Tensor, n_groups: int) -> TensorGroups:
        """Sort the rows that a mask holds by their group; rows of no group are left out."""
        rows = torch.nonzero(mask & (codes >= 0))[:, 0]
        owners, order = torch.sort(codes[rows], stable=True)
        starts = torch.searchsorted(owners, torch.arange(n_groups + 1, device=data.device))
        # Kernels read rows, not columns.
        data = data if data.stride(1) == 1 else data.contiguous()
        return cls(data, rows[order], starts, np.diff(to_numpy(starts)))

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return int(self.data.shape[1])

    def to_device(self, values: Any) -> torch.Tensor:
        """Return an array as a tensor on the device of the rows."""
        return torch.as_tensor(values, device=self.data.device)

    def cut(self, rows_per_tile: int, members: Indices | None = None) -> Tiles:
        """Cut groups into tiles of at most ``rows_per_tile`` rows: all of them, or ``members``."""
        counts = -(-self.sizes // rows_per_tile)
        if members is not None:
            counts = np.where(np.isin(np.arange(len(counts)), members), counts, 0)
        firsts = start_indices(counts)
        owners = np.repeat(np.arange(len(counts)), counts)
        starts = start_indices(self.sizes)
        first_rows = starts[owners] + (np.arange(len(owners)) - firsts[owners]) * rows_per_tile
        stops = np.minimum(first_rows + rows_per_tile, starts[owners + 1])
        table = np.stack([owners, first_rows, stops], axis=1)
        return Tiles(self.to_device(table), self.to_device(firsts), len(owners))


@dataclass(frozen=True, eq=False)
class Tiles:
    """Runs of rows of one group each.

    Attributes
    ----------
    table : int64 tensor of shape (count, 3)
        The group of each tile, its first position among the sorted rows, and the one after its last.
    firsts : int64 tensor of shape (G + 1,)
        The first tile of each group.
    count : int
    """

    table: torch.Tensor
    firsts: torch.Tensor
    count: int
