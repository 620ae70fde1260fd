"""Methods by name, ``select``, and selections made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

from gmmatch._array import RandomState
from gmmatch.budget import Budget, PerClass
from gmmatch.errors import InvalidInputError, UnknownMethodError, did_you_mean, listed, unknown_name
from gmmatch.groups import Unlabeled
from gmmatch.methods.base import Method
from gmmatch.methods.record import from_json
from gmmatch.preprocess import Preprocess
from gmmatch.problem import Screen
from gmmatch.selection.selection import Selection

DEFAULT_METHOD = "robust"
METHODS = {
    "robust": "gmmatch.methods.robust:Robust",
    "gm-matching": "gmmatch.methods.matching:GMMatching",
    "random": "gmmatch.methods.random:Random",
    "easy": "gmmatch.methods.ranking:Easy",
    "hard": "gmmatch.methods.ranking:Hard",
    "moderate": "gmmatch.methods.ranking:Moderate",
    "herding": "gmmatch.methods.matching:Herding",
    "kernel-herding": "gmmatch.methods.matching:KernelHerding",
    "matching": "gmmatch.methods.matching:Matching",
    "by-score": "gmmatch.methods.ranking:ByScore",
}
# Baselines of the paper that train a model; another distribution brings them.
_PAPER_METHODS = ("forgetting", "grand", "el2n", "optimization", "self-supervised")
_GROUP = "gmmatch.methods"


def methods() -> tuple[str, ...]:
    """Return the names of all methods, those of other installed distributions last.

    Examples
    --------
    >>> "gm-matching" in methods()
    True
    """
    return tuple(_locations())


def _locations() -> dict[str, str]:
    return METHODS | {
        point.name: point.value for point in sorted(entry_points(group=_GROUP), key=lambda p: p.name)
    }


def method_class(name: str) -> type[Method]:
    """Return the class of a method, by its name.

    Examples
    --------
    >>> method_class("easy").__name__
    'Easy'
    """
    key = str(name).lower().replace("_", "-")
    location = METHODS.get(key) or _locations().get(key)
    if location is None:
        if key in _PAPER_METHODS:
            raise UnknownMethodError(f"method={name!r} comes with gmmatch-paper, which is not installed.")
        raise unknown_name("method", name, methods(), "no such method; there are", UnknownMethodError)
    module, _, attribute = location.partition(":")
    cls: type[Method] = getattr(import_module(module), attribute)
    return cls


def make_method(name: str, options: Mapping[str, Any]) -> Method:
    """Return a method as an object, after checking the names of its parameters."""
    cls = method_class(name)
    known = {field.name for field in fields(cls)}
    for option in options:
        if option not in known:
            owners = [
                other for other in METHODS if option in {field.name for field in fields(method_class(other))}
            ]
            arguments = [*known, *signature(cls.select).parameters]
            hint = f" It is one of {listed(owners)}." if owners else did_you_mean(option, arguments)
            raise InvalidInputError(f"{option}= is not a parameter of method {name!r}.{hint}")
    return cls(**options)


def select(
    X: Any,
    y: Any = None,
    *,
    k: Budget | None = None,
    method: str = DEFAULT_METHOD,
    per_class: PerClass = "proportional",
    screening: Screen | str | None = "default",
    random_state: RandomState = None,
    sample_weight: Any = None,
    include: Any = None,
    exclude: Any = None,
    ids: Any = None,
    reference: Any = None,
    reference_weight: float = 1.0,
    scores: Any = None,
    pred_probs: Any = None,
    answers: Any = None,
    preprocess: Preprocess = None,
    unlabeled: Unlabeled = "drop",
    engine: Any = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> Selection:
    """Pick ``k`` rows of ``X`` by any method, in one call.

    Parameters
    ----------
    X, y, sample_weight, include, exclude, ids, reference, reference_weight, scores, pred_probs, answers,
    preprocess,     unlabeled, \
engine, memory_limit, n_jobs
        As in :meth:`GMMatching.select <gmmatch.GMMatching.select>`.
    k, per_class, random_state
        As in :class:`~gmmatch.GMMatching`.
    method : str
        One of :func:`methods`. The default screens out rows that are likely mislabeled, outliers or duplicates;
        "gm-matching" is the paper's method.
    screening : Screening, None or "default"
        Which rows may be picked at all; by default what the method does: ``robust`` screens, the others do not.
    **options
        Any other parameter of the method's class, such as ``target=GeometricMedian(eps=1e-6)``.

    Returns
    -------
    Selection

    Examples
    --------
    >>> select([[0.0], [1.0], [1.2], [3.0]], k=2, method="easy").indices
    array([1, 2])
    """
    shared: dict[str, Any] = {"k": k, "per_class": per_class, "random_state": random_state}
    if not (isinstance(screening, str) and screening == "default"):
        shared["screening"] = screening
    return make_method(method, {**shared, **options}).select(
        X, y, sample_weight=sample_weight, include=include, exclude=exclude, ids=ids, reference=reference,
        reference_weight=reference_weight, scores=scores, pred_probs=pred_probs, answers=answers,
        preprocess=preprocess, unlabeled=unlabeled, engine=engine, memory_limit=memory_limit, n_jobs=n_jobs,
    )  # fmt: skip


def method_from_record(provenance: Mapping[str, Any], **changes: Any) -> Method:
    """Return the method that made a selection, with its parameters and seed; ``changes`` are other parameters."""
    if not {"method", "parameters", "seed"} <= set(provenance):
        raise InvalidInputError("How this selection was made is not recorded: only select's can be rerun.")
    parameters = {name: from_json(value) for name, value in provenance["parameters"].items()}
    return make_method(provenance["method"], {**parameters, "random_state": provenance["seed"], **changes})


def rerun(selection: Selection, X: Any, y: Any = None, **changes: Any) -> Selection:
    """Select again as a selection was made: the same method, parameters and random seed.

    Parameters
    ----------
    selection : Selection
    X, y
        Rows and labels: the same ones for the same picks, or others.
    **changes
        Parameters of the method that are to differ (``k=200``), and arguments of ``select`` that the selection does
        not hold: ``ids``, ``sample_weight``, ``include``, ``exclude``, ``reference``, ``scores``, ``pred_probs``,
        ``answers``.

    Returns
    -------
    Selection

    Examples
    --------
    >>> X = [[0.0], [1.0], [1.2], [3.0]]
    >>> rerun(select(X, k=2, method="easy"), X, k=1).indices
    array([2])
    """
    provenance = selection.provenance
    if "updates" in provenance:
        raise InvalidInputError("This selection was updated: rerun the first one, and update it again.")
    names = set(signature(Method.select).parameters)
    arguments = {name: changes.pop(name) for name in list(changes) if name in names}
    per_row = [
        name
        for name in ("sample_weight", "include", "exclude", "scores", "pred_probs", "answers")
        if name in provenance["input"]
    ]
    per_row += ["reference"] * ("reference" in provenance)
    missing = [name for name in per_row if name not in arguments]
    if missing:
        words = " and ".join(f"{name}=" for name in missing)
        raise InvalidInputError(f"The selection was made with {words}, which it lacks: pass it again.")
    if provenance.get("preprocess"):
        arguments.setdefault("preprocess", provenance["preprocess"])
    if "reference" in provenance:
        arguments.setdefault("reference_weight", provenance["reference"]["weight"])
    again = method_from_record(provenance, **changes).select(X, y, **arguments)
    return again.prefix(selection.k) if "prefix" in provenance and "k" not in changes else again
