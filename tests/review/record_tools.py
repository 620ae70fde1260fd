"""Play a person in another tool: its own code reads our tasks, and writes the export that the tests read.

In an environment with ``label-studio-sdk``, ``argilla`` or ``fiftyone``, which the tests do not need:
``python tests/review/record_tools.py label-studio tests/review/tools`` reads ``label-studio.tasks.json`` of that
folder by the tool's reader, answers, and writes ``label-studio.json``. The servers of the tools are not run. The
tasks are some of those that ``test_decisions.py`` writes.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

# What the person says about the tasks, one after the other; None is no answer.
ANSWERS = ("right", "wrong", "drop", "unsure", None)


def label_studio(tasks: Path, export: Path) -> None:
    from label_studio_sdk.label_interface import LabelInterface

    names = sorted({task["data"]["given"] for task in json.loads(tasks.read_text())})
    choices = "".join(f'<Choice value="{name}"/>' for name in [*names, "drop", "unsure"])
    interface = LabelInterface(
        f'<View><Image name="item" value="$image"/><Choices name="label" toName="item">{choices}</Choices></View>'
    )
    exported = json.loads(tasks.read_text())
    assert any("predictions" in task for task in exported)
    for number, (task, answer) in enumerate(zip(exported, ANSWERS, strict=True)):
        for prediction in task.get("predictions", []):
            assert interface.validate_prediction(prediction, return_errors=True) == []
        # validate_task wants an argument more of itself where there are predictions.
        assert interface.validate_task({"data": task["data"]})
        annotation = json.loads(json.dumps(interface.generate_sample_annotation()))
        suggested = [
            prediction["result"][0]["value"]["choices"][0] for prediction in task.get("predictions", [])
        ]
        meanings = {"right": task["data"]["given"], "wrong": "".join(suggested)}
        annotation["result"][0]["value"]["choices"] = [meanings.get(answer, answer)]
        annotation["was_cancelled"] = answer is None
        if answer is None:
            annotation["result"] = []
        assert interface.validate_annotation(annotation)
        task |= {"id": number + 1, "annotations": [annotation]}
    export.write_text(json.dumps(exported, indent=1) + "\n")


def argilla(tasks: Path, export: Path) -> None:
    import argilla as rg
    from argilla._helpers._media import uncast_image
    from argilla.records._io import JsonIO

    records = JsonIO._records_from_json(tasks)
    for record, answer in zip(records, ANSWERS, strict=True):
        uncast_image(record.fields["image"])
        suggested = [suggestion.value for suggestion in record.suggestions]
        meanings = {"right": record.metadata["given"], "wrong": "".join(suggested)}
        if answer is not None:
            user = "3d9b8f8e-0000-4000-8000-000000000001"
            record.responses.add(rg.Response("label", meanings.get(answer, answer), user))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(JsonIO.to_json(records, Path(folder, "records.json")), export)
    export.write_text(json.dumps(json.loads(export.read_text()), indent=1) + "\n")


def fiftyone(tasks: Path, export: Path) -> None:
    from fiftyone.utils.data.exporters import LegacyFiftyOneDatasetExporter
    from fiftyone.utils.data.importers import LegacyFiftyOneDatasetImporter

    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(tasks, Path(folder, "samples.json"))
        importer = LegacyFiftyOneDatasetImporter(folder)
        importer.setup()
        exporter = LegacyFiftyOneDatasetExporter(folder, export_media=False, abs_paths=True)
        exporter.setup()
        for sample, answer in zip(importer, ANSWERS, strict=True):
            if answer is not None:
                sample.tags.append(answer)
            exporter.export_sample(sample)
        samples = {"samples": exporter._samples}
    export.write_text(json.dumps(samples, indent=1) + "\n")


if __name__ == "__main__":
    name, folder = sys.argv[1], Path(sys.argv[2])
    tool = {"label-studio": label_studio, "argilla": argilla, "fiftyone": fiftyone}[name]
    tool(folder / f"{name}.tasks.json", folder / f"{name}.json")
