"""scikit-learn's and imbalanced-learn's own suites, run on every method that takes X and y."""

from __future__ import annotations

import pytest
from imblearn.utils.estimator_checks import parametrize_with_checks as parametrize_with_sampler_checks
from method_kinds import RUNNABLE
from sklearn.utils.estimator_checks import parametrize_with_checks

from gmmatch import method_class

SELECTORS = [method_class(name)(k=0.5, random_state=0) for name in RUNNABLE]
# imbalanced-learn gives pytest a generator, which pytest 10 will not take.
SAMPLER_CHECKS = parametrize_with_sampler_checks(SELECTORS)

# Every check that a budget contradicts, with its reason. No other check is left out.
CONTRADICTIONS = {
    "check_samplers_one_label": (
        "It expects an error when y has a single class, because nothing can be balanced then. "
        "Picking the best tenth of one class is a sensible thing to ask."
    ),
}


# Checks that make regression targets, one-row inputs and so on warn on purpose.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.grid
@parametrize_with_checks(SELECTORS)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.grid
@pytest.mark.parametrize(SAMPLER_CHECKS.args[0], list(SAMPLER_CHECKS.args[1]), **SAMPLER_CHECKS.kwargs)
def test_imbalanced_learn(estimator, check):
    name = getattr(check, "func", check).__name__
    if name in CONTRADICTIONS:
        with pytest.raises(AssertionError):  # if it ever passes, it must leave the list
            check(estimator)
    else:
        check(estimator)
