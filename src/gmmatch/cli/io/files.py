"""What commands share about the files they write: refuse early, write whole, explain failures."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gmmatch.cli.io.arguments import ForceOption, JsonOption, output_path
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch.files import as_path, csv_bytes, is_remote, replacing


class OutputError(GMMatchError, OSError):
    """A result could not be written (a full disk, missing rights); nothing half-written is left."""

    def __str__(self) -> str:
        return str(self.strerror)


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
    target = _resolve(output)
    for given in (*inputs, folder):
        if given and _resolve(given) == target:
            raise InvalidInputError(f"--output {output} is also an input: choose another name.")
    if folder and Path(folder).is_dir() and _resolve(folder) in target.parents:
        raise InvalidInputError(
            f"--output {output} lies within {folder}, which is read: choose another folder."
        )


def _resolve(path: str | Path) -> Path:
    return as_path(path) if is_remote(path) else Path(str(path).partition("::")[0]).expanduser().resolve()


def overlap(path: Path, other: Path) -> bool:
    """Return whether one path lies at or below the other, links resolved."""
    first, second = _resolve(path), _resolve(other)
    return first == second or first in second.parents or second in first.parents


@contextmanager
def explain_failure(path: Path) -> Iterator[None]:
    """Turn a failed write into one sentence that names the output."""
    try:
        yield
    except GMMatchError:
        raise
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        reason = (error.strerror or str(error)).rstrip(".")
        raise OutputError(error.errno, f"{path} could not be written: {reason}.") from error


@contextmanager
def write_whole(path: Path) -> Iterator[Path]:
    """Yield a temporary name for a file that takes its place if all goes well; failures are explained."""
    with explain_failure(path), replacing(path) as [temporary]:
        yield temporary


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
        if self.output is not None:
            self._write(table, self.output)
        if self.as_json:
            print_json({**({} if self.output is None else {"output": str(self.output)}), **summary})
            return
        tell(is_stdout(self.output))
        if self.output is not None and not is_stdout(self.output):
            note(f"Wrote {self.output}: {table.num_rows:,} rows.")

    def _write(self, table: Any, path: Path) -> None:
        import pyarrow.parquet

        if path.suffix.lower() == ".parquet":
            with write_whole(path) as temporary:
                pyarrow.parquet.write_table(table, temporary)
            return
        contents = csv_bytes([table.column_names, *zip(*table.to_pydict().values(), strict=True)])
        if is_stdout(path):
            typer.echo(contents.decode(), nl=False)
            return
        with write_whole(path) as temporary:
            temporary.write_bytes(contents)
