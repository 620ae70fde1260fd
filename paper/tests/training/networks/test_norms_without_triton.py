"""Where Triton does not work, norms are those of plain torch, with one warning that says why."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gmmatch_paper.training.networks import fused_norm  # noqa: E402
from gmmatch_paper.training.networks.fused_norm import FusedNorm, TritonWarning, uses_kernels  # noqa: E402
from gmmatch_paper.training.networks.unet import UNet  # noqa: E402


class SaysCuda(torch.Tensor):
    """A tensor in main memory that claims to be on a GPU."""

    is_cuda = property(lambda self: True)


@pytest.fixture(autouse=True)
def nothing_is_known():
    fused_norm.triton_works.cache_clear()
    yield
    fused_norm.triton_works.cache_clear()


@pytest.fixture
def no_compiler(monkeypatch):
    trials = []

    def fail(device):
        trials.append(device)
        raise RuntimeError("Failed to find C compiler.")

    monkeypatch.setattr(fused_norm, "_try_kernels", fail)
    return trials


def test_kernels_are_used_where_the_trial_succeeds(monkeypatch):
    monkeypatch.setattr(fused_norm, "_try_kernels", lambda device: None)
    maps = torch.zeros(2, 8, 4, 4)
    assert uses_kernels(maps.as_subclass(SaysCuda))
    assert not uses_kernels(maps.double().as_subclass(SaysCuda))
    assert not uses_kernels(maps)


def norm_and_gradients(layer, maps):
    result = layer(maps, torch.linspace(-1.0, 1.0, 32, device=maps.device).reshape(2, 16))
    gradients = torch.autograd.grad(result.square().sum(), list(layer.parameters()))
    return [result.detach(), *gradients]


def test_norms_are_those_of_plain_torch(no_compiler):
    maps = torch.randn(2, 8, 5, 5, generator=torch.Generator().manual_seed(0))
    layer = FusedNorm(2, 8, silu=True)
    with pytest.warns(TritonWarning, match="Failed to find C compiler"):
        without = norm_and_gradients(layer, maps.as_subclass(SaysCuda))
    for value, plain in zip(without, norm_and_gradients(layer, maps), strict=True):
        assert torch.equal(value.as_subclass(torch.Tensor), plain)


def test_a_network_warns_once_for_all_its_norms(no_compiler):
    torch.manual_seed(0)
    network, image, times = UNet(1, width=8, levels=2), torch.randn(2, 1, 9, 9), torch.tensor([3, 700])
    assert sum(isinstance(module, FusedNorm) for module in network.modules()) > 1
    with pytest.warns(TritonWarning) as given:
        result = network(image.as_subclass(SaysCuda), times)
    assert len(given) == len(no_compiler) == 1
    assert torch.equal(result.as_subclass(torch.Tensor), network(image, times))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_norms_are_the_same_with_and_without_kernels(monkeypatch):
    layer, maps = FusedNorm(2, 8, silu=True).cuda(), torch.randn(2, 8, 5, 5).cuda()
    fused = norm_and_gradients(layer, maps)
    monkeypatch.setattr(fused_norm, "triton_works", lambda device: False)
    for value, plain in zip(fused, norm_and_gradients(layer, maps), strict=True):
        torch.testing.assert_close(value, plain, rtol=1e-4, atol=1e-4)
