"""Beginning to write: a new folder, or a store that an earlier writer left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gmmatch.embeddings.locking import LOCK_NAME
from gmmatch.embeddings.manifest import MANIFEST_NAME, Manifest, check_files, is_shard_file, load_manifest
from gmmatch.embeddings.storage import explained, is_leftover
from gmmatch.errors import DataFileNotFoundError, InvalidInputError

_EXPLANATIONS = {
    "encoder": "another encoder made it",
    "encoder_fingerprint": "its encoder has the same name, but other weights or settings",
    "dtype": "it holds numbers of another type",
    "n_features": "it holds rows of another length",
    "rows_per_shard": "it has shards of another size",
    "source_fingerprint": "it was made from other data, or its source has changed since",
}


def prepare_folder(folder: Path) -> None:
    """Make the folder of a store, or raise if something else is in its place.

    Examples
    --------
    >>> prepare_folder(Path("nowhere/x.emb"))
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: nowhere/x.emb: the folder nowhere does not exist; make it first.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInputError(f"{folder} is a file: an embedding store is a folder.")
    if not folder.is_dir():
        if not folder.parent.is_dir():
            raise DataFileNotFoundError(
                f"{folder}: the folder {folder.parent} does not exist; make it first."
            )
        with explained(folder, 0):
            folder.mkdir(exist_ok=True)
    elif not (folder / MANIFEST_NAME).exists():
        foreign = sorted(path.name for path in folder.iterdir() if not _is_ours(path.name))
        if foreign:
            raise InvalidInputError(
                f"{folder} exists and is not an embedding store (it holds {foreign[0]!r}): "
                "choose another folder."
            )


def begin(folder: Path, wanted: Manifest) -> Manifest:
    """Return the manifest to go on with, and delete what a killed writer left behind.

    Parameters
    ----------
    folder
        The store; this process must hold its lock.
    wanted
        What a new store would be.

    Returns
    -------
    Manifest
        That of the store if there is one, else ``wanted``, which is then written.
    """
    manifest = wanted
    if (folder / MANIFEST_NAME).exists():
        manifest = _continued(load_manifest(folder), wanted, folder)
        check_files(folder, manifest)
    else:
        wanted.save(folder)
    known = {name for shard in manifest.shards for name in (shard.array_file, shard.table_file)}
    for path in list(folder.iterdir()):
        if is_leftover(path.name) or (is_shard_file(path.name) and path.name not in known):
            path.unlink(missing_ok=True)
    return manifest


def _continued(found: Manifest, wanted: Manifest, folder: Path) -> Manifest:
    for name, explanation in _EXPLANATIONS.items():
        old, new = getattr(found, name), getattr(wanted, name)
        if old is not None and new is not None and old != new:
            raise InvalidInputError(
                f"{folder} cannot be continued: {explanation} ({name} {old!r} there, {new!r} now). "
                "Choose another folder, or delete this one first."
            )
    return replace(
        found,
        n_features=found.n_features or wanted.n_features,
        rows_per_shard=found.rows_per_shard or wanted.rows_per_shard,
    )


def _is_ours(name: str) -> bool:
    return name in (LOCK_NAME, MANIFEST_NAME) or is_leftover(name) or is_shard_file(name)
