"""CSV and JSON lines: every text comes out as it went in, and damage is named by its line."""

from __future__ import annotations

import csv
import gzip
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmmatch.data import BrokenRowError, open_source
from gmmatch.errors import InvalidInputError, InvalidTypeError

from .helpers import check_protocol, read_all, read_usable

HOSTILE = ["plain", "two\nlines", 'quo"te', "com,ma; semi\ttab", "ünïcödé 写真", "", " spaces ", "'", "\r\n"]


def write_csv(path, header, records, **options):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **options)
        writer.writerow(header)
        writer.writerows(records)
    return path


def write_json(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


class TestCSV:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
    def test_hostile_texts_survive(self, tmp_path, delimiter):
        path = tmp_path / "x y.csv"
        write_csv(
            path,
            ["text", "label"],
            [(text, f"{i % 2}") for i, text in enumerate(HOSTILE)],
            delimiter=delimiter,
        )
        source = open_source(path)
        rows, ids, labels = check_protocol(source)
        assert rows == HOSTILE
        assert ids == list(range(len(HOSTILE)))
        assert labels == [str(i % 2) for i in range(len(HOSTILE))]
        assert source.how == "text in column 'text', labels in column 'label' (by its name)"

    @given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00")), max_size=10))
    def test_any_texts_survive(self, tmp_path_factory, texts):
        path = tmp_path_factory.mktemp("csv") / "x.csv"
        write_csv(path, ["text", "n"], [(text, "1") for text in texts])
        assert read_all(open_source(path, text_column="text"))[0] == texts

    def test_an_empty_label_is_none_and_numbers_stay_text(self, tmp_path):
        path = write_csv(tmp_path / "x.csv", ["text", "label", "key"], [("a", "", "007"), ("b", "03", "8")])
        _, ids, labels = check_protocol(open_source(path, text_column="text", id_column="key"))
        assert (ids, labels) == (["007", "8"], [None, "03"])

    def test_a_byte_order_mark_and_a_gzip_file(self, tmp_path):
        path = tmp_path / "x.csv.gz"
        path.write_bytes(gzip.compress("\ufefftext\nä\n".encode()))
        assert check_protocol(open_source(path))[0] == ["ä"]

    def test_tsv_by_its_suffix_and_several_files(self, tmp_path):
        for i in (10, 9):
            write_csv(tmp_path / f"{i}.tsv", ["text", "label"], [(f"t{i}", "u")], delimiter="\t")
        write_csv(tmp_path / "8.tsv", ["label", "text"], [("v", "t8")], delimiter="\t")
        assert check_protocol(open_source(tmp_path)) == (["t8", "t9", "t10"], [0, 1, 2], ["v", "u", "u"])

    def test_only_a_header(self, tmp_path):
        assert check_protocol(open_source(write_csv(tmp_path / "x.csv", ["text"], []))) == ([], [], None)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "x.csv is empty"),
            (b"text,label\na,1\nb\n", "line 3 of .* it has 1 cells, and the header has 2"),
            (
                b'text,label\na,1\n"b,2\n',
                "x.csv is not a CSV file, or is truncated or damaged: line 3: unexpected end of data",
            ),
            (b"text,label\ncaf\xe9,1\n", "is not UTF-8 text"),
            (b"text,text\na,1\n", "two columns named 'text'"),
            (b"title,body\na,1\n", "several columns of text"),
        ],
    )
    def test_damage(self, tmp_path, content, message):
        (tmp_path / "x.csv").write_bytes(content)
        with pytest.raises(InvalidInputError, match=message) as caught:
            read_usable(open_source(tmp_path / "x.csv"))
        assert "\n" not in str(caught.value)

    def test_numbers_are_no_column_names(self, tmp_path):
        path = write_csv(tmp_path / "x.csv", ["0.5", "-1.25", "cat"], [("0.25", "3", "dog")] * 3)
        with pytest.raises(InvalidInputError, match=r"begins with numbers \('0.5', '-1.25', 'cat'\)"):
            open_source(path)
        path = write_csv(
            tmp_path / "y.csv", ["0", "1", "2"], [("0.25", "3", "1")] * 3
        )  # as pandas names them
        assert open_source(path).n_rows == 3

    def test_other_columns_in_the_second_file(self, tmp_path):
        write_csv(tmp_path / "1.csv", ["text"], [("a",)])
        write_csv(tmp_path / "2.csv", ["body"], [("a",)])
        with pytest.raises(InvalidInputError, match=r"2\.csv has no column 'text', unlike 1\.csv"):
            list(open_source(tmp_path).batches(1))


class TestJSONLines:
    def test_hostile_texts_survive(self, tmp_path):
        texts = [*HOSTILE, "\x00", "\ud83d\ude00"]
        path = write_json(tmp_path / "x.jsonl", [{"text": t, "label": i} for i, t in enumerate(texts)])
        rows, _, labels = check_protocol(open_source(path))
        assert rows == [json.loads(json.dumps(text)) for text in texts]
        assert labels == list(range(len(texts)))

    def test_missing_keys_and_nulls(self, tmp_path):
        records = [{"text": None}, {"text": "a", "label": "u"}, {"label": None}, {"text": "b", "label": 3}]
        path = write_json(tmp_path / "x.ndjson", records)
        rows, _, labels = check_protocol(open_source(path))
        assert (rows[1], rows[3], labels) == ("a", "b", [None, "u", None, 3])
        assert [str(rows[i]) for i in (0, 2)] == [
            f"line {i} of {path} has no text in column 'text'." for i in (1, 3)
        ]

    def test_empty_lines_a_byte_order_mark_and_no_final_newline(self, tmp_path):
        (tmp_path / "x.json").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\n   \n{"text": "b"}')
        assert check_protocol(open_source(tmp_path / "x.json"))[0] == ["a", "b"]

    def test_ids_and_gzip(self, tmp_path):
        path = tmp_path / "x.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"text": "a", "k": "one"}\n{"text": "b", "k": 2}\n'))
        assert check_protocol(open_source(path, text_column="text", id_column="k"))[1] == ["one", 2]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "is empty"),
            (b'{"text": "a"}\n{"text": "b', "line 2 of .*x.jsonl cannot be read: the file ends within it"),
            (b'{"text": "a"}\nnonsense\n{"text": "b"}\n', "line 2 of .* not valid JSON"),
            (b'[\n{"text": "a"}\n]\n', "line 1 of .* begins a list; write one JSON object per line"),
            (b'[{"text": "a"}]\n', "line 1 of .* holds a list"),
            (b'"a"\n', "holds a single value"),
            (b'{"text": "caf\xe9"}\n', "line 1 of .* not valid JSON"),
            (b'{"n": 1}\n', "no column of images, text or embeddings; its columns are 'n'"),
        ],
    )
    def test_damage(self, tmp_path, content, message):
        (tmp_path / "x.jsonl").write_bytes(content)
        with pytest.raises(InvalidInputError, match=message) as caught:
            read_usable(open_source(tmp_path / "x.jsonl"))
        assert "\n" not in str(caught.value)

    def test_a_truncated_gzip_file(self, tmp_path):
        data = gzip.compress("".join(f'{{"text": "{i * 7919}"}}\n' for i in range(5000)).encode())
        (tmp_path / "x.jsonl.gz").write_bytes(data[: len(data) // 2])
        with pytest.raises(InvalidInputError, match=r"x.jsonl.gz is .* truncated or damaged: line \d+: "):
            list(open_source(tmp_path / "x.jsonl.gz").batches(10))

    def test_a_value_of_another_type_names_its_line(self, tmp_path):
        path = write_json(tmp_path / "x.jsonl", [{"text": "a", "label": 1}] * 150 + [{"text": 3, "label": 1}])
        row = list(open_source(path).batches(10))[-1].rows[0]
        assert isinstance(row, BrokenRowError)
        assert re.search(r"line 151 of .*x\.jsonl has int in column 'text'", str(row))
        path = write_json(
            tmp_path / "y.jsonl", [{"text": "a", "label": 1}] * 2 + [{"text": "b", "label": [1]}]
        )
        with pytest.raises(InvalidTypeError, match=r"line 3 of .*y\.jsonl has list in column 'label'"):
            list(open_source(path).batches(10))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_fingerprint_depends_on_content_and_columns(tmp_path, suffix):
    def write(name, texts):
        path = tmp_path / (name + suffix)
        if suffix == ".csv":
            return write_csv(path, ["text", "label"], [(text, "1") for text in texts])
        return write_json(path, [{"text": text, "label": 1} for text in texts])

    reference = open_source(write("a", ["x", "y"])).fingerprint()
    assert open_source(write("b", ["x", "y"])).fingerprint() == reference
    assert open_source(write("c", ["x", "z"])).fingerprint() != reference
    assert open_source(write("d", ["x", "y"]), label_column="").fingerprint() != reference
