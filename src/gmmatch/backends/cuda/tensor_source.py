"""A CUDA tensor as a source of rows: what has no kernel of its own reads it chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch.types import Indices


class TensorSource:
    """Rows of a two-dimensional tensor on a device."""

    def __init__(self, tensor: Any) -> None:
        import torch

        self.tensor = tensor if tensor.stride(1) == 1 else tensor.contiguous()
        self.bfloat16 = tensor.dtype == torch.bfloat16
        self.shape = (int(tensor.shape[0]), int(tensor.shape[1]))
        if 0 in self.shape:
            raise InvalidInputError(
                f"X has no {'rows' if self.shape[0] == 0 else 'columns'}: shape {self.shape}."
            )
        plain = torch.empty(0, dtype=torch.uint16 if self.bfloat16 else tensor.dtype)
        self.dtype: np.dtype[Any] = plain.numpy().dtype

    def row_source(self) -> TensorSource:
        """Return itself."""
        return self

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> NDArray[Any]:
        import torch

        if isinstance(rows, slice):
            part = self.tensor[int(rows.start or 0) : rows.stop]
        else:
            part = self.tensor[torch.from_numpy(np.array(rows, dtype=np.int64)).to(self.tensor.device)]
        host = part.cpu()
        values: NDArray[Any] = (host.view(torch.uint16) if self.bfloat16 else host).numpy()
        return values

    def bad_rows(self, start: int, stop: int) -> Indices:
        """Return the rows between ``start`` and ``stop`` that are not finite."""
        import torch

        part = self.tensor[start:stop]
        # A sum is finite where all of its terms are, and needs no second tensor of the same size.
        if bool(torch.isfinite(part.sum(dtype=torch.float64))):
            return np.empty(0, dtype=np.int64)
        good = torch.isfinite(part).all(dim=1)
        found: Indices = start + torch.nonzero(~good)[:, 0].cpu().numpy()
        return found
