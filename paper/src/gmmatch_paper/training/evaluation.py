"""What a trained network says: logits, features, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gmmatch_paper.training.images import Images


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its modules back into its own mode afterwards.

    A callable that is no module is left alone.
    """
    if not isinstance(model, nn.Module):
        yield
        return
    before = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in before.items():
            module.training = training


def predict(
    model: nn.Module, images: Images, *, batch_size: int = 1000, of: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Return one row of float32 logits per image, on the images' device, in evaluation mode.

    ``of`` is what to compute instead of the logits, for example ``model.features``.
    """
    compute = model if of is None else of
    on_cuda = images.device.type == "cuda"
    found = []
    with torch.inference_mode(), evaluating(model), torch.autocast("cuda", torch.bfloat16, enabled=on_cuda):
        dtype = torch.bfloat16 if on_cuda else torch.float32
        for _, inputs, _ in images.batches(batch_size, dtype):
            found.append(compute(inputs).float())
    return torch.cat(found)


def top_accuracies(logits: Tensor, codes: Tensor, top: Iterable[int] = (1,)) -> dict[int, float]:
    """Return the share of rows whose class is among the ``t`` largest logits, for every ``t``.

    Ties count for the row only as far as they fit: a class is in the top ``t`` if fewer than ``t`` other
    classes have a logit at least as large.
    """
    own = logits.gather(1, codes[:, None])
    others = (logits >= own).sum(dim=1) - 1
    return {t: float((others < t).double().mean()) for t in top}


def accuracy(model: nn.Module, images: Images, top: Iterable[int] = (1,)) -> dict[int, float]:
    """Return top-1 (and other) accuracy of a model on images."""
    return top_accuracies(predict(model, images), images.codes, top)
