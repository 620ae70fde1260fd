"""Encoding from files to a store, against the bare model on tensors that are ready.

python -m benchmarks.encoding --json benchmarks/results/encoding.json

A CLIP ViT-B/32 with random weights encodes JPEG files of 500 × 375 pixels, and PNG images of 32 × 32 in a Parquet
file; both are made for it, from a few hundred different pictures, so that nothing is downloaded. Or give a MODEL (a
folder or a name on the hub) and a SOURCE (anything that ``gmmatch embed`` takes). "Bare" is the model alone, in the
layout and precision that gmmatch uses, on as many rows in as large batches, of which a few were decoded, preprocessed
and put on the device beforehand. The sides take turns. Then each part alone: the start of the workers, everything but
the model (reading, decoding by all workers, and the way to the device), and the resizing on the device.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.report import Ratio, Report
from benchmarks.timing import Timing, side_by_side, timed
from gmmatch import embed
from gmmatch.data import Source, open_source
from gmmatch.data.source import Batch
from gmmatch.encoders import TransformersEncoder, encode_batches

BAR = 0.8
READY = 4  # batches


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


class WithoutModel:
    """An encoder that does all that another does beside its model."""

    def __init__(self, encoder: TransformersEncoder) -> None:
        self.name, self.kind, self.n_features = "none", encoder.kind, encoder.n_features
        self.prepare, self.preparation, self.fetch = encoder.prepare, encoder.preparation, encoder.fetch
        self.collate = encoder.collate

    def encode(self, batch: Any) -> np.ndarray[Any, Any]:
        return np.zeros((len(batch), 1), dtype=np.float32)


def ready_batches(source: Any, encoder: TransformersEncoder, batch_size: int) -> list[Any]:
    """Some batches as the model takes them, on the device."""
    import torch

    from gmmatch.data import load_image

    return [
        torch.from_numpy(np.stack([encoder.processor(load_image(row)) for row in batch.rows])).to(
            encoder.device, getattr(torch, encoder.dtype), memory_format=torch.channels_last
        )
        for batch in islice(source.batches(batch_size), READY)
        if len(batch) == batch_size
    ]


def bare(encoder: TransformersEncoder, batches: list[Any], count: int) -> np.ndarray[Any, Any]:
    """The model as anybody would call it; the vectors end on the host, as they must."""
    import torch

    with torch.inference_mode():
        return np.concatenate(
            [encoder.pooler(batch)[0].cpu().numpy() for batch in islice(cycle(batches), count)]
        )


def resizing(encoder: TransformersEncoder, source: Any, batch_size: int, count: int) -> float | None:
    """Seconds that the device takes to resize so many batches of the first pictures."""
    import torch

    from gmmatch.data import load_image

    if encoder.preparation is None or encoder.resizer is None:
        return None
    rows = next(source.batches(batch_size)).rows
    together = torch.from_numpy(np.stack([np.asarray(load_image(row)) for row in rows])).to(encoder.device)

    def work() -> None:
        for _ in range(count):
            last = encoder.resizer(together)
        last[0, 0, 0, 0].item()

    work()
    return timed(work)


def make_model(folder: Path) -> str:
    """Write a vision model with random weights."""
    from transformers import CLIPImageProcessor, CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(
        hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12, patch_size=32,
        image_size=224, projection_dim=512,
    )  # fmt: skip
    CLIPVisionModelWithProjection(config).save_pretrained(folder)
    CLIPImageProcessor().save_pretrained(folder)
    return str(folder)


def make_photographs(folder: Path, n_rows: int) -> str:
    """Write JPEG files: 200 different ones, under as many names as there are rows."""
    from PIL import Image

    folder.mkdir()
    random = np.random.default_rng(0)
    for number in range(n_rows):
        path = folder / f"{number:06}.jpg"
        if number >= 200:
            os.link(folder / f"{number % 200:06}.jpg", path)
            continue
        # Coarse colours with fine noise: files of some 40 KB, as photographs are.
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), 3)
        noisy = np.asarray(coarse, dtype=np.int16) + random.integers(-12, 13, (375, 500, 3), dtype=np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(path, quality=85)
    return str(folder)


def make_table(path: Path, n_rows: int) -> str:
    """Write a Parquet file with PNG images: noise, of which 1,000 differ."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from PIL import Image

    random = np.random.default_rng(0)
    images = []
    for _ in range(min(n_rows, 1000)):
        file = io.BytesIO()
        Image.fromarray(random.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file, "PNG")
        images.append(file.getvalue())
    column = pa.array(islice(cycle(images), n_rows), size=n_rows)
    pq.write_table(pa.table({"image": column}), path, row_group_size=10_000)
    return str(path)


def measure(report: Report, name: str, whole: Source, encoder: TransformersEncoder, options: Any) -> None:
    """Add what was measured on one source to the report."""
    batch_size = options.batch_size or encoder.batch_size
    n_rows = min(options.rows or whole.n_rows or 0, whole.n_rows or options.rows) // batch_size * batch_size
    source: Any = FirstRows(whole, n_rows)
    ready, count = ready_batches(source, encoder, batch_size), n_rows // batch_size
    with tempfile.TemporaryDirectory() as folder:
        places = (Path(folder, f"{number}.emb") for number in range(1000))
        choices: dict[str, Any] = {"batch_size": batch_size, "workers": options.workers}
        sides: dict[str, Callable[[], object]] = {
            f"{name}: bare model": lambda: bare(encoder, ready, count),
            f"{name}: embed": lambda: embed(source, encoder, next(places), **choices),
        }
        times = side_by_side(sides, options.repetitions)
        first: Any = FirstRows(whole, batch_size)
        begun = timed(lambda: embed(first, encoder, next(places), **choices))
    alone: Any = WithoutModel(encoder)
    without = timed(lambda: list(encode_batches(source.batches(batch_size), alone, workers=options.workers)))
    resized = resizing(encoder, source, batch_size, READY)
    least, most = (list(times.values())[side] for side in (0, 1))
    report.timings |= times
    report.timings[f"{name}: everything but the model"] = Timing((without,))
    report.quantities |= {
        f"{name}: rows": n_rows,
        f"{name}: embed of one batch, which starts the workers, seconds": begun,
        **{
            f"{side}, rows per second": n_rows / taken.least
            for side, taken in report.timings.items()
            if name in side
        },
    }
    if resized is not None:
        report.quantities[f"{name}: resizing on the device, rows per second"] = READY * batch_size / resized
    # The fastest runs: others that use the machine only ever make one slower.
    report.ratios += [
        Ratio(f"{name}: throughput of embed / bare model, fastest runs", least.least / most.least, BAR),
        Ratio(f"{name}: throughput of embed / bare model, medians", least.median / most.median),
    ]


def run(options: argparse.Namespace, folder: Path) -> Report:
    encoder = TransformersEncoder(
        options.model or make_model(folder / "clip-vit-base-patch32-random"),
        device=options.device,
        image_size=options.image_size,
    )
    report = Report(
        name="encoding",
        title="encoding from files to a store, against the bare model on ready tensors",
        settings={
            "model": encoder.name,
            "batch_size": options.batch_size or encoder.batch_size,
            "device": encoder.device,
            "dtype": encoder.dtype,
            "workers": options.workers or os.cpu_count(),
            "resized by": "device" if encoder.preparation and encoder.preparation.exact else "Pillow",
        },
    )
    if options.source is not None:
        measure(report, Path(options.source).name, open_source(options.source), encoder, options)
        return report
    on_cpu = encoder.device == "cpu"
    photographs = make_photographs(folder / "images", options.rows or (256 if on_cpu else 100_000))
    measure(report, "JPEG files of 500 × 375", open_source(photographs), encoder, options)
    table = make_table(folder / "table.parquet", options.rows or (256 if on_cpu else 300_000))
    measure(report, "PNG images of 32 × 32", open_source(table), encoder, options)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.encoding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", help="folder or name of a vision model")
    parser.add_argument("source", nargs="?", help="pictures: a folder, a Parquet file ...")
    parser.add_argument("--rows", type=int, help="of each source; by default what takes some seconds")
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--image-size", type=int, help="pixels, instead of what the model's processor says")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args()
    surroundings = machine.describe()
    for package in ("torch", "transformers", "pillow"):
        surroundings["libraries"][package] = machine.installed_version(package)
    with tempfile.TemporaryDirectory() as folder:
        report = run(options, Path(folder))
    print(f"{report.as_text()}\n\n{machine.as_text(surroundings)}")
    if options.json is not None:
        text = json.dumps({**report.as_json(), "machine": surroundings}, indent=2, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
