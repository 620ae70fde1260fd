"""Rules that find wrong labels: ``gm.screen``, the same with parts left out, single rules, and cleanlab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

import gmmatch as gm
from benchmarks.noise_cells import Answer, Cell, predict_out_of_fold, standardize
from gmmatch.screening import channel, evidence, labels, learners, posterior

P = NDArray[np.float64]


def screen(cell: Cell) -> Answer:
    """Ask ``gm.screen``."""
    result = gm.screen(cell.rows, cell.given, duplicates="keep", random_state=cell.seed)
    low, high = result.noise_interval or (np.nan, np.nan)
    rate = np.nan if result.noise_rate is None else result.noise_rate
    # Rows that are wrong as rows, whatever their labels, are those of benchmarks.corrupted_rows.
    wrong = (result.verdict == "wrong") & (result.reason == "mislabeled")
    doubtful = result.verdict == "doubtful"
    well = "No label looks wrong" in result.summary or "Nothing speaks against" in result.summary
    return Answer(result.suspicion.astype(np.float64), wrong, doubtful, rate, low, high, well)


def single_rules(cell: Cell) -> Iterator[tuple[str, Answer]]:
    """Yield what simple rules say: a label is wrong where an out-of-fold model predicts another one."""
    regression = predict_out_of_fold(cell.rows, cell.given, cell.seed)
    n_classes = regression.shape[1]
    count = min(30, max(5, len(cell.given) // n_classes // 4))
    models = {
        "discriminant analysis": LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        "neighbors": KNeighborsClassifier(count, weights="distance"),
    }
    yield "regression", _disagree(regression, cell.given)
    for name, model in models.items():
        yield name, _disagree(_predict(model, cell, n_classes), cell.given)
    if find_spec("cleanlab") is not None:
        from cleanlab.filter import find_label_issues
        from cleanlab.rank import get_label_quality_scores

        issues = find_label_issues(cell.given, regression, n_jobs=1)
        quality = get_label_quality_scores(cell.given, regression)
        yield "cleanlab", Answer(-quality, issues, np.zeros_like(issues))


def _predict(model: Any, cell: Cell, n_classes: int) -> P:
    values, p = standardize(cell.rows), np.zeros((len(cell.given), n_classes))
    folds = StratifiedKFold(3, shuffle=True, random_state=cell.seed)
    for train, test in folds.split(values, cell.given):
        fitted = model.fit(values[train], cell.given[train])
        p[np.ix_(test, fitted.classes_)] = fitted.predict_proba(values[test])
    return p


def _disagree(p: P, given: NDArray[np.int64]) -> Answer:
    wrong = p.argmax(axis=1) != given
    own = p[np.arange(len(given)), given].copy()
    p = p.copy()
    p[np.arange(len(given)), given] = 0.0
    suspicion = np.log(p.max(axis=1) + 1e-9) - np.log(own + 1e-9)
    return Answer(suspicion, wrong, np.zeros_like(wrong))


@contextmanager
def left_out(part: str) -> Iterator[None]:
    """Run ``gm.screen`` without a part of its model."""
    with ExitStack() as patches:
        for owner, name, replacement in ABLATIONS[part]:
            patches.enter_context(patch.object(owner, name, replacement))
        yield


def _explain_plainly(
    found: evidence.Evidence, seed: int
) -> tuple[posterior.Explanation, posterior.Posterior]:
    plain = channel.fit_channel(found.scores, found.labels, noisy=False)
    explanation = posterior.Explanation(plain, sure=False, informed=True)
    return explanation, explanation.apply(found.scores, None, found.labels)


def _predict_average(found: evidence.Evidence, *arguments: Any) -> evidence.Scores:
    return _PREDICT(found, *arguments).mean(axis=0, keepdims=True)


def _keep_background(counts: NDArray[Any]) -> channel.Noise:
    noise, n_classes = _ESTIMATE(counts), len(counts)
    rate = noise.background + noise.pairs.sum() / max(1, n_classes * (n_classes - 1))
    noise = channel.Noise(rate, np.zeros_like(noise.pairs))
    return channel.Noise(min(rate, noise.ceiling), noise.pairs)


def _without(learner: str) -> Callable[..., list[learners.Learner]]:
    def make(*arguments: Any) -> list[learners.Learner]:
        made = _MAKE(*arguments)
        return [one for one in made if type(one).__name__ != learner]

    return make


_PREDICT, _ESTIMATE, _MAKE = (
    evidence.Evidence._predict,
    channel.estimate_noise,
    learners.make_learners,
)
# What is left out, and what stands in its place while it is: owner, attribute, value.
ABLATIONS: dict[str, list[tuple[Any, str, Any]]] = {
    "the noise model (a plain stack of learners)": [(labels, "explain", _explain_plainly)],
    "weights of learners (their mean)": [(evidence.Evidence, "_predict", _predict_average)],
    "the raised background": [(posterior, "raise_background", lambda fitted, scores, given: fitted)],
    "pairs of classes that stand out": [
        (posterior, "estimate_noise", _keep_background),
        (channel, "estimate_noise", _keep_background),
    ],
    "the second explanation": [(posterior, "_MAX_CLASSES", 0)],
    "learners fitted again": [(evidence.Evidence, "refit", lambda found, drawn: found.scores[:0])],
    "the choice (always the second)": [(posterior, "_compare", lambda *arguments: 99.0)],
    **{
        words: [(labels, "make_learners", _without(learner))]
        for learner, words in (
            ("Regression", "regression"),
            ("Neighbors", "neighbors"),
            ("Trees", "trees"),
        )
    },
}
