"""Compiling a network's call with ``torch.compile``: chosen where it can work, given up where it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn

from gmmatch.errors import GMMatchWarning


def choose_backend(compiled: bool | str, device: torch.device) -> str | None:
    """Return which of ``torch.compile``'s backends to use, or None to leave the network as it is.

    Parameters
    ----------
    compiled
        True for torch's own backend, which is used on CUDA alone and needs Triton; or the name of a backend,
        which is used wherever the network is.
    device
        Where the network is.

    Examples
    --------
    >>> choose_backend(True, torch.device("cpu")) is None
    True
    >>> choose_backend("aot_eager", torch.device("cpu"))
    'aot_eager'
    """
    if isinstance(compiled, str):
        return compiled
    if not compiled or device.type != "cuda":
        return None
    if find_spec("triton") is None:
        warn_not_compiled("Triton is not installed")
        return None
    return "inductor"


def compiled_call(model: nn.Module, backend: str) -> Callable[..., Any]:
    """Return a function that does what calling a model does; it is compiled when it is first called.

    The model itself stays as it is: its state dict has the same names. Another model of the same kind, called
    with inputs of the same shape in the same process, is not compiled again.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> call, rows = compiled_call(model, "eager"), torch.ones(3, 2)
    >>> bool(torch.equal(call(rows), model(rows))), list(model.state_dict())
    (True, ['weight', 'bias'])
    """
    # Shapes never change within a training. In one graph or not at all: torch would otherwise run parts of a
    # network uncompiled, and say nothing, once it has seen too many kinds.
    call: Callable[..., Any] = torch.compile(model, backend=backend, dynamic=False, fullgraph=True)
    return call


def warn_not_compiled(reason: object) -> None:
    """Warn that a network is trained uncompiled, and why.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as given:
    ...     warnings.simplefilter("always")
    ...     warn_not_compiled(ValueError("no such backend"))
    >>> print(given[0].message)
    The network was not compiled and trains as it is (ValueError: no such backend).
    """
    text = str(reason)
    if isinstance(reason, BaseException):
        first = next(iter(text.strip().splitlines()), "")  # compilers go on for pages
        text = f"{type(reason).__name__}: {first}"
    message = f"The network was not compiled and trains as it is ({text})."
    warnings.warn(message, GMMatchWarning, stacklevel=2)
