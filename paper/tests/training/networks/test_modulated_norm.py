"""The group norm with scale, shift and SiLU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gmmatch_paper.training.networks.unet import ModulatedNorm  # noqa: E402


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weighted(channels, groups=8, silu=True):
    layer = ModulatedNorm(groups, channels, silu=silu).double()
    with torch.no_grad():
        layer.weight.copy_(1.0 + 0.3 * drawn(channels, seed=1))
        layer.bias.copy_(drawn(channels, seed=2))
    return layer


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
