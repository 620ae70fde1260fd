"""What commands share about the files they write, a table and the page of ``--report``: refuse early, write whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.arguments import ForceOption, JsonOption, output_path, writes
from gmmatch.cli.io.output import join_lines, note, print_json
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
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
    path: Path, *, force: bool, option: str = "--output", folder: bool = False, endings: Sequence[str] = ()
) -> None:
    """Raise unless a result may be written to ``path``; called before the work, not after it."""
    if endings and path.suffix.lower() not in endings:
        raise InvalidInputError(f"{option} {path}: expected a file that ends in {' or '.join(endings)}.")
    if not is_remote(path) and not path.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    if folder and path.exists() and not path.is_dir():
        raise InvalidInputError(f"{option} {path} is a file: give a folder.")
    if not folder and path.is_dir():
        raise InvalidInputError(f"{option} {path} is a folder: give the name of a file.")
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


def protect_inputs(output: Path, inputs: Iterable[str | Path | None], *, folder: str | None = None) -> None:
    """Raise if a result would replace what it is made from, which not even ``--force`` can mean."""
    target = resolved(output)
    for given in (*inputs, folder):
        if given and resolved(given) == target:
            raise InvalidInputError(f"--output {output} is also an input: choose another name.")
    if folder and Path(folder).is_dir() and resolved(folder) in target.parents:
        raise InvalidInputError(
            f"--output {output} lies within {folder}, which is read: choose another folder."
        )


@dataclass(frozen=True)
class TableOutput:
    """Where the table of a command goes, and whether the rest is JSON."""

    output: Annotated[
        Path | None, output_path("File for the table: .csv or .parquet; '-' prints it as CSV.")
    ] = None
    force: ForceOption = False
    as_json: JsonOption = False

    def check(self, folder: str, *inputs: str | None) -> None:
        """Raise unless the table may be written there, and is none of the inputs."""
        if self.output is not None and not is_stdout(self.output):
            check_output(self.output, force=self.force, endings=(".parquet", ".csv"))
            protect_inputs(self.output, inputs, folder=folder)

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

    report: Annotated[
        Path | None, output_path("Also write a page (.html) that shows what was found.", "--report")
    ] = None
    projection: Annotated[
        Literal["pca", "tsne"],
        writes("The map of the page; t-SNE is for at most 4,000 rows.", "--map"),
    ] = "pca"
    quality: Annotated[
        bool,
        writes("Measure on the page how well the picks stand for the rows; takes time.", "--quality"),
    ] = False
    source: Annotated[
        str | None,
        writes(
            "The images or texts to show on the page, if they are not where they were embedded from.",
            "--source",
        ),
    ] = None

    def check(self, folder: str, *, force: bool) -> None:
        """Raise for what cannot become a page; called before the work."""
        if self.report is None:
            given = {"--map": self.projection != "pca", "--quality": self.quality, "--source": self.source}
            for option in filter(given.get, given):
                raise InvalidInputError(f"{option} goes with --report: say where the page goes.")
            return
        check_output(self.report, force=force, option="--report", endings=(".html", ".htm"))
        protect_inputs(self.report, [self.source], folder=folder)
        from gmmatch.report.rendering import check_target

        check_target(self.report)

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
            ids=embeddings.select_ids, quality=self.quality,
        )  # fmt: skip
        note(f"Wrote {self.report}: open it in a browser.")


def has_changed(source: BaseSource, recorded: Mapping[str, Any], fingerprint: str | None) -> bool:
    """Return whether a source is another than the one that was embedded, as a store describes it."""
    # The fingerprint depends on the columns that were asked for: only like is compared with like.
    same_columns = recorded.get("how") == source.describe()["how"]
    return fingerprint is not None and same_columns and source.fingerprint() != fingerprint
