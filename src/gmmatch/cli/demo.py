"""``gmmatch demo``: a folder of images with planted errors, cleaned and picked from, and what was found of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

from gmmatch.cli.io.arguments import JsonOption, output_path, picks_by
from gmmatch.cli.io.output import note, print_json, print_lines, print_table, progress
from gmmatch.errors import InvalidInputError, imported

# What is planted, by what `gmmatch clean` calls it, and how much of it.
PLANTED = {"mislabeled": 180, "duplicate": 40, "one color": 12, "unreadable": 6}
WORDS = {
    "mislabeled": "images in a wrong folder", "duplicate": "copies of an image", "one color": "blank images",
    "unreadable": "broken files",
}  # fmt: skip
ENCODER = "pixels:8x8:gray"


def demo(
    output: Annotated[Path, output_path("A new folder for the images and the results.")] = Path("demo"),
    as_json: JsonOption = False,
    seed: Annotated[int, picks_by("Which images the errors are planted in.")] = 0,
) -> None:
    """Clean images with planted errors, and count what was found.

    It writes 1,797 small images of digits into ten folders, 10% of them into a wrong one, with copies, blank images
    and broken files among them. Then it does what these commands do:

    \b
      gmmatch clean demo/photos -o demo/clean --encoder pixels:8x8:gray
      gmmatch select demo/clean.emb -k 10% -o demo/picks.parquet --report demo/picks.html
    """
    import gmmatch as gm
    from gmmatch.data import open_source
    from gmmatch.report.content import open_contents

    if output.exists():
        raise InvalidInputError(f"--output {output} exists already: choose another name, or remove it.")
    imported("jinja2", "The report", "report")
    planted = write_photos(output / "photos", seed)
    with progress("Encoding") as update:
        cleaned = gm.clean(
            output / "photos", output / "clean", encoder=ENCODER, random_state=seed, progress=update
        )
    store = gm.open_store(cleaned.store)
    selection = gm.select(store, k="10%", random_state=seed)
    selection.save(output / "picks.parquet")
    contents = open_contents(open_source(output / "photos"), len(store), store.source_rows)
    gm.write_report(selection, output / "picks.html", store, source=contents)
    result = count_errors(planted, cleaned.removed)
    is_wrong = [planted.get(name) == "mislabeled" for name in store.ids[selection.indices]]
    result["picks"] = {"rows": len(is_wrong), "mislabeled": sum(is_wrong)}
    if as_json:
        print_json(result)
        return
    lines = [
        [WORDS[name], *(f"{count:,}" for count in counts.values())]
        for name, counts in result["errors"].items()
    ]
    headings = ("in the folder", "planted", "found", "missed", "false alarms")
    print_table(f"{cleaned.n_rows:,} files, {cleaned.n_kept:,} of them kept", headings, lines)
    chance = len(is_wrong) * PLANTED["mislabeled"] / cleaned.n_rows
    print_lines(
        cleaned.screening.summary,
        f"{sum(is_wrong)} of {len(is_wrong)} picks are in a wrong folder; at random about {chance:.0f} would be.",
    )
    note(
        f"Open {cleaned.report} and {output / 'picks.html'} in a browser. {cleaned.removed} lists what went."
    )


def write_photos(folder: Path, seed: int) -> dict[str, str]:
    """Write images of digits into a folder for each digit; return what is wrong with which file."""
    import numpy as np
    from sklearn.datasets import load_digits

    image = imported("PIL.Image", "The demo", "report")
    random, digits = np.random.default_rng(seed), load_digits()
    pixels = (15.9 * digits.images).astype(np.uint8).repeat(4, axis=1).repeat(4, axis=2)
    kinds = np.repeat([*PLANTED, ""], [*PLANTED.values(), len(pixels) - sum(PLANTED.values())])
    planted = {}
    for number, (kind, label) in enumerate(zip(random.permutation(kinds), digits.target, strict=True)):
        if kind == "mislabeled":
            label = (label + random.integers(1, 10)) % 10
        path = folder / str(label) / f"{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.zeros_like(pixels[number]) if kind == "one color" else pixels[number]).save(path)
        if kind == "unreadable":
            path.write_bytes(path.read_bytes()[:60])
        if kind == "duplicate":
            path = path.with_name(f"{number:04}_copy.png")
            image.fromarray(pixels[number]).save(path)
        if kind:
            planted[path.relative_to(folder).as_posix()] = str(kind)
    return planted


def count_errors(planted: dict[str, str], removed: Path) -> dict[str, Any]:
    """Return for each kind of error how many were planted, found and missed, and how many alarms were false."""
    with removed.open(newline="", encoding="utf-8") as file:
        reasons = {line["id"]: line["why"] for line in csv.DictReader(file)}
    errors = {}
    for kind, count in PLANTED.items():
        hits = sum(
            reasons.get(name) == kind for name, planted_kind in planted.items() if planted_kind == kind
        )
        false = sum(planted.get(name) != kind for name, reason in reasons.items() if reason == kind)
        errors[kind] = {"planted": count, "found": hits, "missed": count - hits, "false_alarms": false}
    return {"errors": errors}
