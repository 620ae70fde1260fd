"""What commands share about the files they write: refuse early, write whole, explain failures."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, cast

import typer

from gmmatch.cli.io.arguments import ForceOption, Input, JsonOption
from gmmatch.cli.io.output import note, print_json
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError
from gmmatch.files import as_path, csv_bytes, is_remote, replacing, replacing_folder

# Hidden, so that no reader of image folders sees it. Its presence is what lets --force delete a folder.
MARK = ".gmmatch-export.json"


class OutputError(GMMatchError, OSError):
    """A result could not be written (a full disk, missing rights); nothing half-written is left."""

    def __str__(self) -> str:
        return str(self.strerror)


def check_output(
    path: Path, *, force: bool, option: str = "--output", folder: bool = False, endings: Sequence[str] = ()
) -> None:
    """Raise unless a result may be written to ``path``; called before the work, not after it."""
    if endings and path.suffix.lower() not in endings:
        expected = f"{', '.join(endings[:-1])} or {endings[-1]}"
        raise InvalidInputError(f"{option} {path}: expected a file that ends in {expected}.")
    if not is_remote(path) and not path.absolute().parent.is_dir():
        raise DataFileNotFoundError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    if folder and path.exists() and not path.is_dir():
        raise InvalidInputError(f"{option} {path} is a file: give a folder.")
    if not folder and path.is_dir():
        raise InvalidInputError(f"{option} {path} is a folder: give the name of a file.")
    there = path.exists() if is_remote(path) else os.path.lexists(path)
    if there and not force:
        raise InvalidInputError(f"{option} {path} exists already: choose another name, or pass --force.")


def is_stdout(path: Path) -> bool:
    """Tell whether a result is to be printed."""
    return str(path) == "-"


@dataclass(frozen=True)
class TableOutput:
    """Where a command's table goes, and how the rest is told."""

    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the table: .csv or .parquet; '-' prints it as CSV."),
    ] = None
    force: ForceOption = False
    as_json: JsonOption = False

    def check(self, given: Input, other: str | None) -> None:
        """Raise unless the table may be written there, and is neither of the inputs."""
        if self.output is None:
            return
        if not is_stdout(self.output):
            check_output(self.output, force=self.force, endings=(".parquet", ".csv"))
        keep_inputs(self.output, [other], folder=given.source)

    def finish(self, table: Any, facts: Mapping[str, Any], tell: Callable[[bool], None]) -> None:
        """Write the table, and print the facts as JSON or tell them: on stderr if stdout is the table's."""
        printed = self.output is not None and is_stdout(self.output)
        if self.output is not None:
            self._write(table, self.output)
        if self.as_json:
            print_json({**({} if self.output is None else {"output": str(self.output)}), **facts})
            return
        tell(printed)
        if self.output is not None and not printed:
            note(f"Wrote {self.output}: {table.num_rows:,} rows.")

    def _write(self, table: Any, path: Path) -> None:
        import pyarrow.parquet

        if path.suffix.lower() == ".parquet":
            with written(path) as temporary:
                pyarrow.parquet.write_table(table, temporary)
            return
        contents = csv_bytes([table.column_names, *zip(*table.to_pydict().values(), strict=True)])
        if is_stdout(path):
            typer.echo(contents.decode(), nl=False)
            return
        with written(path) as temporary:
            temporary.write_bytes(contents)


def keep_inputs(output: Path, inputs: Iterable[str | Path | None], *, folder: str | None = None) -> None:
    """Raise if a result would replace what it is made from, which not even ``--force`` can mean."""
    target = _place(output)
    for given in (*inputs, folder):
        if given and _place(given) == target:
            raise InvalidInputError(f"--output {output} is also an input: choose another name.")
    if folder and Path(folder).is_dir() and _place(folder) in target.parents:
        raise InvalidInputError(
            f"--output {output} lies within {folder}, which is read: choose another place."
        )


def _place(given: str | Path) -> Path:
    if is_remote(given):
        return as_path(given)
    return Path(str(given).partition("::")[0]).expanduser().resolve()


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``, which takes its place if all goes well; failures are explained."""
    with explained(path), replacing(path) as [temporary]:
        yield temporary


@contextmanager
def explained(path: Path) -> Iterator[None]:
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


def same_place(one: Path, other: Path) -> bool:
    """Tell whether one path lies at or below the other, links resolved."""
    first, second = _place(one), _place(other)
    return first == second or first in second.parents or second in first.parents


def check_folder(output: Path, source: Path, *, force: bool) -> None:
    """Raise unless picked images may go to this folder."""
    if same_place(output, source):
        raise InvalidInputError(
            f"--output {output} and {source} lie within each other: choose another folder."
        )
    check_output(output, force=force, folder=True)
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise InvalidInputError(
            f"--output {output} holds files that gmmatch did not write, so not even --force replaces it: "
            "choose another folder."
        )


@contextmanager
def written_folder(output: Path, source: Path, n_images: int) -> Iterator[Path]:
    """Yield a temporary folder that gets its mark and takes its place if all goes well."""
    with explained(output), replacing_folder(output) as temporary:
        yield temporary
        mark = {"source": str(source.resolve()), "images": n_images}
        (temporary / MARK).write_text(json.dumps(mark) + "\n", encoding="utf-8")


def put_image(image: Path, place: Path, link: bool) -> None:
    """Copy an image, or link to it; a link that the file system refuses becomes a symbolic one."""
    if not image.is_file():
        raise InvalidInputError(f"{image} is missing: the folder has changed since its files were listed.")
    if not link:
        shutil.copy2(image, place)
        return
    try:
        place.hardlink_to(image.resolve())
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        place.symlink_to(image.resolve())


def compression_of(file: Any) -> str:
    """Return how the first column of a Parquet file is compressed, as its writer names it."""
    metadata = file.metadata
    if not metadata.num_row_groups or not metadata.num_columns:
        return "snappy"
    name = str(metadata.row_group(0).column(0).compression).lower()
    return {"uncompressed": "none", "lz4_raw": "lz4"}.get(name, name)


def opened_output(temporary: Path, output: Path) -> IO[bytes]:
    """Open a file for writing, compressed if the name that it will get says so."""
    if output.suffix.lower() == ".gz":
        return cast("IO[bytes]", gzip.open(temporary, "wb"))
    return temporary.open("wb")
