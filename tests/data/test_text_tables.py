"""The same table in every format is the same rows, ids and labels: of one file, of several, and by columns."""

from __future__ import annotations

import csv
import gzip
import json
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.data import BrokenRowError, open_source
from gmmatch.errors import DataFileNotFoundError, InvalidInputError, InvalidTypeError

from .helpers import check_protocol, read_all

SUFFIXES = ("csv", "tsv", "bars.csv", "csv.gz", "jsonl", "jsonl.gz", "parquet")
every_format = pytest.mark.parametrize("suffix", SUFFIXES)
TEXTS = ["plain", "two\nlines", 'quo"te', "com,ma; semi\ttab", "ünïcödé 写真", "", " spaces ", "'", "\r\n"]


def write(path, columns):
    """Write columns of texts, where None is nothing, in the format that the name says."""
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(
            pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()}), path
        )
        return path
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", newline="", encoding="utf-8") as file:
        if ".jsonl" in path.name:
            file.writelines(json.dumps(record) + "\n" for record in records)
        else:
            delimiter = "|" if ".bars" in path.name else {".tsv": "\t", ".gz": ";"}.get(path.suffix, ",")
            table = csv.DictWriter(file, columns, delimiter=delimiter)
            table.writeheader()
            table.writerows(records)
    return path


@every_format
def test_texts_labels_and_ids_come_back(tmp_path, suffix):
    labels = ["u", None, "03", *"wwwwww"]
    keys = [f"k {i}" for i in range(9)]
    path = write(tmp_path / f"x y.{suffix}", {"text": TEXTS, "label": labels, "key": keys})
    source = open_source(path, text_column="text", id_column="key")
    assert check_protocol(source) == (TEXTS, keys, labels)
    assert "labels in column 'label' (by its name), ids in column 'key'" in source.how
    assert check_protocol(open_source(path, text_column="text", label_column=""))[1:] == (
        list(range(9)),
        None,
    )


@every_format
def test_files_of_a_folder_are_read_in_natural_order_whatever_the_order_of_their_columns(tmp_path, suffix):
    for number in (10, 9, 1):
        texts = [f"{number}-{i}" for i in range(number % 4)]
        columns = {"text": texts, "label": ["u"] * len(texts)}
        write(
            tmp_path / f"part{number}.{suffix}", dict(reversed(columns.items())) if number == 9 else columns
        )
    assert check_protocol(open_source(tmp_path))[::2] == (["1-0", "9-0", "10-0", "10-1"], ["u"] * 4)
    assert check_protocol(open_source(f"{tmp_path}/part*0.{suffix}"))[0] == ["10-0", "10-1"]
    with pytest.raises(DataFileNotFoundError, match="no file matches"):
        open_source(f"{tmp_path}/nothing-*.{suffix}")
    if "jsonl" not in suffix:  # whose records may lack a key
        write(tmp_path / f"part11.{suffix}", {"body": ["a"], "label": ["u"]})
        with pytest.raises(InvalidInputError, match=r"part11\..* has no column 'text', unlike part1\."):
            list(open_source(tmp_path).batches(1))


@every_format
def test_splits_are_told_by_the_names_of_files(tmp_path, suffix):
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        write(tmp_path / "data" / f"{name}.{suffix}", {"text": [name]})
    with pytest.raises(InvalidInputError, match="several splits"):
        open_source(tmp_path)
    for spec in (tmp_path, f"{tmp_path}/data/*.{suffix}"):
        source = open_source(spec, split="train")
        assert check_protocol(source)[0] == ["train-00000-of-00002", "train-00001-of-00002"]
    with pytest.raises(InvalidInputError, match="single file"):
        open_source(tmp_path / "data" / f"test-00000-of-00001.{suffix}", split="test")


@every_format
def test_fingerprints_know_content_columns_and_order_but_not_the_place(tmp_path, suffix):
    columns = {"text": ["a", "b"], "label": ["1", "2"], "other": ["1", "2"]}
    path = write(tmp_path / f"x.{suffix}", columns)

    def fingerprint(path, **options):
        return open_source(path, **{"text_column": "text", **options}).fingerprint()

    (tmp_path / "elsewhere").mkdir()
    assert fingerprint(shutil.copy(path, tmp_path / "elsewhere" / f"y.{suffix}")) == fingerprint(path)
    backwards = write(tmp_path / f"z.{suffix}", {name: cells[::-1] for name, cells in columns.items()})
    changed = write(tmp_path / f"w.{suffix}", {**columns, "text": ["a", "c"]})
    options = [{"label_column": "other"}, {"label_column": ""}, {"text_column": "{text}-{other}"}]
    others = [fingerprint(backwards), fingerprint(changed), *(fingerprint(path, **one) for one in options)]
    assert len({fingerprint(path), *others}) == 6


@every_format
def test_columns_are_joined_as_a_template_says(tmp_path, suffix):
    columns = {"instruction": ["Add.", "Greet."], "input": ["1 2", None], "output": ["3", "Hi {you}, ünï"]}
    path = write(tmp_path / f"x.{suffix}", columns)
    source = open_source(path, text_column="{{{instruction}}} {input}\n{output}{instruction}")
    assert check_protocol(source)[0] == ["{Add.} 1 2\n3Add.", "{Greet.} \nHi {you}, ünïGreet."]
    assert "text by the template" in source.how


def test_a_row_without_an_id_is_named(tmp_path):
    path = write(tmp_path / "x.parquet", {"text": ["a", "b"], "key": ["k1", None]})
    with pytest.raises(InvalidTypeError, match=r"row 1 of .*x\.parquet has nothing in column 'key'"):
        list(open_source(path, text_column="text", id_column="key").batches(8))


@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), max_size=10))
def test_any_texts_survive_in_csv(tmp_path_factory, texts):
    path = write(tmp_path_factory.mktemp("csv") / "x.csv", {"text": texts, "n": ["1"] * len(texts)})
    assert read_all(open_source(path, text_column="text"))[0] == texts


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("x.csv", "\ufefftext\nä\n", ["ä"]),
        ("x.csv", "text\n", []),
        ("x.csv", "0,1,2\nd,e,f\n", None),  # columns as pandas names them
        ("x.json", '\ufeff{"text": "a"}\r\n\n   \n{"text": "b"}', ["a", "b"]),
    ],
)
def test_marks_empty_lines_and_headers(tmp_path, name, content, rows):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    source = open_source(tmp_path / name, text_column="1" if rows is None else "text")
    assert check_protocol(source)[0] == (["e"] if rows is None else rows)


def test_missing_keys_and_values_of_another_type(tmp_path):
    records = [{"text": None}, {"text": "a", "label": "u"}, {"label": None}, {"text": "b", "label": 3}] * 40
    path = tmp_path / "x.ndjson"
    path.write_text("".join(json.dumps(record) + "\n" for record in [*records, {"text": 3}]))
    rows, _, labels = check_protocol(open_source(path))
    assert (rows[1], rows[3], labels[:4]) == ("a", "b", [None, "u", None, 3])
    assert [str(rows[i]) for i in (0, 2)] == [
        f"line {i} of {path} has no text in column 'text'." for i in (1, 3)
    ]
    assert isinstance(rows[160], BrokenRowError)
    assert str(rows[160]).startswith(f"line 161 of {path} has int in column 'text'")
