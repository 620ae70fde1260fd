"""The direction of every score is settled in one place, and holds for what the scores measure."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.scores.logits import el2n, last_layer_grand, margins
from gmmatch.scores.score import AREA_UNDER_MARGIN, SCORES


def test_every_ranking_by_a_score_of_a_model_names_one_of_them():
    by_name = {name: gm.method_class(name) for name in gm.methods()}
    ranked = {name: cls.ranked_by for name, cls in by_name.items() if hasattr(cls, "ranked_by")}
    assert set(ranked) == {"forgetting", "grand", "el2n", "self-supervised"}
    assert ranked == {name: SCORES[name] for name in ranked}


def test_a_row_predicted_wrongly_has_the_high_el2n_and_grand_and_the_low_margin():
    logits, labels = np.array([[4.0, 0.0], [4.0, 0.0]]), np.array([0, 1])
    for score in (el2n(logits, labels), last_layer_grand(logits, labels, np.ones((2, 3)))):
        assert score[1] > score[0]
    assert margins(logits, labels).tolist() == [4.0, -4.0]
    assert AREA_UNDER_MARGIN.keep == "highest"  # the rows that are labelled rightly


def test_el2n_by_hand():
    """Probabilities 3/4 and 1/4."""
    logits = np.log([[3.0, 1.0]])
    assert el2n(logits, np.array([0]))[0] == pytest.approx(np.sqrt(2) / 4)
    assert el2n(logits, np.array([1]))[0] == pytest.approx(3 * np.sqrt(2) / 4)


def test_one_class_is_never_wrong():
    logits, labels = np.array([[3.0], [-1.0]]), np.array([0, 0])
    assert el2n(logits, labels).tolist() == [0.0, 0.0]
    assert margins(logits, labels).tolist() == [0.0, 0.0]
