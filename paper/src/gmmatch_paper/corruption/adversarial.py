"""Images that a given model gets wrong: projected gradient descent and the gradient-sign attack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch_paper.checks import check_number, check_whole_number
from gmmatch_paper.corruption.result import Corrupted, one_kind
from gmmatch_paper.corruption.seeding import RateAndSeed, row_stream
from gmmatch_paper.training.evaluation import evaluating


@dataclass(frozen=True, kw_only=True)
class _Attack(RateAndSeed, ABC):
    """What both attacks share: the rows, the ball, and how the model is handled."""

    epsilon: float = 8 / 255
    batch_size: int = 256

    name = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self.epsilon, "epsilon")
        check_whole_number(self.batch_size, "batch_size")

    def apply(self, images: Any, labels: Any, model: Callable[[Any], Any]) -> Corrupted:
        """Return a copy of the images, some of them attacked.

        Parameters
        ----------
        images : float tensor or array of shape (n, ...)
            With values from 0 to 1, on any device; what the model takes, so usually (n, c, h, w).
        labels : integer tensor or array of shape (n,)
            The true classes as numbers of the model's outputs, which the attack leads away from.
        model : callable
            From images to logits of shape (n, classes); a ``torch.nn.Module`` is attacked in evaluation
            mode and left as it was, with no gradients in its parameters. Batches are moved to the device
            of its parameters. A normalization of the images belongs into the model.

        Returns
        -------
        Corrupted
            Its ``data`` is of the type and on the device of ``images``.
        """
        clean = _as_images(images)
        classes = torch.as_tensor(np.asarray(labels) if not torch.is_tensor(labels) else labels)
        if classes.shape != clean.shape[:1] or classes.is_floating_point():
            raise InvalidInputError(
                f"labels has shape {tuple(classes.shape)} and dtype {classes.dtype}: give one integer per image, "
                f"shape ({len(clean)},)."
            )
        mask = self.choose(len(clean)).copy()
        chosen = torch.as_tensor(np.flatnonzero(mask))
        device, dtype = _place_of(model, clean)
        with evaluating(model), torch.inference_mode(False), torch.enable_grad():
            attacked = clean.clone()
            for rows in torch.split(chosen, self.batch_size):
                here = rows.to(clean.device)
                # Cloned, as tensors made in inference mode take no part in gradients.
                x = clean[here].detach().to(device, dtype).clone()
                y = classes[rows.to(classes.device)].to(device).long()
                attacked[here] = self._attack(model, x, y, rows.tolist()).to(clean)
        data = attacked if torch.is_tensor(images) else attacked.cpu().numpy()
        return Corrupted(data, mask, one_kind(self.name, mask))

    @abstractmethod
    def _attack(self, model: Callable[[Any], Any], x: Any, y: Any, rows: list[int]) -> Any:
        """Return the attacked images of a batch."""

    def _uphill(self, model: Callable[[Any], Any], x: Any, y: Any) -> Any:
        """The sign of the loss's gradient."""
        x = x.detach().requires_grad_(True)
        # Summed rather than averaged, so that an image's gradient does not depend on the batch.
        loss = functional.cross_entropy(model(x), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, [x])
        return gradient.sign()


@dataclass(frozen=True, kw_only=True)
class PGD(_Attack):
    """Projected gradient descent (Madry et al., 2018): steps uphill from a random point, kept within the ball.

    Parameters
    ----------
    epsilon : float
        The largest change of a pixel, on the scale from 0 to 1.
    step : float, optional
        Change of a pixel per iteration; by default a quarter of ``epsilon``.
    iterations : int
        How many steps.
    batch_size : int
        Images at a time; the result does not depend on it, but for the last digits of a model's own.
    rate, seed
        Share of the images that are attacked, and what decides which; see
        :class:`~gmmatch_paper.corruption.ImageCorruption`.

    Examples
    --------
    >>> model = torch.nn.Linear(2, 2)
    >>> images, labels = torch.full((3, 2), 0.5), torch.tensor([0, 1, 0])
    >>> result = PGD(epsilon=0.1).apply(images, labels, model)
    >>> bool((result.data - images).abs().max() <= 0.1 + 1e-6), result.counts
    (True, {'pgd': 3})
    """

    step: float | None = None
    iterations: int = 10

    name = "pgd"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is not None:
            check_number(self.step, "step", above_zero=True)
        check_whole_number(self.iterations, "iterations")

    def _attack(self, model: Callable[[Any], Any], x: Any, y: Any, rows: list[int]) -> Any:
        low, high = (x - self.epsilon).clamp(min=0.0), (x + self.epsilon).clamp(max=1.0)
        step = self.epsilon / 4 if self.step is None else self.step
        shape = tuple(x.shape[1:])
        draws = [row_stream(self.seed, row).uniform(-1.0, 1.0, size=shape) for row in rows]
        noise = torch.as_tensor(np.stack(draws), dtype=x.dtype, device=x.device)
        x = torch.clamp(x + self.epsilon * noise, low, high)
        for _ in range(self.iterations):
            x = torch.clamp(x + step * self._uphill(model, x, y), low, high)
        return x


@dataclass(frozen=True, kw_only=True)
class FGSM(_Attack):
    """The fast gradient-sign method (Goodfellow et al., 2015): one step of full length uphill.

    Examples
    --------
    >>> model = torch.nn.Linear(2, 2)
    >>> FGSM(epsilon=0.1, rate=0.5).apply(torch.full((4, 2), 0.5), torch.tensor([0, 1, 0, 1]), model).counts
    {'fgsm': 2}
    """

    name = "fgsm"

    def _attack(self, model: Callable[[Any], Any], x: Any, y: Any, rows: list[int]) -> Any:
        return torch.clamp(x + self.epsilon * self._uphill(model, x, y), 0.0, 1.0)


def _as_images(images: Any) -> Any:
    tensor = images.detach() if torch.is_tensor(images) else torch.as_tensor(np.asarray(images))
    if not tensor.is_floating_point():
        raise InvalidTypeError(f"images has dtype {tensor.dtype}: give floats from 0 to 1 (images / 255).")
    if tensor.ndim < 2:
        raise InvalidInputError(f"images has shape {tuple(tensor.shape)}: give images of shape (n, ...).")
    if tensor.numel() and not (tensor.min() >= 0.0 and tensor.max() <= 1.0):  # NaN fails too
        raise InvalidInputError(
            f"images has values from {float(tensor.min()):.4g} to {float(tensor.max()):.4g}: they go from 0 to 1, "
            "and a normalization belongs into the model."
        )
    return tensor


def _place_of(model: Any, images: Any) -> tuple[Any, Any]:
    """The device and the type of the model's parameters; those of the images if it has none."""
    parameters = model.parameters() if isinstance(model, torch.nn.Module) else iter(())
    first = next(parameters, images)
    return first.device, first.dtype
