"""Which column is taken when nobody says, and what is said when none or several could be."""

from __future__ import annotations

import pytest

from gmmatch.data.columns import ColumnRequest, choose_columns
from gmmatch.errors import InvalidInputError


def choose(available, **request):
    columns = choose_columns(available, ColumnRequest(**request), "x.parquet")
    return columns.kind, columns.data, columns.label, columns.id


@pytest.mark.parametrize(
    ("available", "expected"),
    [
        ({"image": "image", "label": "number"}, ("image", "image", "label", None)),
        ({"photo_data": "image"}, ("image", "photo_data", None, None)),
        ({"image": "image", "caption": "text"}, ("image", "image", None, None)),  # a picture with a note
        ({"image": "image", "thumbnail": "image"}, ("image", "image", None, None)),
        ({"id": "text", "review": "text"}, ("text", "review", None, None)),
        ({"text": "text", "title": "text", "class": "text"}, ("text", "text", "class", None)),
        ({"id": "number", "vector": "embedding"}, ("embedding", "vector", None, None)),
        ({"id": "text", "vector": "embedding"}, ("embedding", "vector", None, None)),
        ({"x": "embedding", "label": "other"}, ("embedding", "x", None, None)),
        ({"label": "number", "label_noisy": "number", "t": "text"}, ("text", "t", "label", None)),
    ],
)
def test_what_is_taken_by_default(available, expected):
    assert choose(available) == expected


def test_what_was_asked_for_is_taken():
    available = {"image": "image", "caption": "text", "label": "number", "noisy": "number", "key": "text"}
    assert choose(available, text="caption", label="noisy", id="key") == ("text", "caption", "noisy", "key")
    assert choose(available, label="") == ("image", "image", None, None)
    assert choose({"label": "text", "n": "number"}, text="label") == ("text", "label", None, None)


def test_a_preference_decides_between_kinds_and_nothing_else():
    available = {"image": "image", "caption": "text", "v": "embedding", "id": "text"}
    for kind, column in (("image", "image"), ("text", "caption"), ("embedding", "v")):
        assert choose(available, prefer=kind) == (kind, column, None, None)
    assert choose(available, prefer="embedding", text="caption")[:2] == ("text", "caption")
    assert choose({"title": "text"}, prefer="embedding")[:2] == ("text", "title")  # no vectors: what there is


@pytest.mark.parametrize(
    ("available", "request_", "id_like"),
    [
        ({"id": "text", "v": "embedding"}, {}, "id"),
        ({"UID": "number", "v": "embedding"}, {}, "UID"),
        ({"index": "number", "id": "number", "v": "embedding"}, {}, "id"),
        ({"id": "text", "key": "text", "v": "embedding"}, {"id": "key"}, None),
        ({"id": "number", "v": "embedding"}, {"label": "id"}, None),
        ({"id": "other", "name": "text", "v": "embedding"}, {"prefer": "embedding"}, None),
    ],
)
def test_a_column_named_like_ids_is_pointed_out(available, request_, id_like):
    columns = choose_columns(available, ColumnRequest(**request_), "x.parquet")
    assert columns.id_like == id_like


@pytest.mark.parametrize(
    ("available", "request_", "message"),
    [
        ({"text": "text", "label": "number"}, {"text": "txt"}, "'txt': .*'text', 'label'.*Did you mean 'text'"),
        ({"Text": "text"}, {"text": "text"}, "Did you mean 'Text'"),
        ({"text": "text"}, {"label": "y"}, "label_column='y': .* no such column"),
        ({"text": "text"}, {"id": "idd"}, "id_column='idd'"),
        ({"image": "image"}, {"text": "image"}, "holds images: expected text"),
        ({"text": "text", "e": "embedding"}, {"label": "e"}, "holds embeddings: expected text or numbers"),
        ({"title": "text", "body": "text"}, {}, "several columns of text .'title', 'body'.*text_column='title'"),
        ({"a": "image", "b": "image"}, {}, "several columns of images"),
        ({"text": "text", "e": "embedding"}, {}, "several ways: .*embedding_column='e' or text_column='text'"),
        ({"image": "image", "e": "embedding"}, {}, "image_column='image' or embedding_column='e'"),
        ({"n": "number"}, {}, "no column of images, text or embeddings; its columns are 'n'"),
        ({"text": "text"}, {"text": "text", "image": "x"}, "one column of rows, not several"),
        ({"id": "text", "n": "other"}, {"prefer": "embedding"}, "no column of embeddings, .* are 'id', 'n'"),
        ({"id": "text", "v": "embedding", "w": "embedding"}, {}, "'v', 'w'.*embedding_column='v'"),
        ({"text": "text"}, {"prefer": "texts"}, "prefer='texts': expected one of image, embedding, text"),
    ],
)  # fmt: skip
def test_what_is_refused(available, request_, message):
    with pytest.raises(InvalidInputError, match=message) as caught:
        choose(available, **request_)
    assert "\n" not in str(caught.value)


def test_a_long_list_of_columns_is_cut():
    with pytest.raises(InvalidInputError, match="and 80 more"):
        choose({f"c{i}": "other" for i in range(100)})
