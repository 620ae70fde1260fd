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
    from gmmatch.rows.rows import Rows
    from gmmatch.selection.selection import Selection
    from gmmatch.selectors.base import Selector

# Measured: what Python, its libraries and the compiled loops take before any row is read.
_PROCESS = 180_000_000
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
    "reference": "--reference",
}


def run_selection(
    embeddings: Embeddings,
    *,
    k: str,
    method: str,
    per_class: Any,
    seed: int,
    memory: int | None = None,
    options: dict[str, Any] | None = None,
    near: Embeddings | None = None,
    relabel: float | None = None,
    reference: Embeddings | None = None,
) -> tuple[Selection, float]:
    """Select, and return the selection with its ids and origin, and the seconds it took.

    Picks follow the rows of ``reference``. Rows that have a near-duplicate among those of ``near`` are not picked.
    With ``relabel``, labels are corrected where others are suggested with at least this probability.
    """
    from gmmatch.selectors.registry import make_selector

    options = dict(options or {})
    check_request(embeddings, k=k, method=method, options=options)
    if reference is not None:
        options["reference"] = _reference(embeddings, reference, per_class)
    if memory is not None:
        options |= within_memory(memory, embeddings.shape, method, options)
    if relabel is not None and embeddings.labels is None:
        raise InvalidInputError(
            f"--relabel corrects labels, and {embeddings.path} has none: give some by --labels."
        )
    began = time.perf_counter()
    selector = make_selector(method, k, {**options, "per_class": per_class, "random_state": seed})
    with selector.opened(embeddings.rows, engine=None) as rows:
        found = pick(selector, rows, embeddings.labels, embeddings.ids_of, relabel, near)
    seconds = time.perf_counter() - began
    if reference is not None:
        found.provenance["reference"]["path"] = reference.path
    found.provenance["embeddings"] = embeddings.origin
    return found, seconds


def pick(
    selector: Selector, rows: Rows, labels: Any, ids: Any, relabel: float | None, near: Embeddings | None
) -> Selection:
    """Select from rows that are open, wherever they are; see :func:`run_selection` for the last two."""
    from gmmatch.near_duplicates.left_out import rows_near
    from gmmatch.selectors.relabel import select_relabeled

    asked, facts = {"ids": ids}, {}
    if near is not None:
        asked["exclude"], leaks = rows_near(rows, near.rows)
        facts["excluded_near"] = {"path": near.path, **leaks}
    if relabel is None:
        found = selector.select(rows, labels, **asked)
    else:
        found = select_relabeled(selector, rows, labels, relabel, asked)
    found.provenance.update(facts)
    return found


def _reference(embeddings: Embeddings, reference: Embeddings, per_class: Any) -> Any:
    """Return the rows to follow, with their labels if classes are told apart; raise for another encoder's."""
    same_encoder(embeddings.origin, reference.origin, f"--reference {reference.path}", embeddings.path)
    by_class = embeddings.labels is not None and per_class is not None and reference.labels is not None
    return (reference.rows, reference.labels) if by_class else reference.rows


def same_encoder(one: Mapping[str, Any], other: Mapping[str, Any], given: str, path: str) -> None:
    """Raise if two sets of embeddings are known to come from different encoders.

    Examples
    --------
    >>> same_encoder({"encoder": "a"}, {"encoder": "b"}, "NEW.emb", "old.emb")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: NEW.emb was made by encoder 'b', and old.emb by 'a': embed both by the same one.
    """
    for name in ("encoder_fingerprint", "encoder"):
        mine, theirs = one.get(name), other.get(name)
        if mine is not None and theirs is not None and mine != theirs:
            raise InvalidInputError(
                f"{given} was made by encoder {other.get('encoder')!r}, and {path} by {one.get('encoder')!r}: embed "
                "both by the same one."
            )


def within_memory(
    memory: int, shape: tuple[int, int], method: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parameters by which a method stays within so many bytes; raise if there are too few.

    Examples
    --------
    >>> within_memory(2 * 10**9, (1_000_000, 512), "gm-matching", {"n_jobs": 2})
    {'n_jobs': 2, 'memory_limit': 1640000000}
    """
    from gmmatch.rows.parallel import resolve_jobs
    from gmmatch.selectors.registry import make_selector, method_class

    selector = make_selector(method, None, dict(options))
    least = _PROCESS + selector.least_memory(*shape)
    if memory < least:
        raise InvalidInputError(
            f"--memory {memory:,} bytes is too little for method {selector.method!r} on {shape[0]:,} rows of "
            f"{shape[1]:,} numbers: give at least {least:,}."
        )
    spare, each = memory - least, selector.thread_memory()
    # Half of what can be spared may go to more threads; the picks do not depend on them.
    threads = min(resolve_jobs(selector.n_jobs), 1 + spare // (2 * each))
    found = {"n_jobs": threads}
    if "memory_limit" in {field.name for field in fields(method_class(method))}:
        found["memory_limit"] = spare - (threads - 1) * each
    return found


def check_request(
    embeddings: Embeddings, *, k: str, method: str, options: Mapping[str, Any] | None = None
) -> None:
    """Raise for what cannot be selected, before the rows are read, which may take minutes."""
    from gmmatch.selectors.registry import method_class

    settings = options or {}
    cls = method_class(method)
    check_method_settings(cls, settings)
    resolve_count(k, len(embeddings), replacement=bool(settings.get("replacement")))
    own = {field.name: settings[field.name] for field in fields(cls) if field.name in settings}
    if embeddings.labels is None and cls(**own).needs_labels:
        raise InvalidInputError(
            f"method {cls.method!r} learns from labels, and {embeddings.path} has none: give some by --labels."
        )


def check_method_settings(cls: type[Selector], settings: Mapping[str, Any]) -> None:
    """Raise for settings that have an option of their own, or a value that their parameter cannot have."""
    for name, option in _OWN_OPTIONS.items():
        if name in settings:
            raise InvalidInputError(f"--set {name}=...: use {option} for that.")
    check_settings(cls, settings)
