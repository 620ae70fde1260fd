"""One step of training: forward, backward, update; on CUDA replayed as a whole from a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from gmmatch_paper.training.recipes import Recipe


def make_optimizer(model: nn.Module, recipe: Recipe, device: torch.device) -> torch.optim.Optimizer:
    """Return the recipe's optimizer; on CUDA its learning rate is a tensor that a captured step reads."""
    on_cuda = device.type == "cuda"
    rate: Any = torch.tensor(recipe.learning_rate, device=device) if on_cuda else recipe.learning_rate
    # In the group, as not every constructor takes a tensor.
    groups = [{"params": list(model.parameters()), "lr": rate}]
    options: dict[str, Any] = {"weight_decay": recipe.weight_decay, "fused": on_cuda}
    if recipe.optimizer == "adamw":
        betas = (recipe.momentum, 0.999)
        return torch.optim.AdamW(groups, betas=betas, capturable=on_cuda, **options)
    return torch.optim.SGD(groups, momentum=recipe.momentum, nesterov=recipe.nesterov, **options)


class TrainingStep:
    """Trains a model on one batch after another, all of one size.

    On CUDA the first call captures forward, backward and update in a graph: launching hundreds of small
    kernels takes longer than running them. The model and the optimizer are left as they were before the
    capture. ``loss_sum`` and ``correct`` add up over calls until :meth:`totals` reads them.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe) -> None:
        self.model, self.optimizer, self.recipe = model, optimizer, recipe
        self.device = next(model.parameters()).device
        # Apple's GPUs have no float64.
        precise = torch.float32 if self.device.type == "mps" else torch.float64
        self.loss_sum = torch.zeros((), dtype=precise, device=self.device)
        self.correct = torch.zeros((), dtype=torch.int64, device=self.device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs = self._codes = self._logits = torch.empty(0)
        self.features: Tensor | None = None
        """The input of the last layer, called ``head``, at the last step; overwritten by the next one."""
        head = getattr(model, "head", None)
        self._hook = (
            head.register_forward_pre_hook(self._keep_features) if isinstance(head, nn.Module) else None
        )

    def __call__(self, inputs: Tensor, codes: Tensor, rate: float) -> Tensor:
        """Make one step and return the logits; they are overwritten by the next step."""
        if self.device.type != "cuda":
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            return self._work(inputs, codes)
        if self._graph is None:
            self._capture(inputs, codes)
        for group in self.optimizer.param_groups:
            group["lr"].fill_(rate)
        self._inputs.copy_(inputs)
        self._codes.copy_(codes)
        assert self._graph is not None
        self._graph.replay()
        return self._logits

    def close(self) -> None:
        """Leave the model as it was."""
        if self._hook is not None:
            self._hook.remove()

    def _keep_features(self, head: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        # Held on to, its memory is not used again within a captured step.
        if self.model.training:
            self.features = inputs[0].detach()

    def totals(self) -> tuple[float, int]:
        """Return the summed loss and the rows predicted right since the last call, and start again."""
        found = float(self.loss_sum), int(self.correct)
        self.loss_sum.zero_()
        self.correct.zero_()
        return found

    def _work(self, inputs: Tensor, codes: Tensor) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits: Tensor = self.model(inputs)
        logits = logits.float()
        smoothing = self.recipe.label_smoothing
        loss = nn.functional.cross_entropy(logits, codes, label_smoothing=smoothing)
        loss.backward()
        self.optimizer.step()
        with torch.no_grad():
            self.loss_sum += loss * len(codes)
            self.correct += (logits.argmax(dim=1) == codes).sum()
        return logits.detach()

    def _capture(self, inputs: Tensor, codes: Tensor) -> None:
        self._inputs, self._codes = inputs.clone(), codes.clone()
        restore = _remember(self.model, self.optimizer, [self.loss_sum, self.correct])
        # A few steps on a stream of their own let libraries choose kernels and allocate before the capture.
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._work(self._inputs, self._codes)
        torch.cuda.current_stream(self.device).wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = self._work(self._inputs, self._codes)
        restore()


def _remember(
    model: nn.Module, optimizer: torch.optim.Optimizer, counters: list[Tensor]
) -> Callable[[], None]:
    """Return a function that puts everything a step changes back, in place."""
    before = [(tensor, tensor.clone()) for tensor in [*model.state_dict().values(), *counters]]
    known = {id(value): value.clone() for value in _state_tensors(optimizer)}

    def restore() -> None:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
            for tensor in _state_tensors(optimizer):
                # What the first step created starts at zero in every optimizer used here.
                if id(tensor) in known:
                    tensor.copy_(known[id(tensor)])
                else:
                    tensor.zero_()

    return restore


def _state_tensors(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    return [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)
    ]
