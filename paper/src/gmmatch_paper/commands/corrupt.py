"""``gmmatch corrupt``: a corrupted copy of a dataset, and a mask of what was done to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gmmatch.cli.io.arguments import ForceOption, JsonOption, SeedOption
from gmmatch.cli.io.output import console, note, print_json, progress

_KINDS = (
    "Images: mixture (the paper's five), gaussian-noise, occlusion, low-resolution, fog, motion-blur; xia; "
    "generation-mixture, uniform-noise, random-patches, cutout, random-image. Labels: symmetric, pair-flip, "
    "transition. Vectors: far-cluster, shell, heavy-tail, mean-attack."
)


def corrupt(
    source: Annotated[
        str,
        typer.Argument(
            help="A folder of images, labels (.csv, .jsonl, .parquet) or vectors (.npy, .parquet)."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The copy: a new folder, or a file of the same format.")
    ],
    kind: Annotated[str, typer.Option("--kind", help=_KINDS)],
    rate: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=1.0,
            show_default="0.2",
            help="Share of the rows; not for transition and mean-attack.",
        ),
    ] = None,
    severity: Annotated[
        int | None, typer.Option(min=1, max=5, show_default="3", help="Of images, from 1 to 5.")
    ] = None,
    seed: SeedOption = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the kind; can be repeated."),
    ] = None,
    link: Annotated[
        bool,
        typer.Option("--link/--copy", help="Whether images that stay as they are, are linked or copied."),
    ] = False,
    column: Annotated[
        str | None, typer.Option(help="The column to change. Found by its name by default.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a corrupted copy of a dataset, and a mask of its rows.

    The mask, OUTPUT.mask.parquet, has a row per row of the copy: its id, whether it was corrupted, and by what; for
    label noise also its label and its original one.

    \b
    Examples:
      gmmatch corrupt photos/ -o bad/ --kind mixture --rate 0.4 --severity 3
      gmmatch corrupt texts.jsonl -o noisy.jsonl --kind symmetric --rate 0.35
      gmmatch corrupt texts.csv -o noisy.csv --kind transition --set "matrix=[[0.9, 0.1], [0, 1]]"
      gmmatch corrupt vectors.npy -o bad.npy --kind far-cluster --set distance=50
    """  # fmt: skip
    from gmmatch_paper.commands.corrupting import Copy, build_corruption

    corruption = build_corruption(kind, settings or [], rate=rate, severity=severity, seed=seed)
    copy = Copy(Path(source).expanduser(), output, corruption, column, link)
    copy.check(force=force)
    with progress("Corrupting") as update:
        facts = copy.write(update)
    if as_json:
        print_json({"output": str(output), "mask": str(copy.mask), "kind": kind, **facts})
        return
    out = console()
    line = f"{facts['corrupted']:,} of {facts['n_rows']:,} rows of {source} corrupted, with seed {seed}:"
    out.print(line, soft_wrap=True, markup=False)
    for name, count in facts["counts"].items():
        out.print(f"  {name:<16} {count:>8,}")
    note(f"Wrote {output} and {copy.mask}.")
