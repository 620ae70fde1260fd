"""Decisions: a file that reads back as it was written, what follows from a person's word, and tasks for other tools.

The files in ``tools`` were written by the tools' own code, which read our tasks (``record_tools.py``).
"""

from __future__ import annotations

import csv
import json
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gmmatch as gm
from gmmatch import Decision
from gmmatch.errors import GMMatchError

TEXT = st.text(alphabet=string.ascii_letters + " ,;\t\"'=+-@\n\u00e9\u05d0", max_size=12)


@given(st.lists(st.tuples(TEXT, TEXT, st.sampled_from(["right", "wrong", "duplicate", "drop"]), TEXT, TEXT)))
def test_a_file_reads_back_as_it_was_written(tmp_path_factory, cells):
    path = tmp_path_factory.mktemp("decisions") / "d.csv"
    decisions = gm.Decisions(
        Decision(row, f"{row}{name}", given, answer, label, keep)
        for row, (name, given, answer, label, keep) in enumerate(cells)
    )
    decisions.write(path)
    assert list(gm.read_decisions(path)) == list(decisions)
    # No spreadsheet runs a cell.
    with path.open(newline="", encoding="utf-8") as file:
        assert not any(cell.startswith(("=", "+", "-", "@")) for line in csv.reader(file) for cell in line)


def test_a_table_of_ones_own_needs_three_columns(tmp_path):
    path = tmp_path / "d.csv"
    path.write_text("id;answer;label\na;Wrong;dog\nb;right;\nc;;\n", encoding="utf-8-sig")
    labels, keep, answers, _ = gm.apply_decisions(["a", "b", "c"], ["cat", "dog", "dog"], path)
    assert labels.tolist() == ["dog", "dog", "dog"] and keep.all()
    assert answers.tolist() == ["dog", "dog", None]


@pytest.mark.parametrize("y", [[0, 1, 2, 0], ["ant", "bee", "cat", "ant"], [b"ant", b"bee", b"cat", b"ant"]])
@pytest.mark.parametrize("kind", [np.array, lambda y: np.array(y, dtype=object), list])
def test_labels_keep_their_form(y, kind):
    name = str(np.unique(np.array(y))[2].item()) if not isinstance(y[0], bytes) else "cat"
    labels = gm.apply_decisions(
        np.zeros((4, 2)), kind(y), gm.Decisions([Decision(0, "", "", "wrong", name)])
    )[0]
    assert labels.tolist() == [y[2], *y[1:]] and isinstance(
        labels[1].item() if kind is np.array else y[1], type(y[1])
    )


def test_every_answer_says_which_rows_stay():
    decisions = gm.Decisions(
        [
            Decision(0, "a", "cat", "right"), Decision(1, "b", "cat", "wrong", "dog"),
            Decision(2, "c", "dog", "drop"), Decision(3, "d", "dog", "duplicate", keep="a"),
            Decision(4, "e", "dog", "wrong"), Decision(5, "f", "dog", "unsure"),
        ]
    )  # fmt: skip
    y = ["cat", "cat", "dog", "dog", "dog", "dog", "dog"]
    settled = gm.apply_decisions(list("abcdefg"), y, decisions)
    assert settled.keep.tolist() == [True, True, False, False, False, True, True]
    assert [str(answer) for answer in settled.answers] == [
        "cat",
        "dog",
        "None",
        "None",
        "nan",
        "None",
        "None",
    ]
    assert settled.decided.tolist() == [True, True, True, True, True, False, False]
    assert settled.labels.tolist() == ["cat", "dog", "dog", "dog", "dog", "dog", "dog"]
    without = gm.apply_decisions(list("abcdefg"), None, decisions)
    assert (
        without.labels is None and without.answers is None and without.keep.tolist() == settled.keep.tolist()
    )


def test_a_label_that_was_right_stays_the_right_one_though_the_data_have_changed():
    # Confirmed as a cat; since then somebody has written dog.
    decisions = gm.Decisions([Decision(0, "a", "cat", "right")])
    assert gm.apply_decisions(["a", "b", "c"], ["dog", "dog", "cat"], decisions).labels.tolist()[0] == "cat"


def test_rows_are_found_by_id_wherever_they_are_now():
    decisions = gm.Decisions([Decision(0, "a", "cat", "drop"), Decision(1, "b", "cat", "right")])
    with pytest.warns(
        gm.errors.GMMatchWarning, match="1 of the 2 decisions are about rows that are not there"
    ):
        assert gm.apply_decisions(["c", "a"], ["dog", "cat"], decisions).keep.tolist() == [True, False]


def test_decisions_about_other_data_are_refused():
    def refuse(match, X, y, *decisions):
        with pytest.raises(gm.GMMatchError, match=match):
            gm.apply_decisions(X, y, gm.Decisions(decisions))

    X = np.zeros((3, 2))
    refuse("labeled 'dog', but was 'cat'", X, ["dog", "cat", "cat"], Decision(0, "", "cat", "right"))
    refuse("numbers up to 2", X, None, Decision(3, "", "", "drop"))
    refuse("'brid', which no row has", X, ["dog", "cat", "cat"], Decision(0, "", "dog", "wrong", "brid"))
    refuse("1 of the 1 decisions", ["x", "y"], ["cat", "cat"], Decision(0, "a", "cat", "right"))
    refuse("the same id", ["x", "x"], None, Decision(0, "x", "", "drop"))
    both = Decision(0, "", "", "duplicate", keep="1"), Decision(1, "", "", "duplicate", keep="0")
    refuse("none would stay", X, None, *both)


def test_files_that_cannot_be_read_say_why(tmp_path):
    def refuse(match, text):
        (tmp_path / "d.csv").write_text(text)
        with pytest.raises(gm.GMMatchError, match=match):
            gm.read_decisions(tmp_path / "d.csv")

    refuse("no column 'answer'", "id,label\na,b\n")
    refuse("no column 'row'", "answer,label\nright,b\n")
    refuse("line 3: answers are .* got 'perhaps'", "id,answer\na,right\nb,perhaps\n")
    refuse("line 3: row a is there twice", "id,answer\na,right\na,drop\n")
    refuse("line 2: row '-3' is no row number", "row,answer\n-3,drop\n")
    (tmp_path / "d.csv").write_text("")
    assert len(gm.read_decisions(tmp_path / "d.csv")) == 0


def test_one_review_at_a_time_writes_a_file(tmp_path):
    pytest.importorskip("uvicorn")
    y = np.arange(60) % 3
    X = 0.1 * np.random.default_rng(0).standard_normal((60, 3)) + np.eye(3)[y]
    options = {"output": tmp_path / "decisions.csv", "screening": gm.screen(X, y, random_state=0)}

    def announce(address):
        with pytest.raises(GMMatchError, match=r"decisions\.csv is being written by process \d+"):
            gm.review(X, y, **options, announce=print)
        raise InterruptedError(address)

    with pytest.raises(InterruptedError, match="http://127"):
        gm.review(X, y, **options, announce=announce)
    assert not list(tmp_path.iterdir())  # nor is there a lock left


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
