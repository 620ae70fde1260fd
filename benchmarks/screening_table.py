"""Write the tables of ``docs/guides/robust.md`` from the results: ``python -m benchmarks.screening_table``."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).resolve().parent.parent
_RESULTS, _PAGE = _ROOT / "benchmarks" / "results", _ROOT / "docs" / "guides" / "robust.md"
_NOISES = {"0": "none", "0.2": "20% symmetric", "0.4": "40% symmetric", "people": "by people (40%)"}


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def gaussian(content: dict[str, Any]) -> str:
    """Return contamination and distance, and what overlapping clusters let in."""
    rows = []
    for case in content["cases"]:
        rule = case.get("ratio_rule_let_in")
        let_in = "" if rule is None else f"{case['let_in']:.1f} / {rule:.1f}"
        linear = case.get("gm_matching_contamination")
        rows.append([
            str(case["dimensions"]), case["kind"], f"{case['share']:g}", f"{100 * case['contamination']:.1f}%",
            f"{case['mmd']:.4f}", f"{case['oracle_mmd']:.4f}", f"{100 * case['clean_dropped']:.1f}%", let_in,
            "" if linear is None else f"{100 * linear:.1f}%",
        ])  # fmt: skip
    head = [
        "dimensions", "corrupt rows", "ψ", "corrupt picks", "MMD", "oracle's MMD", "clean rows dropped",
        "let in / by the ratio rule", "corrupt picks of gm-matching",
    ]  # fmt: skip
    return _table(head, rows)


def labels(content: dict[str, Any]) -> str:
    """Return wrong labels and accuracy of every method, and the paired gains."""
    runs, rows = content["runs"], []
    methods = list(dict.fromkeys(run["method"] for run in runs))
    for noise in dict.fromkeys(run["noise"] for run in runs):
        for share in dict.fromkeys(run["share"] for run in runs):
            cells = []
            for method in methods:
                mine = [r for r in runs if (r["noise"], r["share"], r["method"]) == (noise, share, method)]
                wrong = 100 * np.mean([run["wrong_labels"] for run in mine])
                accuracy = 100 * np.mean([run["accuracy"] for run in mine])
                cells.append(f"{wrong:.1f}% / {accuracy:.2f}")
            rows.append([_NOISES.get(noise, noise), f"{100 * share:g}%", *cells])
    gains = [
        [
            _NOISES.get(one["noise"], one["noise"]), f"{100 * one['share']:g}%", one["peer"],
            f"{one['gain']:+.2f}", f"{one['low']:+.2f} to {one['high']:+.2f}", str(one["seeds"]),
        ]
        for one in content["gains"]
    ]  # fmt: skip
    kept = [
        [
            _NOISES.get(noise, noise),
            f"{100 * np.mean([k['wrong_labels'] for k in content['cleanlab_kept'] if k['noise'] == noise]):.1f}%",
            f"{100 * np.mean([k['share_kept'] for k in content['cleanlab_kept'] if k['noise'] == noise]):.0f}%",
        ]
        for noise in dict.fromkeys(k["noise"] for k in content["cleanlab_kept"])
    ]
    return "\n\n".join([
        "Wrong labels among the picks / accuracy of the probe:",
        _table(["label noise", "kept", *methods], rows),
        "Points of accuracy that `robust` is ahead, paired over seeds:",
        _table(["label noise", "kept", "of", "points", "95% interval", "seeds"], gains),
        "Wrong labels among all rows that cleanlab keeps:",
        _table(["label noise", "wrong", "kept"], kept),
    ])  # fmt: skip


def small(content: dict[str, Any]) -> str:
    """Return what is left of wrong labels, and lost of right ones, in every small data set."""
    noises = list(dict.fromkeys(case["noise"] for case in content["cases"]))
    parts = []
    for method, words in (("screen", "`gm.screen`"), ("cleanlab", "cleanlab")):
        rows = []
        for name in dict.fromkeys(case["data"] for case in content["cases"]):
            mine = {case["noise"]: case[method] for case in content["cases"] if case["data"] == name}
            cells = (
                f"{100 * mine[noise]['wrong_kept']:.1f} / {100 * mine[noise]['right_dropped']:.1f}"
                for noise in noises
            )
            rows.append([name, *cells])
        parts.append(f"Wrong among the kept / right ones dropped, in percent, by {words}:")
        parts.append(_table(["data", *noises], rows))
    return "\n\n".join(parts)


def cost(content: dict[str, Any]) -> str:
    """Return the seconds of robust beside those of gm-matching, and where robust's go."""
    parts = list(content["cases"][0]["robust"])
    rows = [
        [
            _NOISES.get(case["noise"], case["noise"]), f"{100 * case['share']:g}%",
            *(f"{case['seconds'][method]:.{1 if case['seconds'][method] > 0.2 else 2}f} s"
              for method in ("robust", "gm-matching")),
            f"{case['ratio']:.1f}", *(f"{case['robust'][part]:.2f}" for part in parts),
        ]
        for case in content["cases"]
    ]  # fmt: skip
    return _table(["label noise", "kept", "robust", "gm-matching", "ratio", *parts], rows)


def images(content: dict[str, Any]) -> str:
    """Return the share of each kind of spoilt image in the data and among the picks."""
    parts = []
    for case in content["cases"]:
        kinds = list(case["in_the_data"])
        if not kinds:
            parts.append(f"Nothing spoilt: {100 * case['clean_dropped']:.1f}% of the rows are screened out.")
            continue
        rows = [["in the data", *(f"{100 * case['in_the_data'][kind]:.1f}%" for kind in kinds),
                 f"{100 * case['label_noise']:.1f}%"]]  # fmt: skip
        for method, found in case["picks"].items():
            rows.append(
                [
                    method,
                    *(f"{100 * found[kind]:.2f}%" for kind in kinds),
                    f"{100 * found['wrong labels']:.1f}%",
                ]
            )
        noise = f" and {100 * case['label_noise']:g}% wrong labels" if case["label_noise"] else ""
        parts.append(
            f"{100 * case['spoilt']:g}% spoilt{noise}; {100 * case['clean_dropped']:.1f}% of the clean rows are "
            "screened out:\n\n" + _table(["", *kinds, "wrong labels"], rows)
        )
    return "\n\n".join(parts)


def alone(content: dict[str, Any]) -> str:
    """Return how much of each kind is picked where it is the only one, for its share in the data."""
    rates = sorted({case["rate"] for case in content["cases"]})
    found = {(case["kind"], case["rate"]): case for case in content["cases"]}
    rows = []
    for kind in dict.fromkeys(case["kind"] for case in content["cases"]):
        mine = [found[kind, rate] for rate in rates]
        rows.append([kind, *(f"{case['picked']:.2f} / {100 * case['clean_dropped']:.1f}%" for case in mine)])
    return _table(["the only kind", *(f"{100 * rate:g}% of the data" for rate in rates)], rows)


def kinds(content: dict[str, Any]) -> str:
    """Return the share of bad rows in the data and among few and many picks of every method."""
    methods = list(content["cases"][0]["picked"])
    rows = [
        [
            case["name"], f"{100 * case['bad']:.0f}%", f"{100 * case['good_dropped']:.1f}%",
            *(" / ".join(f"{100 * share:.1f}" for share in case["picked"][method]) for method in methods),
        ]
        for case in content["cases"]
    ]  # fmt: skip
    return _table(["what is wrong", "bad", "good rows dropped", *methods], rows)


def main(names: Sequence[str] | None = None) -> None:
    """Fill in what results there are, or those that are named."""
    tables = {
        "gaussian": ("screening-gaussian", gaussian), "labels": ("screening-labels", labels),
        "small": ("screening-small", small), "images": ("screening-images", images),
        "other-images": ("screening-images-generation", images), "cost": ("screening-cost", cost),
        "alone": ("screening-images-alone", alone), "kinds": ("screening-kinds", kinds),
        "other-alone": ("screening-images-alone-generation", alone),
        "gpu-cost": ("screening-cost-gpu", cost), "gpu-cost-large": ("screening-cost-gpu-large", cost),
    }  # fmt: skip
    parser = argparse.ArgumentParser(prog="python -m benchmarks.screening_table", description=__doc__)
    parser.add_argument("tables", nargs="*", help=f"which of {', '.join(tables)}; all by default")
    wanted = parser.parse_args(names).tables or list(tables)
    page = _PAGE.read_text(encoding="utf-8")
    for name, (file, table) in tables.items():
        path = _RESULTS / f"{file}.json"
        if name not in wanted or not path.exists():
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        text = f"<!-- {name}: begin -->\n\n{table(content)}\n\n<!-- {name}: end -->"
        pattern = rf"<!-- {name}: begin -->.*?<!-- {name}: end -->"
        page = re.sub(pattern, lambda _, text=text: text, page, flags=re.DOTALL)
    _PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
