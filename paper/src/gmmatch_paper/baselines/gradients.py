"""EL2N and GraNd of a trained model: one pass over the rows, in memory that does not grow with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Vector
from gmmatch_paper.checks import check_whole_number

# Bytes of per-sample gradients that are held at a time.
_GRADIENT_BYTES = 256 << 20


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


def softmax_errors(logits: Tensor, labels: Tensor) -> Tensor:
    """Return softmax(logits) minus the one-hot labels: the gradient of the cross-entropy by the logits."""
    weights = torch.exp(logits - logits.amax(dim=1, keepdim=True))
    shares = weights / weights.sum(dim=1, keepdim=True)
    own = labels[:, None] == torch.arange(logits.shape[1], device=logits.device)
    return torch.where(own, shares - 1.0, shares)


def el2n_scores(model: nn.Module, batches: Iterable[Any]) -> Vector:
    """Return EL2N of every row: ‖softmax(logits) − one-hot label‖, from 0 to √2 (Paul et al., 2021).

    Parameters
    ----------
    model : torch.nn.Module
        Gives logits of shape (m, classes). It is used in evaluation mode and left as it was.
    batches : iterable of (inputs, labels) or (row numbers, inputs, labels)
        Each row once, such as a DataLoader. With row numbers the scores are in their order, without them in the order
        of the rows: then do not shuffle. Moved to the model's device.

    Returns
    -------
    float64 array of shape (n,)

    Examples
    --------
    >>> model = nn.Linear(2, 3)
    >>> _ = nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
    >>> el2n_scores(model, [(torch.ones(2, 2), torch.tensor([0, 2]))]).round(3)
    array([0.816, 0.816])
    """
    with evaluating(model), torch.no_grad():
        return _collect(
            (rows, _lengths(_errors_of(model(inputs), labels)))
            for rows, inputs, labels in _read_batches(model, batches)
        )


def grand_scores(
    model: nn.Module,
    batches: Iterable[Any],
    parameters: Literal["last-layer", "all"] = "last-layer",
    *,
    chunk_size: int | None = None,
) -> Vector:
    """Return GraNd of every row: the length of the gradient of its cross-entropy by the parameters.

    Parameters
    ----------
    model, batches
        As for :func:`el2n_scores`.
    parameters : "last-layer" or "all"
        The last linear layer, which has a closed form and costs a forward pass; or all parameters that take a
        gradient, exactly, by per-sample gradients, which costs a backward pass per row.
    chunk_size : int, optional
        For all parameters: how many rows to differentiate at a time. By default as many as keep their gradients
        within 256 MiB.

    Returns
    -------
    float64 array of shape (n,)

    Notes
    -----
    The model is in evaluation mode, so that batch normalization uses its running statistics: in training mode a row
    would have no gradient of its own.

    Examples
    --------
    >>> model = nn.Linear(2, 3)
    >>> batch = (torch.ones(2, 2), torch.tensor([0, 2]))
    >>> np.allclose(grand_scores(model, [batch]), grand_scores(model, [batch], "all"))
    True
    """
    if parameters not in ("last-layer", "all"):
        raise InvalidInputError(f'parameters={parameters!r}: expected "last-layer" or "all".')
    if chunk_size is not None:
        check_whole_number(chunk_size, "chunk_size")
    with evaluating(model):
        if parameters == "last-layer":
            return _collect(_last_layer(model, batches))
        return _collect(_all_parameters(model, batches, chunk_size))


def _errors_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the errors of logits of any type, the class numbers checked where that makes no GPU wait."""
    logits = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    on_host = logits.device.type == "cpu" and len(labels) > 0
    if on_host and not 0 <= int(labels.min()) <= int(labels.max()) < logits.shape[1]:
        raise InvalidInputError(
            f"labels runs from {int(labels.min())} to {int(labels.max())}: expected class numbers from 0 to "
            f"{logits.shape[1] - 1}, for {logits.shape[1]} columns of logits."
        )
    return softmax_errors(logits, labels)


def _lengths(values: Tensor) -> Tensor:
    return (values * values).sum(dim=1).sqrt()


def _last_layer(model: nn.Module, batches: Iterable[Any]) -> Iterator[tuple[Tensor | None, Tensor]]:
    """Yield ‖p − y‖ · ‖(h, 1)‖: the gradient by the weights is (p − y) hᵀ, the one by the bias p − y."""
    layer = last_linear_layer(model)
    last: dict[str, Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        last["features"], last["logits"] = inputs[0], output

    handle = layer.register_forward_hook(keep)
    try:
        with torch.no_grad():
            for rows, inputs, labels in _read_batches(model, batches):
                last.clear()
                logits = model(inputs)
                output = last.get("logits")
                if output is None or not (output is logits or torch.equal(output, logits)):
                    raise InvalidInputError(
                        'parameters="last-layer": the model\'s output is not that of its last linear layer '
                        f'({layer}); pass parameters="all".'
                    )
                errors = _errors_of(logits, labels)
                size = _lengths(last["features"].to(errors.dtype))
                size = (size * size + 1.0) ** 0.5 if layer.bias is not None else size
                yield rows, _lengths(errors) * size
    finally:
        handle.remove()


def last_linear_layer(model: nn.Module) -> nn.Linear:
    """Return ``model.head`` if that is a linear layer, else the last linear layer of the model."""
    head = getattr(model, "head", None)
    if isinstance(head, nn.Linear):
        return head
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    if not layers:
        raise InvalidInputError(
            'parameters="last-layer": the model has no torch.nn.Linear layer; pass parameters="all".'
        )
    return layers[-1]


def _all_parameters(
    model: nn.Module, batches: Iterable[Any], chunk_size: int | None
) -> Iterator[tuple[Tensor | None, Tensor]]:
    learned = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not learned:
        raise InvalidInputError('parameters="all": no parameter of the model takes a gradient.')
    fixed = {name: value.detach() for name, value in model.named_parameters() if name not in learned}
    fixed |= {name: value.detach() for name, value in model.named_buffers()}
    size = sum(value.numel() * value.element_size() for value in learned.values())
    at_once = chunk_size or max(1, _GRADIENT_BYTES // size)

    def loss(parameters: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, {**parameters, **fixed}, (row[None],))
        return nn.functional.cross_entropy(logits.float(), label[None])

    def squared_length(row: Tensor, label: Tensor) -> Tensor:
        gradients = grad(loss)(learned, row, label)
        return torch.stack([gradient.float().square().sum() for gradient in gradients.values()]).sum()

    squared_lengths = vmap(squared_length)
    for rows, inputs, labels in _read_batches(model, batches):
        # Fused attention cannot be mapped over rows; its plain form can.
        with sdpa_kernel(SDPBackend.MATH):
            chunks = [
                squared_lengths(inputs[start : start + at_once], labels[start : start + at_once])
                for start in range(0, len(inputs), at_once)
            ]
        yield rows, torch.cat(chunks).sqrt()


def _read_batches(model: nn.Module, batches: Iterable[Any]) -> Iterator[tuple[Tensor | None, Tensor, Tensor]]:
    """Yield row numbers where given, inputs and labels, on the model's device."""
    device = next((value.device for value in model.parameters()), torch.device("cpu"))
    for batch in batches:
        if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
            raise InvalidInputError(
                "batches must hold (inputs, labels) or (row numbers, inputs, labels); "
                f"got {type(batch).__name__}."
            )
        *rows, inputs, labels = batch
        yield (
            torch.as_tensor(rows[0]) if rows else None,
            torch.as_tensor(inputs).to(device),
            torch.as_tensor(labels).to(device),
        )


def _collect(scored: Iterable[tuple[Tensor | None, Tensor]]) -> Vector:
    """Return all scores, in the order of the row numbers where given."""
    rows, scores = [], []
    for numbers, values in scored:
        scores.append(values)  # on its device: copying it now would make a GPU wait
        rows.append(numbers)
    if not scores:
        raise InvalidInputError("batches is empty: give at least one batch.")
    all_scores: Vector = torch.cat(scores).cpu().double().numpy()
    numbered = [numbers for numbers in rows if numbers is not None]
    if not numbered:
        return all_scores
    order = torch.cat(numbered).cpu().numpy()
    if not np.array_equal(np.sort(order), np.arange(len(all_scores))):
        raise InvalidInputError(
            f"batches must hold each row once: expected the row numbers 0 to {len(all_scores) - 1} in any order."
        )
    return all_scores[np.argsort(order)]
