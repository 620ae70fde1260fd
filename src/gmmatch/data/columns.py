"""Which column of a table holds the rows, which the labels, which the ids; and their single values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from gmmatch.data.source import Id, Kind
from gmmatch.data.texts import template_columns
from gmmatch.errors import InvalidInputError, InvalidTypeError, listed, unknown_name
from gmmatch.groups import Label, plain_label

ColumnType: TypeAlias = Literal["image", "text", "embedding", "number", "float", "other"]
"""What a column could serve as; "number" is an integer or a boolean, good for labels."""

_KINDS: tuple[Kind, ...] = ("image", "embedding", "text")
_PLURALS = {
    "image": "images",
    "embedding": "embeddings",
    "text": "text",
    "number": "numbers",
    "float": "numbers",
}
_LABEL_NAMES = ("label", "labels", "class", "category", "target", "cls")
# The last three are the index that pandas writes.
_ID_NAMES = ("id", "ids", "idx", "index", "uid", "key", "__key__", "", "unnamed: 0", "__index_level_0__")
_USUAL_NAMES: dict[Kind, tuple[str, ...]] = {
    "image": ("image", "img", "picture", "photo"),
    "embedding": ("embedding", "embeddings", "vector", "features"),
    "text": ("text", "content", "sentence", "document", "caption", "messages"),
}


class UndecidedColumnsError(InvalidInputError):
    """No column of a table, or no single one, can be taken as the rows unless the caller names it."""

    def __init__(
        self,
        message: str,
        available: Mapping[str, ColumnType] | None = None,
        candidates: Mapping[Kind, list[str]] | None = None,
    ) -> None:
        super().__init__(message)
        self.available = dict(available or {})
        self.candidates = {kind: names for kind, names in (candidates or {}).items() if names}


@dataclass(frozen=True)
class ColumnRequest:
    """The columns that the caller named; None where nothing was said.

    ``text`` may be a template of columns. ``label=""`` means that no column is to be taken as labels. ``prefer`` is
    the kind of rows to take where there are columns of several kinds and none was named.
    """

    image: str | None = None
    text: str | None = None
    embedding: str | None = None
    label: str | None = None
    id: str | None = None
    prefer: Kind | None = None

    def data(self) -> tuple[Kind, str] | None:
        """Return the kind and the column of the rows, if one was named."""
        named = [(kind, name) for kind in _KINDS if (name := getattr(self, kind)) is not None]
        if self.prefer not in (None, *_KINDS):
            raise InvalidInputError(f"prefer={self.prefer!r}: expected one of {', '.join(_KINDS)}.")
        if len(named) > 1:
            given = " and ".join(f"{kind}_column={name!r}" for kind, name in named)
            raise InvalidInputError(f"{given} were given: name one column of rows, not several.")
        return named[0] if named else None

    def refuse(self, location: str, reason: str) -> None:
        """Raise if any column was named, where there are no columns."""
        for role in (*_KINDS, "label", "id"):
            if getattr(self, role):
                raise InvalidInputError(f"{role}_column={getattr(self, role)!r}: {location} {reason}.")


@dataclass(frozen=True)
class Columns:
    """The choice: what kind of rows, in which columns, and why.

    ``id_like`` is a column that is named as ids are, where the caller named none: its values may serve.
    ``members`` are the columns that make a row together: those of numbers, of which ``data`` is then the first, or
    those of a template, which is then ``data``. ``available`` are all columns, and what each could serve as.
    """

    kind: Kind
    data: str
    label: str | None
    id: str | None
    how: str
    id_like: str | None = None
    members: tuple[str, ...] = ()
    available: Mapping[str, ColumnType] = field(default_factory=dict, compare=False, repr=False)

    def names(self) -> list[str]:
        """Return the distinct columns to read."""
        wanted = (*(self.members or (self.data,)), self.label, self.id)
        return list(dict.fromkeys(name for name in wanted if name is not None))

    def unused_labels(self) -> str | None:
        """Return a column that is named as labels often are, where none is taken."""
        others = [name for name in self.available if name not in self.names()]
        return next((name for name in others if name.lower() in (*_LABEL_NAMES, "y")), None)

    def settings(self) -> tuple[str | None, ...]:
        """Return what a fingerprint must depend on."""
        return (self.kind, self.data, *self.members, self.label, self.id)


def choose_columns(
    available: Mapping[str, ColumnType], request: ColumnRequest, where: str, *, wide: bool = False
) -> Columns:
    """Decide which columns to read.

    What the caller named is taken; a text with braces that is no column is a template of columns. Otherwise the only
    column of images is, else the only column of embeddings, else the only column of text or the one named ``text``;
    where that leaves a choice, the error lists the candidates, unless the caller prefers a kind. A text named like
    ``id`` is none of them beside embeddings. Labels come from a column named like ``label``, if there is one. If
    ``wide``, the numbers of a table that has nothing but numbers, labels and ids are an embedding of each row.

    Examples
    --------
    >>> choose_columns({"text": "text", "label": "number"}, ColumnRequest(), "a.csv").how
    "text in column 'text', labels in column 'label' (by its name)"
    """
    label, label_how = _label_column(available, request, where)
    if request.id is not None:
        _require(request.id, "id", ("text", "number"), available, where)
    named = request.data()
    members = number_columns(available, {label, request.id}) if wide and named is None else ()
    if named is not None:
        kind, data = named
        members = _template_of(named, available)
        for name in members:
            _require(name, "text", ("text", "number", "float"), available, where)
        if members:
            how = f"text by the template {data!r}"
        else:
            _require(data, kind, (kind,), available, where)
            how = f"{_PLURALS[kind]} in column {data!r} (as asked)"
    elif members:
        kind, data = "embedding", members[0]
        how = f"embeddings in {len(members):,} columns of numbers ({members[0]!r} to {members[-1]!r})"
    else:
        kind, data = _data_column(available, {label, request.id}, request.prefer, where)
        how = f"{_PLURALS[kind]} in column {data!r}"
    how += f", labels in column {label!r} ({label_how})" if label is not None else ""
    how += f", ids in column {request.id!r} (as asked)" if request.id is not None else ""
    id_like = _id_like(available, {data, label}) if request.id is None else None
    return Columns(kind, data, label, request.id, how, id_like, members, dict(available))


def _template_of(named: tuple[Kind, str], available: Mapping[str, ColumnType]) -> tuple[str, ...]:
    """Return the columns of what was named, if that is a template."""
    kind, data = named
    return template_columns(data) if kind == "text" and "{" in data and data not in available else ()


def number_columns(
    available: Mapping[str, ColumnType], taken: Collection[str | None] = ()
) -> tuple[str, ...]:
    """Return the columns of a table of numbers, without labels and ids; none if it has texts or columns named so.

    Examples
    --------
    >>> number_columns({"id": "text", "width": "float", "height": "float", "class": "text"}, {"class"})
    ('width', 'height')
    """
    names = [name for name in available if name not in taken]
    names = [name for name in names if name.lower() not in (*_ID_NAMES, *_LABEL_NAMES)]
    numbers = len(names) > 1 and all(available[name] in ("number", "float") for name in names)
    numbers = numbers and not any(name.lower() in _USUAL_NAMES["text"] for name in names)
    return tuple(names) if numbers else ()


def _label_column(
    available: Mapping[str, ColumnType], request: ColumnRequest, where: str
) -> tuple[str | None, str]:
    if request.label == "":
        return None, ""
    if request.label is not None:
        _require(request.label, "label", ("text", "number", "float"), available, where)
        return request.label, "as asked"
    named = request.data()
    taken = {request.id, *((named[1], *_template_of(named, available)) if named else ())}
    usable = {name.lower(): name for name in sorted(available, key=str.islower)}  # "label" before "Label"
    usable = {lower: name for lower, name in usable.items() if available[name] in ("text", "number")}
    column = next((usable[name] for name in _LABEL_NAMES if usable.get(name) not in (None, *taken)), None)
    return column, "" if column is None else "by its name"


def _id_like(available: Mapping[str, ColumnType], taken: set[str | None]) -> str | None:
    usable = {name.lower(): name for name in available if available[name] in ("text", "number")}
    return next((usable[name] for name in _ID_NAMES if usable.get(name) not in (None, *taken)), None)


def _data_column(
    available: Mapping[str, ColumnType], taken: set[str | None], prefer: Kind | None, where: str
) -> tuple[Kind, str]:
    usable = {name: kind for name, kind in available.items() if name not in taken}
    candidates = {kind: [name for name in usable if usable[name] == kind] for kind in _KINDS}
    plausible = [name for name in candidates["text"] if name.lower() not in _ID_NAMES]
    if plausible or candidates["embedding"] or prefer == "embedding":
        candidates["text"] = plausible
    undecided = partial(UndecidedColumnsError, available=available, candidates=candidates)
    present = [kind for kind in _KINDS if candidates[kind]]
    if prefer is not None and candidates[prefer]:
        present = [prefer]
    if not present and prefer == "embedding":
        raise undecided(
            f"{where} has no column of embeddings, which are lists of numbers: put the numbers of each row into "
            f"one such column; its columns are {listed(available)}."
        )
    if not present:
        raise undecided(
            f"{where} has no column of images, text or embeddings; its columns are {listed(available)}."
        )
    # A picture with texts beside it (a caption, a file name) is a picture.
    kind = present[0]
    if "embedding" in present and len(present) > 1:
        choices = " or ".join(f"{kind}_column={candidates[kind][0]!r}" for kind in present)
        raise undecided(f"{where} could be read in several ways: say which, as {choices}.")
    names = candidates[kind]
    usual = [name for name in _USUAL_NAMES[kind] if name in names]
    if len(names) > 1 and not usual:
        raise undecided(
            f"{where} has several columns of {_PLURALS[kind]} ({listed(names)}): "
            f"say which, as {kind}_column={names[0]!r}."
        )
    return kind, usual[0] if usual else names[0]


def _require(
    name: str, role: str, types: tuple[str, ...], available: Mapping[str, ColumnType], where: str
) -> None:
    if name not in available:
        raise unknown_name(f"{role}_column", name, available, f"{where} has no such column; its columns are")
    if available[name] not in types:
        holds = _PLURALS.get(available[name], "something else")
        wanted = " or ".join(dict.fromkeys(_PLURALS[kind] for kind in types))
        raise InvalidInputError(
            f"{role}_column={name!r}: this column of {where} holds {holds}: expected {wanted}; "
            f"its columns are {listed(available)}."
        )


def plain_values(values: Any) -> list[Any]:
    """Return the entries of a list, an array, a tensor or an Arrow column as Python values."""
    convert = getattr(values, "to_pylist", getattr(values, "tolist", None))
    return list(values if convert is None else convert())


def plain_labels(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Label]:
    """Labels as plain Python scalars, None where there is none; ``name`` is as in :func:`plain_ids`."""
    labels = []
    for i, value in enumerate(values):
        try:
            labels.append(plain_label(value))
        except InvalidTypeError:
            raise InvalidTypeError(
                f"{name(i)} has {type(value).__name__} in column {column!r}: a label is a number or a text."
            ) from None
    return labels


def plain_ids(values: Iterable[Any], column: str, name: Callable[[int], str]) -> list[Id]:
    """Ids as integers or strings; ``name`` turns a position into a name for the error."""
    given = list(values)
    if {int, str}.issuperset(map(type, given)):
        return given
    ids: list[Id] = []
    for i, value in enumerate(given):
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, bool) or not isinstance(plain, (int, str)):
            content = "nothing" if plain is None else type(plain).__name__
            raise InvalidTypeError(
                f"{name(i)} has {content} in column {column!r}: an id is an integer or a text."
            )
        ids.append(plain)
    return ids
