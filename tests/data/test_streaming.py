"""Sources are read a batch at a time, whatever their format: memory holds a batch and not the file."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from gmmatch.data import open_source

from .helpers import write_tar

VECTORS = np.ones((20_000, 128), dtype=np.float32)  # 10 MB
TEXTS = [f"{i:04d}" * 500 for i in range(4000)]  # 8 MB


def write_safetensors(path):
    pytest.importorskip("safetensors.numpy").save_file({"x": VECTORS}, path)


FORMATS = {
    "x.npy": lambda path: np.save(path, VECTORS),
    "x.safetensors": write_safetensors,
    "x.csv": lambda path: path.write_text("\n".join(["text", *TEXTS])),
    "x.jsonl": lambda path: path.write_text("\n".join(json.dumps({"text": text}) for text in TEXTS)),
    "x.tar": lambda path: write_tar(path, ((f"{i}.txt", text.encode()) for i, text in enumerate(TEXTS))),
}


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_streamed_not_loaded(tmp_path, name):
    FORMATS[name](tmp_path / name)
    tracemalloc.start()
    try:
        source = open_source(tmp_path / name)
        count = sum(len(batch) for batch in source.batches(16, start=100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == len(source) - 100
    assert peak < (1_000_000 if isinstance(next(source.batches(1)).rows[0], str) else 1_500_000)
