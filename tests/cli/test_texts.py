"""Texts at the command line: from several columns, without broken rows, counted, and known by their ids."""

from __future__ import annotations

import json

import pytest

import gmmatch as gm


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def broken(tmp_path):
    """Six lines, of which the second is cut, the fourth has no text and the fifth has a number."""
    path = tmp_path / "broken.jsonl"
    cells = ['"a b"}', '"c', '"d"}', "null}", "5}", '"e"}']
    path.write_text("".join(f'{{"body": {cell}\n' for cell in cells))
    return path


def test_a_template_joins_columns_with_line_ends_as_they_are_typed(tmp_path, text_encoder, succeeds):
    pairs = [{"instruction": "ab", "output": "cde"}, {"instruction": "", "output": "wx"}]
    path, store = write(tmp_path / "x.jsonl", pairs), tmp_path / "x.emb"
    succeeds("embed", path, "-o", store, "-e", text_encoder, "--text", r"{instruction}\n{output}")
    assert gm.open_store(store).to_numpy([0, 1]).tolist() == [[6, 0], [3, 1]]
    assert gm.open_store(store).source["opened_with"]["text_column"] == "{instruction}\n{output}"


@pytest.mark.parametrize("encoder", ["function", "words"])
def test_broken_rows_are_skipped_if_asked(broken, tmp_path, text_encoder, encoder, succeeds, refused):
    encoder = text_encoder if encoder == "function" else encoder
    command = ("embed", broken, "-o", tmp_path / "x.emb", "-e", encoder)
    line = refused(*command)  # about the damaged line; the missing text alone would be skipped
    assert f"line 2 of {broken} cannot be read" in line and "--on-error 'skip'" in line
    done = succeeds(*command, "--on-error", "skip", "--force", "--json")
    reasons = ("is not valid JSON", "has no text in column 'body'", "has int in column 'body'")
    assert [row["row"] for row in done["skipped"]] == [1, 3, 4]
    assert all(reason in row["reason"] for reason, row in zip(reasons, done["skipped"], strict=True))
    assert gm.open_store(tmp_path / "x.emb").source_rows.tolist() == [0, 2, 5]


def test_rows_after_broken_ones_are_exported_as_they_were(broken, tmp_path, text_encoder, succeeds):
    store, picks, out = tmp_path / "x.emb", tmp_path / "picks.parquet", tmp_path / "out.jsonl"
    succeeds("embed", broken, "-o", store, "-e", text_encoder, "--on-error", "skip")
    succeeds("select", store, "-k", 3, "-m", "easy", "-o", picks, "--report", tmp_path / "x.html")
    succeeds("export", picks, broken, "-o", out)
    lines = broken.read_text().splitlines()
    assert out.read_text().splitlines() == [lines[0], lines[2], lines[5]]


def test_a_column_named_id_is_used_by_embed_as_by_select(tmp_path, text_encoder, succeeds, gmmatch):
    path = write(tmp_path / "x.jsonl", [{"id": f"t{i}", "text": "w" * i} for i in range(4)])
    for options, ids in (([], ["t0", "t1", "t2", "t3"]), (["--id-column", ""], [0, 1, 2, 3])):
        succeeds("embed", path, "-o", tmp_path / "x.emb", "-e", text_encoder, "--force", *options)
        assert gm.open_store(tmp_path / "x.emb").ids.tolist() == ids
    twice = write(tmp_path / "twice.jsonl", [{"id": "same", "text": "a"}, {"id": "same", "text": "b"}])
    result = gmmatch("embed", twice, "-o", tmp_path / "y.emb", "-e", text_encoder)
    assert "column 'id' is not taken as ids, as values are missing or the same" in result.stderr
    assert gm.open_store(tmp_path / "y.emb").ids.tolist() == [0, 1]


def test_info_counts_empty_identical_and_unusable_texts(tmp_path, broken, succeeds):
    texts = ["a", "b", "a", " ", "", "a", "c"]
    path = write(tmp_path / "x.jsonl", [{"text": text} for text in texts])
    assert succeeds("info", path, "--json")["texts"] == {"empty": 2, "identical": 2, "unusable": 0}
    assert succeeds("info", broken, "--json")["texts"] == {"empty": 0, "identical": 0, "unusable": 3}
    assert "texts.identical" in succeeds("info", path)
    none = write(tmp_path / "y.jsonl", [{"text": None}, {"text": ""}])
    assert succeeds("info", none, "--json")["texts"] == {"empty": 1, "identical": 0, "unusable": 1}


def test_missing_texts_are_skipped_and_counted(tmp_path, text_encoder, succeeds):
    path = write(tmp_path / "x.jsonl", [{"text": "ab"}, {"text": None}, {"text": "c"}])
    done = succeeds("embed", path, "-o", tmp_path / "x.emb", "-e", text_encoder, "--json")
    assert done["n_rows"] == 2 and [row["row"] for row in done["skipped"]] == [1]
