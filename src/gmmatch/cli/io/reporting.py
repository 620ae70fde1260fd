"""The page that `select` and `compare` write with ``--report``: its options, and where its pictures come from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.files import check_output, explained
from gmmatch.cli.io.output import note
from gmmatch.errors import GMMatchError, InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.report.content import Contents
    from gmmatch.selection.selection import Selection


@dataclass
class Report:
    """What was asked of the page.

    Examples
    --------
    >>> Report(projection="tsne").check(force=False, context=None)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: --map goes with --report: say where the page goes.
    """

    report: Annotated[
        Path | None, typer.Option("--report", help="Also write a page (.html) that shows what was picked.")
    ] = None
    projection: Annotated[
        Literal["pca", "tsne", "umap"] | None,
        typer.Option(
            "--map", help="The page's map. By default PCA, with t-SNE beside it for at most 2,000 rows."
        ),
    ] = None
    content: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="The images or texts to show on the page, if they are not where they were embedded from.",
        ),
    ] = None

    contents: Any = field(default=None, init=False)  # images or texts, where they are known
    context: Any = field(default=None, init=False)

    def check(self, *, force: bool, context: Any) -> None:
        """Raise for what cannot become a page; called before the work."""
        path = self.report
        self.context = context
        if path is None:
            for option, value in (("--map", self.projection), ("--source", self.content)):
                if value is not None:
                    raise InvalidInputError(f"{option} goes with --report: say where the page goes.")
            return
        check_output(path, force=force, option="--report", endings=(".html", ".htm"))
        from gmmatch.report.projection import check_projection
        from gmmatch.report.rendering import check_target

        try:
            check_projection(self.projection)
        except MissingDependencyError as error:
            raise MissingDependencyError(str(error).replace("projection='umap'", "--map umap")) from None
        check_target(path)

    def find_contents(self, embeddings: Embeddings) -> None:
        """Open the images or texts, if a page is wanted; before the work, as they may be wrong."""
        if self.report is not None:
            self.contents = _find_contents(embeddings, self.content)

    def write(
        self, picked: Selection | Mapping[str, Selection], embeddings: Embeddings, **facts: Any
    ) -> None:
        """Write the page of a selection, or of those of several methods, if one is wanted."""
        if self.report is None:
            return
        from gmmatch.report import write_comparison, write_report

        write: Any = write_comparison if isinstance(picked, Mapping) else write_report
        with explained(self.report):
            write(
                picked,
                self.report,
                embeddings.rows,
                embeddings.labels,
                source=self.contents,
                projection=self.projection,
                ids=embeddings.ids_of,
                command=command_line(self.context),
                **facts,
            )


def _find_contents(embeddings: Embeddings, asked: str | None) -> Contents | None:
    """Open the images or texts behind some embeddings.

    What ``--source`` names must fit. What a store merely remembers is left away, with a note, if it has moved or
    changed.
    """
    if asked is not None:
        return _opened(embeddings, asked)
    before = {} if embeddings.store is None else embeddings.store.source
    location = str(before.get("location") or "")
    if before.get("kind") not in ("image", "text") or not location:
        return None
    from gmmatch.data.files import expand

    try:
        # Opening anything else could mean a download, which a page is not worth.
        if not (Path(location).expanduser().exists() or expand(location)):
            raise InvalidInputError(f"{location} is not here any more.")
        return _opened(embeddings, location)
    except GMMatchError as error:
        note(f"The page has no pictures or texts: {' '.join(str(error).split())} Name them by --source.")
        return None


def _opened(embeddings: Embeddings, location: str) -> Contents | None:
    import numpy as np

    from gmmatch.cli.io.inputs import has_changed
    from gmmatch.data import open_source
    from gmmatch.report.content import contents_of

    store = embeddings.store
    before = {} if store is None else store.source
    source = open_source(location, **before.get("opened_with", {}))
    if store is None or source.n_rows is None:
        return contents_of(source, len(embeddings))
    if has_changed(source, before, store.manifest.source_fingerprint):
        raise InvalidInputError(f"{location} is not what was embedded, or has changed since.")
    if source.n_rows != before.get("n_rows"):
        return contents_of(source, len(embeddings))  # which says what is wrong, unless the lengths agree
    positions = store.source_rows
    everything = len(positions) == source.n_rows and np.array_equal(positions, np.arange(len(positions)))
    return contents_of(source, len(embeddings), None if everything else positions)


def command_line(context: Any) -> str:
    """Return the command as it was typed, but for the order of its options."""
    words = ["gmmatch", str(context.info_name)]
    for parameter in sorted(context.command.params, key=lambda one: one.param_type_name != "argument"):
        origin = context.get_parameter_source(parameter.name)
        value = context.params.get(parameter.name)
        if origin is None or origin.name != "COMMANDLINE" or value is None:
            continue
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif getattr(parameter, "is_flag", False):
            words.append(parameter.opts[0])
        else:
            option = min(parameter.opts, key=len) if "-o" in parameter.opts else parameter.opts[0]
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [option, str(one)]
    return shlex.join(words)
