"""Training on a GPU: accuracy of the fast recipe, share of the bare step's speed, every network for an epoch.

python -m benchmarks.training cifar10.npz --output benchmarks/results/training.json

The data: x_train, y_train, x_test, y_test (uint8 images, class numbers) in one .npz file.
"""

from __future__ import annotations

import argparse
import json
import time
import traceback
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch

from benchmarks import machine
from gmmatch_paper.training.images import Images, put_images
from gmmatch_paper.training.loop import train
from gmmatch_paper.training.networks import build_network
from gmmatch_paper.training.recipes import FAST, FAST_ADAMW

NETWORKS = ("resnet50", "vgg16", "shufflenetv2", "senet18", "senet50", "efficientnet-b0", "vit-s")
SECTIONS = ("full", "throughput", "networks")


def show(done: int, epochs: int) -> None:
    """Say on the terminal that an epoch is over, and when."""
    print(f"epoch {done}/{epochs} at {time.perf_counter():.1f} s", flush=True)


def full_set(data: Images, test: Images, seeds: int) -> dict[str, object]:
    """Train ResNet-18 on all images with the fast recipe."""
    runs = []
    for seed in range(seeds):
        begin = time.perf_counter()
        done = train(
            "resnet18", data, None, test_images=test, recipe=FAST, seed=seed, n_classes=10, progress=show
        )
        runs.append(
            {
                "seed": seed,
                "test_accuracy": done.accuracy,
                "seconds_in_loop": done.seconds,
                "seconds_with_set_up_and_test": time.perf_counter() - begin,
                "first_epoch_seconds": done.history[0].seconds,
                "median_epoch_seconds": float(np.median([each.seconds for each in done.history])),
            }
        )
        print(runs[-1], flush=True)
    return {"network": "resnet18", "recipe": asdict(FAST), "n_rows": len(data), "runs": runs}


def bare_step_seconds(data: Images, network: str, size: int, repeats: int = 300) -> float:
    """Seconds of forward and backward alone, captured in a graph, on tensors that are ready."""
    model = build_network(network, 10, image_size=data.size, channels=data.channels)
    model = model.to("cuda", memory_format=torch.channels_last).train()
    inputs = data.normalized(data.pixels[:size], torch.bfloat16)
    codes = data.codes[:size]

    def work():
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(inputs)
        torch.nn.functional.cross_entropy(logits.float(), codes).backward()

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for _ in range(20):
        graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(repeats):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / repeats


def throughput(data: Images) -> list[dict[str, float]]:
    """Compare the loop (augmentation, update and counting included) with the bare step."""
    found = []
    for size in (128, FAST.batch_size):
        bare = size / bare_step_seconds(data, "resnet18", size)
        recipe = replace(FAST, epochs=4, min_steps=0, batch_size=size)
        done = train("resnet18", data, None, recipe=recipe, n_classes=10)
        # The first epoch holds the capture; the others are what a long run consists of.
        seen = recipe.steps_per_epoch(len(data)) * size
        ours = seen / float(np.median([each.seconds for each in done.history[1:]]))
        found.append(
            {
                "batch_size": size,
                "bare_images_per_second": bare,
                "loop_images_per_second": ours,
                "share": ours / bare,
            }
        )
        print(found[-1], flush=True)
    return found


def one_epoch_each(data: Images, test: Images) -> list[dict[str, object]]:
    """Train every other network for one epoch."""
    found = []
    for name in NETWORKS:
        recipe = replace(FAST_ADAMW if name == "vit-s" else FAST, epochs=1, min_steps=0)
        if name != "vit-s":
            # The full rate is too high for one epoch: deep networks need a longer rise to it. VGG-16 most of
            # all, whose features are not averaged over places: its head diverges at a quarter of the rate.
            recipe = replace(recipe, learning_rate=FAST.learning_rate / (16 if name == "vgg16" else 4))
        done = train(name, data, None, test_images=test, recipe=recipe, n_classes=10)
        entry = {
            "network": name,
            "recipe": recipe.name,
            "learning_rate": recipe.learning_rate,
            "parameters": sum(each.numel() for each in done.model.parameters()),
            "train_loss": done.history[0].loss,
            "train_accuracy": done.history[0].accuracy,
            "test_accuracy": done.accuracy,
            "chance": 0.1,
            "seconds": done.seconds,
        }
        print(entry, flush=True)
        found.append(entry)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, help="only so many training images, to try it out")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    options = parser.parse_args()
    arrays = np.load(options.data)
    data = put_images(arrays["x_train"][: options.rows], arrays["y_train"][: options.rows], device="cuda")
    test = put_images(
        arrays["x_test"], arrays["y_test"], device="cuda", mean=data.mean, deviation=data.deviation
    )
    work = {
        "full": lambda: full_set(data, test, options.seeds),
        "throughput": lambda: throughput(data),
        "networks": lambda: one_epoch_each(data, test),
    }
    results: dict[str, object] = {
        "command": f"python -m benchmarks.training {options.data.name} --seeds {options.seeds} "
        f"--sections {options.sections}" + (f" --rows {options.rows}" if options.rows else ""),
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "machine": machine.describe(),
    }
    for section in options.sections.split(","):
        begin = time.perf_counter()
        try:
            results[section] = work[section]()
        except Exception as error:  # what the other sections found must not be lost
            traceback.print_exc()
            results[section] = {"failed": f"{type(error).__name__}: {error}"}
        print(f"{section}: {time.perf_counter() - begin:.1f} s", flush=True)
        if options.output:
            options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
