"""The methods by name."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gmmatch.errors import InvalidInputError, UnknownMethodError, did_you_mean, listed, unknown_name

if TYPE_CHECKING:
    from gmmatch.selection.selection import Selection
    from gmmatch.selectors.base import Selector

DEFAULT_METHOD = "robust"
_METHODS = {
    "robust": "_robust:Robust",
    "gm-matching": "_gm_matching:GMMatching",
    "random": "_random:Random",
    "easy": "_easy:Easy",
    "hard": "_hard:Hard",
    "moderate": "_moderate:Moderate",
    "herding": "_herding:Herding",
    "kernel-herding": "_kernel_herding:KernelHerding",
    "moment-matching": "moment_matching:MomentMatching",
    "forgetting": "_forgetting:Forgetting",
    "grand": "_grand:GraNd",
    "el2n": "_el2n:EL2N",
    "optimization": "_optimization:Optimization",
    "self-supervised": "_self_supervised:SelfSupervised",
}

_SELECT_ARGUMENTS = ("sample_weight", "include", "exclude", "ids", "engine")


def methods() -> tuple[str, ...]:
    """Return the names of all methods.

    Examples
    --------
    >>> "gm-matching" in methods()
    True
    """
    return tuple(_METHODS)


def method_class(name: str) -> type[Selector]:
    """Return the class of a method, by its name.

    Examples
    --------
    >>> method_class("easy").__name__
    'Easy'
    """
    key = str(name).lower().replace("_", "-")
    if key not in _METHODS:
        raise unknown_name("method", name, _METHODS, "there is no such method; there are", UnknownMethodError)
    module, _, attribute = _METHODS[key].partition(":")
    found: type[Selector] = getattr(import_module(f"gmmatch.selectors.{module}"), attribute)
    return found


def select(
    X: Any, y: Any = None, *, k: Any = None, method: str = DEFAULT_METHOD, **options: Any
) -> Selection:
    """Pick ``k`` rows of ``X`` by any method, in one call.

    Parameters
    ----------
    X : array of shape (n, s)
        The rows (embeddings); with ``engine`` also a store or ``.npy`` files.
    y : array of shape (n,), optional
        Labels; selection is then per class.
    k : int, float or str, optional
        A count (``500``) or a share (``0.1``, ``"10%"``). By default what a mapping ``per_class`` sums
        to, and a tenth of the rows without one.
    method : str
        One of :func:`methods`. The default screens out rows that are likely mislabeled, outliers or duplicates;
        "gm-matching" is the paper's method.
    **options
        ``relabel=0.95`` corrects labels first where others are suggested with at least this probability (see
        :func:`corrected_labels`), and lets those rows count for their corrected class. Any parameter of the method's
        class, and ``sample_weight``, ``include``, ``exclude``, ``ids`` and
        ``engine``, as for :meth:`GMMatching.select <gmmatch.GMMatching.select>`. With an engine, batches are
        independent (``carry=False``) unless you say otherwise.

    Examples
    --------
    >>> select([[0.0], [1.0], [1.2], [3.0]], k=2, method="easy").indices
    array([1, 2])
    """
    relabel = options.pop("relabel", None)
    arguments = {name: options.pop(name) for name in _SELECT_ARGUMENTS if name in options}
    selector = make_selector(method, k, options, on_engine=arguments.get("engine") is not None)
    if relabel is not None:
        from gmmatch.selectors.relabel import select_relabeled

        return select_relabeled(selector, X, y, relabel, arguments)
    return selector.select(X, y, **arguments)


def make_selector(method: str, k: Any, options: dict[str, Any], *, on_engine: bool = False) -> Selector:
    """Return a method as an object, after checking the names of its parameters."""
    cls = method_class(method)
    known = {field.name for field in fields(cls)}
    for name in options:
        if name not in known:
            others = [one for one in methods() if name in {field.name for field in fields(method_class(one))}]
            hint = did_you_mean(name, [*known, *_SELECT_ARGUMENTS])
            hint = f" It is one of {listed(others)}." if others else hint
            raise InvalidInputError(f"{name}= is not a parameter of method {method!r}.{hint}")
    # Batches on an engine that hand θ on to each other would have to wait for each other.
    independent = {"carry": False} if on_engine and "carry" in known else {}
    return cls(**{"k": k, **independent, **options})
