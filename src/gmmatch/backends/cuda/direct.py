"""One large group: a fused pass over its rows per pick."""

from __future__ import annotations

from typing import Any

# Rows per program; smaller groups are cut finer, so that every multiprocessor has several.
_ROWS_PER_PROGRAM = 512
_PROGRAMS_PER_PROCESSOR = 8
_PICKS_PER_GRAPH = 16
_BLOCK_ELEMENTS = 1 << 24


def pick_one_group(
    data: Any,
    rows: Any,
    part: slice,
    free: Any,
    target: Any,
    start: Any,
    order: Any,
    residuals: Any,
    replacement: bool,
    fused: bool,
) -> None:
    """Fill ``order`` and ``residuals`` with the picks of the group at ``rows[part]``."""
    if fused:
        _by_triton(data, rows, part, free, target, start, order, residuals, replacement)
    else:
        _by_torch(data, rows, part, free, target, start, order, residuals, replacement)


def _by_triton(
    data: Any,
    rows: Any,
    part: slice,
    free: Any,
    target: Any,
    start: Any,
    order: Any,
    residuals: Any,
    replacement: bool,
) -> None:
    import torch

    from gmmatch.backends.cuda import pick_kernels
    from gmmatch.backends.cuda.medians import column_block

    s, size = int(data.shape[1]), part.stop - part.start
    columns = column_block(s)
    # Measured on an H200: two warps, and as many bytes of rows in a block for float32 as for bfloat16.
    block_rows = max(1, (4096 if data.element_size() >= 4 else 1024) // columns)
    processors = 1
    if data.is_cuda:
        processors = torch.cuda.get_device_properties(data.device).multi_processor_count
    share = -(-size // (processors * _PROGRAMS_PER_PROCESSOR))
    # A power of two, so that few sizes are ever compiled.
    share = max(block_rows, min(_ROWS_PER_PROGRAM, 1 << (share - 1).bit_length()))
    programs = -(-size // share)
    scores = torch.empty(programs, dtype=torch.float64, device=data.device)
    places = torch.empty(programs, dtype=torch.int64, device=data.device)
    theta, drift = start.clone(), torch.zeros_like(start)
    counter = torch.zeros(1, dtype=torch.int64, device=data.device)

    def one_pick() -> None:
        pick_kernels.scan_rows[(programs,)](
            data, rows, part.start, size, free, theta, scores, places, s, data.stride(0),
            ROWS_PER_PROGRAM=share, BLOCK_ROWS=block_rows, COLUMNS=columns, num_warps=max(2, columns // 1024),
        )  # fmt: skip
        pick_kernels.take_best[(1,)](
            data, rows, part.start, free, scores, places, theta, drift, target, order, residuals, counter, s,
            data.stride(0), programs, PROGRAMS=max(16, 1 << (programs - 1).bit_length()), COLUMNS=columns,
            REPLACEMENT=replacement, num_warps=8,
        )  # fmt: skip

    left = len(order)
    if left > 2 * _PICKS_PER_GRAPH and data.is_cuda:
        one_pick()  # compiles, and is a pick like any other
        left -= 1
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_PICKS_PER_GRAPH):
                one_pick()
        while left >= _PICKS_PER_GRAPH:
            graph.replay()
            left -= _PICKS_PER_GRAPH
    for _ in range(left):
        one_pick()


def _by_torch(
    data: Any,
    rows: Any,
    part: slice,
    free: Any,
    target: Any,
    start: Any,
    order: Any,
    residuals: Any,
    replacement: bool,
) -> None:
    import torch

    mine, unused = rows[part], free[part].bool()
    theta, drift = start.clone(), torch.zeros_like(start)
    block = max(1, _BLOCK_ELEMENTS // int(data.shape[1]))
    whole = data[mine].double() if len(mine) <= block else None
    for t in range(len(order)):
        if whole is not None:
            scores = (whole * theta).sum(dim=1)
        else:
            blocks = range(0, len(mine), block)
            scores = torch.cat([(data[mine[b : b + block]].double() * theta).sum(dim=1) for b in blocks])
        scores = torch.where(unused, scores, -torch.inf)
        top = scores.max()
        # argmax does not promise the first of equals on every device.
        best = int(torch.nonzero(scores == top)[0])
        order[t] = best
        change = target - data[mine[best]].double()
        theta, drift = theta + change, drift + change
        residuals[t] = drift.norm() / (t + 1)
        if not replacement:
            unused[best] = False
    if not replacement:
        free[part] = unused.to(free.dtype)
