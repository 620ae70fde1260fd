"""Encoding from files to a store, against the bare model on tensors that are ready.

python -m benchmarks.encoding --json benchmarks/results/encoding.json

The default encoders encode JPEG files of 500 × 375 pixels, PNG images of 32 × 32 in a Parquet file, and texts; the
encoder ``pixels`` takes both kinds of images. All are made for it, from a few hundred different ones, so that nothing
is downloaded. ``--encoder`` names another encoder for images, a folder or a name on the hub. "Bare" is the model
alone, in the layout and precision that gmmatch uses, on as many rows in as large batches, of which a few were
prepared beforehand; for ``pixels`` it is a plain loop of Pillow. The sides take turns. Where others use the machine,
``--cpu`` counts processor time.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.default_encoders import write_texts
from benchmarks.report import Ratio, Report
from benchmarks.timing import count_cpu_time, side_by_side
from gmmatch import embed, load_encoder
from gmmatch.data import ImageBytes, open_source

BAR = 0.8
READY = 2  # batches


def bare_images(encoder: Any, rows: list[Any], size: int) -> Callable[[int], object]:
    """Return what runs a model on so many batches of ready pictures; the vectors end on the host, as they must."""
    import torch

    prepared = torch.from_numpy(np.stack(encoder.prepare(rows)))
    if prepared.dtype == torch.uint8:
        prepared = prepared.permute(0, 3, 1, 2).float() / 128 - 1
    ready = prepared.to(
        encoder.device, getattr(torch, encoder.dtype), memory_format=torch.channels_last
    ).split(size)

    def work(count: int) -> None:
        with torch.inference_mode():
            for batch in islice(cycle(ready), count):
                vectors = encoder.forward(batch)
                (vectors[0] if isinstance(vectors, tuple) else vectors).cpu()

    return work


def bare_texts(encoder: Any, rows: list[str], size: int) -> Callable[[int], object]:
    """Return what runs a model on so many batches of tokens, which are sorted by length."""
    import torch

    # As the package itself makes them: sorted by length, and on a CPU in smaller parts.
    most = 32 if encoder.device == "cpu" else size
    batches = [sorted(rows[i : i + size], key=len, reverse=True) for i in range(0, len(rows), size)]
    ready = [
        [
            {name: value.to(encoder.device) for name, value in tokens.items() if torch.is_tensor(value)}
            for i in range(0, len(texts), most)
            for tokens in [encoder.model.preprocess(texts[i : i + most])]
        ]
        for texts in batches
    ]

    def work(count: int) -> None:
        with torch.inference_mode():
            for parts in islice(cycle(ready), count):
                for part in parts:
                    encoder.model(dict(part))["sentence_embedding"].cpu()

    return work


def plain_loop(encoder: Any, rows: list[Any], size: int) -> Callable[[int], object]:
    """Return what a short script would do to get small pictures: one after the other, by Pillow."""
    from PIL import Image

    shape = (encoder.width, encoder.height)

    def small(row: Any) -> np.ndarray[Any, Any]:
        file = io.BytesIO(row.data) if isinstance(row, ImageBytes) else row
        picture = Image.open(file).convert("RGB").resize(shape, Image.Resampling.BILINEAR)
        return np.asarray(picture, dtype=np.float32).ravel() / 255

    def work(count: int) -> None:
        for _ in range(count):
            np.stack([small(row) for row in islice(cycle(rows), size)])

    return work


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


def measure(report: Report, name: str, path: str, encoder: Any, options: argparse.Namespace) -> None:
    """Add what was measured on one source to the report."""
    source: Any = open_source(path)
    size = min(encoder.batch_size, source.n_rows or encoder.batch_size)
    rows = list(next(source.batches(READY * size)).rows)
    prepare = {"text": bare_texts, "image": bare_images}[source.kind]
    bare = (plain_loop if encoder.name.startswith("pixels") else prepare)(encoder, rows, size)
    count = (source.n_rows or 0) // size
    choices = {"batch_size": size, "workers": options.workers}
    with tempfile.TemporaryDirectory() as folder:
        places = (Path(folder, f"{number}.emb") for number in range(1000))
        sides: dict[str, Callable[[], object]] = {
            f"{name}: bare": lambda: bare(count),
            f"{name}: embed": lambda: embed(source, encoder, next(places), **choices),
        }
        times = side_by_side(sides, options.repetitions)
    report.timings |= times
    alone, whole = times.values()
    report.quantities[f"{name}: rows"] = count * size
    if not options.cpu:
        report.quantities[f"{name}: embed, rows per second"] = count * size / whole.least
    # The fastest runs: others that use the machine only ever make one slower.
    report.ratios.append(Ratio(f"{name}: bare / embed, fastest runs", alone.least / whole.least, BAR))


def run(options: argparse.Namespace, folder: Path) -> Report:
    images = load_encoder(options.encoder, kind="image", device=options.device)
    texts = load_encoder(None, kind="text", device=options.device)
    pixels = load_encoder("pixels")
    report = Report(
        name="encoding",
        title="encoding from files to a store, against the bare model on ready tensors",
        settings={
            "device": str(getattr(images, "device", "cpu")),
            "workers": options.workers or os.cpu_count(),
            "clock": "processor seconds" if options.cpu else "seconds",
        },
    )
    few, many = options.rows, 8 * options.rows
    write_texts(folder / "texts.jsonl", few)
    measure(report, f"{texts.name}, texts", str(folder / "texts.jsonl"), texts, options)
    for encoder, n_rows in ((images, few), (pixels, many)):
        photographs = make_photographs(folder / f"images {n_rows}", n_rows)
        measure(report, f"{encoder.name}, JPEG files of 500 × 375", photographs, encoder, options)
        table = make_table(folder / f"{n_rows}.parquet", n_rows)
        measure(report, f"{encoder.name}, PNG images of 32 × 32", table, encoder, options)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.encoding",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--encoder", help="for images; the default one if not given")
    parser.add_argument(
        "--rows", type=int, default=256, help="of each source; eight times as many for pixels"
    )
    parser.add_argument("--workers", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="count processor time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the result to FILE")
    options = parser.parse_args()
    if options.cpu:
        count_cpu_time()
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
