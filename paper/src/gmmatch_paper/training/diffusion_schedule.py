"""How much of an image is left and how much noise is in it, after every step of a diffusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gmmatch.errors import InvalidInputError
from gmmatch_paper.checks import check_whole_number


@dataclass(frozen=True)
class NoiseSchedule:
    """The paper's schedule: β rises in a straight line from ``first`` to ``last``.

    A step is q(x_t | x_{t−1}) = N(√(1 − β_t) x_{t−1}, β_t I). All steps up to t together are
    q(x_t | x_0) = N(√ᾱ_t x_0, (1 − ᾱ_t) I), where ᾱ_t is the product of 1 − β up to t.

    Attributes
    ----------
    steps
        How many there are; time steps are counted from 0.
    first, last
        The smallest and the largest β.
    """

    steps: int = 1000
    first: float = 1e-4
    last: float = 0.02

    def __post_init__(self) -> None:
        check_whole_number(self.steps, "steps")
        if not 0.0 < self.first <= self.last < 1.0:
            raise InvalidInputError(
                f"first={self.first!r}, last={self.last!r}: expected 0 < first ≤ last < 1, as in 1e-4 and 0.02."
            )

    @property
    def betas(self) -> NDArray[np.float64]:
        """The noise that every step adds, shape (steps,)."""
        return np.linspace(self.first, self.last, self.steps, dtype=np.float64)

    @property
    def remaining(self) -> NDArray[np.float64]:
        """ᾱ, the share of the variance that is still the image's, shape (steps,)."""
        return np.cumprod(1.0 - self.betas, dtype=np.float64)

    def factors(self, device: str | torch.device = "cpu") -> tuple[Tensor, Tensor]:
        """Return √ᾱ and √(1 − ᾱ) as float32 on a device: what image and noise are multiplied by."""
        remaining: Any = torch.from_numpy(self.remaining)
        return remaining.sqrt().float().to(device), (1.0 - remaining).sqrt().float().to(device)


def mix(clean: Tensor, noise: Tensor, times: Tensor, factors: tuple[Tensor, Tensor]) -> Tensor:
    """Return images after some steps: √ᾱ · clean + √(1 − ᾱ) · noise, each at its own time."""
    signal, spread = (factor[times].view(-1, *[1] * (clean.dim() - 1)) for factor in factors)
    return signal * clean + spread * noise
