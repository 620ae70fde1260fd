"""The group norm with scale, shift and SiLU: its formula, and on CUDA the kernels against torch's operations."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from gmmatch_paper.training.networks import fused_norm
from gmmatch_paper.training.networks.fused_norm import FusedNorm
from gmmatch_paper.training.networks.unet import UNet

DEVICE = "cuda"
needs_kernels = pytest.mark.skipif(
    not torch.cuda.is_available() or find_spec("triton") is None, reason="needs CUDA and Triton"
)
LAYOUTS = (torch.channels_last, torch.contiguous_format)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weighted(channels, groups=8, silu=True):
    layer = FusedNorm(groups, channels, silu=silu).double()
    with torch.no_grad():
        layer.weight.copy_(1.0 + 0.3 * drawn(channels, seed=1))
        layer.bias.copy_(drawn(channels, seed=2))
    return layer


def results(layer, maps, modulation, weights):
    """Return the output and the gradients of everything that goes in."""
    maps = maps.detach().requires_grad_()
    inputs = [maps, *layer.parameters()]
    if modulation is not None:
        inputs.append(modulation := modulation.detach().requires_grad_())
    found = layer(maps, modulation)
    return [found.detach(), *torch.autograd.grad(found, inputs, weights.to(found.dtype))]


@pytest.mark.parametrize("silu", [True, False])
@pytest.mark.parametrize("modulated", [True, False])
def test_the_formula(silu, modulated):
    layer, maps, modulation = weighted(6, groups=2, silu=silu), 3.0 + 2.0 * drawn(2, 6, 3, 5), drawn(2, 12)
    found = layer(maps, modulation if modulated else None)
    for image in range(2):
        for channel in range(6):
            group = maps[image, :3] if channel < 3 else maps[image, 3:]
            expected = (maps[image, channel] - group.mean()) / (group.var(correction=0) + 1e-5).sqrt()
            expected = expected * layer.weight[channel] + layer.bias[channel]
            if modulated:
                expected = expected * (1.0 + modulation[image, channel]) + modulation[image, 6 + channel]
            if silu:
                expected = expected / (1.0 + torch.exp(-expected))
            torch.testing.assert_close(found[image, channel], expected)


@needs_kernels
@pytest.mark.parametrize("shape", [(3, 96, 28, 28), (2, 64, 14, 13), (2, 24, 5, 3), (2, 8, 1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("silu", "modulated"), [(True, True), (True, False), (False, False)])
def test_the_kernels_are_exact_to_rounding_forward_and_backward(shape, dtype, layout, silu, modulated):
    n, channels = shape[:2]
    layer, maps = weighted(channels, silu=silu).to(dtype), (1.0 + 2.0 * drawn(*shape)).to(dtype)
    modulation = 0.5 * drawn(n, 2 * channels, seed=3).to(dtype) if modulated else None
    weights = drawn(*shape, seed=4).to(dtype)
    on_device = [None if each is None else each.to(DEVICE) for each in (maps, modulation, weights)]
    on_device[0] = on_device[0].contiguous(memory_format=layout)
    assert fused_norm.uses_kernels(on_device[0])
    found = results(layer.to(DEVICE), *on_device)
    in_full = [None if each is None else each.double() for each in (maps, modulation, weights)]
    expected = results(layer.to("cpu", torch.float64), *in_full)
    allowed = 2e-5 if dtype == torch.float32 else 1e-2
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == dtype
        error = (ours.cpu().double() - exact).abs().max()
        # In a group of one value the gradient is 0, and what rounding leaves of it is magnified by 1/√ε.
        floor = 1.0 if shape[2:] == (1, 1) else 1e-3
        assert error <= allowed * max(float(exact.abs().max()), floor)


@needs_kernels
def test_a_small_variance_is_seen_beside_a_large_mean():
    maps = (1000.0 + drawn(2, 16, 9, 9)).float()
    found = FusedNorm(8, 16).to(DEVICE)(maps.to(DEVICE)).cpu()
    exact = FusedNorm(8, 16).double()(maps.double())
    assert (found - exact).abs().max() < 1e-3


@needs_kernels
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_network_predicts_and_learns_the_same_with_the_kernels(layout, monkeypatch):
    network = UNet(1, width=16, levels=2)
    with torch.no_grad():
        for number, parameter in enumerate(network.parameters()):  # also where it starts at zero
            parameter.copy_(0.1 * drawn(*parameter.shape, seed=number))
    network = network.to(DEVICE, memory_format=layout)
    image, times = drawn(3, 1, 19, 19).float().to(DEVICE), torch.tensor([0, 400, 999], device=DEVICE)
    found = []
    with torch.backends.cudnn.flags(allow_tf32=False):
        for kernels in (True, False):
            if not kernels:
                monkeypatch.setattr(fused_norm, "uses_kernels", lambda x: False)
            predicted = network(image, times)
            gradients = torch.autograd.grad(predicted.square().mean(), list(network.parameters()))
            found.append([predicted.detach(), *gradients])
    # Some gradients are zero, but for rounding.
    largest = max(float(plain.abs().max()) for plain in found[1])
    for fused, plain in zip(*found, strict=True):
        assert torch.allclose(fused, plain, rtol=1e-3, atol=1e-4 * largest)


@needs_kernels
def test_casting_gives_bfloat16_and_nearly_the_same():
    layer = weighted(32).float().to(DEVICE)
    maps, modulation = drawn(4, 32, 6, 6).to(DEVICE), 0.5 * drawn(4, 64).to(DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16), torch.inference_mode():
        low = layer(maps.bfloat16(), modulation.bfloat16())
    assert low.dtype == torch.bfloat16
    full = layer(maps.float(), modulation.float())
    assert (low.float() - full).abs().max() < 0.02 * full.abs().max()
