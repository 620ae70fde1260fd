"""Training that can be interrupted: what it takes to go on, in one file."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gmmatch.errors import InvalidInputError
from gmmatch.files import write_file
from gmmatch_paper.training.images import Images
from gmmatch_paper.training.recipes import Recipe


@dataclass(frozen=True)
class Checkpoint:
    """The state after an epoch; ``history`` has one (loss, accuracy, seconds) per epoch."""

    fingerprint: str
    model: dict[str, Any]
    optimizer: dict[str, Any]
    history: list[tuple[float, float, float]]


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


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the file is the old one or the new one, never half of each."""
    buffer = io.BytesIO()
    torch.save({"format": 1, **checkpoint.__dict__}, buffer)
    write_file(path, [buffer.getbuffer()])


def load_checkpoint(path: Path, fingerprint: str, device: torch.device) -> Checkpoint | None:
    """Return the checkpoint of a run, or None if there is none yet."""
    if not path.exists():
        return None
    try:
        found = torch.load(path, map_location=device, weights_only=True)
        checkpoint = Checkpoint(*(found[name] for name in ("fingerprint", "model", "optimizer", "history")))
    except Exception as error:  # torch raises whatever its unpickler and archive reader do
        raise InvalidInputError(
            f"checkpoint={str(path)!r} cannot be read as a checkpoint ({type(error).__name__}): "
            "delete it to start over, or name another file."
        ) from error
    if checkpoint.fingerprint != fingerprint:
        raise InvalidInputError(
            f"checkpoint={str(path)!r} belongs to another run (other images, labels, network, recipe or "
            "seed): name another file, or delete it."
        )
    return checkpoint
