"""``gmmatch select --engine``: the options, and running a method on an engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gmmatch.cli.io.output import note, progress
from gmmatch.errors import InvalidInputError

if TYPE_CHECKING:
    from gmmatch.backends.cluster import Engine, Shards
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.selection.selection import Selection
    from gmmatch.selectors.base import Selector


@dataclass(frozen=True)
class EngineRequest:
    """What the command line says about the engine; ``engine`` is None if the work runs as usual.

    Examples
    --------
    >>> EngineRequest("local", "auto").wanted(memory=None, report=None, source="x.emb")
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: --address goes with --engine ray.
    """

    engine: Annotated[
        Literal["local", "ray"] | None,
        typer.Option(
            help="Pick in parallel batches, on threads (local) or on a Ray cluster "
            "(ray). Both make the same picks."
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="The Ray cluster: 'auto' for the one this machine belongs to, or host:port. By default one is "
            "started on this machine, and stopped afterwards.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers of the engine; by default one per CPU, or per GPU of a cluster."),
    ] = None
    skip_unreadable: Annotated[
        bool,
        typer.Option("--skip-unreadable", help="With --engine: leave out shards that cannot be read."),
    ] = False

    def wanted(self, *, memory: str | None, report: Path | None, source: str) -> bool:
        """Return whether an engine is wanted; raise for options that do not go together."""
        if self.engine is None:
            for option, value in (
                ("--address", self.address),
                ("--workers", self.workers),
                ("--skip-unreadable", self.skip_unreadable or None),
            ):
                if value is not None:
                    raise InvalidInputError(
                        f"{option} goes with --engine: add --engine local or --engine ray."
                    )
            return False
        if self.address is not None and self.engine != "ray":
            raise InvalidInputError("--address goes with --engine ray.")
        if memory is not None:
            raise InvalidInputError(
                "--memory has no meaning with --engine, whose workers map the files they read."
            )
        if report is not None and "://" in source:
            raise InvalidInputError(
                "--report needs the rows themselves, and they lie at an address: leave it out."
            )
        return True

    @contextmanager
    def running(self) -> Iterator[Engine]:
        """Yield the engine, with its progress shown; what was started for it is ended afterwards."""
        from gmmatch.backends.cluster import LocalEngine, RayEngine

        workers = self.workers or -1
        with _shown() as told:
            more: dict[str, Any] = {"skip_unreadable": self.skip_unreadable, "progress": told}
            if self.engine == "local":
                yield LocalEngine(workers, **more)
            else:
                with RayEngine(self.address, workers, **more) as engine:
                    yield engine

    def open(self, source: str, labels: str | None) -> tuple[Embeddings, Shards]:
        """Open what is selected from."""

        from gmmatch.backends.cluster import open_shards
        from gmmatch.cli.io.inputs import Embeddings, labels_for
        from gmmatch.data.files import is_store
        from gmmatch.embeddings.store import Store
        from gmmatch.files import is_remote
        from gmmatch.rows.npy_files import mapped

        here = not is_remote(source)
        if here and Path(source).exists() and not is_store(source) and not source.lower().endswith(".npy"):
            raise InvalidInputError(
                f"{source}: --engine reads stores and .npy files; make a store of it first, as `gmmatch embed "
                f"{source} -o rows.emb --encoder identity`."
            )
        shards = open_shards(source, skip_unreadable=self.skip_unreadable)
        # Not by open_store: it refuses a store with a file missing, which may be what --skip-unreadable is for.
        store = Store(Path(source), shards.manifest) if here and shards.manifest is not None else None
        rows: Any = None if store is None else store.as_array()
        if here and store is None:
            rows = mapped(source)
        shape = (len(shards), shards.n_features)
        opened = Embeddings(source, rows, shape, None, shards.origin, store=store)
        if labels == "none":
            return opened, shards
        known = (
            shards.labels(skip_unreadable=self.skip_unreadable)
            if labels is None
            else labels_for(opened, labels)
        )
        return replace(opened, labels=known), shards

    def selector(
        self, *, k: str, method: str, per_class: Any, seed: int, options: dict[str, Any]
    ) -> Selector:
        """Return the method; what is wrong with it is said before anything is read, or a cluster started."""
        from gmmatch.cli.io.selecting import check_method_settings
        from gmmatch.selectors.registry import make_selector, method_class

        check_method_settings(method_class(method), options)
        given = {**options, "per_class": per_class, "random_state": seed}
        selector = make_selector(method, k, given, on_engine=True)
        selector.check_engine()
        return selector

    def select(
        self,
        selector: Selector,
        shards: Shards,
        labels: Any,
        relabel: float | None,
        near: Embeddings | None,
    ) -> tuple[Selection, float]:
        """Select on the engine, and say what it took."""
        from gmmatch.cli.io.selecting import pick

        began, ids = time.perf_counter(), None if shards.manifest is None else shards.ids_of
        with self.running() as engine, selector.opened(shards, engine) as rows:
            found = pick(selector, rows, labels, ids, relabel, near)
        seconds = time.perf_counter() - began
        _summarise(found.provenance["engine"])
        return found, seconds


@contextmanager
def _shown() -> Iterator[Any]:
    """Yield what shows progress: of the medians class by class, then of the picks."""
    with progress() as bar:
        tasks: dict[str, Any] = {}

        def told(phase: str, done: int, total: int | None) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done, total=total)

        yield told


def _summarise(facts: dict[str, Any]) -> None:
    from rich.filesize import decimal

    for location, reason in facts["unreadable"]:
        note(f"Left out: {reason if location in reason else f'{location}: {reason}'}")
    moved = facts["bytes"]
    replaced = f"; {facts['replaced_workers']} replaced" if facts["replaced_workers"] else ""
    note(
        f"{facts['workers']} workers ({facts['name']}){replaced}: {decimal(moved['sent'])} sent to them, "
        f"{decimal(moved['received'])} received."
    )
