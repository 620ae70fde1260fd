"""Diffusion models: updates and samples per second, as shares of what the bare network does.

python -m benchmarks.diffusion --output benchmarks/results/diffusion.json

Runs on random images of MNIST's size. The bare network is the same one, lies in memory and has its kernels chosen in
the same way; on a GPU its work is captured in a graph, on ready tensors.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from benchmarks import machine
from gmmatch_paper.training.diffusion import FAST, DiffusionRecipe, train_diffusion
from gmmatch_paper.training.diffusion_sampling import sample_images
from gmmatch_paper.training.networks.unet import UNet


def seconds_of(work: Callable[[], object], repeats: int, device: str) -> float:
    """Seconds of one call: replayed from a graph on CUDA, as it is elsewhere."""
    with torch.backends.cudnn.flags(enabled=True, benchmark=device == "cuda"):
        call = captured(work) if device == "cuda" else work
        for _ in range(max(2, repeats // 10)):
            call()
    wait(device)
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    wait(device)
    return (time.perf_counter() - begin) / repeats


def captured(work: Callable[[], object]) -> Callable[[], object]:
    """Return a function that replays the work from a graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def bare_network(recipe: DiffusionRecipe, device: str) -> UNet:
    made = UNet(1, recipe.width, recipe.levels, recipe.blocks)
    return made.to(device, memory_format=torch.channels_last)


def inputs(count: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.randn(count, 1, 28, 28, device=device).contiguous(memory_format=torch.channels_last)
    return images, torch.randint(1000, (count,), device=device)


def updates(recipe: DiffusionRecipe, device: str, repeats: int) -> dict[str, float]:
    """Compare the loop with forward and backward alone."""
    # As the loop has it: on a GPU weights and images are in bfloat16, and nothing is left to cast.
    kind = torch.bfloat16 if device == "cuda" else torch.float32
    network = bare_network(recipe, device).to(kind)
    noisy, times = inputs(recipe.batch_size, device)
    noise, noisy = torch.randn_like(noisy), noisy.to(kind)

    def work() -> None:
        network.zero_grad(set_to_none=True)
        predicted = network(noisy, times)
        torch.nn.functional.mse_loss(predicted.float(), noise).backward()

    bare = 1.0 / seconds_of(work, repeats, device)
    images = np.random.default_rng(0).integers(0, 256, (24_000, 28, 28), dtype=np.uint8)
    ends: list[float] = []
    plan = replace(recipe, steps=max(200, 4 * repeats // 100 * 100))
    train_diffusion(
        images, recipe=plan, device=device, progress=lambda done, total: ends.append(time.perf_counter())
    )
    # The first stretch holds the capture; the others are what a long run consists of.
    ours = 100.0 / float(np.median(np.diff(ends)))
    return {
        "batch_size": recipe.batch_size,
        "parameters": sum(each.numel() for each in network.parameters()),
        "bare_steps_per_second": bare,
        "loop_steps_per_second": ours,
        "share": ours / bare,
    }


def samples(recipe: DiffusionRecipe, device: str, count: int, walk: int, repeats: int) -> dict[str, float]:
    """Compare DDIM with as many calls of the network alone."""
    network = bare_network(recipe, device).eval().requires_grad_(False)
    size = min(count, 1250)
    noisy, times = inputs(size, device)

    def work() -> None:
        with torch.inference_mode(), torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            network(noisy, times)

    bare = size / (walk * seconds_of(work, repeats, device))

    def draw() -> None:
        sample_images(
            network, count, (1, 28, 28), schedule=recipe.noise, steps=walk, device=device, batch_size=size
        )

    draw()
    wait(device)
    begin = time.perf_counter()
    draw()
    wait(device)
    ours = count / (time.perf_counter() - begin)
    return {
        "samples": count,
        "ddim_steps": walk,
        "batch_size": size,
        "bare_samples_per_second": bare,
        "samples_per_second": ours,
        "share": ours / bare,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.diffusion", description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--quick", action="store_true", help="few, small networks, to see that everything runs"
    )
    options = parser.parse_args()
    recipe = replace(FAST, width=8, batch_size=8) if options.quick else FAST
    repeats, count, walk = (3, 8, 3) if options.quick else (200, 5000, 50)
    surroundings = machine.describe()
    on_cuda = options.device == "cuda"
    results = {
        "command": f"python -m benchmarks.diffusion --device {options.device}"
        + (" --quick" if options.quick else ""),
        "device": torch.cuda.get_device_name() if on_cuda else "cpu",
        "torch": torch.__version__,
        "training": updates(recipe, options.device, repeats),
        "sampling": samples(recipe, options.device, count, walk, repeats),
        "machine": surroundings,
    }
    text = json.dumps(results, indent=2)
    print(text, flush=True)
    if options.output:
        options.output.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
