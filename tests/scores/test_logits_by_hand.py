"""Scores of logits, worked by hand, and which end of them is kept."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.scores.logits import el2n, last_layer_grand, margins


@pytest.mark.parametrize("method", ["forgetting", "grand", "el2n", "self-supervised"])
def test_rankings_by_a_model_keep_the_highest_scores(method):
    assert gm.select(np.eye(4), k=2, method=method, scores=[0.1, 0.9, 0.5, 0.7]).order.tolist() == [1, 3]


def test_a_row_predicted_wrongly_has_the_high_el2n_and_grand_and_the_low_margin():
    logits, labels = np.array([[4.0, 0.0], [4.0, 0.0]]), np.array([0, 1])
    for score in (el2n(logits, labels), last_layer_grand(logits, labels, np.ones((2, 3)))):
        assert score[1] > score[0]
    assert margins(logits, labels).tolist() == [4.0, -4.0]


def test_el2n_by_hand():
    """Probabilities 3/4 and 1/4."""
    logits = np.log([[3.0, 1.0]])
    assert el2n(logits, np.array([0]))[0] == pytest.approx(np.sqrt(2) / 4)
    assert el2n(logits, np.array([1]))[0] == pytest.approx(3 * np.sqrt(2) / 4)


def test_one_class_is_never_wrong():
    logits, labels = np.array([[3.0], [-1.0]]), np.array([0, 0])
    assert el2n(logits, labels).tolist() == [0.0, 0.0]
    assert margins(logits, labels).tolist() == [0.0, 0.0]
