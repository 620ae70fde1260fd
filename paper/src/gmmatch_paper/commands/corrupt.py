"""``gmmatch corrupt``: a corrupted copy of a dataset, and a mask of what was done to it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from gmmatch.cli.io.files import check_output
from gmmatch.cli.io.output import console, note, print_json, progress
from gmmatch.errors import InvalidInputError
from gmmatch.files import overlap

Source: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A folder of images, a Parquet file, vectors (.npy), or labels in CSV or JSON lines."
    ),
]
Output: TypeAlias = Annotated[
    Path,
    typer.Option("--output", "-o", help="The copy: a new folder for images, a new file of the same format."),
]
KindName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kind",
        help="Images: mixture (the paper's five), gaussian-noise, occlusion, low-resolution, fog, motion-blur; "
        "generation-mixture, uniform-noise, random-patches, cutout, random-image. Labels: symmetric, pair-flip, "
        "transition. Vectors: far-cluster, shell, heavy-tail, mean-attack.",
    ),
]
Rate: TypeAlias = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, show_default="0.2", help="Share of the rows; not for transition and mean-attack."),
]  # fmt: skip
Severity: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=5, show_default="3", help="Of images, from 1 to 5.")
]
Transition: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="For transition: a CSV file whose row i has the shares of class i that become each class, in order."
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the kind; can be repeated."),
]
Mask: TypeAlias = Annotated[
    Path | None,
    typer.Option(show_default="OUTPUT.mask.parquet", help="What was done to which row: .parquet or .csv."),
]
Link: TypeAlias = Annotated[
    bool, typer.Option("--link/--copy", help="Whether images that stay as they are, are linked or copied.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Random seed.")]
Column: TypeAlias = Annotated[
    str | None, typer.Option(help="The column to change. Found by its name by default.")
]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def corrupt(
    source: Source,
    output: Output,
    kind: KindName,
    rate: Rate = None,
    severity: Severity = None,
    seed: Seed = 0,
    matrix: Transition = None,
    settings: Settings = None,
    mask: Mask = None,
    link: Link = False,
    column: Column = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a corrupted copy of a dataset, and a mask of its rows.

    The mask has a row per row of the copy: its id, whether it was corrupted, and by what; for label noise also
    its label and its original one.

    \b
    Examples:
      gmmatch corrupt photos/ -o bad/ --kind mixture --rate 0.4 --severity 3
      gmmatch corrupt texts.jsonl -o noisy.jsonl --kind symmetric --rate 0.35
      gmmatch corrupt vectors.npy -o bad.npy --kind far-cluster --set distance=50
    """
    from gmmatch_paper.commands.corrupting import Copy, build_corruption

    began = time.perf_counter()
    corruption = build_corruption(kind, rate, severity, seed, matrix, settings or [])
    mask = mask or output.with_name(f"{output.name}.mask.parquet")
    copy = Copy(Path(source).expanduser(), output, mask, corruption, column, link)
    copy.check(force=force)
    check_output(mask, force=force, option="--mask", endings=(".parquet", ".csv"))
    if overlap(mask, output) or overlap(mask, copy.source):
        raise InvalidInputError(f"--mask {mask} lies within the data: choose another name.")
    with progress("Corrupting") as update:
        facts = copy.write(update)
    facts = {"output": str(output), "mask": str(mask), "kind": kind, **facts}
    facts["seconds"] = round(time.perf_counter() - began, 3)
    if as_json:
        print_json(facts)
        return
    _print_summary(facts, source)
    note(f"Wrote {output} and {mask} ({facts['seconds']:.1f} s).")


def _print_summary(facts: Mapping[str, Any], source: str) -> None:
    out = console()
    line = f"{facts['corrupted']:,} of {facts['n_rows']:,} rows of {source} corrupted, with seed {facts['seed']}:"
    out.print(line, soft_wrap=True, markup=False)
    for name, count in facts["counts"].items():
        out.print(f"  {name:<16} {count:>8,}")
