"""The device to train on."""

from __future__ import annotations

import torch

from gmmatch.errors import InvalidInputError


def choose_device(device: str) -> str:
    """Return the device to use: for ``"auto"`` a GPU if there is one."""
    present = {
        "cuda": torch.cuda.device_count() if torch.cuda.is_available() else 0,
        "mps": int(torch.backends.mps.is_available()),
        "cpu": 1,
    }
    usable = [name for name, count in present.items() if count]
    if device == "auto":
        return usable[0]
    name, colon, number = device.partition(":")
    if name in usable and (not colon or (number.isdecimal() and int(number) < present[name])):
        return device
    raise InvalidInputError(
        f"device={device!r}: this machine has no such device; use auto, {' or '.join(usable)}."
    )
