"""gmmatch picks the examples of a noisy dataset that are worth training on.

Public names load when they are first used, so that importing the package costs little.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

_WHERE = {
    "BudgetCurve": "gmmatch.curve.curve",
    "Certificate": "gmmatch.certificate.certify",
    "CheckSample": "gmmatch.certificate.sample",
    "Dynamics": "gmmatch.dynamics.recorder",
    "EL2N": "gmmatch.selectors._el2n",
    "Duplicates": "gmmatch.near_duplicates.result",
    "Easy": "gmmatch.selectors._easy",
    "Forgetting": "gmmatch.selectors._forgetting",
    "GMMatchError": "gmmatch.errors",
    "GMMatching": "gmmatch.selectors._gm_matching",
    "GraNd": "gmmatch.selectors._grand",
    "Hard": "gmmatch.selectors._hard",
    "Herding": "gmmatch.selectors._herding",
    "KernelHerding": "gmmatch.selectors._kernel_herding",
    "Laplacian": "gmmatch.kernels.kernels",
    "Linear": "gmmatch.kernels.kernels",
    "Moderate": "gmmatch.selectors._moderate",
    "MomentMatching": "gmmatch.selectors.moment_matching",
    "Optimization": "gmmatch.selectors._optimization",
    "Polynomial": "gmmatch.kernels.kernels",
    "RBF": "gmmatch.kernels.kernels",
    "Random": "gmmatch.selectors._random",
    "Robust": "gmmatch.selectors._robust",
    "Screening": "gmmatch.screening.result",
    "Selection": "gmmatch.selection.selection",
    "SelfSupervised": "gmmatch.selectors._self_supervised",
    "budget_curve": "gmmatch.curve.curve",
    "certify": "gmmatch.certificate.certify",
    "check_sample": "gmmatch.certificate.sample",
    "corrected_labels": "gmmatch.screening.corrected",
    "duplicates": "gmmatch.near_duplicates.search",
    "errors": "",
    "geometric_median": "gmmatch.median",
    "method_class": "gmmatch.selectors.registry",
    "methods": "gmmatch.selectors.registry",
    "metrics": "",
    "screen": "gmmatch.screening.screen",
    "select": "gmmatch.selectors.registry",
}

__all__ = sorted([*_WHERE, "__version__"])

if TYPE_CHECKING:
    from gmmatch import errors, metrics
    from gmmatch.certificate.certify import Certificate, certify
    from gmmatch.certificate.sample import CheckSample, check_sample
    from gmmatch.curve.curve import BudgetCurve, budget_curve
    from gmmatch.dynamics.recorder import Dynamics
    from gmmatch.errors import GMMatchError
    from gmmatch.kernels.kernels import RBF, Laplacian, Linear, Polynomial
    from gmmatch.median import geometric_median
    from gmmatch.near_duplicates.result import Duplicates
    from gmmatch.near_duplicates.search import duplicates
    from gmmatch.screening.corrected import corrected_labels
    from gmmatch.screening.result import Screening
    from gmmatch.screening.screen import screen
    from gmmatch.selection.selection import Selection
    from gmmatch.selectors._easy import Easy
    from gmmatch.selectors._el2n import EL2N
    from gmmatch.selectors._forgetting import Forgetting
    from gmmatch.selectors._gm_matching import GMMatching
    from gmmatch.selectors._grand import GraNd
    from gmmatch.selectors._hard import Hard
    from gmmatch.selectors._herding import Herding
    from gmmatch.selectors._kernel_herding import KernelHerding
    from gmmatch.selectors._moderate import Moderate
    from gmmatch.selectors._optimization import Optimization
    from gmmatch.selectors._random import Random
    from gmmatch.selectors._robust import Robust
    from gmmatch.selectors._self_supervised import SelfSupervised
    from gmmatch.selectors.moment_matching import MomentMatching
    from gmmatch.selectors.registry import method_class, methods, select


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gmmatch' has no attribute {name!r}")
    module = import_module(_WHERE[name] or f"gmmatch.{name}")
    value = getattr(module, name) if _WHERE[name] else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
