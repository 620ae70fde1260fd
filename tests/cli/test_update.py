"""``select --updatable`` and ``gmmatch update``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gmmatch as gm


def by_another_encoder(manifest):
    """A manifest that names another encoder, without the checksum that would tell that it was changed."""
    document = json.loads(manifest.read_text(encoding="utf-8"))
    del document["sha256"]
    return document | {"encoder": {**document["encoder"], "name": "other"}}


@pytest.fixture
def stores(succeeds, tmp_path):
    random = np.random.default_rng(0)
    X, y = random.standard_normal((300, 4)).astype(np.float32), np.arange(300) % 2
    for name, part in (("old", slice(0, 200)), ("new", slice(200, 300))):
        np.save(tmp_path / f"{name}.npy", X[part])
        np.save(tmp_path / f"{name}_labels.npy", y[part])
        succeeds("embed", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.emb", "--encoder", "identity")
    return X, y


def test_an_update_replaces_the_picks_and_keeps_their_number(succeeds, refused, stores, tmp_path):
    X, y = stores
    picks = tmp_path / "picks.parquet"
    labels = {name: ("--labels", tmp_path / f"{name}_labels.npy") for name in ("old", "new")}
    asked = ("select", tmp_path / "old.emb", "-k", 20, *labels["old"], "--method", "herding")
    assert ".parquet file" in refused(*asked, "-o", tmp_path / "picks.json", "--updatable")
    succeeds(*asked, "-o", picks, "--updatable")
    assert "per class" in refused("update", picks, tmp_path / "new.emb")
    facts = succeeds("update", picks, tmp_path / "new.emb", *labels["new"], "--json")
    assert facts["k"] == 20 and facts["n_rows"] == 300
    found = gm.Selection.load(picks)
    direct = (
        gm.Herding(k=20, updatable=True, random_state=0).select(X[:200], y[:200]).update(X[200:], y[200:])
    )
    assert np.array_equal(found.order, direct.order)
    assert found.provenance["updates"][0]["embeddings"]["encoder"] == "identity"
    assert "n_rows: 100" in succeeds("info", picks) and "picks_replaced" in succeeds("info", picks)
    before = picks.read_bytes()
    assert succeeds("update", picks, tmp_path / "new.emb", *labels["new"], "--json")["n_rows"] == 300
    assert picks.read_bytes() == before  # repeated in place, as after a kill
    succeeds("update", picks, tmp_path / "new.emb", *labels["new"], "-o", tmp_path / "more.parquet")
    assert gm.Selection.load(tmp_path / "more.parquet").n_rows == 400
    manifest = tmp_path / "new.emb" / "manifest.json"
    manifest.write_text(json.dumps(by_another_encoder(manifest)))
    assert "was made by encoder 'other'" in refused("update", picks, tmp_path / "new.emb", *labels["new"])
