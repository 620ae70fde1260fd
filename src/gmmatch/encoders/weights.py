"""The weights of a model as arrays, for its fingerprint."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def named_weights(model: Any, without: Container[str] = ()) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the name of each parameter and buffer, with its type and shape, and its bytes.

    Parameters
    ----------
    model
        A torch module.
    without
        Names to leave out: weights that no checkpoint gave, and that are random.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> next(named_weights(torch.nn.Linear(2, 1)))[0]  # doctest: +SKIP
    'bias torch.float32 (1,)'
    """
    import torch

    for name, tensor in sorted(model.state_dict().items()):
        if name not in without:
            # As bytes, since NumPy has no bfloat16.
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            yield f"{name} {tensor.dtype} {tuple(tensor.shape)}", flat.view(torch.uint8).numpy()
