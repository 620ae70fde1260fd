"""Near-duplicates on a device: all products of rows in blocks of half precision, and exact cosines of candidates."""

from __future__ import annotations

from typing import Any

from gmmatch.backends.cuda.blocks import TensorRows, TensorSource, tensor_beside
from gmmatch.near_duplicates.cells import Take
from gmmatch.rows.rows import Rows, as_rows
from gmmatch.types import Indices, Vector

_BLOCK = 1 << 14
# Numbers of half precision are off by at most 2⁻¹¹ of themselves, and products of unit rows by twice that and a bit.
_ROUNDING = 1.5e-3


def halves(rows: Rows, like: Rows | None = None) -> Any:
    """Return rows of length 1 as a tensor of half precision, on the device of others if they are given."""
    import torch

    tensors = TensorRows(rows if like is None else _beside(like, rows))
    out = torch.empty(
        len(tensors.index), tensors.tensor.shape[1], dtype=torch.float16, device=tensors.tensor.device
    )
    for span in tensors.spans(8):
        block = tensors.gather(span)
        block = block / block.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(block.dtype).tiny)
        lengths = block.norm(dim=1, keepdim=True)
        out[span] = (block / lengths.where(lengths > 0.0, lengths.new_ones(()))).half()
    return out


def candidate_blocks(left: Any, right: Any, threshold: float, take: Take) -> None:
    """Pass on all pairs whose product is at least the threshold, less what rounding may hide."""
    import torch

    size = min(_BLOCK, len(left)) * min(_BLOCK, len(right))
    products = torch.empty(size, dtype=left.dtype, device=left.device)
    for first in range(0, len(left), _BLOCK):
        block = left[first : first + _BLOCK]
        for start in range(first if left is right else 0, len(right), _BLOCK):
            part = right[start : start + _BLOCK]
            out = products[: len(block) * len(part)].view(len(block), len(part))
            torch.mm(block, part.T, out=out)
            near = torch.nonzero(out >= threshold - _ROUNDING)
            if left is right and start == first:
                near = near[near[:, 0] < near[:, 1]]
            if len(near):
                i, j = near.T.cpu().numpy()
                take(first + i, start + j)


def cosines(rows: Rows, i: Indices, others: Rows, j: Indices) -> Vector:
    """Return the cosines of pairs of rows, computed in float64 on the device."""
    left, right = (
        TensorRows(side).gather(at).double() for side, at in ((rows, i), (_beside(rows, others), j))
    )
    lengths = left.norm(dim=1) * right.norm(dim=1)
    found = (left * right).sum(dim=1) / lengths.where(lengths > 0.0, lengths.new_ones(()))
    values: Vector = found.clamp(max=1.0).cpu().numpy()
    return values


def _beside(rows: Rows, others: Rows) -> Rows:
    """Return other rows on the same device."""
    source: Any = rows.source
    if isinstance(others.source, TensorSource):
        return others
    return as_rows(TensorSource(tensor_beside(source.tensor, others.copied())))
