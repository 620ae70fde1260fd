"""One update of a diffusion model; on CUDA replayed as a whole from a graph."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from gmmatch_paper.training.diffusion_recipes import DiffusionRecipe
from gmmatch_paper.training.diffusion_schedule import mix
from gmmatch_paper.training.step import TrainingStep


class DiffusionStep(TrainingStep):
    """One update: noise is drawn and added, the network predicts it, the weights move.

    Called with row numbers, times and the learning rate. The images and the noise are fetched and drawn
    inside the captured graph, so that a replay needs nothing but these few numbers.

    On CUDA a copy of the network in bfloat16 predicts, and the weights that move are in float32. Automatic
    casting would give the same numbers, but casts every weight and every gradient in a kernel of its own: nearly
    half of all that is launched.

    Parameters
    ----------
    model, optimizer
        The network with the weights that move.
    recipe
        Of the training.
    pixels : uint8 tensor of shape (n, height, width, channels)
        The images.
    dtype
        In which the network predicts: bfloat16 on CUDA and float32 elsewhere, unless it is given.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        recipe: DiffusionRecipe,
        pixels: Tensor,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(model, optimizer, recipe.updates)
        self.pixels, self.factors = pixels, recipe.noise.factors(pixels.device)
        self.dtype = dtype or (torch.bfloat16 if self.device.type == "cuda" else torch.float32)
        self.worker = model if self.dtype == torch.float32 else copy.deepcopy(model).to(self.dtype)
        self._weights, self._copies = list(model.parameters()), list(self.worker.parameters())

    def prepare(self, rows: Tensor, times: Tensor) -> None:
        """Capture the graph, where there is one, before the seed is set: this draws numbers too."""
        self._share_weights()
        if self.device.type == "cuda" and self._graph is None:
            # cuDNN tries its kernels and takes the fastest.
            with torch.backends.cudnn.flags(enabled=True, benchmark=True):
                self._capture(rows, times)
            self._share_weights()

    def _work(self, rows: Tensor, times: Tensor) -> Tensor:
        self.worker.zero_grad(set_to_none=True)
        clean = (self.pixels[rows].float() / 127.5 - 1.0).permute(0, 3, 1, 2)
        noise = torch.randn_like(clean)
        noisy = mix(clean, noise, times, self.factors)
        predicted: Tensor = self.worker(
            noisy.to(self.dtype).contiguous(memory_format=torch.channels_last), times
        )
        loss = nn.functional.mse_loss(predicted.float(), noise)
        loss.backward()
        if self.worker is not self.model:
            self._fetch_gradients()
        self.optimizer.step()
        self._share_weights()
        with torch.no_grad():
            self.loss_sum += loss * len(rows)
        return loss.detach()

    def _fetch_gradients(self) -> None:
        for weight in self._weights:
            weight.grad = torch.empty_like(weight)
        # A gradient lies in memory as its weight does, but may count its steps along dimensions of one otherwise:
        # told in the weight's way, all are copied at once.
        found = [each.grad.as_strided(each.shape, each.stride()) for each in self._copies]
        torch._foreach_copy_([weight.grad for weight in self._weights], found)

    def _share_weights(self) -> None:
        if self.worker is not self.model:
            with torch.no_grad():
                torch._foreach_copy_(self._copies, self._weights)
