"""The weights of a model as arrays, for its fingerprint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def named_weights(model: Any, without: str | None = None) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the name of each parameter and buffer, with its type and shape, and its bytes.

    Parameters
    ----------
    model
        A torch module.
    without
        Leave weights out whose name has this in it, because no checkpoint gave them and they are random.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> next(named_weights(torch.nn.Linear(2, 1)))[0]  # doctest: +SKIP
    'bias torch.float32 (1,)'
    """
    import torch

    for name, tensor in sorted(model.state_dict().items()):
        if without is None or without not in name:
            # As bytes, since NumPy has no bfloat16.
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}", flat.view(torch.uint8).numpy()
