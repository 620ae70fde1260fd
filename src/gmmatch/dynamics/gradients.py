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
from gmmatch.rows.checks import check_whole_number
from gmmatch.scores.logits import el2n, last_layer_grand
from gmmatch.types import Vector

# Bytes of per-sample gradients that are held at a time.
_GRADIENT_BYTES = 256 << 20


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and every part of it back into the mode that it was in.

    Anything else that can be called is left alone.

    Examples
    --------
    >>> model = nn.Dropout()
    >>> with evaluating(model):
    ...     model.training
    False
    >>> model.training
    True
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


def el2n_scores(model: nn.Module, batches: Iterable[Any]) -> Vector:
    """Return EL2N of every row: ‖softmax(logits) − one-hot label‖.

    Parameters
    ----------
    model : torch.nn.Module
        Gives logits of shape (m, classes). It is used in evaluation mode and left as it was.
    batches : iterable of (inputs, labels) or (row numbers, inputs, labels)
        Each row once; a DataLoader, for one. With row numbers the scores are in their order, without
        them in the order in which rows come: then do not shuffle. Moved to the model's device.

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
            (rows, el2n(model(inputs), labels)) for rows, inputs, labels in _batches(model, batches)
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
        The last linear layer alone, which has a closed form and costs a forward pass; or all parameters
        that take a gradient, exactly, by per-sample gradients, which costs a backward pass per row.
    chunk_size : int, optional
        For all parameters: how many rows to differentiate at a time. By default as many as keep their
        gradients within 256 MiB.

    Returns
    -------
    float64 array of shape (n,)

    Notes
    -----
    The model is in evaluation mode, so that batch normalization uses its running statistics: in
    training mode a row would have no gradient of its own.

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


def _last_layer(model: nn.Module, batches: Iterable[Any]) -> Iterator[tuple[Tensor | None, Tensor]]:
    layer = last_linear_layer(model)
    seen: dict[str, Tensor] = {}

    def keep(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        seen["features"], seen["logits"] = inputs[0], output

    handle = layer.register_forward_hook(keep)
    try:
        with torch.no_grad():
            for rows, inputs, labels in _batches(model, batches):
                seen.clear()
                logits = model(inputs)
                last_output = seen.get("logits")
                if last_output is None or not (last_output is logits or torch.equal(last_output, logits)):
                    raise InvalidInputError(
                        'parameters="last-layer": the model\'s output is not that of its last linear layer '
                        f'({layer}); pass parameters="all".'
                    )
                yield rows, last_layer_grand(logits, labels, seen["features"], bias=layer.bias is not None)
    finally:
        handle.remove()


def last_linear_layer(model: nn.Module) -> nn.Linear:
    """Return ``model.head`` if that is a linear layer, else the last linear layer of the model.

    Examples
    --------
    >>> last_linear_layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    Linear(in_features=3, out_features=2, bias=True)
    """
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
    learnt = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not learnt:
        raise InvalidInputError('parameters="all": no parameter of the model takes a gradient.')
    fixed = {name: value.detach() for name, value in model.named_parameters() if name not in learnt}
    fixed |= {name: value.detach() for name, value in model.named_buffers()}
    size = sum(value.numel() * value.element_size() for value in learnt.values())
    at_once = chunk_size or max(1, _GRADIENT_BYTES // size)

    def loss(parameters: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, {**parameters, **fixed}, (one[None],))
        return nn.functional.cross_entropy(logits.float(), label[None])

    def squared_length(one: Tensor, label: Tensor) -> Tensor:
        slopes = grad(loss)(learnt, one, label)
        return torch.stack([slope.float().square().sum() for slope in slopes.values()]).sum()

    squared_lengths = vmap(squared_length)
    for rows, inputs, labels in _batches(model, batches):
        # Fused attention cannot be mapped over rows; its plain form can.
        with sdpa_kernel(SDPBackend.MATH):
            parts = [
                squared_lengths(inputs[start : start + at_once], labels[start : start + at_once])
                for start in range(0, len(inputs), at_once)
            ]
        yield rows, torch.cat(parts).sqrt()


def _batches(model: nn.Module, batches: Iterable[Any]) -> Iterator[tuple[Tensor | None, Tensor, Tensor]]:
    """Yield row numbers where there are any, inputs and labels, on the model's device."""
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
    """Return all scores, in the order of the row numbers where there are any."""
    rows, scores = [], []
    for numbers, values in scored:
        scores.append(values)  # where it is: fetching it now would make a GPU wait
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
