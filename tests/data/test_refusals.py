"""What is no source, or a damaged one, is refused in one line that names the file and says what is wrong."""

from __future__ import annotations

import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gmmatch.data import open_source
from gmmatch.errors import InvalidInputError, InvalidTypeError

from .helpers import png, read_usable, write_tar


def parquet(**columns):
    return lambda path: pq.write_table(pa.table(columns), path)


def vectors(*rows):
    return parquet(e=pa.array(rows, pa.list_(pa.float32())))


def tar(*members):
    return lambda path: write_tar(path, members)


def folder(**files):
    """A folder with these files, dots in whose names are written as underscores."""

    def write(path):
        path.mkdir()
        for name, content in files.items():
            put(path / name.replace("_", "."), content)

    return write


def put(path, content):
    content(path) if callable(content) else path.write_bytes(content)


CUT_GZIP = gzip.compress("".join(f'{{"text": "{i * 7919}"}}\n' for i in range(5000)).encode())[:9000]
REFUSED = [
    # CSV
    ("x.csv", b"", "x.csv is empty"),
    ("x.csv", b"text,label\na,1\nb\n", "line 3 of .* it has 1 cells, and the header has 2"),
    ("x.csv", b'text,label\na,1\n"b,2\n', "x.csv is .* truncated or damaged: line 3: unexpected end of data"),
    ("x.csv", b"text,label\ncaf\xe9,1\n", "is not UTF-8 text"),
    ("x.csv", b"text,text\na,1\n", "two columns named 'text'"),
    ("x.csv", b"0.5,-1.25,cat\n0.25,3,dog\n", r"begins with numbers \('0.5', '-1.25', 'cat'\)"),
    ("x.csv", b"width,height,label\n1,2,a\n3,,b\n", "line 3 of .* has no number in column 'height'"),
    (
        "x.csv",
        b"width,height\n" + b"1,2\n" * 200 + b"3,tall\n",
        "line 202 of .* has 'tall', which is no number",
    ),
    # JSON lines
    ("x.jsonl", b"", "is empty"),
    ("x.jsonl", b'{"text": "a"}\n{"text": "b', "line 2 of .*x.jsonl cannot be read: the file ends within it"),
    ("x.jsonl", b'{"text": "a"}\nnonsense\n{"text": "b"}\n', "line 2 of .* not valid JSON"),
    ("x.jsonl", b'[\n{"text": "a"}\n]\n', "line 1 of .* begins a list; write one JSON object per line"),
    ("x.jsonl", b'[{"text": "a"}]\n', "line 1 of .* holds a list"),
    ("x.jsonl", b'"a"\n', "holds a single value"),
    ("x.jsonl", b'{"text": "caf\xe9"}\n', "line 1 of .* not valid JSON"),
    (
        "x.jsonl",
        b'{"text": "a", "label": 1}\n{"text": "b", "label": [1]}\n',
        "line 2 of .* has list in column 'label'",
    ),
    ("x.jsonl.gz", CUT_GZIP, r"x.jsonl.gz is .* truncated or damaged: line \d+: "),
    # Parquet
    *(
        ("x.parquet", cut, "x.parquet is not a Parquet file, or is truncated")
        for cut in (b"", b"PAR1", b"hello")
    ),
    ("x.parquet", vectors([1.0, 2.0], [3.0]), "row 1 of .* has an embedding of 1 numbers .* 2 are expected"),
    ("x.parquet", vectors([1.0, 2.0], None), "row 1 of .* has no embedding in column 'e': drop the row"),
    ("x.parquet", vectors(None, [1.0, 2.0]), "row 0 of .* has no embedding"),
    ("x.parquet", vectors([1.0, 2.0], [None, 1.0]), "row 1 of .* has a missing number"),
    (
        "x.parquet",
        parquet(width=[1.0, None], height=[1.0, 2.0]),
        "row 1 of .* has no number in column 'width'",
    ),
    # shards
    ("x.tar", b"hello" + bytes(4096), "x.tar is not a tar file"),
    ("x.tar", tar(("README", b"x")), "holds no samples"),
    ("x.tar", tar(("1.mp3", b"x")), "no column of images, text or embeddings"),
    ("x.tar", tar(("1.txt", b"x"), ("1.txt", b"y")), r"two members 1\.txt"),
    ("x.tar", tar(("1.txt", b"\xff\xfe\xff")), r"1 of .*x\.tar is not UTF-8 text"),
    # folders, patterns and names
    ("folder", folder(), "is empty"),
    ("folder", folder(a_txt=b""), r"holds no images, only other files \(1 \.txt\)"),
    ("folder", folder(a_png=png(), x_tar=tar(("1.txt", b"a"))), "holds 1 WebDataset file and 1 image file:"),
    ("folder", folder(manifest_json=b'{"format": "gmmatch-embeddings"}'), "give what it was made from"),
    ("folder/a.*", folder(a_csv=b"text\na\n", a_jsonl=b'{"text": "a"}\n'), "several formats"),
    ("folder/*.npy", folder(a_npy=b"", b_npy=b""), "names 2 files of arrays: give one"),
    ("1.png", png(), "give the folder"),
    ("x.docx", b"", r"x\.docx: the suffix '\.docx' is not known; expected .*\.parquet"),
    ("noname", b"", "the suffix '' is not known"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_it_is_refused(tmp_path, name, content, message):
    put(tmp_path / name.partition("/")[0], content)
    with pytest.raises((InvalidInputError, InvalidTypeError), match=message) as caught:
        read_usable(open_source(f"{tmp_path}/{name}"))
    assert "\n" not in str(caught.value)


TABLE = {"title": ["a"], "body": ["b"], "n": [1], "boxes": [[[1]]], "e": [[1.0, 2.0]], "f": [[1.0]]}


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("title body", {}, "several columns of text .'title', 'body'.*text_column='title'"),
        ("title e", {}, "several ways: .*embedding_column='e' or text_column='title'"),
        ("e f n", {}, "several columns of embeddings .'e', 'f'"),
        ("boxes", {}, "no column of images, text or embeddings; its columns are 'boxes'"),
        ("title n", {"text_column": "titel"}, "'titel': .*'title', 'n'.*Did you mean 'title'"),
        ("title n", {"text_column": "{titel}"}, "text_column='titel': .* Did you mean 'title'"),
        ("title", {"text_column": "{title"}, "text_column='{title': this is no template"),
        ("title", {"text_column": "{}"}, "expected nothing but the name of a column in braces"),
        ("title", {"text_column": "{title!r}"}, "expected nothing but the name"),
        ("title", {"text_column": "{title:>9}"}, "expected nothing but the name"),
        ("title", {"text_column": "{title.__class__}"}, r"text_column='title\.__class__': .* no such column"),
        ("title", {"label_column": "y"}, "label_column='y': .* no such column"),
        ("title", {"id_column": "y"}, "id_column='y'"),
        ("title", {"image_column": "title"}, "holds text: expected images"),
        (
            "title e",
            {"text_column": "title", "label_column": "e"},
            "holds embeddings: expected text or numbers",
        ),
        ("title boxes", {"text_column": "title", "label_column": "boxes"}, "label_column='boxes'"),
        ("title e", {"text_column": "title", "embedding_column": "e"}, "one column of rows, not several"),
    ],
)
def test_columns_that_cannot_be_chosen(tmp_path, columns, options, message):
    pq.write_table(pa.table({name: TABLE[name] for name in columns.split()}), tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=message):
        open_source(tmp_path / "x.parquet", **options)


@pytest.mark.parametrize("spec", ["x.npy", "photos", np.eye(3)], ids=["file", "folder", "array"])
def test_what_has_no_columns_has_none_to_choose(tmp_path, spec):
    np.save(tmp_path / "x.npy", np.eye(3))
    put(tmp_path / "photos", folder(a_png=png()))
    with pytest.raises(InvalidInputError, match="label_column='y'"):
        open_source(tmp_path / spec if isinstance(spec, str) else spec, label_column="y")


def test_an_empty_name():
    with pytest.raises(InvalidInputError, match="path is empty"):
        open_source("")
