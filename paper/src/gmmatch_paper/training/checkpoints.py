"""Training that can be interrupted: what it takes to go on, in one file."""

from __future__ import annotations

import hashlib
import io
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import nn

from gmmatch.errors import InvalidInputError
from gmmatch.files import write_file
from gmmatch_paper.training.images import Images
from gmmatch_paper.training.recipes import Recipe

Numbers: TypeAlias = tuple[float, float, float]
"""What a stretch of a training came to: its loss, another number, and its seconds."""


class ResumableRun(ABC):
    """A training in stretches. Between them it saves itself to a file, and resumes from there.

    ``history`` has an entry for each stretch so far.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer = model, optimizer
        self.history: list[Numbers] = []
        self._path: Path | None = None
        self._fingerprint, self._wait = "", 0.0

    @abstractmethod
    def stretch(self, number: int) -> Numbers:
        """Train for one stretch."""

    def weights(self) -> dict[str, Any]:
        """Return all weights that a checkpoint has to hold."""
        found: dict[str, Any] = self.model.state_dict()
        return found

    def set_weights(self, weights: dict[str, Any]) -> None:
        """Take over what :meth:`weights` returned."""
        self.model.load_state_dict(weights)

    def keep_in(self, path: Path, seconds: float, fingerprint: str, device: torch.device) -> None:
        """Go on from a checkpoint if there is one, and save to it from now on."""
        self._path, self._wait, self._fingerprint = path, seconds, fingerprint
        found = load_checkpoint(path, fingerprint, device)
        if found is not None:
            self.set_weights(found["model"])
            self.optimizer.load_state_dict(found["optimizer"])
            self.history = [(loss, other, spent) for loss, other, spent in found["history"]]

    def train(self, stretches: int, told: Callable[[int], object]) -> None:
        """Run the stretches that are left; ``told`` hears how many are done."""
        saved = time.monotonic()
        for number in range(len(self.history), stretches):
            self.history.append(self.stretch(number))
            if self._path is not None and (time.monotonic() - saved >= self._wait or number + 1 == stretches):
                self._save(self._path)
                saved = time.monotonic()
            told(number + 1)

    def _save(self, path: Path) -> None:
        """Write a checkpoint; the file is the old one or the new one, never half of each."""
        buffer = io.BytesIO()
        state = {"format": 1, "fingerprint": self._fingerprint, "history": self.history}
        torch.save({**state, "model": self.weights(), "optimizer": self.optimizer.state_dict()}, buffer)
        write_file(path, buffer.getbuffer())


def run_fingerprint(network: str, recipe: Recipe, data: Images, seed: int) -> str:
    """Return a hash of everything that decides a run."""
    description = {
        "network": network,
        "recipe": asdict(recipe),
        "seed": seed,
        "shape": list(data.pixels.shape),
    }
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for tensor in (data.pixels, data.codes):
        digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> dict[str, Any] | None:
    """Return the checkpoint of a run, or None if there is none yet."""
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location=device, weights_only=True)
        checkpoint = {name: found[name] for name in ("fingerprint", "model", "optimizer", "history")}
    except Exception as error:  # torch raises whatever its unpickler and archive reader do
        raise InvalidInputError(
            f"checkpoint={str(path)!r} cannot be read as a checkpoint ({type(error).__name__}): "
            "delete it to start over, or name another file."
        ) from error
    if checkpoint["fingerprint"] != fingerprint:
        raise InvalidInputError(
            f"checkpoint={str(path)!r} belongs to another run (other images, labels, network, recipe or "
            "seed): name another file, or delete it."
        )
    return checkpoint
