"""Texts without a model: words and pairs of words."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.encoders import load_encoder
from gmmatch.errors import InvalidInputError, InvalidTypeError

SUBJECTS = {
    "fruit": [
        "a red apple on the tree",
        "green apple and yellow pear",
        "ripe pear from the tree",
        "apple pie",
    ],
    "law": ["the court and the tax law", "a judge of the court", "tax law of the state", "the state court"],
}
TEXTS = [text for texts in SUBJECTS.values() for text in texts]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def test_texts_on_one_subject_are_nearer_than_others():
    encoder = load_encoder("words").fit(TEXTS)
    vectors = encoder.encode(encoder.prepare(TEXTS))
    near = vectors @ vectors.T
    assert near[:4, :4].mean() > near[:4, 4:].mean() + 0.1
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_a_text_without_a_known_word_is_a_zero(texts):
    encoder = load_encoder("words").fit(TEXTS)
    assert not encoder.encode(["", "?"]).any()


def test_embed_fits_it_and_the_same_texts_give_the_same_store(texts, tmp_path):
    stores = []
    for name in ("one", "two"):
        gm.embed(open_source(texts), load_encoder("words"), tmp_path / name)
        stores.append(gm.open_store(tmp_path / name))
    assert stores[0].manifest.encoder_fingerprint == stores[1].manifest.encoder_fingerprint
    assert len(stores[0]) == len(TEXTS)


def test_vectors_of_other_texts_are_not_added_to_a_store(texts, tmp_path):
    gm.embed(open_source(texts), load_encoder("words"), tmp_path / "store")
    with texts.open("a") as file:
        file.write(json.dumps({"text": "a pear in court"}) + "\n")
    with pytest.raises(InvalidInputError, match="encoder"):
        gm.embed(open_source(texts), load_encoder("words"), tmp_path / "store")


def test_it_says_that_it_is_not_fitted_and_wants_texts():
    with pytest.raises(InvalidInputError, match="not fitted"):
        load_encoder("words").encode(["a"])
    with pytest.raises(InvalidInputError, match="no texts"):
        load_encoder("words").fit([])
    with pytest.raises(InvalidTypeError, match="takes texts"):
        load_encoder("words").fit([3])
