"""Where Triton does not work, norms are those of plain torch, with one warning that says why."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gmmatch.backends.cuda import triton_check  # noqa: E402
from gmmatch.backends.cuda.triton_check import TritonWarning  # noqa: E402
from gmmatch_paper.training.networks.fused_norm import FusedNorm, uses_kernels  # noqa: E402
from gmmatch_paper.training.networks.unet import UNet  # noqa: E402
from tests.backends.cuda.test_triton_check import (  # noqa: E402, F401
    SaysCuda,
    break_triton,
    needs_gpu,
    nothing_is_known,
)


@pytest.fixture
def no_compiler(monkeypatch):
    return break_triton(monkeypatch)


def test_kernels_are_used_where_the_trial_succeeds(monkeypatch):
    monkeypatch.setattr(triton_check, "_double", lambda numbers: numbers.mul_(2.0))
    maps = torch.zeros(2, 8, 4, 4)
    assert uses_kernels(maps.as_subclass(SaysCuda))
    assert not uses_kernels(maps.double().as_subclass(SaysCuda))


def norm_and_gradients(layer, maps):
    found = layer(maps, torch.linspace(-1.0, 1.0, 32, device=maps.device).reshape(2, 16))
    gradients = torch.autograd.grad(found.square().sum(), list(layer.parameters()))
    return [found.detach(), *gradients]


def test_norms_are_those_of_plain_torch(no_compiler):
    maps = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0))
    layer = FusedNorm(2, 8, silu=True)
    with pytest.warns(TritonWarning, match="Failed to find C compiler"):
        found = norm_and_gradients(layer, maps.as_subclass(SaysCuda))
    for one, plain in zip(found, norm_and_gradients(layer, maps), strict=True):
        assert torch.equal(one.as_subclass(torch.Tensor), plain)


def test_a_network_warns_once_for_all_its_norms(no_compiler):
    torch.manual_seed(0)
    network, image, times = UNet(1, width=8, levels=2), torch.randn(2, 1, 9, 9), torch.tensor([3, 700])
    assert sum(isinstance(module, FusedNorm) for module in network.modules()) > 1
    with pytest.warns(TritonWarning) as given:
        found = network(image.as_subclass(SaysCuda), times)
    assert len(given) == len(no_compiler) == 1
    assert torch.equal(found.as_subclass(torch.Tensor), network(image, times))


@needs_gpu
def test_on_a_gpu_norms_are_the_same_with_and_without_kernels(monkeypatch):
    layer, maps = FusedNorm(2, 8, silu=True).cuda(), torch.randn(2, 8, 5, 5).cuda()
    fused = norm_and_gradients(layer, maps)
    break_triton(monkeypatch)
    with pytest.warns(TritonWarning, match="Failed to find C compiler"):
        plain = norm_and_gradients(layer, maps)
    for one, other in zip(fused, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
