"""The cost model of selecting on an engine, with constants from a measurement, and the guide's tables of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import nnls

from benchmarks import machine

# The job that the guide extrapolates to, and the cluster that it would run on.
LARGE = {"rows": 10**9, "features": 512, "share": 0.01, "machines": 64, "cores": 16}


Constants = Mapping[str, tuple[float, float]]
"""Core-seconds per row and per number: of a pass, of a round of picks, and of all that is done once."""


def constants(runs: Sequence[tuple[Mapping[str, Any], int, int]]) -> dict[str, tuple[float, float]]:
    """Return the constants from two runs, given with their numbers of rows and of features.

    Core-seconds are what processes had the processor for, so other work on the machine does not count.
    """
    terms = np.array([[rows, rows * features] for _, rows, features in runs], dtype=np.float64)
    found = {}
    for kind in ("pass", "round", "once"):
        row, number = nnls(terms, [_spent(run)[kind] for run, _, _ in runs])[0].tolist()
        found[kind] = (row, number)
    return found


def _spent(run: Mapping[str, Any]) -> dict[str, float]:
    once = run["core_seconds"] - run["passes"] * run["core_seconds_per_pass"] - _rounds(run)
    return {
        "pass": run["core_seconds_per_pass"],
        "round": run["core_seconds_per_round"],
        "once": max(0.0, once),
    }


def core_seconds(per: Constants, n_rows: int, n_features: int, passes: int, rounds: int) -> dict[str, float]:
    """Return what the model says that a selection takes, summed over all cores."""
    each = {kind: n_rows * (row + n_features * number) for kind, (row, number) in per.items()}
    return {"once": each["once"], "median": passes * each["pass"], "picks": rounds * each["round"]}


def of_result(result: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Return the constants of a result: from the unlabeled case and the check with the longest rows."""
    longest = _longest(result)
    return constants([
        (result["cases"][0]["local"], result["rows"], result["features"]),
        (longest["run"], longest["rows"], longest["features"]),
    ])  # fmt: skip


def _longest(result: Mapping[str, Any]) -> Mapping[str, Any]:
    longest: Mapping[str, Any] = max(result["checks"], key=lambda check: check["features"])
    return longest


def predictions(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return, for every run that the constants do not come from, what the model says over what it took."""
    first, per, found = result["cases"][0], of_result(result), []

    def add(name: str, run: Mapping[str, Any], n_rows: int, n_features: int) -> None:
        said = sum(core_seconds(per, n_rows, n_features, run["passes"], run["rounds"]).values())
        found.append({
            "run": name, "rows": n_rows, "features": n_features, "predicted": said,
            "measured": run["core_seconds"], "ratio": said / run["core_seconds"],
        })  # fmt: skip

    for case in result["cases"]:
        kind = "unlabeled" if case["classes"] == 1 else f"{case['classes']} classes"
        for engine in ("local", "ray"):
            if case is not first or engine != "local":
                add(f"{kind}, {engine} engine", case[engine], result["rows"], result["features"])
    for check in result["checks"]:
        if check is _longest(result):
            continue
        workers = "1 worker" if check["workers"] == 1 else f"{check['workers']} workers"
        add(f"unlabeled, local engine, {workers}", check["run"], check["rows"], check["features"])
    return found


def extrapolated(
    result: Mapping[str, Any], *, rows: int, features: int, share: float, machines: int, cores: int
) -> dict[str, Any]:
    """Return what the model says about a larger job, from the unlabeled case."""
    from gmmatch.matching.batches import independent_batches, stages

    case, k = result["cases"][0], int(rows * share)
    batches = independent_batches(k, rows, features, None, rows)
    plan = stages(k, np.full(batches, rows // batches))
    rounds = sum(int(stage.quota.max()) for stage in plan[:-1]) + 16
    passes, workers = case["local"]["passes"], machines * cores
    parts = core_seconds(of_result(result), rows, features, passes, rounds)
    return {
        "k": k, "batches": batches, "rounds": rounds, "passes": passes,
        "seconds": {
            **{name: seconds / workers for name, seconds in parts.items()},
            "calls": 2 * (passes + rounds) * result["start"]["seconds_per_call"] * workers / result["workers"],
        },
        "bytes_per_machine": rows * features * 2 / machines,
        "theta_bytes_per_round": batches * (8 * features + 4),
        "answer_bytes_per_round": 16 * batches * workers,
    }  # fmt: skip


def robust_constants(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what ``robust`` takes, in core-seconds: fixed, per row, per number, and per feature in a round of picks.

    The first three come from the first three runs, of which one has more rows and one has more features.
    """
    base = runs[:3]
    terms = [[1.0, one["rows"], one["rows"] * one["features"]] for one in base]
    once = [one["run"]["core_seconds"] - _rounds(one["run"]) for one in base]
    fixed, per_row, per_number = nnls(np.array(terms), np.array(once))[0].tolist()
    first = base[0]["run"]
    per_round = first["core_seconds_per_round"] / (first["kept"] * first["components"])
    return {"fixed": fixed, "row": per_row, "number": per_number, "round": per_round}


def robust_seconds(
    per: Mapping[str, float], rows: int, features: int, kept: float, components: int, rounds: int
) -> dict[str, float]:
    """Return what the model says that ``robust`` takes before the picks, and for them, summed over all cores."""
    once = per["fixed"] + rows * (per["row"] + features * per["number"])
    return {"once": once, "picks": rounds * kept * components * per["round"]}


def robust_predictions(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return, for the runs that the constants do not come from, what the model says over what they took."""
    per, found = robust_constants(runs), []
    for one in runs[3:]:
        run = one["run"]
        parts = robust_seconds(
            per, one["rows"], one["features"], run["kept"], run["components"], run["rounds"]
        )
        said = sum(parts.values())
        found.append({
            "run": f"robust, {one['classes']} classes, local engine", "rows": one["rows"],
            "features": one["features"], "predicted": said, "measured": run["core_seconds"],
            "ratio": said / run["core_seconds"],
        })  # fmt: skip
    return found


def _rounds(run: Mapping[str, Any]) -> float:
    return float(run["rounds"] * run["core_seconds_per_round"])


def markdown(result: Mapping[str, Any] | None) -> str:
    """Return the tables of the guide, or that there is nothing to put in them yet."""
    if result is None:
        return "Not measured yet: the command below has not been run."
    parts = [_measured(result), _constants(result), _checked(result)]
    parts += [_extrapolation(result), _extrapolated_robust(result)]
    parts.append(f"Measured on: {machine.as_text(result['machine']).replace(chr(10), '; ')}.")
    return "\n\n".join(parts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _measured(result: Mapping[str, Any]) -> str:
    cases = result["cases"]

    def line(name: str, value: Any) -> list[str]:
        return [name, *(value(case) for case in cases)]

    def most_bytes(case: Mapping[str, Any], way: str) -> str:
        return f"{case['ray']['most_bytes_per_pass_and_worker'][way]:,}"

    rows = [
        line("classes", lambda case: str(case["classes"])),
        line("same picks on both engines", lambda case: "yes" if case["same_picks"] else "**no**"),
        line("local engine, seconds", lambda case: f"{case['local']['seconds']:.1f}"),
        line("Ray engine, seconds", lambda case: f"{case['ray']['seconds']:.1f}"),
        line("Ray over local, seconds", lambda case: f"{case['overhead']:.2f}"),
        line("local engine, core-seconds", lambda case: f"{case['local']['core_seconds']:.1f}"),
        line("Ray engine, core-seconds", lambda case: f"{case['ray']['core_seconds']:.1f}"),
        line("Ray over local, core-seconds", lambda case: f"{case['core_overhead']:.2f}"),
        line("bytes to a worker per pass, at most", lambda case: most_bytes(case, "sent")),
        line("bytes from a worker per pass, at most", lambda case: most_bytes(case, "received")),
        line("(s + 8) × 8 × classes", lambda case: f"{case['allowed_bytes_per_pass']:,}"),
        line("a worker's share of the files, MB", lambda case: f"{case['shard_bytes'] / 1e6:,.0f}"),
        line("its own memory at most, MB", lambda case: f"{case['ray']['worker_own_bytes'] / 1e6:,.0f}"),
        line(
            "of that before it reads a row, MB", lambda case: f"{case['ray']['worker_own_before'] / 1e6:,.0f}"
        ),
    ]
    times, load = result["repeats"], result["machine"]["load_before"]
    shared = (
        f"Others worked on the machine as well (load {load:.0f}), so seconds say little. " if load > 1 else ""
    )
    turns = "" if times == 1 else f" The engines took turns, {times} times each; of each, the best."
    return (
        f"{result['rows']:,} × {result['features']} {result['dtype']} rows from files that had just been written, "
        f"{cases[0]['k']:,} picked, {result['workers']} workers on {result['workers']} nodes of one machine.{turns} "
        f"{shared}Core-seconds are the time that processes had a core, all of Ray's included.\n\n"
        + _table(["", "unlabeled", "per class"], rows)
    )


def _constants(result: Mapping[str, Any]) -> str:
    per = of_result(result)
    start, robust = result["start"], robust_constants(result["robust"]["runs"])
    rows = [
        ["a: a pass of the median", _each(per["pass"])],
        ["b: a round of picks", _each(per["round"])],
        ["once: reading, checking, distances, batches", _each(per["once"])],
        ["c: a call of all workers through Ray", f"{1e3 * start['seconds_per_call']:.1f} ms"],
        ["`robust` before the picks", _each((robust["row"], robust["number"]))],
        ["`robust`, a round of picks", f"{1e9 * robust['round']:.2f} ns per feature of a kept row"],
        ["start: Ray's nodes on this machine", f"{start['seconds_to_start_nodes']:.1f} s"],
        ["start: the workers", f"{start['seconds_to_place']:.1f} s"],
    ]  # fmt: skip
    return (
        "The constants, in time on one core, from the unlabeled run of the local engine and one of longer rows, and "
        "for `robust` from three runs of different sizes:\n\n" + _table(["constant", "measured"], rows)
    )


def _each(constant: tuple[float, float]) -> str:
    row, number = constant
    return f"{1e9 * row:,.0f} ns per row and {1e9 * number:.2f} ns per number"


def _checked(result: Mapping[str, Any]) -> str:
    checked = predictions(result) + robust_predictions(result["robust"]["runs"])
    rows = [
        [
            f"{one['run']}", f"{one['rows']:,} × {one['features']}", f"{one['predicted']:.1f}",
            f"{one['measured']:.1f}", f"{one['ratio']:.2f}",
        ]
        for one in checked
    ]  # fmt: skip
    head = ["other runs", "rows", "model, core-seconds", "measured", "model over measured"]
    ratios = [one["ratio"] for one in checked]
    return (
        "What the model says about runs that its constants do not come from, "
        f"{min(ratios):.2f} to {max(ratios):.2f} of what they took (it knows nothing of Ray's own processes, nor "
        "what classes change):\n\n" + _table(head, rows)
    )


def _extrapolation(result: Mapping[str, Any]) -> str:
    far = extrapolated(result, **LARGE)
    seconds = far["seconds"]
    return (
        f"By these constants, 10⁹ × 512 float16 rows on {LARGE['machines']} machines of {LARGE['cores']} such cores, "
        f"each with {far['bytes_per_machine'] / 1e9:,.0f} GB of rows in memory, 1% picked: "
        f"{far['batches']:,} batches, {far['passes']} passes, {far['rounds']:,} rounds, "
        f"{_spoken(sum(seconds.values()))} in all. Of that "
        f"{_spoken(seconds['once'])} are to check and prepare the rows, {_spoken(seconds['median'])} for the median, "
        f"{_spoken(seconds['picks'])} for the picks, and {_spoken(seconds['calls'])} for calls, if what a call costs "
        f"grows with the number of workers. Per round, θ takes {far['theta_bytes_per_round'] / 1e6:,.0f} MB to each "
        f"machine and the answers {far['answer_bytes_per_round'] / 1e6:,.0f} MB to the one that asks. This is an "
        "extrapolation: nobody has run it, and it leaves out the network and the disks."
    )


def _extrapolated_robust(result: Mapping[str, Any]) -> str:
    per, rows, machines = (
        robust_constants(result["robust"]["runs"]),
        int(LARGE["rows"]),
        int(LARGE["machines"]),
    )
    first, workers = result["robust"]["runs"][0], int(LARGE["machines"] * LARGE["cores"])
    kept, components = rows * first["run"]["kept"] / first["rows"], first["run"]["components"]
    far = extrapolated(result, **{**LARGE, "features": components})
    parts = robust_seconds(per, rows, int(LARGE["features"]), kept, components, far["rounds"])
    once, picks = (parts[name] / workers for name in ("once", "picks"))
    calls = far["seconds"]["calls"]
    return (
        f"`robust` on the same rows, if {kept / rows:.0%} of them pass as here, in {far['rounds']:,} rounds: "
        f"{_spoken(once + picks + calls)} in all, of that {_spoken(once)} for the screening and the features, "
        f"{_spoken(picks)} for the picks, and {_spoken(calls)} for calls. The workers of a machine hold "
        f"{4 * components * kept / machines / 1e9:,.0f} GB of features."
    )


def _spoken(seconds: float) -> str:
    return f"{seconds:.1f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"
