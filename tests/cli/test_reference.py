"""``select --reference``: picks that follow other embeddings, and encoders that do not go together."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm

from .test_update import by_another_encoder


@pytest.fixture
def files(tmp_path):
    random = np.random.default_rng(0)
    domain = np.arange(200) % 2
    X = 6.0 * domain[:, None] + random.standard_normal((200, 3))
    np.save(tmp_path / "rows.npy", X.astype(np.float32))
    np.save(tmp_path / "task.npy", (6.0 + random.standard_normal((30, 3))).astype(np.float32))
    return domain


def test_picks_follow_the_reference(succeeds, refused, files, tmp_path):
    rows, task, picks = tmp_path / "rows.npy", tmp_path / "task.npy", tmp_path / "picks.parquet"
    asked = ("select", rows, "-k", 20, "-o", picks, "--method", "kernel-herding", "--force")
    facts = succeeds(*asked, "--reference", task, "--json")
    assert facts["provenance"]["reference"]["path"] == str(task)
    assert (files[gm.Selection.load(picks).indices] == 1).all()
    succeeds(*asked, "--reference", task, "--reference-weight", "0.5", "--report", tmp_path / "page.html")
    assert 0.5 < (files[gm.Selection.load(picks).indices] == 1).mean() < 1.0
    assert "30 reference rows" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "go with --reference" in refused(*asked, "--reference-weight", "0.5")
    assert "does not run on an engine" in refused(*asked, "--reference", task, "--engine", "local")
    assert "is not a parameter" in refused(*asked[:-2], "easy", "--force", "--reference", task)


def test_another_encoder_is_refused(succeeds, refused, files, tmp_path):
    for name, encoder in (("rows", "identity"), ("task", "identity")):
        succeeds("embed", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.emb", "--encoder", encoder)
    asked = ("select", tmp_path / "rows.emb", "-k", 20, "-o", tmp_path / "picks.parquet", "--reference")
    succeeds(*asked, tmp_path / "task.emb")
    manifest = tmp_path / "task.emb" / "manifest.json"
    manifest.write_text(json.dumps(by_another_encoder(manifest)))
    assert "was made by encoder 'other'" in refused(*asked, tmp_path / "task.emb", "--force")
