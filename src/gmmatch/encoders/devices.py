"""Where a model runs, in which precision, and what running out of memory looks like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gmmatch.encoders.base import missing_package
from gmmatch.errors import InvalidInputError

_DTYPES = ("float32", "float16", "bfloat16")
_MEMORY_MESSAGES = ("out of memory", "can't allocate memory", "not enough memory", "alloc_failed")


def import_torch(extra: str) -> Any:
    """Import torch, or say which extra brings it."""
    try:
        import torch
    except ImportError as error:
        raise missing_package("This encoder", "torch", extra) from error
    return torch


def devices_present(torch: Any) -> dict[str, int]:
    """Return how many devices of each type this machine has, the fastest type first."""
    return {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }


def choose_device(device: str, present: Mapping[str, int]) -> str:
    """Return the device to use: for ``"auto"`` the first type that is present.

    Parameters
    ----------
    device
        ``"auto"``, or a type with or without a number: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    present
        What :func:`devices_present` returned.

    Returns
    -------
    str

    Examples
    --------
    >>> choose_device("auto", {"cuda": 2, "mps": 0, "cpu": 1})
    'cuda'
    >>> choose_device("cuda:2", {"cuda": 2, "mps": 0, "cpu": 1})
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: device='cuda:2': this machine has no such device; use auto, cuda or cpu.
    """
    usable = [name for name, count in present.items() if count]
    if device == "auto":
        return usable[0]
    name, colon, number = device.partition(":")
    if name in usable and (not colon or (number.isdecimal() and int(number) < present[name])):
        return device
    raise InvalidInputError(
        f"device={device!r}: this machine has no such device; use auto, {' or '.join(usable)}."
    )


def choose_dtype(dtype: str, device: str) -> str:
    """Return the precision of the model: for ``"auto"`` half on a GPU and single on a CPU.

    Examples
    --------
    >>> choose_dtype("auto", "cuda:0"), choose_dtype("auto", "cpu"), choose_dtype("bfloat16", "cpu")
    ('float16', 'float32', 'bfloat16')
    """
    if dtype == "auto":
        return "float32" if device == "cpu" else "float16"
    if dtype not in _DTYPES:
        raise InvalidInputError(f"dtype={dtype!r}: use auto, {' or '.join(_DTYPES)}.")
    return dtype


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error means that the device, or the machine, has no memory left.

    Examples
    --------
    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 20 MiB"))
    True
    >>> is_out_of_memory(RuntimeError("shapes cannot be multiplied"))
    False
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(text in message for text in _MEMORY_MESSAGES)


def free_memory(device: str) -> None:
    """Give cached GPU memory back, so that a smaller batch finds it in one piece.

    Examples
    --------
    >>> free_memory("cpu")
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
