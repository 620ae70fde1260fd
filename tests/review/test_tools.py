"""Tasks for other tools, and the answers that these export.

The files in ``tools`` were written by the tools' own code, which read our tasks (``record_tools.py``).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm

TOOLS = Path(__file__).with_name("tools")
NAMES = ("ant", "bee", "cat")
ENDINGS = {"label-studio": "json", "argilla": "json", "fiftyone": "json", "jsonl": "jsonl"}


@pytest.fixture
def write(tmp_path):
    """Write the tasks of sixty pictures of which six are mislabeled; the records of the file."""
    from PIL import Image

    random = np.random.default_rng(0)
    truth = np.arange(60) % 3
    given = np.where(np.arange(60) < 6, (truth + 1) % 3, truth)
    X = np.eye(3)[truth] + 0.1 * random.standard_normal((60, 3))
    ids = [f"{NAMES[given[row]]}/{row:02}.png" for row in range(60)]
    for name, values in zip(ids, X, strict=True):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.clip(100 * values, 0, 255))[None]).save(path)
    y = np.array(NAMES)[given]

    def write(tool):
        path = tmp_path / f"tasks.{ENDINGS[tool]}"
        order = np.argsort(ids)
        gm.review(
            X[order], y[order], ids=np.array(ids)[order], source=tmp_path / "photos", static=path, tool=tool,
            output=tmp_path / "d.csv",
        )  # fmt: skip
        if tool == "jsonl":
            return [json.loads(line) for line in path.read_text().splitlines()]
        records = json.loads(path.read_text())
        return records["samples"] if tool == "fiftyone" else records

    return write


def shape_of(value):
    """What a record looks like: names and types."""
    if isinstance(value, dict):
        return {name: shape_of(part) for name, part in value.items()}
    return [shape_of(part) for part in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("tool", ["label-studio", "argilla", "fiftyone"])
def test_tasks_are_such_as_the_tool_has_read(write, tool):
    document = json.loads((TOOLS / f"{tool}.tasks.json").read_text())
    recorded = document["samples"] if tool == "fiftyone" else document
    tasks = write(tool)
    assert {json.dumps(shape_of(task)) for task in tasks} == {json.dumps(shape_of(task)) for task in recorded}
    if tool == "fiftyone":
        assert all(Path(task["filepath"]).is_file() for task in tasks)
    else:
        assert '"data:image/' in json.dumps(tasks[0])


@pytest.mark.parametrize("tool", ["label-studio", "argilla", "fiftyone"])
def test_what_the_tool_exports_are_decisions(tool):
    decisions = list(gm.read_decisions(TOOLS / f"{tool}.json"))
    assert [(decision.answer, bool(decision.label)) for decision in decisions] == [
        ("right", False), ("wrong", True), ("drop", False), ("unsure", False),
    ]  # fmt: skip
    assert decisions[1].label != decisions[1].given
    assert all(decision.id.startswith(f"{decision.given}/") for decision in decisions)


def test_a_corrected_label_in_fiftyone_needs_no_tag(write, tmp_path):
    sample = write("fiftyone")[0]
    label = next(name for name in NAMES if name != sample["gmmatch"]["given"])
    sample["ground_truth"]["label"] = label
    (tmp_path / "samples.json").write_text(json.dumps({"samples": [sample]}))
    (decision,) = gm.read_decisions(tmp_path / "samples.json")
    assert (decision.answer, decision.label) == ("wrong", label)


def test_lines_of_json_are_a_table_of_decisions(write, tmp_path):
    lines = write("jsonl")
    lines[0]["answer"], lines[1] = "right", {**lines[1], "answer": "wrong", "label": "ant"}
    (tmp_path / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    decisions = list(gm.read_decisions(tmp_path / "answers.jsonl"))
    assert [(decision.id, decision.answer, decision.label) for decision in decisions] == [
        (lines[0]["id"], "right", ""),
        (lines[1]["id"], "wrong", "ant"),
    ]


def test_label_issues_of_cleanlab_are_dropped_and_teach_nothing():
    # The first lines of what `CleanLearning(...).find_label_issues(X, y).to_csv()` of cleanlab 2.9 wrote.
    settled = gm.apply_decisions(np.zeros((8, 2)), [1, 2, 0, 1, 2, 0, 0, 1], TOOLS / "cleanlab.csv")
    assert settled.keep.tolist() == [False] * 6 + [True] * 2 and settled.answers.tolist() == [None] * 8


def test_what_is_no_export_is_refused(tmp_path):
    for text in ("{", '{"a": 1}', '[{"data": {"row": 1}}]', "3", '[{"annotations": []}]'):
        (tmp_path / "export.json").write_text(text)
        with pytest.raises(gm.GMMatchError, match="export"):
            gm.read_decisions(tmp_path / "export.json")
    with pytest.raises(gm.GMMatchError, match="no such file"):
        gm.read_decisions(tmp_path / "missing.json")


def test_fiftyone_needs_files(tmp_path):
    X = np.repeat(np.eye(3), 20, axis=0) + 0.1 * np.random.default_rng(0).standard_normal((60, 3))
    with pytest.raises(gm.GMMatchError, match="folder of images"):
        gm.review(
            X, np.repeat(NAMES, 20), output=tmp_path / "d.csv", static=tmp_path / "t.json", tool="fiftyone"
        )
