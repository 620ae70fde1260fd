"""Small data in place of the reader's own: files that pages read, names that their code takes for granted.

``FILES`` has a function for each file that pages mention; the file is made in the folder in which a page is run if
the page names it and does not make it itself. ``PAGES`` has, for pages whose code needs more than what is on the
page, the names it takes for granted, and what must have come out at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pytest import MonkeyPatch

from .blocks import ROOT

Names = dict[str, Any]


def write_photos(folder: Path) -> None:
    """24 parts of two photographs, each a class."""
    from PIL import Image
    from sklearn.datasets import load_sample_image

    random = np.random.default_rng(0)
    for label, name in (("cat", "china.jpg"), ("dog", "flower.jpg")):
        (folder / label).mkdir(parents=True)
        photograph = load_sample_image(name)
        for number in range(12):
            top, left = random.integers(0, 200), random.integers(0, 300)
            part = photograph[top : top + 200, left : left + 300]
            Image.fromarray(part).save(folder / label / f"{number}.png")


def write_texts(path: Path) -> None:
    """30 texts of three classes that differ in length."""
    texts = ["word " * (30 * (i % 3) + i // 3 + 1) for i in range(30)]
    records = [
        {"title": "Note", "body": text, "text": text, "label": "abc"[i % 3]} for i, text in enumerate(texts)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_chats(path: Path) -> None:
    """Chats about functions of NumPy: 90 to tune on, 20 to evaluate on of which five are the same, 10 of a task."""
    chats = []
    for name in filter(str.islower, sorted(np.__all__)):
        paragraphs = (getattr(np, name).__doc__ or "").strip().split("\n\n")
        if callable(getattr(np, name)) and len(paragraphs) > 1:
            answer = " ".join(paragraphs[1 if "(" in paragraphs[0] else 0].split())
            question = {"role": "user", "content": f"What does numpy.{name} do?"}
            chats.append({"messages": [question, {"role": "assistant", "content": answer}]})
    first, last = {"sft.jsonl": (0, 90), "eval.jsonl": (85, 105), "task.jsonl": (105, 115)}[path.name]
    path.write_text("".join(json.dumps(chat) + "\n" for chat in chats[first:last]), encoding="utf-8")


def write_vectors(path: Path) -> None:
    """60 vectors; in an archive with labels of three classes."""
    rows, labels = striped_images(60)
    vectors = rows.reshape(60, -1).astype(np.float32)
    if path.suffix == ".npz":
        np.savez(path, x=vectors, label=labels)
    else:
        np.save(path, vectors)


def write_store(path: Path, rows: np.ndarray | None = None) -> None:
    """A store of 2,000 rows in two classes."""
    from gmmatch.store import StoreWriter

    rows = two_classes(2000) if rows is None else rows
    with StoreWriter(path, encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(rows, ids=np.arange(len(rows)), labels=np.arange(len(rows)) % 2)
        writer.finish()


def write_test_store(path: Path) -> None:
    """A store of 300 rows, of which 30 are in the other one too."""
    rows = two_classes(300, seed=1)
    rows[:30] = two_classes(2000)[:30]
    write_store(path, rows)


def two_classes(n: int, seed: int = 0) -> np.ndarray:
    """Rows of two classes in turn."""
    return np.random.default_rng(seed).normal(size=(n, 5)) + 6.0 * (np.arange(n) % 2)[:, None]


def write_photo_table(path: Path) -> None:
    """The photos in a Parquet file, as the datasets of the hub have them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path("photos").exists():
        write_photos(Path("photos"))
    files = sorted(Path("photos").rglob("*.png"))
    images = [{"bytes": file.read_bytes(), "path": file.name} for file in files]
    pq.write_table(pa.table({"image": images, "label": [int(f.parent.name == "dog") for f in files]}), path)


def write_decisions(path: Path) -> None:
    """What a person said of two of the photos."""
    path.write_text("id,answer,label\ncat/3.png,right,\ndog/5.png,drop,\n", encoding="utf-8")


FILES: dict[str, Callable[[Path], None]] = {
    "photos/": write_photos,
    "texts.jsonl": write_texts,
    "sft.jsonl": write_chats,
    "eval.jsonl": write_chats,
    "task.jsonl": write_chats,
    "vectors.npy": write_vectors,
    "vectors.npz": write_vectors,
    "part-0.npy": write_vectors,
    "part-1.npy": write_vectors,
    "photos.emb": write_store,
    "train.emb": write_store,
    "test.emb": write_test_store,
    "web.emb": write_store,
    "task.emb": write_test_store,
    "new.emb": write_test_store,
    "photos.parquet": write_photo_table,
    "decisions.csv": write_decisions,
}


def make_files(text: str) -> None:
    """Make the files that a page names in its blocks and does not make itself, in the current folder."""
    for name, write in FILES.items():
        named = re.search(rf"(?<![\w/]){re.escape(name)}", text)
        made_there = re.search(rf"(-o |--output |save\w*\(\"){re.escape(name)}", text)
        if named and not made_there:
            write(Path(name))


def striped_images(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gray images of three classes that are easy to tell apart."""
    random = np.random.default_rng(0)
    labels = np.arange(n) % 3
    patterns = random.normal(size=(3, 12, 12)) * 40 + 127
    noise = np.random.default_rng(seed).normal(size=(n, 12, 12)) * 5
    return (patterns[labels] + noise).clip(0, 255).astype(np.uint8), labels


def nothing(patch: MonkeyPatch) -> Names:
    """A page whose code needs nothing but what is on it."""
    return {}


def digits(patch: MonkeyPatch) -> Names:
    """Digits with their labels, and some of them to follow."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return {"X": X, "y": y, "Z": X[:40], "z": y[:40]}


def digits_in_two_parts(patch: MonkeyPatch) -> Names:
    """Digits to pick from, and others that come later or to test by."""
    X, y, *_ = digits(patch).values()
    first, rest = slice(1200), slice(1200, None)
    later = dict.fromkeys(("X_test", "X_new"), X[rest]) | dict.fromkeys(("y_test", "y_new"), y[rest])
    return {"X": X[first], "y": y[first], **later}


def a_torch_dataset(patch: MonkeyPatch) -> Names:
    """What a training script has: a dataset, embeddings and labels of its rows, and picks of them on disk."""
    import torch

    import gmmatch as gm

    labels = np.arange(24) // 12
    embeddings = torch.rand(24, 3, generator=torch.Generator().manual_seed(0))
    gm.GMMatching(k=8, random_state=0).select(embeddings, labels, ids=np.arange(24)).save("picks.parquet")
    train_set = torch.utils.data.TensorDataset(torch.arange(24))
    return {"train_set": train_set, "embeddings": embeddings, "labels": labels}


def a_training_loop(patch: MonkeyPatch) -> Names:
    """A model, an optimizer and a loader that gives the numbers of the rows."""
    import torch

    images, targets = striped_images(60)
    embeddings = images.reshape(60, -1).astype(np.float32)

    class Numbered(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 60

        def __getitem__(self, row: int) -> Any:
            return row, torch.from_numpy(embeddings[row]) / 255, int(targets[row])

    train_set = Numbered()
    shuffling = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(144, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    return {
        "torch": torch,
        "train_set": train_set,
        "loader": torch.utils.data.DataLoader(train_set, batch_size=16, shuffle=True, generator=shuffling),
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "embeddings": embeddings,
        "targets": targets,
        "losses": np.random.default_rng(0).random(60),
    }


def small_images(patch: MonkeyPatch) -> Names:
    """Color images to train on and to test with, and a recipe that is over in two epochs."""
    from dataclasses import replace

    from gmmatch_paper.training import recipes

    images, labels = striped_images(33)
    test_images, test_labels = striped_images(15, seed=1)
    fast = replace(recipes.FAST, epochs=2, min_steps=0, learning_rate=0.05)
    patch.setattr(recipes, "FAST", fast)
    return {
        "images": np.repeat(images[..., None], 3, axis=3),
        "labels": labels,
        "test_images": np.repeat(test_images[..., None], 3, axis=3),
        "test_labels": test_labels,
    }


def check_readme(names: Names) -> None:
    """The picks are a tenth, applied as the text says; images are cleaned and picked."""
    gm, selection = names["gm"], names["selection"]
    assert len(selection.indices) == round(0.1 * len(names["X"]))
    assert np.array_equal(names["X_small"], names["X"][selection.indices])
    encoders = [gm.open_store(name).encoder for name in ("clean.emb", "sft.emb")]
    assert encoders == ["efficientnet-lite2", "minilm"]  # those that need no network
    assert len(list(Path("picked").rglob("*.png"))) == 2 and Path("picks.html").exists()
    assert len(Path("leaks.csv").read_text().splitlines()) > 5


def check_sft(names: Names) -> None:
    """No pick is a question of the evaluation set."""
    for kept in (Path("picked.jsonl"), Path("sft.jsonl")):
        shared = set(kept.read_text().splitlines()) & set(Path("eval.jsonl").read_text().splitlines())
        assert len(shared) == (0 if kept.name == "picked.jsonl" else 5)


def sets_that_share_rows(patch: MonkeyPatch) -> Names:
    """Rows to train on and to test with, of which five are the same."""
    rows = np.random.default_rng(0).normal(size=(200, 8))
    return {"X_train": rows[:150], "X_test": rows[145:]}


def check_leakage(names: Names) -> None:
    """The rows that both have are found, and not picked."""
    import gmmatch as gm

    assert names["leaks"].rows.tolist() == list(range(145, 150))
    assert len(Path("leaks.csv").read_text().splitlines()) == 31
    assert not gm.Selection.load("picks.parquet").mask[:30].any()


@dataclass(frozen=True)
class StandIn:
    """Names that a page's code takes for granted, what it must have done, and the test that runs it instead."""

    names: Callable[[MonkeyPatch], Names] = nothing
    check: Callable[[Names], None] | None = None
    elsewhere: str | None = None


PAGES = {
    "README.md": StandIn(check=check_readme),
    "docs/guides/certificate.md": StandIn(names=digits),
    "docs/guides/cluster.md": StandIn(elsewhere="tests/docs/test_cluster_guide.py"),
    "docs/guides/corrected-labels.md": StandIn(names=digits),
    "docs/guides/duplicates.md": StandIn(names=digits),
    "docs/guides/generation.md": StandIn(elsewhere="paper/tests/training/test_diffusion.py"),
    "docs/guides/leakage.md": StandIn(names=sets_that_share_rows, check=check_leakage),
    "docs/guides/robust.md": StandIn(names=digits),
    "docs/guides/sft.md": StandIn(check=check_sft),
    "docs/guides/training-dynamics.md": StandIn(names=a_training_loop),
    "docs/guides/training-script.md": StandIn(names=a_torch_dataset),
    "docs/guides/training.md": StandIn(names=small_images),
    "docs/guides/budget.md": StandIn(names=digits_in_two_parts),
    "docs/guides/reference.md": StandIn(names=digits),
    "docs/guides/updates.md": StandIn(names=digits_in_two_parts),
    "docs/guides/weights.md": StandIn(names=digits),
}


def stand_in_for(page: str) -> StandIn:
    """What a page needs; nothing, for most."""
    assert (ROOT / page).is_file()
    return PAGES.get(page, StandIn())
