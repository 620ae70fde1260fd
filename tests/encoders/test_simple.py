"""Pixels, functions, vectors as they are, and finding them by name."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gmmatch.encoders import CallableEncoder, IdentityEncoder, load_encoder
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

from .models import picture

# -------------------------------------------------------------------------------------------- pixels


def test_pixels_of_a_picture_of_that_size_are_the_picture():
    pytest.importorskip("PIL", reason="needs the extra gmmatch[vision]: Pillow")
    image = picture(1, (5, 4))
    encoder = load_encoder("pixels:4x5")
    vectors = encoder.encode(encoder.prepare([image, image.transpose(0)]))
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, encoder.n_features) == (2, 60)
    np.testing.assert_array_equal(vectors[0], np.asarray(image, dtype=np.float32).ravel() / 255)
    gray = load_encoder("pixels:4x5:gray")
    [vector] = gray.encode(gray.prepare([image]))
    np.testing.assert_array_equal(vector, np.asarray(image.convert("L"), dtype=np.float32).ravel() / 255)
    assert load_encoder("pixels").fingerprint == load_encoder("pixels:32x32").fingerprint != gray.fingerprint


@pytest.mark.parametrize("spec", ["pixels:0x4", "pixels:8", "pixels:8x", "pixels:8x8:grey"])
def test_bad_pixel_sizes(spec):
    with pytest.raises(InvalidInputError, match="write pixels, pixels:HxW or pixels:HxW:gray"):
        load_encoder(spec)


# ------------------------------------------------------------------------------------------ identity


@pytest.mark.parametrize(
    ("given", "returned"), [("f2", "f2"), ("f4", "f4"), ("f8", "f4"), ("i8", "f4"), ("u1", "f4")]
)
def test_identity_keeps_floats_and_makes_float32_of_the_rest(given, returned):
    rows = np.arange(6).reshape(3, 2).astype(given)
    encoder = IdentityEncoder()
    vectors = encoder.encode(encoder.prepare(rows))
    assert vectors.dtype == np.dtype(returned)
    assert vectors.tolist() == rows.tolist()


# ----------------------------------------------------------------------------------------- functions


def count_letters(texts):
    return np.array([[text.count("a"), text.count("b")] for text in texts])


def test_a_function_gets_texts_as_they_are():
    encoder = load_encoder(count_letters, kind="text")
    assert encoder.encode(encoder.prepare(["ab", "aab", "c"])).tolist() == [[1, 1], [2, 1], [0, 0]]
    assert encoder.n_features == 2


def test_a_function_gets_pictures_decoded(tmp_path):
    pytest.importorskip("PIL", reason="needs the extra gmmatch[vision]: Pillow")
    picture(1, (9, 4), "L").save(tmp_path / "gray.png")
    encoder = load_encoder(lambda images: [[image.size[0], len(image.getbands())] for image in images])
    assert encoder.encode(encoder.prepare([tmp_path / "gray.png"])).tolist() == [[9, 3]]


def test_a_function_may_return_a_tensor(torch):

    def embed(texts):
        return torch.ones(len(texts), 3, dtype=torch.bfloat16, requires_grad=True)

    assert load_encoder(embed, kind="text").encode(["a", "b"]).tolist() == [[1.0] * 3] * 2


@pytest.mark.parametrize("result", [np.zeros(2), np.zeros((3, 1)), np.array([["a"], ["b"]])])
def test_a_function_that_returns_something_else_is_named(result):
    encoder = CallableEncoder(lambda texts: result, "text", name="mine")
    with pytest.raises(InvalidInputError, match=r"encoder='mine' returned.*of shape \(2, features\)"):
        encoder.encode(["a", "b"])


SOURCE = "import numpy as np\ndef embed(texts):\n    return np.array([[len(text)] for text in texts])\n"


def test_a_function_by_module_in_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "my_encoders.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    encoder = load_encoder("my_encoders:embed", kind="text")
    assert encoder.encode(["abc"]).tolist() == [[3.0]]
    assert encoder.name == "my_encoders:embed"
    assert sys.path == path
    monkeypatch.delitem(sys.modules, "my_encoders")


def test_a_function_by_file_and_its_fingerprint(tmp_path):
    for name, source in (("one", SOURCE), ("same", SOURCE), ("other", SOURCE.replace("len(text)", "2"))):
        (tmp_path / f"{name}.py").write_text(source)
    fingerprints = [
        load_encoder(f"{tmp_path}/{name}.py:embed", kind="text").fingerprint
        for name in ("one", "same", "other")
    ]
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]


def test_an_object_says_itself_what_it_is():
    class Model:
        kind, batch_size = "text", 5

        def __init__(self, weights):
            self.fingerprint = weights

        def __call__(self, texts):
            return np.zeros((len(texts), 1))

    encoder = load_encoder(Model("v1"))
    assert (encoder.kind, encoder.batch_size) == ("text", 5)
    assert encoder.fingerprint == load_encoder(Model("v1")).fingerprint
    assert encoder.fingerprint != load_encoder(Model("v2")).fingerprint


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("no_such_module:embed", InvalidInputError, "there is no module 'no_such_module'"),
        ("math:no_such", InvalidInputError, "math has no function 'no_such'"),
        ("math:pi", InvalidTypeError, "'math:pi' is a float, not a function"),
        ("no/such/file.py:embed", DataFileNotFoundError, "there is no file"),
        ("bad.py:embed", InvalidInputError, "cannot be imported: No module named 'no_such_package_at_all'"),
        (3, InvalidTypeError, "encoder has type int"),
    ],
)
def test_functions_that_are_not_there(tmp_path, monkeypatch, spec, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("import no_such_package_at_all\n")
    with pytest.raises(error, match=message):
        load_encoder(spec)


def test_vectors_need_no_model():
    with pytest.raises(InvalidInputError, match="the rows are vectors already"):
        load_encoder("openai/clip-vit-base-patch32", kind="embedding")
    assert load_encoder(None, kind="embedding").name == "identity"


def test_options_that_an_encoder_does_not_have():
    with pytest.raises(InvalidInputError, match="pooling= is not an option of encoder='identity'"):
        load_encoder("identity", pooling="cls")
