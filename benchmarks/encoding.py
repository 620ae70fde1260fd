"""Encoding from files to a store, against the bare model on tensors that are ready.

python -m benchmarks.encoding MODEL SOURCE --json benchmarks/results/encoding.json

MODEL is a folder with a vision model (or its name on the hub), SOURCE anything that ``gmmatch embed``
takes: an image folder, a Parquet file. Without them, a CLIP ViT-B/32 with random weights encodes JPEG files of
500 × 375 pixels that are made for it, where nothing can be downloaded. Both sides encode the same rows in the same
batches; "bare" is the model alone, in the layout and precision that gmmatch uses, on batches that were decoded,
preprocessed and put on the device beforehand. The sides take turns.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.report import Ratio, Report
from benchmarks.timing import side_by_side, timed
from gmmatch.data import Source, open_source
from gmmatch.data.source import Batch
from gmmatch.embeddings.run import embed
from gmmatch.encoders import TransformersEncoder

BAR = 0.8


class FirstRows:
    """The first rows of a source."""

    def __init__(self, source: Source, n_rows: int) -> None:
        self.source, self.n_rows = source, n_rows
        self.kind, self.has_labels = source.kind, source.has_labels

    def batches(self, batch_size: int, start: int = 0) -> Iterator[Batch]:
        for batch in self.source.batches(batch_size, start):
            if batch.start >= self.n_rows:
                return
            yield batch[: self.n_rows - batch.start]

    def describe(self) -> dict[str, Any]:
        return {}

    def fingerprint(self) -> str:
        return f"{self.source.fingerprint()} {self.n_rows}"


def ready_batches(source: Any, encoder: TransformersEncoder, batch_size: int) -> list[Any]:
    """Everything as the model takes it, on the device."""
    import torch

    dtype = getattr(torch, encoder.dtype)
    return [
        torch.from_numpy(np.stack([encoder.processor(picture) for picture in _decoded(batch)])).to(
            encoder.device, dtype, memory_format=torch.channels_last
        )
        for batch in source.batches(batch_size)
    ]


def _decoded(batch: Batch) -> list[Any]:
    from gmmatch.data import load_image

    return [load_image(row) for row in batch.rows]


def bare(encoder: TransformersEncoder, batches: list[Any]) -> np.ndarray[Any, Any]:
    """The model as anybody would call it; the vectors end on the host, as they must."""
    import torch

    with torch.inference_mode():
        return np.concatenate([encoder.pooler(batch)[0].cpu().numpy() for batch in batches])


def make_inputs(folder: Path, n_images: int) -> tuple[str, str]:
    """Write a vision model with random weights and some JPEG files; return both folders."""
    from PIL import Image
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

    model, images = folder / "clip-vit-base-patch32-random", folder / "images"
    config = CLIPVisionConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, patch_size=32,
        image_size=224, projection_dim=512,
    )  # fmt: skip
    CLIPVisionModelWithProjection(config).save_pretrained(model)
    CLIPImageProcessor().save_pretrained(model)
    images.mkdir()
    random = np.random.default_rng(0)
    for number in range(n_images):  # coarse colours with fine noise: files of some 60 KB, as photographs are
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), 3)
        noisy = np.asarray(coarse, dtype=np.int16) + random.integers(-12, 13, (375, 500, 3), dtype=np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(images / f"{number:06}.jpg", quality=85)
    return str(model), str(images)


def run(options: argparse.Namespace) -> Report:
    encoder = TransformersEncoder(options.model, device=options.device, image_size=options.image_size)
    whole = open_source(options.source)
    n_rows = options.rows if whole.n_rows is None else min(options.rows, whole.n_rows)
    source: Any = FirstRows(whole, n_rows)
    batch_size = options.batch_size or encoder.batch_size
    ready = ready_batches(source, encoder, batch_size)
    with tempfile.TemporaryDirectory() as folder:
        made = 0

        def full() -> None:
            nonlocal made
            made += 1
            embed(
                source, encoder, Path(folder, f"{made}.emb"), batch_size=batch_size, workers=options.workers
            )

        def prepare() -> None:
            for batch in source.batches(batch_size):
                encoder.prepare(batch.rows)

        times = side_by_side({"bare model": lambda: bare(encoder, ready), "embed": full}, options.repetitions)
        alone = timed(prepare)
    bare_times, embed_times = times["bare model"], times["embed"]
    return Report(
        name="encoding",
        title="encoding from files to a store, against the bare model on ready tensors",
        settings={
            "model": encoder.name,
            "rows": n_rows,
            "pixels": "x".join(map(str, ready[0].shape[2:])),
            "batch_size": batch_size,
            "device": encoder.device,
            "dtype": encoder.dtype,
        },
        timings=times,
        quantities={
            "rows per second, bare model": n_rows / bare_times.least,
            "rows per second, embed": n_rows / embed_times.least,
            "rows per second, decoding and preprocessing in one thread": n_rows / alone,
        },
        ratios=[
            # The fastest runs: others that use the machine only ever make one slower.
            Ratio(
                "throughput of embed / bare model, fastest runs", bare_times.least / embed_times.least, BAR
            ),
            Ratio("throughput of embed / bare model, medians", bare_times.median / embed_times.median),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.encoding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", help="folder or name of a vision model")
    parser.add_argument("source", nargs="?", help="pictures: a folder, a Parquet file ...")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--image-size", type=int, help="pixels, instead of what the model's processor says")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args()
    surroundings = machine.describe()
    for package in ("torch", "transformers", "pillow"):
        surroundings["libraries"][package] = machine.installed_version(package)
    with tempfile.TemporaryDirectory() as folder:
        if options.source is None:
            options.model, options.source = make_inputs(Path(folder), options.rows)
        report = run(options)
    print(f"{report.as_text()}\n\n{machine.as_text(surroundings)}")
    if options.json is not None:
        text = json.dumps({**report.as_json(), "machine": surroundings}, indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
