"""Model folders that somebody else made: code that they name or hide in a pickle is not run."""

from __future__ import annotations

import json
import shutil

import pytest

pytest.importorskip("torch", reason="needs the extra gmmatch[vision]: torch")
pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")

import torch
from safetensors.torch import load_file

from gmmatch.encoders import load_encoder
from gmmatch.errors import InvalidInputError

from .models import Executed

PAYLOAD = "joblib._store_backends.numpy_pickle"
ROUTER = "sentence_transformers.sentence_transformer.modules.router.Router"
DENSE = "sentence_transformers.base.modules.dense.Dense"


@pytest.fixture
def folder(model_folder, tmp_path):
    return shutil.copytree(model_folder("resnet"), tmp_path / "model")


def pickle_weights(folder, mark=None):
    """Replace safe weights by a pickle, which makes a folder if it is run."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(weights if mark is None else {**weights, "x": Executed(mark)}, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("module", "config", "named"),
    [
        (PAYLOAD, {}, PAYLOAD),
        (ROUTER, {"types": {"payload": PAYLOAD}}, PAYLOAD),
        (ROUTER, {"types": {"0": ROUTER}, "structure": [{"types": {"1": PAYLOAD}}]}, PAYLOAD),
        (DENSE, {"activation_function": "os.system"}, "os.system"),
    ],
)
def test_classes_that_a_text_model_names_are_its_library_s_own(tmp_path, module, config, named):
    modules = [{"idx": 0, "name": "0", "path": "0", "type": module}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInputError) as error:
        load_encoder(str(tmp_path), kind="text", trust_pickle=True)
    assert f"has code of its own ({named}), which gmmatch never runs" in str(error.value)


@pytest.mark.parametrize("name", ["payload", "0/payload.joblib", "weights.npy", "modeling.py", "model.h5"])
def test_a_file_of_a_kind_that_is_not_known_has_to_be_trusted(folder, name):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"\x80\x04")
    with pytest.raises(InvalidInputError) as error:
        load_encoder(str(folder), device="cpu")
    assert f"a file of a kind that is not known ({name})" in str(error.value)
    assert load_encoder(str(folder), device="cpu", trust_pickle=True).n_features == 16


@pytest.mark.parametrize("decoy", ["decoy.safetensors", "0/model.safetensors", None])
def test_a_pickle_that_would_be_loaded_has_to_be_trusted(folder, tmp_path, decoy):
    """Whatever lies beside it."""
    if decoy is not None:
        (folder / decoy).parent.mkdir(exist_ok=True)
        shutil.copy(folder / "model.safetensors", folder / decoy)
    pickle_weights(folder, tmp_path / "executed")
    with pytest.raises(InvalidInputError, match=r"its weights as a pickle \(pytorch_model.bin\)"):
        load_encoder(str(folder), device="cpu")
    with pytest.raises(InvalidInputError, match="cannot be loaded"):  # it is trusted, but runs nothing
        load_encoder(str(folder), device="cpu", trust_pickle=True)
    assert not (tmp_path / "executed").exists()


def test_trusted_pickles_give_the_same_encoder(folder):
    safe = load_encoder(str(folder), device="cpu").fingerprint
    pickle_weights(folder)
    assert load_encoder(str(folder), device="cpu", trust_pickle=True).fingerprint == safe


def test_a_pickle_beside_safe_weights_is_not_read(folder):
    (folder / "pytorch_model.bin").write_bytes(b"no weights at all")
    assert load_encoder(str(folder), device="cpu").n_features == 16


def test_a_pickle_from_the_hub_has_to_be_trusted(model_folder, tmp_path, monkeypatch):
    """As the cache of the hub has it: there no folder is named whose files could be looked through before."""
    cache = tmp_path / "models--some--model"
    snapshot = cache / "snapshots" / ("a" * 40)
    shutil.copytree(model_folder("resnet"), snapshot)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("a" * 40)
    pickle_weights(snapshot)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path), raising=False)
    with pytest.raises(InvalidInputError, match="its weights as a pickle only, which can run code"):
        load_encoder("some/model", device="cpu")
    assert load_encoder("some/model", device="cpu", trust_pickle=True).n_features == 16
