"""What commands share about the files they write: refuse early, write whole, explain failures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gmmatch.cli.io.arguments import ForceOption, JsonOption, output_path
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import is_remote, resolved, table_csv, write_table


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
