"""Texts of rows: from several columns, from chats, and what becomes of rows without one."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmmatch.data import BrokenRowError, open_source
from gmmatch.errors import InvalidInputError

from .helpers import check_protocol, write_tar

CHATS = [
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello\nyou"}],
    [{"role": "user", "content": "Bye"}, {"role": "assistant", "content": None}],
]
RENDERED = ["user: Hi\nassistant: Hello\nyou", "user: Bye\nassistant: "]


def write(path, records):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_a_column_with_braces_in_its_name_is_a_column(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"{a}": "one", "a": "two"}])
    assert check_protocol(open_source(path, text_column="{a}"))[0] == ["one"]


def test_numbers_are_written_out_and_members_of_a_tar_are_columns(tmp_path):
    path = write(tmp_path / "x.jsonl", [{"title": "Up", "year": 2009, "score": 8.5}])
    assert check_protocol(open_source(path, text_column="{title} ({year}): {score}"))[0] == ["Up (2009): 8.5"]
    path = write_tar(tmp_path / "x.tar", [("1.txt", b"a"), ("1.caption", b"b")])
    assert check_protocol(open_source(path, text_column="{txt}+{caption}"))[0] == ["a+b"]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_chats_are_rendered_without_an_option(tmp_path, suffix):
    records = [{"messages": chat, "source": "web", "label": "x"} for chat in CHATS]
    path = write(tmp_path / f"x.{suffix}", records)
    rows, _, labels = check_protocol(open_source(path))
    assert (rows, labels) == (RENDERED, ["x", "x"])
    assert (
        check_protocol(open_source(path, text_column="{source}: {messages}"))[0][1] == f"web: {RENDERED[1]}"
    )


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_chat_without_messages_has_no_text(tmp_path, suffix):
    path = write(tmp_path / f"x.{suffix}", [{"messages": chat, "source": "web"} for chat in (*CHATS, [])])
    rows = check_protocol(open_source(path))[0]
    assert rows[:2] == RENDERED and rows[2].missing
    assert check_protocol(open_source(path, text_column="{source}: {messages}"))[0][2] == "web: "


LINES = b"""{"text": "a", "label": 1}
{"text": "b
{"text": null, "label": 2}
{"text": ["c"], "label": 3}
{"label": 4}
{"text": "\\ud83d", "label": 5}
{"text": "d\xff", "label": 6}
{"text": "e", "label": 7}
"""
REASONS = {
    1: "line 2 of {} cannot be read: it is not valid JSON",
    2: "line 3 of {} has no text in column 'text'.",
    3: "line 4 of {} has list in column 'text', where a text is expected.",
    4: "line 5 of {} has no text in column 'text'.",
    5: "line 6 of {} is not UTF-8 text.",
    6: "line 7 of {} cannot be read: it is not valid JSON",
}


class TestBrokenRows:
    def test_json_lines(self, tmp_path):
        path = tmp_path / "x.jsonl"
        path.write_bytes(LINES)
        rows, ids, labels = check_protocol(open_source(path))
        assert [row for row in rows if isinstance(row, str)] == ["a", "e"]
        for i, reason in REASONS.items():
            assert isinstance(rows[i], BrokenRowError)
            assert str(rows[i]).startswith(reason.format(path))
        assert ids == list(range(8))
        assert labels == [1, None, 2, 3, 4, 5, None, 7]

    def test_csv(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_bytes(b'id,text\n1,a\n2,"b"b\n3\n4,caf\xe9\n5,"x\ny"z\n6,d\n')
        rows, ids, _ = check_protocol(open_source(path, id_column="id"))
        assert [row for row in rows if isinstance(row, str)] == ["a", "d"]
        assert ids == ["1", *(f"line {line} of {path}" for line in (3, 4, 5, 7)), "6"]
        assert "line 3 of" in str(rows[1]) and "cannot be read" in str(rows[1])
        assert "it has 1 cells, and the header has 2" in str(rows[2])
        assert str(rows[3]) == f"line 5 of {path} is not UTF-8 text."
        assert "line 7 of" in str(rows[4]) and "nor the lines from 6 on" in str(rows[4])

    def test_a_quote_that_is_never_closed_is_no_single_row(self, tmp_path):
        (tmp_path / "x.csv").write_text('text\na\n"b\nc\nd\n')
        with pytest.raises(InvalidInputError, match=r"is truncated or damaged: line 3: "):
            list(open_source(tmp_path / "x.csv").batches(2))

    def test_parquet(self, tmp_path):
        bad = pa.Array.from_buffers(pa.string(), 3, pa.array([b"a", b"\xff", b"c"], pa.binary()).buffers())
        pq.write_table(pa.table({"text": bad}), tmp_path / "x.parquet")
        rows = check_protocol(open_source(tmp_path / "x.parquet"))[0]
        assert rows[::2] == ["a", "c"]
        assert str(rows[1]) == f"row 1 of {tmp_path}/x.parquet is not UTF-8 text."

    def test_a_row_whose_columns_are_all_missing_has_no_text(self, tmp_path):
        path = write(tmp_path / "x.jsonl", [{"a": "x", "b": "y"}, {"a": None}, {"b": "z"}])
        rows = check_protocol(open_source(path, text_column="{a}-{b}"))[0]
        assert rows[::2] == ["x-y", "-z"] and isinstance(rows[1], BrokenRowError)
