"""What the page says in words and tables: how many labels look wrong, which ones, and what was picked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from gmmatch._array import Indices
from gmmatch.errors import GMMatchError
from gmmatch.methods.record import fingerprint_rows
from gmmatch.methods.registry import method_class, method_from_record
from gmmatch.report.subject import Subject, count_of, shorten
from gmmatch.screening.result import ScreeningResult
from gmmatch.selection.selection import Selection

# So many columns fit a page.
_MATRIX_CLASSES = 12
_MAX_PAIRS = 12
_SHADES = 5
# Lines of the table to download: under a megabyte of ids as long as paths are.
MAX_LISTED = 10_000
_FACT_LENGTH = 160


def headline(subject: Subject) -> str:
    """Return what was learned, in a few words."""
    if len(subject.selections) > 1:
        return f"{len(subject.selections)} selections side by side"
    if subject.screening is not None:
        return _summarize(subject.screening)[0]
    k = 0 if subject.selection is None else subject.selection.k
    again = "" if len(subject.picks) == k else f", {len(subject.picks):,} of them different"
    return f"{k:,} of {len(subject.rows):,} rows picked{again}"


def _summarize(screening: ScreeningResult) -> tuple[str, str]:
    """Return the first sentence of a summary without its full stop, and the others, without notes and doubt.

    The notes are a list of their own, and how many rows are doubtful is said with the other verdicts.
    """
    summary = screening.summary
    first, *rest = (summary.removesuffix(" ".join(screening.notes)).strip() or summary).split(". ")
    return first.removesuffix("."), ". ".join(text for text in rest if "rows are doubtful" not in text)


def lead(subject: Subject) -> str:
    """Return the rest of what was learned, in a few sentences."""
    screening, selection = subject.screening, subject.selection
    sentences = []
    if screening is not None:
        first, rest = _summarize(screening)
        if len(subject.selections) > 1:
            sentences.append(f"{first}.")
        verdicts = _count_verdicts(subject, slice(None), ("wrong", "doubtful", "trusted", "not judged"))
        sentences += [f"Of {count_of(len(screening), 'row')}: {', '.join(verdicts)}.", rest]
    if selection is not None and screening is not None:
        picked = _count_verdicts(subject, subject.picks, ("wrong", "doubtful", "not judged"))
        among = f"{' and '.join(picked)} among them" if picked else "all of them trusted"
        sentences.append(f"{count_of(selection.k, 'row')} picked, {among}.")
    elif selection is not None:
        sentences.append(_about_method(selection))
        sentences.append("No screening was used: whether the rows can be trusted was not looked at.")
    return " ".join(sentence for sentence in sentences if sentence)


def _count_verdicts(subject: Subject, rows: Any, verdicts: tuple[str, ...]) -> list[str]:
    counts = {verdict: int(subject.has_verdict(verdict)[rows].sum()) for verdict in verdicts}
    return [f"{count:,} {verdict}" for verdict, count in counts.items() if count]


def _about_method(selection: Selection) -> str:
    try:
        text = method_class(str(selection.provenance.get("method"))).__doc__ or ""
    except GMMatchError:
        return ""
    return text.strip().partition("\n")[0].replace("`", "")


@dataclass(frozen=True)
class MixedUp:
    """Labels in question, by what they are and what they look like.

    Of a few classes, a matrix: a line for each label (name, total, cells), and a cell (count, shade, whether it is
    the class itself) for each class that rows look like. Of more, the largest pairs (label, class, rows).
    """

    verdict: str
    columns: list[str]
    lines: list[tuple[str, int, list[tuple[int, int, bool]]]]
    pairs: list[tuple[str, str, int]]


def mixed_up(subject: Subject) -> MixedUp | None:
    """Count the labels that look wrong (the doubtful ones if none does) by what they are and should be."""
    screening, classes = subject.screening, subject.classes
    if screening is None or not classes.is_known:
        return None
    is_label = np.asarray(screening.reason == "mislabeled")
    for verdict in ("wrong", "doubtful"):
        rows = np.flatnonzero(is_label & subject.has_verdict(verdict))
        if len(rows):
            return _count_pairs(subject, rows, verdict)
    return None


def _count_pairs(subject: Subject, rows: Indices, verdict: str) -> MixedUp:
    n = len(subject.classes)
    likely = subject.looks_like(rows)
    # A label can be doubted without another one being likelier.
    likely = np.where(likely < 0, n, likely)
    names = [*subject.classes.names, "unclear"]
    pairs, counts = np.unique(subject.classes.codes[rows] * (n + 1) + likely, return_counts=True)
    if n > _MATRIX_CLASSES:
        order = np.argsort(-counts, kind="stable")[:_MAX_PAIRS]
        given, looks = np.divmod(pairs[order], n + 1)
        largest = zip(given.tolist(), looks.tolist(), counts[order].tolist(), strict=True)
        return MixedUp(verdict, [], [], [(names[i], names[j], count) for i, j, count in largest])
    matrix = np.zeros((n, n + 1), dtype=np.int64)
    matrix.flat[pairs] = counts
    n_columns = n + 1 if matrix[:, n].any() else n
    largest_count = int(matrix.max())
    lines = [
        (
            names[i],
            int(matrix[i].sum()),
            [
                (int(matrix[i, j]), -(-_SHADES * int(matrix[i, j]) // largest_count), i == j)
                for j in range(n_columns)
            ],
        )
        for i in range(n)
    ]
    return MixedUp(verdict, names[:n_columns], lines, [])


def suspect_table(subject: Subject) -> dict[str, list[Any]] | None:
    """Return the wrong and the doubtful rows for the page's download, the most suspicious first."""
    screening = subject.screening
    if screening is None:
        return None
    is_suspect = subject.has_verdict("wrong") | subject.has_verdict("doubtful")
    rows = screening.ranking[is_suspect[screening.ranking]][:MAX_LISTED]
    if not len(rows):
        return None
    table = screening.to_frame("pyarrow").take(rows)
    columns: dict[str, list[Any]] = {"row": rows.tolist()}
    ids = subject.names.ids(rows)
    if any(name is not None for name in ids):
        columns["id"] = _as_texts(ids)
    for name in ("label", "suggested") if subject.classes.is_known else ():
        columns[name] = _as_texts(table[name].to_pylist())
    columns |= {name: table[name].to_pylist() for name in ("verdict", "reason")}
    columns["probability"] = np.round(table["probability"], 4).tolist()
    return columns


def _as_texts(values: list[Any]) -> list[str]:
    return ["" if value is None else str(value) for value in values]


def class_lines(subject: Subject) -> list[dict[str, Any]]:
    """Return the counts of each class, and its shares of the rows and of the picks; without labels, of all rows."""
    classes, selection = subject.classes, subject.selection
    order = np.empty(0, dtype=np.int64) if selection is None else selection.order
    counted = {"rows": slice(None), "picked": order}
    counted |= {verdict: subject.has_verdict(verdict) for verdict in ("doubtful", "wrong")}
    columns = {name: classes.count(rows) for name, rows in counted.items()}
    per_class = [] if subject.screening is None else subject.screening.per_class()
    rates = {line["label"]: line["noise_rate"] for line in per_class}
    lines = []
    for number, (name, label) in enumerate(zip(classes.names, classes.labels, strict=True)):
        line = {key: counts[number] for key, counts in columns.items()}
        before, after = line["rows"] / len(classes.codes), line["picked"] / max(1, len(order))
        lines.append({"name": name, **line, "noise_rate": rates.get(label), "before": before, "after": after})
    return lines


def compare(subject: Subject) -> list[dict[str, Any]]:
    """Return a line for each of several selections; ``shared`` is the share of its picks that each of them has."""
    picks = {name: np.unique(selection.order) for name, selection in subject.selections.items()}
    lines = []
    for name, rows in picks.items():
        verdicts = {
            verdict: int(subject.has_verdict(verdict)[rows].sum()) for verdict in ("wrong", "doubtful")
        }
        shared = [np.isin(rows, other).sum() / max(1, len(rows)) for other in picks.values()]
        lines.append({"name": name, "picked": len(rows), **verdicts, "shared": shared})
    return lines


def notes_about(subject: Subject) -> list[str]:
    """Return what a reader should know before trusting the page."""
    notes = []
    for name, selection in subject.selections.items():
        known = _mapping(selection.provenance.get("input")).get("fingerprint")
        if known is not None and known != fingerprint_rows(subject.rows):
            notes.append(
                f"The rows given for this page are not those that {name} was made from (their fingerprints differ): "
                "the map is that of the rows given."
            )
        if not subject.classes.is_known and any(label is not None for label in selection.classes):
            notes.append(
                f"{name} was made class by class, but no labels were given for this page: its tables are those of "
                "all rows together."
            )
    return notes


def describe_origin(subject: Subject) -> list[tuple[str, str]]:
    """Return what is known of how a selection was made, as pairs of a name and a text."""
    selection = subject.selection
    record = {} if selection is None else selection.provenance
    given, store = _mapping(record.get("input")), _mapping(record.get("embeddings"))
    lines: list[tuple[str, Any]] = [("Method", _describe_method(record))]
    if record.get("preprocess"):
        lines.append(("Preprocessing", ", ".join(record["preprocess"])))
    width = f" of {count_of(given['n_features'], 'number')} each" if "n_features" in given else ""
    lines.append(("Rows", f"{len(subject.rows):,}{width}"))
    if selection is not None and selection.weights is not None and selection.k:
        lines.append(("Weights", f"{selection.weights.min():.3g} to {selection.weights.max():.3g}"))
    lines += [
        ("Encoder", store.get("encoder")),
        ("Source", _mapping(store.get("source")).get("location")),
        ("Made by", f"gmmatch {record['version']}" if record.get("version") else None),
        ("Page written", datetime.now().strftime("%Y-%m-%d %H:%M")),
    ]
    return [(name, shorten(value, _FACT_LENGTH)) for name, value in lines if value not in (None, "")]


def _describe_method(record: dict[str, Any]) -> str | None:
    """Return the method with the parameters that are not what they are by default."""
    try:
        return repr(method_from_record(record))
    except GMMatchError:  # a method of someone else's, or a selection made by hand
        return record.get("method")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
