"""Vision models: the same numbers as transformers gives, by the same path for tiny and real models."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra gmmatch[vision]: torch")
pytest.importorskip("transformers", reason="needs the extra gmmatch[vision]: transformers")
pytest.importorskip("PIL", reason="needs the extra gmmatch[vision]: Pillow")

import torch
import transformers
from PIL import Image

from gmmatch.encoders import TransformersEncoder, load_encoder
from gmmatch.errors import DataFileNotFoundError, InvalidInputError

from .models import MODELS, picture


def own_processor(folder):
    with_pillow = {"backend": "pil"} if transformers.__version__[0] > "4" else {"use_fast": False}
    return transformers.AutoImageProcessor.from_pretrained(folder, **with_pillow)


def own_model(folder, name):
    if name == "clip-vision":
        return transformers.CLIPVisionModelWithProjection.from_pretrained(folder).eval()
    if name == "vit-classifier":
        return transformers.ViTModel.from_pretrained(folder, add_pooling_layer=False).eval()
    return transformers.AutoModel.from_pretrained(folder).eval()


def direct(folder, name, images):
    """What someone who knows the model would write, a picture at a time."""
    own, model = own_processor(folder), own_model(folder, name)
    vectors = []
    for image in images:
        pixels = own(images=image, return_tensors="pt")["pixel_values"]
        with torch.no_grad():
            if name == "clip":
                vision = model.vision_model(pixel_values=pixels)
                vectors.append(model.visual_projection(vision.pooler_output))
                continue
            output = model(pixel_values=pixels)
        if name == "clip-vision":
            vectors.append(output.image_embeds)
        elif name == "vit-classifier":
            vectors.append(output.last_hidden_state[:, 0])
        else:
            vectors.append(output.pooler_output.flatten(1))
    return torch.cat(vectors).numpy()


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_those_of_a_direct_forward_pass(model_folder, name):
    folder = model_folder(name)
    images = [picture(seed, size) for seed, size in enumerate([(40, 32), (32, 40), (64, 64), (40, 32)])]
    encoder = TransformersEncoder(str(folder), device="cpu")
    vectors = encoder.encode(encoder.prepare(images))
    expected = direct(folder, name, images)
    assert vectors.dtype == np.float32
    assert vectors.shape == (4, encoder.n_features)
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)
    assert np.ptp(expected, axis=0).max() > 0.01  # pictures differ by far more than the tolerance


def test_pooling_from_the_last_hidden_state(model_folder):
    folder = model_folder("dinov2")
    image = picture(3)
    pixels = own_processor(folder)(images=image, return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        hidden = own_model(folder, "dinov2")(pixel_values=pixels).last_hidden_state
    for pooling, expected in (("cls", hidden[:, 0]), ("mean", hidden.mean(dim=1))):
        encoder = TransformersEncoder(str(folder), device="cpu", pooling=pooling)
        vectors = encoder.encode(encoder.prepare([image]))
        np.testing.assert_allclose(vectors, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_pooling_cls_of_a_network_without_cls_token(model_folder):
    with pytest.raises(InvalidInputError, match="pooling='cls': ResNetModel has no CLS token"):
        TransformersEncoder(str(model_folder("resnet")), pooling="cls")


def test_a_pooler_without_weights_is_not_used(model_folder):
    """transformers would fill it with random numbers, other ones each time."""
    first, second = (TransformersEncoder(str(model_folder("vit-classifier"))) for _ in range(2))
    assert first.pooling == "cls"
    assert first.fingerprint == second.fingerprint
    images = [picture(1)]
    assert np.array_equal(first.encode(first.prepare(images)), second.encode(second.prepare(images)))


# ------------------------------------------------------------------------------------- preprocessing


def saved(image, path, **options):
    image.save(path, **options)
    return path


def sixteen_bit():
    return Image.fromarray(np.asarray(picture(5, mode="L")).astype(np.uint16) * 257)


SORTS = {
    "rgb.png": lambda path: saved(picture(1), path),
    "photo.jpg": lambda path: saved(picture(2, (110, 101)), path),
    "gray.png": lambda path: saved(picture(3, mode="L"), path),
    "rgba.png": lambda path: saved(picture(4, mode="RGBA"), path),
    "palette.gif": lambda path: saved(picture(5).convert("P"), path),
    "cmyk.jpg": lambda path: saved(picture(6, mode="CMYK"), path),
    "sixteen.png": lambda path: saved(sixteen_bit(), path),
    "animated.gif": lambda path: saved(
        picture(7).convert("P"), path, save_all=True, append_images=[picture(8).convert("P")]
    ),
    "bilevel.png": lambda path: saved(picture(9, mode="1"), path),
}

# What plain Pillow makes of the file; for 16 bits it would cut every level above 255 off.
PLAIN = {
    "sixteen.png": lambda path: picture(5, mode="L").convert("RGB"),
    "animated.gif": lambda path: Image.open(path).convert("RGB"),
}


@pytest.mark.grid
@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("name", ["clip", "resnet", "uncropped", "vit", "dinov2"])
def test_preprocessing_is_the_model_s_own_to_the_last_bit(model_folder, tmp_path, name, sort):
    folder = model_folder(name)
    path = SORTS[sort](tmp_path / sort)
    plain = PLAIN.get(sort, lambda path: Image.open(path).convert("RGB"))(path)
    expected = own_processor(folder)(images=plain, return_tensors="np")["pixel_values"][0]
    [ready] = TransformersEncoder(str(folder), device="cpu").prepare([path])
    assert ready.dtype == np.float32
    assert np.array_equal(ready, expected)


def test_a_large_photograph_is_decoded_at_the_size_needed(model_folder, tmp_path, monkeypatch):
    from PIL import JpegImagePlugin

    small = picture(2, (64, 48))
    path = saved(small.resize((1600, 1200), Image.Resampling.BICUBIC), tmp_path / "large.jpg", quality=95)
    encoder = TransformersEncoder(str(model_folder("vit")), device="cpu")
    [ready] = encoder.prepare([path])
    sizes = []
    load = JpegImagePlugin.JpegImageFile.load
    monkeypatch.setattr(
        JpegImagePlugin.JpegImageFile, "load", lambda image: sizes.append(image.size) or load(image)
    )
    [again] = encoder.prepare([path])
    assert max(max(size) for size in sizes) <= 400 and np.array_equal(ready, again)
    [whole] = encoder.prepare([Image.open(path).convert("RGB")])
    assert np.abs(ready - whole).mean() < 0.05 * np.ptp(whole)


def test_pictures_of_several_shapes_come_back_in_order(model_folder):
    encoder = TransformersEncoder(str(model_folder("uncropped")), device="cpu")
    images = [picture(seed, (40, 32) if seed % 3 else (32, 56)) for seed in range(9)]
    ready = encoder.prepare(images)
    assert len({pixels.shape for pixels in ready}) == 2
    together = encoder.encode(ready)
    alone = np.concatenate([encoder.encode([pixels]) for pixels in ready])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    assert np.abs(alone[1:] - alone[:-1]).max(axis=1).min() > 1e-3


def test_image_size_replaces_the_processor_s(model_folder):
    folder = str(model_folder("uncropped"))
    [ready] = TransformersEncoder(folder, device="cpu", image_size=48).prepare([picture(1, (40, 40))])
    assert ready.shape == (3, 48, 48)


# --------------------------------------------------------------------------------------- fingerprint


def test_the_fingerprint_changes_with_all_that_changes_the_vectors(model_folder, tmp_path):
    folder = model_folder("dinov2")
    plain = TransformersEncoder(str(folder), device="cpu")
    other_weights = tmp_path / "weights"
    shutil.copytree(folder, other_weights)
    assert load_encoder(other_weights, device="cpu").fingerprint == plain.fingerprint
    model = own_model(folder, "dinov2")
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1
    model.save_pretrained(other_weights)
    other_pixels = tmp_path / "pixels"
    shutil.copytree(folder, other_pixels)
    settings = json.loads((other_pixels / "preprocessor_config.json").read_text())
    settings["image_mean"][0] += 0.01
    (other_pixels / "preprocessor_config.json").write_text(json.dumps(settings))
    fingerprints = {
        plain.fingerprint,
        TransformersEncoder(str(other_weights), device="cpu").fingerprint,
        TransformersEncoder(str(other_pixels), device="cpu").fingerprint,
        TransformersEncoder(str(folder), device="cpu", pooling="mean").fingerprint,
        TransformersEncoder(str(folder), device="cpu", dtype="bfloat16").fingerprint,
    }
    assert len(fingerprints) == 5
    assert all(len(text) == 64 for text in fingerprints)


def test_half_precision_is_near_single_precision(model_folder):
    folder, images = str(model_folder("clip")), [picture(1), picture(2)]
    single, half = (
        TransformersEncoder(folder, device="cpu", dtype=dtype) for dtype in ("float32", "float16")
    )
    exact, rounded = (encoder.encode(encoder.prepare(images)) for encoder in (single, half))
    assert rounded.dtype == np.float16
    np.testing.assert_allclose(rounded, exact, atol=5e-3)
    assert not np.array_equal(rounded.astype(np.float32), exact)
    narrow = TransformersEncoder(folder, device="cpu", dtype="bfloat16")
    assert narrow.encode(narrow.prepare(images)).dtype == np.float32


# -------------------------------------------------------------------------------------------- errors


def test_a_folder_that_is_no_model_is_one_line(tmp_path):
    with pytest.raises(InvalidInputError) as error:
        load_encoder(str(tmp_path))
    assert str(error.value).startswith(f"encoder={str(tmp_path)!r} cannot be loaded as a vision model")
    assert "\n" not in str(error.value)


def test_a_checkpoint_with_holes_is_refused(model_folder, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "holes"
    shutil.copytree(model_folder("vit"), folder)
    weights = load_file(folder / "model.safetensors")
    [gone] = [name for name in weights if name.endswith("layernorm.bias")]
    del weights[gone]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InvalidInputError, match=r"no weights for layernorm.bias \(1 missing\)"):
        load_encoder(str(folder))


def test_a_folder_that_is_not_there():
    with pytest.raises(DataFileNotFoundError, match="there is no such folder"):
        load_encoder("./models/clip")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "tpu"}, "device='tpu': no such device here"),
        ({"dtype": "int8"}, "dtype='int8': use auto, float32 or float16 or bfloat16"),
        ({"pooling": "max"}, "pooling='max': use auto, cls or mean"),
        ({"prompt": "x"}, "prompt= is not an option"),
    ],
)
def test_bad_options_are_named(model_folder, options, message):
    with pytest.raises(InvalidInputError, match=message):
        load_encoder(str(model_folder("vit")), **options)
