"""The two pages: one selection, and several methods side by side."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from gmmatch import __version__
from gmmatch.errors import InvalidInputError
from gmmatch.report.content import Content, Contents, contents_of, describe
from gmmatch.report.findings import MOST_LISTED, headline, in_short, mixed_up, suspect_table
from gmmatch.report.galleries import (
    SHOWN_FIRST,
    CardMaker,
    largest_groups,
    mislabeled_picks,
    screened_out,
    standing_apart,
    typical_picks,
)
from gmmatch.report.map_data import (
    Drawn,
    choose_rows,
    content_sample,
    json_for_page,
    map_data,
    row_states,
    tabled_picks,
)
from gmmatch.report.names import Classes, RowNames, classes_of
from gmmatch.report.projection import (
    MOST_POINTS,
    Projection,
    ProjectionName,
    check_projection,
    offered,
    project,
)
from gmmatch.report.quality import comparison_facts, quality_of, yardsticks_for
from gmmatch.report.rendering import check_target, write_page
from gmmatch.report.summary import about_method, class_lines, facts, python_to_run_again
from gmmatch.rows.checks import check_rows
from gmmatch.rows.rows import Rows
from gmmatch.selection.selection import Selection
from gmmatch.types import Indices, Mask
from gmmatch.yardsticks import Yardsticks, class_means


@dataclass(frozen=True, eq=False)
class _Subject:
    """What both pages are about: the rows, what they are called, and where they lie on the map."""

    rows: Rows
    classes: Classes
    names: RowNames
    source: Contents | None
    selections: dict[str, Selection]
    drawn: Drawn
    maps: list[Projection]
    seed: int
    notes: list[str]

    def yardsticks(self, reference: Mask | None) -> Yardsticks:
        """Return what measures the selections, class by class if the methods picked so."""
        per_class = self.classes.known and any(
            group.label is not None for selection in self.selections.values() for group in selection.groups
        )
        return yardsticks_for(self.rows, self.classes if per_class else None, reference, self.seed)

    def fetch(self, galleries: Sequence[Indices]) -> dict[int, Content]:
        """Read the pictures and texts of the galleries and of a sample of the map, and the ids of all of them."""
        self.names.look_up(np.concatenate([self.drawn.rows, *galleries]))
        if self.source is None:
            return {}
        random = np.random.default_rng([self.seed, 3])
        sample = content_sample(self.drawn, list(self.selections.values()), random)
        return self.source.fetch(np.concatenate([sample, *galleries]))

    def map_facts(
        self, contents: dict[int, Content], suspects: dict[str, list[Any]] | None = None
    ) -> dict[str, Any]:
        """Return what the templates say about the map, what its script draws, and the table to download."""
        data = map_data(self.maps, self.drawn, self.classes, self.names, contents, self.selections)
        data["suspects"] = suspects
        first = next(iter(self.selections.values()))
        return {
            "map_data": json_for_page(data),
            "maps": [(one["name"], one["said"]) for one in data["maps"]],
            "drawn": self.drawn,
            "shown_first": SHOWN_FIRST,
            "classes": data["classes"],
            "panels": [(title, selection.k) for title, selection in self.selections.items()],
            "states": self.drawn.counts,
            "tabled": tabled_picks(self.drawn, self.classes, self.names, first),
            "contents_said": describe(contents),
            "has_source": self.source is not None,
        }


def write_report(
    selection: Selection,
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    source: Any = None,
    class_names: Any = None,
    projection: ProjectionName | None = None,
    ids: Any = None,
    seconds: float | None = None,
    command: str | None = None,
) -> None:
    """Write a page about a selection: what it picked, how good that is, what it left out.

    Parameters
    ----------
    selection
        What the page is about.
    path
        Where it goes; ends in ``.html``. Replaced if it exists.
    X : array of shape (n, s)
        The rows that the selection was made from.
    y : array of shape (n,), optional
        Their labels.
    source, optional
        The pictures or texts behind the rows: what :func:`gmmatch.data.open_source` takes or returns, or a
        list, an array or a torch Dataset of PIL images, arrays, paths or strings.
    class_names : mapping of label to name, or list of names by label, optional
        What to call the classes.
    projection : "pca", "tsne" or "umap", optional
        How rows become points on the map. By default PCA, with t-SNE beside it if there are at most 2,000 rows.
    ids : array of shape (n,), optional
        What to call the rows. Or a function that returns the ids of row numbers.
    seconds, command, optional
        How long the selection took, and the command line that made it, for the page to tell.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gmmatch import GMMatching
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(GMMatching(k=10).select(X), f"{folder}/picks.html", X)
    ...     "10 of 50 rows" in Path(folder, "picks.html").read_text(encoding="utf-8")
    True
    """
    target = check_target(path)
    title = str(selection.provenance.get("method") or "selection")
    subject = _subject({title: selection}, X, y, source, class_names, projection, ids)
    screening = selection.screening
    yardsticks = subject.yardsticks(None if screening is None or not screening.kept.any() else screening.kept)
    centres = class_means(subject.rows, selection.order, subject.classes.of_row, len(subject.classes))
    suspects = screened_out(selection, subject.classes)
    if screening is None:
        suspects = standing_apart(subject.rows, subject.drawn.rows, subject.classes, centres)
    typical = {}
    if subject.source is not None:  # row numbers alone show nothing
        typical = typical_picks(subject.rows, selection, subject.classes, centres)
    repeated = largest_groups(selection)
    shown = [*(one.rows for one in suspects), *typical.values(), *(rows for _, rows in repeated)]
    contents = subject.fetch(shown)
    cards = CardMaker(subject.classes, subject.names, contents, subject.drawn.places)
    picked = np.bincount(subject.classes.of_row[selection.order], minlength=len(subject.classes))
    write_page(
        target,
        "report.html.j2",
        {
            **subject.map_facts(contents, suspect_table(selection, subject.classes, subject.names)),
            **_summary(selection, title),
            "mixed_up": mixed_up(selection, subject.classes),
            "facts": facts(selection, seconds, datetime.now()),
            "lines": class_lines(selection, subject.classes),
            "notes": subject.notes,
            "quality": quality_of(selection, yardsticks),
            "screened": screening is not None,
            "most_listed": MOST_LISTED,
            "suspects": cards.suspects(suspects),
            "examined": len(subject.drawn.rows),
            "duplicates": selection.provenance.get("duplicates"),
            "duplicate_groups": cards.groups(repeated),
            "typical": cards.typical(typical, picked),
            "n_classes": len(subject.classes) if subject.classes.known else 0,
            "command": command,
            "python": python_to_run_again(selection),
            "version": __version__,
        },
    )


def _summary(selection: Selection, title: str) -> dict[str, Any]:
    distinct = len(np.unique(selection.order))
    screened = 0 if selection.screening is None else int((~selection.screening.kept).sum())
    return {
        "title": title,
        "headline": headline(selection),
        "in_short": in_short(selection) or about_method(selection),
        "k": selection.k,
        "distinct": distinct,
        "n_rows": selection.n_rows,
        "n_screened": screened,
        "n_left": selection.n_rows - distinct - screened,
    }


def write_comparison(
    selections: Mapping[str, Selection],
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    source: Any = None,
    class_names: Any = None,
    projection: ProjectionName | None = None,
    ids: Any = None,
    truth: Any = None,
    reference: Mask | None = None,
    measured: Sequence[Mapping[str, Any]] | None = None,
    caption: str = "",
    command: str | None = None,
) -> None:
    """Write a page that shows several selections from the same rows side by side, on the same map.

    Parameters
    ----------
    selections
        By the names that the page gives them.
    path, X, y, source, class_names, projection, ids, command
        As in :func:`write_report`.
    truth : array of shape (n,), optional
        The true labels, where they are known: the page then shows each method's mislabeled picks.
    reference : bool array of shape (n,), optional
        Which rows the picks are compared with. By default those whose label is the true one, or all.
    measured, optional
        The figures of each selection, if they were measured before: mappings with some of ``moment_error``,
        ``mmd``, ``coverage_mean``, ``coverage_max``, ``imbalance``, ``contamination`` and ``seconds``.
    caption
        What the figures were measured on.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gmmatch import Easy, Random
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> found = {"easy": Easy(k=5).select(X), "random": Random(k=5).select(X)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_comparison(found, f"{folder}/compared.html", X)
    ...     "2 methods side by side" in Path(folder, "compared.html").read_text(encoding="utf-8")
    True
    """
    target = check_target(path)
    if not selections:
        raise InvalidInputError("selections is empty: give at least one.")
    subject = _subject(dict(selections), X, y, source, class_names, projection, ids)
    wrong = []
    if truth is not None and subject.classes.known:
        true = subject.classes.positions_of(truth)
        wrong = [mislabeled_picks(one, subject.classes, true) for one in selections.values()]
        reference = true == subject.classes.of_row if reference is None else reference
    yardsticks = subject.yardsticks(reference)
    contents = subject.fetch([one.rows for one in wrong])
    cards = CardMaker(subject.classes, subject.names, contents, subject.drawn.places)
    write_page(
        target,
        "comparison.html.j2",
        {
            **subject.map_facts(contents),
            **comparison_facts(
                subject.selections,
                yardsticks,
                subject.classes,
                measured,
                caption,
                [one.total for one in wrong],
            ),
            "mislabeled": list(zip(selections, cards.suspects(wrong), strict=False)),
            "notes": subject.notes,
            "written": datetime.now().strftime("%Y-%m-%d %H:%M"),
            "command": command,
            "version": __version__,
        },
    )


def _subject(
    selections: dict[str, Selection],
    X: Any,
    y: Any,
    source: Any,
    class_names: Any,
    projection: ProjectionName | None,
    ids: Any,
) -> _Subject:
    check_projection(projection)
    rows = check_rows(X)
    made = list(selections.values())
    for selection in made:
        if selection.n_rows != len(rows):
            raise InvalidInputError(
                f"X has {len(rows):,} rows, but the selection was made from {selection.n_rows:,}: give the rows it "
                "was made from."
            )
        if not selection.k:
            raise InvalidInputError("The selection is empty: there is nothing to report.")
    classes = classes_of(y, len(rows), class_names)
    contents = contents_of(source, len(rows))
    seed = made[0].provenance.get("seed")
    seed = seed if isinstance(seed, int) and seed >= 0 else 0
    random = np.random.default_rng(seed)
    states = row_states(made)
    drawn = choose_rows(states, MOST_POINTS["pca"], random)
    maps = []
    for name in offered(projection, len(drawn.rows)):
        some = choose_rows(states[drawn.rows], MOST_POINTS[name], random).rows
        maps.append(project(rows, drawn.rows[some], name, seed).among(some, len(drawn.rows)))
    return _Subject(
        rows=rows,
        classes=classes,
        names=RowNames(ids, made, len(rows)),
        source=contents,
        selections=selections,
        drawn=drawn,
        maps=maps,
        seed=seed,
        notes=_notes(made[0], rows, classes),
    )


def _notes(selection: Selection, rows: Rows, classes: Classes) -> list[str]:
    """What a reader should know before trusting the page."""
    from gmmatch.selectors.provenance import fingerprint

    said = []
    given = selection.provenance.get("input")
    known = given.get("fingerprint") if isinstance(given, dict) else None
    if known is not None and known != fingerprint(rows):
        said.append(
            "The rows given for this page are not those that the selection was made from (their fingerprints "
            "differ): the map and the figures are those of the rows given."
        )
    if not classes.known and any(group.label is not None for group in selection.groups):
        said.append(
            "The selection was made class by class, but no labels were given for this page: the map and the figures "
            "are those of all rows together."
        )
    return said
