"""``gmmatch select --engine``."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from gmmatch import Selection
from gmmatch.cli import build_app
from gmmatch.embeddings import StoreWriter


@pytest.fixture
def store(clouds, tmp_path):
    with StoreWriter(
        tmp_path / "x.emb", encoder="mine", encoder_fingerprint="1", rows_per_shard=500
    ) as writer:
        writer.append(clouds, ids=[f"r{i}" for i in range(3000)], labels=[i % 2 for i in range(3000)])
        writer.finish()
    return tmp_path / "x.emb"


def gmmatch(*arguments):
    result = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*arguments):
    result = gmmatch(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    return result.stderr


def test_an_engine_gives_a_selection_with_ids_and_labels(store, tmp_path):
    picks = tmp_path / "picks.parquet"
    plain = tmp_path / "plain.parquet"
    typed = ("select", store, "-k", "2%", "-m", "gm-matching", "-o")
    done = gmmatch(*typed, picks, "--engine", "local", "--workers", 3, "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["k"] == 60 and [group["picked"] for group in facts["groups"]] == [30, 30]
    assert "3 workers (local):" in done.stderr and "sent to them" in done.stderr
    assert gmmatch(*typed, plain).exit_code == 0
    found, usual = Selection.load(picks), Selection.load(plain)
    assert found.indices.tolist() == usual.indices.tolist()  # one batch of each class: the same algorithm
    assert found.ids.tolist() == [f"r{row}" for row in found.indices]
    assert found.provenance["embeddings"]["store"] == str(store)


def test_a_page_can_be_written(store, tmp_path):
    page = tmp_path / "page.html"
    arguments = ("--engine", "local", "--workers", 2, "--report", page, "--labels", "none")
    done = gmmatch("select", store, "-k", 40, "-o", tmp_path / "p.json", *arguments)
    assert done.exit_code == 0, done.stderr
    assert "40" in page.read_text(encoding="utf-8")
    assert Selection.load(tmp_path / "p.json").counts == {None: 40}


def test_an_unreadable_shard_ends_the_command_without_an_output(store, tmp_path):
    (store / "shard-000000000500-000000001000.npy").write_bytes(b"")
    picks = tmp_path / "picks.json"
    said = refused("select", store, "-k", 30, "-o", picks, "--engine", "local")
    assert "shard-000000000500-000000001000.npy cannot be read" in said
    assert not picks.exists()
    done = gmmatch("select", store, "-k", 30, "-o", picks, "--engine", "local", "--skip-unreadable")
    assert done.exit_code == 0
    assert "Left out:" in done.stderr and "shard-000000000500-000000001000.npy" in done.stderr
    rows = Selection.load(picks).indices
    assert len(rows) == 30 and not np.any((rows >= 500) & (rows < 1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", 2], "--workers goes with --engine"),
        (["--skip-unreadable"], "--skip-unreadable goes with --engine"),
        (["--engine", "local", "--address", "auto"], "--address goes with --engine ray"),
        (["--engine", "local", "--memory", "2GB"], "--memory has no meaning with --engine"),
        (["--engine", "local", "--method", "el2n"], "trains a model, which an engine does not"),
        (["--engine", "local", "--set", "k=3"], "use -k for that"),
    ],
)
def test_options_that_do_not_go_together(store, tmp_path, options, message):
    assert message in refused("select", store, "-k", 30, "-o", tmp_path / "p.json", *options)


def test_other_formats_are_told_the_way_to_a_store(tmp_path, clouds):
    np.savez(tmp_path / "x.npz", clouds)
    said = refused("select", tmp_path / "x.npz", "-k", 3, "-o", tmp_path / "p.json", "--engine", "local")
    assert "reads stores and .npy files" in said
