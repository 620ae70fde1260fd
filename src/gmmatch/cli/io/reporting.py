"""The page that commands write with ``--report``: its options, and where its pictures and texts come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gmmatch.cli.io.arguments import output_path, writes
from gmmatch.cli.io.files import check_output, protect_inputs
from gmmatch.cli.io.output import join_lines, note
from gmmatch.errors import GMMatchError, InvalidInputError

if TYPE_CHECKING:
    from gmmatch.cli.io.inputs import Embeddings
    from gmmatch.data.tables import BaseSource
    from gmmatch.report.content import Contents


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
        from gmmatch.data import open_source
        from gmmatch.data.files import expand
        from gmmatch.report.content import open_contents

        store = embeddings.store
        recorded = {} if store is None else store.source
        location = self.source or recorded.get("location")
        if not location or (self.source is None and recorded.get("kind") not in ("image", "text")):
            return None
        try:
            # Opening anything else could mean a download, which a page is not worth.
            if self.source is None and not (Path(location).expanduser().exists() or expand(location)):
                raise InvalidInputError(f"{location} does not exist any more.")
            source = open_source(location, **recorded.get("opened_with", {}))
            if store is None:
                return open_contents(source, len(embeddings))
            if has_changed(source, recorded, store.manifest.source_fingerprint):
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
