"""``gmmatch demo``: every method on digits of which 35% are mislabeled, in a table, a picture and a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from gmmatch.cli.io.arguments import JsonOption, output_path, runs_on, writes
from gmmatch.cli.io.files import check_output
from gmmatch.cli.io.output import note, print_json, print_table, progress
from gmmatch.errors import MissingDependencyError
from gmmatch.files import write_whole

# What the code of the paper's authors does, which is not what the paper's text says.
UNIT_LENGTH = "gm-matching (unit length)"
METHODS = {"robust": "robust", "gm-matching (paper)": "gm-matching", UNIT_LENGTH: "gm-matching"}
METHODS |= {name: name for name in ("kernel-herding", "herding", "moderate", "easy", "random", "hard")}
ALL_ROWS, CLEAN_ROWS = "all noisy rows", "as many clean rows, at random"
FLIPPED, KEPT, N_TEST = 0.35, 0.1, 540
# The digit of the picture, and two colors of Okabe and Ito's palette, which differ for every kind of color blindness.
DIGIT, RIGHT, WRONG = 3, "#0072B2", "#D55E00"
FIGURES = ("contamination", "moment_error", "mmd", "accuracy")


def demo(
    output: Annotated[Path, output_path("File for the picture; the page is next to it.")] = Path("demo.svg"),
    files: Annotated[bool, writes("Whether to write the picture and the page.")] = True,
    as_json: JsonOption = False,
    seeds: Annotated[int, runs_on("How many versions of the data to average over.", min=1)] = 5,
) -> None:
    """Compare the methods on digits of which 35% are mislabeled."""
    if files:
        check_output(output, force=True, endings=(".svg",))
    versions = [NoisyDigits(seed) for seed in range(seeds)]
    result = compare(versions)
    print_json(result) if as_json else _print(result)
    if files:
        write_files(versions[0], output)


class NoisyDigits:
    """Digits with 35% of the training labels replaced; the test rows are the same for every seed."""

    def __init__(self, seed: int) -> None:
        import numpy as np
        from sklearn.datasets import load_digits

        import gmmatch as gm

        images, labels = load_digits(return_X_y=True)
        test = gm.select(images, labels, k=N_TEST, method="random", random_state=0).mask
        self.test, self.X, self.y = (images[test] / 16.0, labels[test]), images[~test] / 16.0, labels[~test]
        self.seed, self.wrong, random = seed, np.zeros(len(self.y), dtype=bool), np.random.default_rng(seed)
        flipped = random.choice(len(self.y), size=round(FLIPPED * len(self.y)), replace=False)
        self.y[flipped] = (self.y[flipped] + random.integers(1, 10, size=len(flipped))) % 10
        self.wrong[flipped], self.selections = True, dict[str, Any]()

    def select(self, name: str) -> Any:
        """Return what a line of the table picks; methods see only the noisy labels."""
        import gmmatch as gm

        unit = {"target": gm.GeometricMedian(unit=True), "preprocess": "unit"}
        options: dict[str, Any] = unit if name == UNIT_LENGTH else {}
        options |= {"exclude": self.wrong if name == CLEAN_ROWS else None, "random_state": self.seed}
        k = 1.0 if name == ALL_ROWS else round(KEPT * len(self.y))
        return gm.select(self.X, self.y, k=k, method=METHODS.get(name, "random"), **options)


def compare(versions: Sequence[NoisyDigits]) -> dict[str, Any]:
    """Return the figures of every method, their mean and deviation over the versions, as JSON can hold them."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from gmmatch.metrics import mmd, moment_error

    def measure(picks: Any) -> list[float]:
        X, y, clean = digits.X, digits.y, ~digits.wrong
        pairs = [(X[picks[y[picks] == label]], X[clean & (y == label)]) for label in range(10)]
        errors = np.mean([[moment_error(*pair), mmd(*pair)] for pair in pairs], axis=0)
        model = LogisticRegression(max_iter=2000).fit(X[picks], y[picks])
        return [digits.wrong[picks].mean(), *errors, model.score(*digits.test)]

    measured: dict[str, list[list[float]]] = {name: [] for name in (*METHODS, ALL_ROWS, CLEAN_ROWS)}
    with progress("Selecting and training", len(versions)) as update:
        for number, digits in enumerate(versions):
            for name, lines in measured.items():
                digits.selections[name] = digits.select(name)
                lines.append(measure(digits.selections[name].indices))
            update(number + 1, len(versions))
    rows = []
    for name, lines in measured.items():
        deviations = np.std(lines, axis=0, ddof=1).round(6).tolist() if len(versions) > 1 else [None] * 4
        summary = zip(FIGURES, np.mean(lines, axis=0).round(6).tolist(), deviations, strict=True)
        cells = {key: {"mean": mean, "deviation": deviation} for key, mean, deviation in summary}
        rows.append({"label": name, "method": METHODS.get(name), **cells})
    data = {"training_rows": len(versions[0].y), "seeds": [digits.seed for digits in versions]}
    return {"data": data, "rows": rows}


def _print(result: dict[str, Any]) -> None:
    def format_figure(name: str, mean: float, deviation: float | None) -> str:
        scale, digits, unit = (100, 1, "%") if name in ("contamination", "accuracy") else (1, 3, "")
        more = "" if deviation is None else f" ± {scale * deviation:.{digits}f}"
        return f"{scale * mean:.{digits}f}{more}{unit}"

    rows, seeds = result["rows"], len(result["data"]["seeds"])
    lines = [[row["label"], *(format_figure(name, **row[name]) for name in FIGURES)] for row in rows]
    lines.insert(len(METHODS), [])
    title = f"{KEPT:.0%} of {result['data']['training_rows']:,} digits, {FLIPPED:.0%} mislabeled"
    caption = f"Mean ± deviation over {seeds} seeds." if seeds > 1 else "One seed."
    headings = ("kept by", "wrong labels", "moment error", "MMD", "test accuracy")
    print_table(title, headings, lines, caption=caption, narrow=True)


def draw(digits: NoisyDigits, selections: dict[str, Any]) -> str:
    """Return a picture (SVG) of the images labeled "3" that each method keeps, blue if the label is right."""
    import numpy as np

    shapes = ['<rect width="100%" height="100%" fill="white"/>']
    words = [(10, 26, f"Images labeled “{DIGIT}” that each method keeps; orange ones are mislabeled")]
    for line, (name, selection) in enumerate(selections.items()):
        shown = selection.order[digits.y[selection.order] == DIGIT]
        shown, top = shown[np.argsort(digits.wrong[shown], kind="stable")], 44 + 44 * line
        words += [(10, top + 25, name), (790, top + 25, f"{digits.wrong[shown].sum()} of {len(shown)} wrong")]
        for column, row in enumerate(shown.tolist()):
            image, color = digits.X[row].reshape(8, 8), WRONG if digits.wrong[row] else RIGHT
            for y, x in np.argwhere(image > 0.0):
                square = f"M{240 + 42 * column + 4 * x} {top + 4 * y}h4v4h-4z"
                shapes.append(f'<path fill="{color}" opacity="{image[y, x]}" d="{square}"/>')
    shapes += [f'<text x="{x}" y="{y}" font-size="15">{text}</text>' for x, y, text in words]
    attributes = f'viewBox="0 0 900 {60 + 44 * len(selections)}" font-family="Verdana, sans-serif"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>', *shapes, "</svg>\n"])


def write_files(digits: NoisyDigits, output: Path) -> None:
    """Write the picture, and the page about what robust picks."""
    import gmmatch as gm

    selections, page = {name: digits.selections[name] for name in METHODS}, output.with_suffix(".html")
    with write_whole(output) as temporary:
        temporary.write_text(draw(digits, selections), encoding="utf-8")
    images = list((255 * digits.X).astype("uint8").reshape(-1, 8, 8))
    try:
        gm.write_report(selections["robust"], page, digits.X, digits.y, source=images)
        note(f"Wrote {output}, and {page} to open in a browser.")
    except MissingDependencyError as error:
        note(f"Wrote {output}, but no page: {error}")
