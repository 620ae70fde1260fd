"""Running a method on what a command was given."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from gmmatch.cli.io.arguments import check_settings
from gmmatch.errors import InvalidInputError
from gmmatch.selection.budget import resolve_count

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.selection.selection import Selection
    from gmmatch.selectors.base import Selector

# What Python and the compiled loops take before any row is read, and the least that a matching can work in.
_OVERHEAD = 200_000_000
_LEAST_WORKING = 16_000_000
# A parameter that the command has an option of its own for.
_OWN_OPTIONS = {
    "X": "INPUT",
    "y": "--labels",
    "k": "-k",
    "method": "--method",
    "per_class": "--per-class",
    "random_state": "--seed",
    "memory_limit": "--memory",
    "ids": "--id-column",
}
# What the methods that learn from labels take in place of them.
_IN_PLACE_OF_LABELS = ("scores", "dynamics", "vectors")


def run_selection(
    embeddings: Embeddings,
    *,
    k: str,
    method: str,
    per_class: Any,
    seed: int,
    memory: int | None = None,
    options: dict[str, Any] | None = None,
) -> tuple[Selection, float]:
    """Select, and return the selection with its ids and origin, and the seconds it took."""
    from gmmatch.selectors.registry import method_class, select

    options = dict(options or {})
    check_request(embeddings, k=k, method=method, options=options)
    known = {field.name for field in fields(method_class(method))}
    if memory is not None and "memory_limit" in known:
        if memory - _OVERHEAD < _LEAST_WORKING:
            raise InvalidInputError(
                f"--memory {memory:,} bytes is too little: give at least {_OVERHEAD + _LEAST_WORKING:,}."
            )
        options["memory_limit"] = memory - _OVERHEAD
    began = time.perf_counter()
    found = select(
        embeddings.rows,
        y=embeddings.labels,
        k=k,
        method=method,
        per_class=per_class,
        random_state=seed,
        ids=embeddings.ids_of,
        **options,
    )
    seconds = time.perf_counter() - began
    found.provenance["embeddings"] = embeddings.origin
    return found, seconds


def check_request(
    embeddings: Embeddings, *, k: str, method: str, options: Mapping[str, Any] | None = None
) -> None:
    """Raise for what cannot be selected, before the rows are read, which may take minutes."""
    from gmmatch.selectors._optimization import Optimization
    from gmmatch.selectors.model_scores import ModelRanking
    from gmmatch.selectors.registry import method_class

    settings = options or {}
    cls = method_class(method)
    check_method_settings(cls, settings)
    resolve_count(k, len(embeddings), replacement=bool(settings.get("replacement")))
    given = any(settings.get(name) is not None for name in _IN_PLACE_OF_LABELS)
    if embeddings.labels is None and issubclass(cls, (ModelRanking, Optimization)) and not given:
        raise InvalidInputError(
            f"method {cls.method!r} learns from labels, and {embeddings.path} has none: give some by --labels."
        )


def check_method_settings(cls: type[Selector], settings: Mapping[str, Any]) -> None:
    """Raise for settings that have an option of their own, or a value that their parameter cannot have."""
    for name, option in _OWN_OPTIONS.items():
        if name in settings:
            raise InvalidInputError(f"--set {name}=...: use {option} for that.")
    check_settings(cls, settings)
