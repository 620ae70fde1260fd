"""``gmmatch review``: go through suspects in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gmmatch.cli.io.arguments import LabeledInput, PredProbsOption, SeedOption, output_path, runs_on, writes
from gmmatch.cli.io.files import Report, check_output
from gmmatch.cli.io.output import note
from gmmatch.errors import InvalidInputError
from gmmatch.review.tools import ToolName


def review(
    *,
    given: LabeledInput,
    pred_probs: PredProbsOption = None,
    output: Annotated[Path, output_path("File for the decisions (.csv); continued if it is there.")],
    static: Annotated[
        Path | None,
        writes("Write one file: a page (.html) that downloads its decisions, or tasks of --tool."),
    ] = None,
    tool: Annotated[ToolName | None, writes("Tool for --static; --decisions takes its export.")] = None,
    source: Annotated[str | None, writes("The images or texts, if they were moved.")] = None,
    open_browser: Annotated[bool, runs_on("Open the page in a browser.", "--open/--no-open")] = True,
    port: Annotated[int, runs_on("Port of the page; any free one by default.", min=0, max=65535)] = 0,
    seed: SeedOption = 0,
) -> None:
    """Decide about suspects in the browser, by keyboard.

    It serves one page to this machine alone. Every answer is saved at once, and the next run resumes from the file.
    Ctrl-C or "Done" ends it. Then clean, screen, select or export with --decisions.

    \b
    Examples:
      gmmatch review clean.emb -o decisions.csv
      gmmatch review vectors.npy --labels labels.csv --source photos/ -o decisions.csv
      gmmatch review clean.emb -o decisions.csv --static review.html
      gmmatch review clean.emb -o decisions.csv --static tasks.json --tool label-studio
    """
    import webbrowser

    import gmmatch as gm
    from gmmatch.cli.io.inputs import read_array

    check_output(output, given.labels, source, static, force=True, endings=(".csv",), source=given.path)
    if static is not None:
        endings = (".html", ".htm") if tool is None else (".jsonl",) if tool == "jsonl" else (".json",)
        check_output(static, force=True, option="--static", endings=endings)
    elif tool is not None:
        raise InvalidInputError("--tool goes with --static: say where the tasks go.")
    rows = given.open()
    contents = Report(report=static or output, source=source).open_contents(rows)
    options = {} if pred_probs is None else {"pred_probs": read_array(pred_probs, "--pred-probs")}
    screening = gm.screen(rows.X, rows.y, random_state=seed, **options)
    note(screening.summary)
    announced = []

    def announce(address: str) -> None:
        announced.append(address)
        note(f"Decide at {address}\nEvery answer is saved in {output}. Ctrl-C ends it.")
        if open_browser:
            webbrowser.open(address)

    if rows.y is None and screening.noise_rate is None and not screening.counts:
        raise InvalidInputError(f"Nothing speaks against the rows of {given.path}: nothing to review.")
    decisions = gm.review(
        rows.X, rows.y, output=output, source=contents, ids=rows.ids, screening=screening, static=static, tool=tool,
        port=port, announce=announce,
    )  # fmt: skip
    if static is not None:
        end = "open it in a browser, and save the decisions at the end"
        note(f"Wrote {static}: {end if tool is None else f'give what {tool} exports to --decisions'}.")
        return
    note(f"{output}: {decisions}. Use them: gmmatch clean ... --decisions {output}")
