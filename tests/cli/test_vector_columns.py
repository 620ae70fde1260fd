"""Tables with a column of vectors among others: which column is selected from, and which one names the rows."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import gmmatch as gm

ROWS = np.random.default_rng(2).normal(size=(30, 3)).astype(np.float32)
OTHER = np.random.default_rng(3).normal(size=(30, 3)).astype(np.float32)
TEXTS = [f"row {i}" for i in range(30)]
EXPECTED = gm.select(ROWS, k=6, random_state=0).order
OF_THE_OTHER = gm.select(OTHER, k=6, random_state=0).order


@pytest.fixture
def table(tmp_path):
    """Write a Parquet file with these columns."""

    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "x.parquet")
        return tmp_path / "x.parquet"

    return write


@pytest.fixture
def picked(tmp_path, succeeds):
    """Select six rows, and return the selection."""

    def run(path, *options):
        succeeds("select", path, "-k", 6, "-o", tmp_path / "picks.parquet", "--force", *options)
        return gm.Selection.load(tmp_path / "picks.parquet")

    return run


@pytest.mark.parametrize(
    "beside",
    [
        {"id": TEXTS},
        {"id": list(range(30))},
        {"title": TEXTS, "body": TEXTS},
        {"picture": [b"bytes"] * 30},
        {f"measure {i}": OTHER[:, i % 3] for i in range(40)}
        | {"count": list(range(30)), "flag": [True] * 30},
    ],
    ids=["string id", "integer id", "texts", "images", "numbers"],
)
def test_the_only_column_of_vectors_is_taken_whatever_stands_beside_it(beside, table, picked):
    assert np.array_equal(picked(table(**beside, v=list(ROWS))).order, EXPECTED)


@pytest.mark.parametrize("name", ["label", "Class", "TARGET"])
def test_labels_are_found_by_their_name_however_it_is_written(name, table, picked):
    labels = [f"class {i % 2}" for i in range(30)]
    assert picked(table(**{"v": list(ROWS), name: labels})).counts == {"class 0": 3, "class 1": 3}
    both = {"v": list(ROWS), name: labels, "label": ["all"] * 30}
    assert list(picked(table(**both)).counts) == (["all"])


def test_a_column_that_may_hold_labels_and_is_not_used_is_named(table, picked, gmmatch, tmp_path):
    asked = ("-k", 6, "-o", "-")
    path = table(v=list(ROWS), label=[1.0, None, 2.0] * 10)  # what pandas makes of integers with gaps
    assert "If column 'label' holds some, pass --labels label." in gmmatch("select", path, *asked).stderr
    for options in (("--labels", "none"), ("--labels", "v")):
        assert "no labels are used" not in gmmatch("select", path, *asked, *options).stderr
    np.savez(tmp_path / "x.npz", X=ROWS, y=np.arange(30) % 2)
    assert "pass --labels y." in gmmatch("select", tmp_path / "x.npz", *asked).stderr
    assert "no labels" not in gmmatch("select", table(x=ROWS[:, 0], y=ROWS[:, 1]), *asked).stderr


@pytest.mark.parametrize("beside", [{}, {"text": "words", "scores": ["a", 0.5]}], ids=["alone", "text"])
def test_json_lines_can_hold_vectors(beside, picked, tmp_path, succeeds, refused):
    path, bad = tmp_path / "x.jsonl", tmp_path / "bad.jsonl"
    lines = [json.dumps({"id": f"r{i}", "v": row, **beside}) for i, row in enumerate(ROWS.tolist())]
    path.write_text("\n".join(lines))
    found = picked(path)
    assert np.array_equal(found.order, EXPECTED) and found.ids[0] == f"r{EXPECTED.min()}"
    assert np.array_equal(picked(path, "--embedding-column", "v").order, EXPECTED)
    assert succeeds("info", path, "--json")["kind"] == ("text" if beside else "embedding")
    succeeds("export", tmp_path / "picks.parquet", path, "-o", tmp_path / "picked.jsonl")
    assert (tmp_path / "picked.jsonl").read_text().split("\n")[:-1] == [
        lines[row] for row in sorted(EXPECTED)
    ]
    for value, message in (("[1, 2]", "2 numbers"), ('["x", 1, 2]', "no list of numbers"), ("7", "no list")):
        bad.write_text("\n".join([*lines, f'{{"id": "r30", "v": {value}}}']))
        said = refused("select", bad, "-k", 6, "-o", "-")
        assert f"line 31 of {bad}" in said and message in said


@pytest.mark.parametrize("ids", [TEXTS, list(range(500, 530))], ids=["strings", "integers"])
@pytest.mark.parametrize("name", ["id", "Key"])
def test_a_column_named_like_ids_names_the_picks(ids, name, table, picked, tmp_path, succeeds):
    path = table(**{name: ids}, note=TEXTS, v=list(ROWS))
    assert picked(path).order_ids.tolist() == [ids[row] for row in EXPECTED]
    succeeds("export", tmp_path / "picks.parquet", path, "-o", tmp_path / "out.parquet")
    exported = pq.read_table(tmp_path / "out.parquet")
    assert exported.equals(pq.read_table(path).take(np.sort(EXPECTED)))


def test_ids_of_another_column_or_of_none(table, picked):
    path = table(id=list(range(500, 530)), code=TEXTS, v=list(ROWS))
    assert picked(path, "--id-column", "code").order_ids.tolist() == [TEXTS[row] for row in EXPECTED]
    assert picked(path, "--id-column", "").order_ids is None


@pytest.mark.parametrize("ids", [["same"] * 30, [None, *TEXTS[1:]], [True] * 30])
def test_a_column_that_cannot_tell_rows_apart_is_not_taken_as_ids(ids, table, gmmatch, tmp_path):
    path = table(id=ids, v=list(ROWS))
    result = gmmatch("select", path, "-k", 6, "-o", tmp_path / "picks.json")
    assert result.exit_code == 0 and "column 'id' is not taken as ids" in result.stderr
    selection = gm.Selection.load(tmp_path / "picks.json")
    assert np.array_equal(selection.order, EXPECTED) and selection.order_ids is None


def test_of_several_columns_of_vectors_one_is_named(table, picked, tmp_path, succeeds, refused):
    path = table(id=TEXTS, v=list(ROWS), w=list(OTHER), kind=["a", "b"] * 15)
    for command in (["select", "-o", tmp_path / "p.json"], ["compare"]):
        line = refused(command[0], path, "-k", 6, *command[1:])
        assert "'v', 'w'" in line and "--embedding-column 'v'" in line
    line = refused("select", path, "-k", 6, "-o", tmp_path / "p.json", "--embedding-column", "u")
    assert "--embedding-column 'u'" in line and "'v', 'w'" in line
    assert np.array_equal(picked(path, "--embedding-column", "v").order, EXPECTED)
    assert np.array_equal(picked(path, "--embedding-column", "w").order, OF_THE_OTHER)
    # What is opened again later, for labels or for the rows themselves, is opened in the same way.
    labelled = picked(path, "--embedding-column", "w", "--labels", "kind")
    assert [group.label for group in labelled.groups] == ["a", "b"]
    succeeds("export", tmp_path / "picks.parquet", path, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [
        TEXTS[row] for row in labelled.indices
    ]
    of_w, of_v = (
        succeeds("compare", path, "-k", 6, "--methods", "gm-matching", "--embedding-column", name, "--json")
        for name in "wv"
    )
    assert of_w["rows"][0]["moment_error"] != of_v["rows"][0]["moment_error"]


def test_columns_of_what_has_none_are_refused(vectors, tmp_path, succeeds, refused):
    succeeds("embed", vectors, "-o", tmp_path / "x.emb", "--encoder", "identity")
    for path in (vectors, tmp_path / "x.emb"):
        for engine in ([], ["--engine", "local"]):
            for option in ("--embedding-column", "--id-column"):
                line = refused("select", path, "-k", 3, "-o", tmp_path / "p.json", option, "v", *engine)
                assert f"{option} 'v'" in line and "no columns" in line


def test_info_says_which_columns_could_be_embeddings(table, succeeds):
    path = table(id=TEXTS, v=list(ROWS), w=list(OTHER), kind=["a", "b"] * 15, score=ROWS[:, 0])
    found = succeeds("info", path, "--json")
    assert found["columns"] == {"embeddings": ["v", "w"], "texts": ["id", "kind"], "numbers": ["score"]}
    assert (found["what"], found["kind"], found["n_rows"], found["format"]) == ("source", None, 30, "Parquet")
    assert "tell `gmmatch select` which column to take, as --embedding-column 'v'" in found["how"]
    shown = " ".join(succeeds("info", path).split())
    assert "columns.embeddings v, w columns.texts id, kind" in shown
    found = succeeds("info", table(v=list(ROWS), label=[0, 1] * 15), "--json")
    assert (found["kind"], found["columns"]) == ("embedding", {"embeddings": ["v"], "integers": ["label"]})


@pytest.mark.parametrize("kind", ["parquet", "csv", "npz"])
def test_what_info_says_to_type_works(kind, tmp_path, succeeds):
    path = tmp_path / f"x.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"v": list(ROWS), "kind": ["a", "b"] * 15, "note": TEXTS}), path)
    elif kind == "csv":
        path.write_text("body,title\n" + "".join(f"b{i},t{i}\n" for i in range(30)))
    else:
        np.savez(path, a=ROWS, b=OTHER)
    how = succeeds("info", path, "--json")["how"]
    if kind == "parquet":  # the only vectors are taken whatever stands beside them
        assert "`gmmatch select` takes column 'v'" in how
        succeeds("select", path, "-k", 2, "-o", tmp_path / "p.json")
    elif kind == "csv":
        assert "`gmmatch embed` which column to take, as --text-column 'body'" in how and "select" not in how
    else:
        assert "`gmmatch select` which column to take, as --embedding-column 'a'" in how
        succeeds("select", path, "-k", 2, "-o", tmp_path / "p.json", "--embedding-column", "a")


def test_info_describes_a_table_that_no_command_could_use(table, succeeds):
    found = succeeds("info", table(day=np.array([0, 1], "datetime64[D]"), score=ROWS[:2, 0]), "--json")
    assert found["columns"] == {"numbers": ["score"], "others": ["day"]}
    assert "no column holds embeddings" in found["how"]


@pytest.mark.parametrize("option", ["--labels", "--truth"])
def test_a_column_of_labels_is_called_by_the_option_that_was_typed(option, table, tmp_path, refused):
    path = table(v=list(ROWS), kind=["a", "b"] * 15)
    given = [] if option == "--labels" else ["--labels", "kind"]
    line = refused("compare", path, "-k", 6, *given, option, "knid")
    assert f"{option} 'knid'" in line and "label-column" not in line and "Did you mean 'kind'?" in line
    assert f"{option} 'v': this column" in refused("compare", path, "-k", 6, *given, option, "v")
    if option == "--labels":
        assert "--labels 'knid'" in refused(
            "select", path, "-k", 6, "-o", tmp_path / "p.json", option, "knid"
        )


def test_compare_takes_the_column_of_ids_that_select_takes(table, succeeds, refused):
    path = table(v=list(ROWS), code=TEXTS)
    assert "--id-column 'cod'" in refused("compare", path, "-k", 6, "--id-column", "cod")
    succeeds("compare", path, "-k", 6, "--methods", "random", "--id-column", "code")


def test_ids_that_several_rows_have_are_exported_by_their_places(table, picked, tmp_path, succeeds, refused):
    codes = [f"batch {i % 4}" for i in range(30)]
    path = table(code=codes, note=TEXTS, v=list(ROWS))
    selection, out = picked(path, "--id-column", "code"), tmp_path / "out.parquet"
    succeeds("export", tmp_path / "picks.parquet", path, "-o", out, "--id-column", "code")
    assert pq.read_table(out)["note"].to_pylist() == [TEXTS[row] for row in selection.indices]
    for other in (slice(None, None, -1), slice(1, None)):  # neither the same rows nor as many
        table(code=codes[other], note=TEXTS[other], v=list(ROWS[other]))
        line = refused(
            "export", tmp_path / "picks.parquet", path, "-o", out, "--force", "--id-column", "code"
        )
        assert "'batch" in line and "every id is unique" in line
    assert len(pq.read_table(out)) == 6


def test_export_takes_the_columns_that_select_takes(table, picked, tmp_path, succeeds, refused):
    path = table(id=list(range(500, 530)), code=TEXTS, v=list(ROWS), w=list(OTHER))
    by_code = picked(path, "--embedding-column", "v", "--id-column", "code")
    out = tmp_path / "out.parquet"
    for options in ([], ["--embedding-column", "w"], ["--id-column", "code"]):
        succeeds("export", tmp_path / "picks.parquet", path, "-o", out, "--force", *options)
        assert pq.read_table(out)["code"].to_pylist() == [TEXTS[row] for row in by_code.indices]
    for option in ("--embedding-column", "--id-column"):
        line = refused("export", tmp_path / "picks.parquet", path, "-o", out, "--force", option, "x")
        assert f"{option} 'x'" in line and "no such column" in line
    picked(path, "--embedding-column", "v", "--id-column", "")
    succeeds("export", tmp_path / "picks.parquet", path, "-o", out, "--force", "--id-column", "")
    assert pq.read_table(out)["code"].to_pylist() == [TEXTS[row] for row in by_code.indices]


def test_export_needs_not_be_told_which_column_the_picks_were_made_by(table, tmp_path, succeeds):
    """All columns are written: picks of an array take rows of a table that could be read in several ways."""
    selection = gm.select(ROWS, k=6, random_state=0)
    selection.save(tmp_path / "picks.json")
    path = table(v=list(ROWS), w=list(OTHER), text=TEXTS)
    succeeds("export", tmp_path / "picks.json", path, "-o", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").equals(pq.read_table(path).take(selection.indices))


def test_text_in_columns_is_no_reason_to_name_an_option_that_is_not_there(tmp_path, refused):
    path = tmp_path / "x.csv"
    path.write_text("f0,f1\na,1.5\n")
    line = refused("select", path, "-k", 1, "-o", tmp_path / "p.json")
    assert (
        f"gmmatch embed {path} --text-column f0 -o" in line and "nothing but numbers, labels and ids" in line
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_of_numbers_is_selected_from_and_its_picks_are_exported(
    kind, tmp_path, table, picked, succeeds
):
    """The name of the labels' column may be any, if it is given."""
    columns = {"id": TEXTS, **{f"f{i}": ROWS[:, i] for i in range(3)}, "species": ["a", "b"] * 15}
    path = table(**columns)
    if kind == "csv":
        path = tmp_path / "x.csv"
        pyarrow.csv.write_csv(pa.table(columns), path)
    selection = picked(path, "--labels", "species")
    assert selection.counts == {"a": 3, "b": 3}
    assert selection.ids.tolist() == [TEXTS[row] for row in selection.indices]
    succeeds("export", tmp_path / "picks.parquet", path, "-o", tmp_path / f"out.{kind}")
    read = pyarrow.csv.read_csv if kind == "csv" else pq.read_table
    assert read(tmp_path / f"out.{kind}")["id"].to_pylist() == selection.ids.tolist()
