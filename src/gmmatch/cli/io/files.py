"""What commands share about the files they write, a table and the page of ``--report``: refuse early, write whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import ForceOption, JsonOption, output_path, writes
from gmmatch.cli.io.output import join_lines, note, print_json
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError, imported
from gmmatch.files import is_remote, resolved, table_csv, write_table

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.data.tables import BaseSource
    from gmmatch.report.content import Contents
    from gmmatch.selection.selection import Selection


def is_stdout(path: Path | None) -> bool:
    """Return whether a result is to be printed."""
    return str(path) == "-"


def check_output(
    path: Path, *inputs: str | Path | None, force: bool, option: str = "--output", folder: bool = False,
    endings: Sequence[str] = (), source: str | None = None,
) -> None:  # fmt: skip
    """Raise unless a result may be written to ``path``; called before the work, not after it.

    It must be none of the inputs, nor lie within the ``source`` that is read: not even ``--force`` can mean that.
    """
    if endings and path.suffix.lower() not in endings:
        raise InvalidInputError(f"{option} {path}: expected a file that ends in {' or '.join(endings)}.")
    if not is_remote(path) and not path.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    target = resolved(path)
    if target in [resolved(given) for given in (*inputs, source) if given]:
        raise InvalidInputError(f"{option} {path} is also an input: choose another name.")
    if source and Path(source).is_dir() and resolved(source) in target.parents:
        raise InvalidInputError(f"{option} {path} lies within {source}, which is read: choose another.")
    if path.exists() and folder != path.is_dir():
        is_a, other = ("a file", "a folder") if folder else ("a folder", "the name of a file")
        raise InvalidInputError(f"{option} {path} is {is_a}: give {other}.")
    exists = path.exists() if is_remote(path) else os.path.lexists(path)
    if exists and not force:
        raise InvalidInputError(f"{option} {path} exists already: choose another name, or pass --force.")


@contextmanager
def updating(picks: Path, *, in_place: bool = True) -> Iterator[Selection]:
    """Yield the picks of a file, which no other command may replace before they are saved: its work would be lost."""
    from gmmatch.selection.selection import Selection
    from gmmatch.store.commits import WriterLock

    with closing(WriterLock(picks)) if in_place and picks.is_file() else nullcontext():
        yield Selection.load(picks)


@dataclass(frozen=True)
class TableOutput:
    """Where the table of a command goes, and whether the rest is JSON."""

    output: Annotated[Path | None, output_path("A table, .csv or .parquet; '-' prints it as CSV.")] = None
    force: ForceOption = False
    as_json: JsonOption = False

    def check(self, source: str, *inputs: str | None) -> None:
        """Raise unless the table may be written there, and is none of the inputs."""
        if self.output is not None and not is_stdout(self.output):
            check_output(self.output, *inputs, force=self.force, endings=(".parquet", ".csv"), source=source)

    def finish(self, table: Any, summary: Mapping[str, Any], tell: Callable[[bool], None]) -> None:
        """Write the table, and print the facts as JSON or tell them: on stderr if stdout is the table's."""
        if is_stdout(self.output):
            typer.echo(table_csv(table).decode(), nl=False)
        elif self.output is not None:
            write_table(table, self.output)
        if self.as_json:
            print_json({**({} if self.output is None else {"output": str(self.output)}), **summary})
            return
        tell(is_stdout(self.output))
        if self.output is not None and not is_stdout(self.output):
            note(f"Wrote {self.output}: {table.num_rows:,} rows.")


@dataclass(frozen=True)
class Report:
    """The page that was asked for.

    Examples
    --------
    >>> Report(projection="tsne").check("x.emb", force=False)
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: --map goes with --report: say where the page goes.
    """

    report: Annotated[Path | None, output_path("Also write a page (.html) of it.", "--report")] = None
    projection: Annotated[Literal["pca", "tsne"], writes("How the page maps the rows.", "--map")] = "pca"
    source: Annotated[str | None, writes("The images or texts, if they were moved.", "--source")] = None

    def check(self, source: str, *, force: bool) -> None:
        """Raise for what cannot become a page; called before the work."""
        if self.report is not None:
            endings = (".html", ".htm")
            check_output(
                self.report, self.source, force=force, option="--report", endings=endings, source=source
            )
            imported("jinja2", "The report needs Jinja2", "report")
        elif self.projection != "pca" or self.source:
            option = "--source" if self.source else "--map"
            raise InvalidInputError(f"{option} goes with --report: say where the page goes.")

    def open_contents(self, embeddings: Embeddings) -> Contents | None:
        """Open the images or texts, if a page is wanted; before the work, as they may be wrong.

        What ``--source`` names must fit. What a store merely remembers is left away, with a note, if it has moved or
        changed.
        """
        if self.report is None:
            return None
        from gmmatch.data.files import expand
        from gmmatch.data.opening import open_source, read_description
        from gmmatch.report.content import open_contents

        store = embeddings.store
        recorded = {} if store is None else store.source
        was_at, options = read_description(recorded)
        location = self.source or was_at
        if not location or (self.source is None and recorded.get("kind") not in ("image", "text")):
            return None
        try:
            # Opening anything else could mean a download, which a page is not worth.
            if self.source is None and not (Path(location).expanduser().exists() or expand(location)):
                raise InvalidInputError(f"{location} does not exist any more.")
            source = open_source(location, **options)
            if store is None:
                return open_contents(source, len(embeddings))
            # A store of somebody else could name any file of this machine: what its page shows is proved or named.
            fingerprint = store.manifest.source_fingerprint
            is_proved = self.source is not None or fingerprint == source.fingerprint()
            if not is_proved or has_changed(source, recorded, fingerprint):
                raise InvalidInputError(f"{location} is not what was embedded, or has changed since.")
            return open_contents(source, len(embeddings), store.source_rows)
        except GMMatchError as error:
            if self.source is not None:
                raise
            note(f"The page has no pictures or texts: {join_lines(error)} Name them by --source.")
            return None

    def write(self, subject: Any, embeddings: Embeddings, contents: Contents | None) -> None:
        """Write the page about a selection, several ones by name, or a screening, if one is wanted."""
        if self.report is None:
            return
        import gmmatch as gm

        gm.write_report(
            subject, self.report, embeddings.X, embeddings.y, source=contents, projection=self.projection,
            ids=embeddings.select_ids,
        )  # fmt: skip
        note(f"Wrote {self.report}: open it in a browser.")


def has_changed(source: BaseSource, recorded: Mapping[str, Any], fingerprint: str | None) -> bool:
    """Return whether a source is another than the one that was embedded, as a store describes it."""
    # The fingerprint depends on the columns that were asked for: only like is compared with like.
    same_columns = recorded.get("how") == source.describe()["how"]
    return fingerprint is not None and same_columns and source.fingerprint() != fingerprint
