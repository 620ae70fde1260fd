"""``duplicates="one"``: near-duplicates count, and can be picked, once."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm


@pytest.fixture
def repeated():
    X = np.random.default_rng(0).standard_normal((240, 20))
    X[120:] = X[5]
    return X, np.arange(240) % 3


QUICK = ("gm-matching", "easy", "kernel-herding")


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
        for name in gm.methods()
        if name not in ("forgetting", "robust")
    ],
)
def test_every_method_picks_as_if_duplicates_were_not_there(repeated, method):
    X, y = repeated
    options = {"k": 12, "method": method, "random_state": 0}
    found = gm.select(X, y=y, duplicates="one", **options)
    alone = gm.select(X[:120], y=y[:120], **options)
    if method != "random":
        assert np.array_equal(found.order, alone.order)
    assert not found.mask[120:].any()
    assert found.provenance["duplicates"] == {
        "threshold": gm.duplicates(X).threshold,
        "left_out": 120,
        "n_groups": 1,
        "largest": [{"n_rows": 121, "rows": [5, *range(120, 127)]}],
    }


def test_rows_that_are_picked_already_stay(repeated):
    X, y = repeated
    found = gm.select(X, y=y, k=12, duplicates="one", include=[200])
    assert 200 in found.indices and found.mask[120:].sum() == 1


def test_other_words_are_refused(repeated):
    with pytest.raises(gm.GMMatchError, match='duplicates=\'two\': expected "one" or "keep"'):
        gm.select(repeated[0], k=3, duplicates="two")
