"""Groups of rows of a tensor, of different sizes, and how their work is cut into programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from gmmatch.backends.cuda.blocks import tensor_beside
from gmmatch.types import Indices

Options = ParamSpec("Options")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class DeviceGroups:
    """Rows of a tensor in groups: group g holds ``rows[offsets[g]:offsets[g + 1]]``.

    Attributes
    ----------
    data : torch tensor of shape (n, s)
        The rows, where they are; never copied.
    rows : int64 tensor
        Row numbers, group after group.
    offsets : int64 array of length (groups + 1), on the host
    """

    data: Any
    rows: Any
    offsets: Indices

    @classmethod
    def of(cls, data: Any, groups: list[Indices]) -> DeviceGroups:
        """Send row numbers to the device that holds ``data``."""
        import torch

        sizes = [len(group) for group in groups]
        rows = torch.from_numpy(np.concatenate(groups)).to(data.device, non_blocking=True)
        return cls(data, rows, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.data.shape[1])

    @cached_property
    def sizes(self) -> Indices:
        """Rows per group."""
        return np.diff(self.offsets)

    @cached_property
    def offsets_on_device(self) -> Any:
        """The offsets as a tensor beside the data."""
        return self.to_device(self.offsets)

    @cached_property
    def group_of_row(self) -> Any:
        """The group of each row number in ``rows``, as a tensor."""
        import torch

        numbers = torch.arange(len(self), device=self.data.device)
        sizes = self.offsets_on_device.diff()
        return numbers.repeat_interleave(sizes, output_size=len(self.rows))

    def to_device(self, array: NDArray[Any]) -> Any:
        """Return a host array as a tensor beside the data."""
        return tensor_beside(self.data, array)

    def tiles(self, rows_per_tile: int) -> Tiles:
        """Cut every group into tiles of at most ``rows_per_tile`` rows."""
        counts = -(-self.sizes // rows_per_tile)
        group = np.repeat(np.arange(len(self)), counts)
        first_tile = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        within = np.arange(len(group)) - first_tile[group]
        start = self.offsets[group] + within * rows_per_tile
        stop = np.minimum(start + rows_per_tile, self.offsets[group + 1])
        table = np.stack([group, start, stop], axis=1).astype(np.int64)
        return Tiles(self.to_device(table), self.to_device(first_tile), len(group))


@dataclass(frozen=True, eq=False)
class Tiles:
    """``table`` holds (group, first position, end position) per tile; group g owns the tiles from
    ``first[g]`` up to ``first[g + 1]``."""

    table: Any
    first: Any
    count: int


def on_their_device(
    work: Callable[Concatenate[DeviceGroups, Options], Result],
) -> Callable[Concatenate[DeviceGroups, Options], Result]:
    """Make the device that holds the groups the current one during a function of them.

    Triton launches on the current device, which need not be the one that holds the rows.
    """

    @wraps(work)
    def there(groups: DeviceGroups, /, *arguments: Options.args, **options: Options.kwargs) -> Result:
        import torch

        with torch.cuda.device_of(groups.data):  # does nothing for a tensor of the CPU
            return work(groups, *arguments, **options)

    return there
