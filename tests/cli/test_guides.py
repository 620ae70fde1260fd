"""The guides and the README can be followed: their commands and their Python code run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Models of the hub, and what stands in for them where there is no network.
MODELS = {"openai/clip-vit-base-patch32": "pixels:4x4", "sentence-transformers/all-MiniLM-L6-v2": "TEXT"}


def commands(path: str) -> list[list[str]]:
    text = (ROOT / path).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = [
        line
        for language, block in blocks
        if not language
        for line in block.splitlines()
        if line.startswith("gmmatch ")
    ]
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.parametrize("guide", ["docs/guides/images.md", "docs/guides/text.md", "README.md"])
def test_the_commands_run_in_their_order(guide, photos, texts, text_encoder, tmp_path, succeeds, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = commands(guide)
    assert [command[0] for command in found][:2] == ["embed", "select"]
    for command in found:
        known = {**MODELS, "sentence-transformers/all-MiniLM-L6-v2": text_encoder}
        arguments = [known.get(argument, argument) for argument in command]
        if command[0] == "embed" and "--encoder" not in command:
            arguments += ["--encoder", "pixels:4x4"]
        succeeds(*arguments)
    if guide == "docs/guides/images.md":
        assert len(list((tmp_path / "picked").rglob("*.png"))) == 2
    if guide == "docs/guides/text.md":
        assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 10


def test_the_training_recipes_run(photos, tmp_path, succeeds, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision]")
    torch = pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    files = sorted(photos.rglob("*.png"))
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    data = {
        "image": [str(file) for file in files],
        "label": [int(file.parent.name == "dog") for file in files],
    }
    datasets.Dataset.from_dict(data, features=features).to_parquet("photos.parquet")
    succeeds("embed", "photos.parquet", "-o", "p.emb", "--encoder", "pixels:4x4")
    succeeds("select", "p.emb", "-k", 8, "-o", "picks.parquet")
    text = (ROOT / "docs/guides/training-script.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    train_set = torch.utils.data.TensorDataset(torch.arange(24))
    names = {"train_set": train_set, "embeddings": torch.rand(24, 3), "labels": data["label"]}
    lengths = []
    for block in blocks:
        exec(compile(block, "training-script.md", "exec"), names)
        lengths.append(len(names["small"]))
    assert lengths == [8, 8, 8, 2]
    assert isinstance(names["loader"].dataset, torch.utils.data.Subset)
