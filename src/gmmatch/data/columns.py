"""Which column of a table holds the rows, which the labels, which the ids."""

from __future__ import annotations

import string
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gmmatch.data.source import Kind
from gmmatch.errors import InvalidInputError, listed, unknown_name

ColumnType: TypeAlias = Literal["image", "text", "embedding", "number", "float", "other"]
"""What a column could serve as; "number" is an integer or a boolean, good for labels."""

_PLURALS = {
    "image": "images", "embedding": "embeddings", "text": "text", "number": "numbers", "float": "numbers",
    "other": "something else",
}  # fmt: skip
_LABEL_NAMES = ("label", "labels", "class", "category", "target", "cls")
# The last three are the index that pandas writes.
_ID_NAMES = ("id", "ids", "idx", "index", "uid", "key", "__key__", "", "unnamed: 0", "__index_level_0__")
_USUAL_NAMES: dict[Kind, tuple[str, ...]] = {
    "image": ("image", "img", "picture", "photo"),
    "embedding": ("embedding", "embeddings", "vector", "features"),
    "text": ("text", "content", "sentence", "document", "caption", "messages"),
}
_KINDS = tuple(_USUAL_NAMES)


class UndecidedColumnsError(InvalidInputError):
    """No column of a table, or no single one, can be taken as the rows unless the caller names it."""

    def __init__(
        self, message: str, available: Mapping[str, ColumnType], candidates: Mapping[Kind, list[str]]
    ) -> None:
        super().__init__(message)
        self.available, self.candidates = available, candidates


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

    def options(self) -> dict[str, str]:
        """Return the named columns as :func:`gmmatch.data.open_source` takes them."""
        roles = {f"{role}_column": getattr(self, role) for role in (*_KINDS, "label", "id")}
        return {option: name for option, name in roles.items() if name is not None}

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
        for option, name in self.options().items():
            if name:
                raise InvalidInputError(f"{option}={name!r}: {location} {reason}.")


@dataclass(frozen=True)
class Columns:
    """The choice: what kind of rows, in which columns, and why.

    ``members`` are the columns that make a row: ``data``; those of numbers, of which ``data`` is then the first;
    or those of a template, which is then ``data``. ``id_like`` is a column that is named as ids are, where the caller
    named none: its values may serve. ``available`` are all columns, and what each could serve as.
    """

    kind: Kind
    data: str
    members: tuple[str, ...]
    label: str | None
    id: str | None
    how: str
    id_like: str | None = None
    available: Mapping[str, ColumnType] = field(default_factory=dict, compare=False, repr=False)

    def names(self) -> list[str]:
        """Return the distinct columns to read."""
        return list(dict.fromkeys(name for name in (*self.members, self.label, self.id) if name is not None))

    def unused_labels(self) -> str | None:
        """Return a column that is named as labels often are, where none is taken."""
        others = [name for name in self.available if name not in self.names()]
        return next((name for name in others if name.lower() in (*_LABEL_NAMES, "y")), None)

    def settings(self) -> tuple[str | None, ...]:
        """Return what a fingerprint must depend on."""
        members = self.members if self.members != (self.data,) else ()
        return (self.kind, self.data, *members, self.label, self.id)


def choose_columns(available: Mapping[str, ColumnType], request: ColumnRequest, where: str) -> Columns:
    """Decide which columns to read.

    What the caller named is taken; a text with braces that is no column is a template of columns. The numbers of a
    table that has nothing but numbers, labels and ids are an embedding of each row. Otherwise the only column of
    images is taken, else the only column of embeddings, else the only column of text or the one named ``text``;
    where that leaves a choice, the error lists the candidates, unless the caller prefers a kind. A text named like
    ``id`` is none of them beside embeddings. Labels come from a column named like ``label``, if there is one.

    Examples
    --------
    >>> choose_columns({"text": "text", "label": "number"}, ColumnRequest(), "a.csv").how
    "text in column 'text', labels in column 'label' (by its name)"
    """
    named = request.data()
    members: tuple[str, ...] = () if named is None else named[1:]
    is_template = named is not None and named[0] == "text" and "{" in named[1] and named[1] not in available
    if named is not None and is_template:
        columns = (column for _, column in parse_template(named[1]) if column is not None)
        members = tuple(dict.fromkeys(columns))
    label, why = request.label or None, "as asked"
    if request.label is None:
        label, why = _named_like(_LABEL_NAMES, available, {request.id, *members}), "by its name"
    _require(label, "label", ("text", "number", "float"), available, where)
    _require(request.id, "id", ("text", "number"), available, where)
    if named is not None:
        kind, data = named
        how = f"{_PLURALS[kind]} in column {data!r} (as asked)"
        if is_template:
            how = f"text by the template {data!r}"
        for member in members:
            _require(member, kind, (kind, "number", "float") if is_template else (kind,), available, where)
    elif members := number_columns(available, {label, request.id}):
        kind, data = "embedding", members[0]
        how = f"embeddings in {len(members):,} columns of numbers ({members[0]!r} to {members[-1]!r})"
    else:
        kind, data = _data_column(available, {label, request.id}, request.prefer, where)
        members, how = (data,), f"{_PLURALS[kind]} in column {data!r}"
    how += f", labels in column {label!r} ({why})" if label is not None else ""
    how += f", ids in column {request.id!r}" if request.id is not None else ""
    id_like = _named_like(_ID_NAMES, available, {data, label}) if request.id is None else None
    return Columns(kind, data, members, label, request.id, how, id_like, available)


def parse_template(template: str) -> list[tuple[str, str | None]]:
    """Return each column of a template with the text before it; the text after the last has no column.

    Examples
    --------
    >>> parse_template("{instruction}\\n{output}")
    [('', 'instruction'), ('\\n', 'output')]
    """
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InvalidInputError(
            f"text_column={template!r}: this is no template ({error}): write columns as {{title}}, braces as {{{{."
        ) from None
    for _, column, format_spec, conversion in fields:
        if column == "" or format_spec or conversion:
            raise InvalidInputError(
                f"text_column={template!r}: expected nothing but the name of a column in braces, such as {{title}}."
            )
    return [(literal, column) for literal, column, _, _ in fields]


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


def _named_like(
    names: tuple[str, ...], available: Mapping[str, ColumnType], taken: Collection[str | None]
) -> str | None:
    """Return the column of texts or whole numbers that has the first of some names, in any case."""
    usable = {name.lower(): name for name in sorted(available, key=str.islower)}  # "label" before "Label"
    usable = {lower: name for lower, name in usable.items() if available[name] in ("text", "number")}
    return next((usable[name] for name in names if usable.get(name) not in (None, *taken)), None)


def _data_column(
    available: Mapping[str, ColumnType], taken: set[str | None], prefer: Kind | None, where: str
) -> tuple[Kind, str]:
    """Return the kind and the column of the rows where none was named."""
    columns = {
        kind: [name for name in available if available[name] == kind and name not in taken] for kind in _KINDS
    }
    plausible = [name for name in columns["text"] if name.lower() not in _ID_NAMES]
    if plausible or columns["embedding"] or prefer == "embedding":
        columns["text"] = plausible
    candidates = {kind: names for kind, names in columns.items() if names}
    # A picture with texts beside it (a caption, a file name) is a picture.
    kind = prefer if prefer in candidates else next(iter(candidates), None)
    if kind is None:
        what = "images, text or embeddings"
        if prefer == "embedding":
            what = "embeddings, which are lists of numbers: put the numbers of each row into one such column"
        problem = f"has no column of {what}; its columns are {listed(available)}."
    elif kind != prefer and "embedding" in candidates and len(candidates) > 1:
        choices = " or ".join(f"{kind}_column={names[0]!r}" for kind, names in candidates.items())
        problem = f"could be read in several ways: say which, as {choices}."
    else:
        names = candidates[kind]
        usual = [name for name in _USUAL_NAMES[kind] if name in names]
        if usual or len(names) == 1:
            return kind, [*usual, *names][0]
        plural, option = _PLURALS[kind], f"{kind}_column={names[0]!r}"
        problem = f"has several columns of {plural} ({listed(names)}): say which, as {option}."
    raise UndecidedColumnsError(f"{where} {problem}", available, candidates)


def _require(
    name: str | None,
    role: str,
    types: tuple[ColumnType, ...],
    available: Mapping[str, ColumnType],
    where: str,
) -> None:
    if name is not None and name not in available:
        raise unknown_name(f"{role}_column", name, available, f"{where} has no such column; its columns are")
    if name is not None and available[name] not in types:
        wanted = " or ".join(dict.fromkeys(_PLURALS[kind] for kind in types))
        raise InvalidInputError(
            f"{role}_column={name!r}: this column of {where} holds {_PLURALS[available[name]]}: expected {wanted}; "
            f"its columns are {listed(available)}."
        )
