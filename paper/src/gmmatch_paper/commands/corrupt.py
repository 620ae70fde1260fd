"""``gmmatch corrupt``: a corrupted copy of a dataset, and a mask of what was done to it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from gmmatch.cli.io.output import console, note, print_json, progress

Source: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="A folder of images; a Parquet file; a file of vectors (.npy, .npz); or CSV or JSON lines, of which the "
        "labels can be corrupted."
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
    typer.Option(
        min=0.0, max=1.0, show_default="0.2", help="Share of the rows; not for transition and mean-attack."
    ),
]
Severity: TypeAlias = Annotated[
    int | None, typer.Option(min=1, max=5, show_default="3", help="Of images, from 1 to 5.")
]
Transition: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        help="For transition: a .npy, .csv or .json file, whose row i has the shares of class i that become each "
        "class, the classes in their order."
    ),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the kind; can be repeated."),
]
Mask: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        show_default="OUTPUT.mask.parquet", help="Where to say what was done to which row: .parquet or .csv."
    ),
]
Link: TypeAlias = Annotated[
    bool, typer.Option("--link/--copy", help="Whether images that stay as they are, are linked or copied.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Random seed.")]
TextColumn: TypeAlias = Annotated[str | None, typer.Option(help="The column of texts.")]
ImageColumn: TypeAlias = Annotated[str | None, typer.Option(help="The column of images.")]
EmbeddingColumn: TypeAlias = Annotated[str | None, typer.Option(help="The column of vectors.")]
LabelColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="The column of labels. Found by its name by default.")
]
IdColumn: TypeAlias = Annotated[
    str | None, typer.Option(help="The column of ids; paths or row numbers by default.")
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
    text_column: TextColumn = None,
    image_column: ImageColumn = None,
    embedding_column: EmbeddingColumn = None,
    label_column: LabelColumn = None,
    id_column: IdColumn = None,
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
    columns = {name: value for name, value in locals().items() if name.endswith("_column")}
    from gmmatch_paper.commands.corrupting import Job
    from gmmatch_paper.commands.corrupting_kinds import build_corruption, parse_settings

    corruption = build_corruption(
        kind, rate=rate, severity=severity, seed=seed, matrix=matrix, settings=parse_settings(settings)
    )
    job = Job.prepare(source, output, mask, corruption, columns, link=link, force=force)
    with progress("Corrupting", job.n_rows) as update:
        facts = job.run(lambda done: update(done, job.n_rows))
    facts = {"output": str(output), "mask": str(job.mask_path), "kind": kind, **facts}
    if as_json:
        print_json(facts)
        return
    _print_summary(facts, source)
    note(f"Wrote {output} and {job.mask_path} ({facts['seconds']:.1f} s).")


def _print_summary(facts: dict[str, Any], source: str) -> None:
    from rich.table import Table

    out = console()
    line = f"{facts['corrupted']:,} of {facts['n_rows']:,} rows of {source} corrupted, with seed {facts['seed']}:"
    out.print(line, soft_wrap=True, markup=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for name, count in facts["counts"].items():
        table.add_row(f"  {name}", f"{count:,}")
    out.print(table)
