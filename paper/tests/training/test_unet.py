"""The U-Net: sizes, starting point, and that it looks at the time and at the whole image."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.training.networks.unet import Attention, UNet  # noqa: E402


@pytest.fixture
def network():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = UNet(channels=1, width=8)
        for parameter in made.parameters():  # also where it starts at zero
            torch.nn.init.normal_(parameter, std=0.1)
    return made


@pytest.mark.parametrize(("height", "width"), [(28, 28), (32, 32), (16, 16), (9, 13)])
def test_the_noise_has_the_shape_of_the_image(height, width):
    assert UNet(3, width=8)(torch.zeros(2, 3, height, width), torch.zeros(2)).shape == (2, 3, height, width)


def test_a_fresh_network_predicts_no_noise():
    assert not UNet(1, width=8)(torch.randn(2, 1, 16, 16), torch.tensor([3, 900])).any()


def test_the_time_matters_and_each_image_has_its_own(network):
    image = torch.randn(1, 1, 16, 16)
    both = network(image.expand(2, -1, -1, -1), torch.tensor([5, 700]))
    assert (both[0] - both[1]).abs().max() > 1e-3
    assert torch.allclose(both[1], network(image, torch.tensor([700]))[0], atol=1e-5)


def test_every_pixel_sees_the_opposite_corner(network):
    image = torch.randn(1, 1, 28, 28, requires_grad=True)
    network(image, torch.tensor([10]))[0, 0, 0, 0].backward()
    assert image.grad[0, 0, -1, -1] != 0


def test_bfloat16_stays_bfloat16_between_layers(network):
    kinds = set()
    for module in network.modules():
        if isinstance(module, torch.nn.GroupNorm):
            module.register_forward_hook(lambda module, inputs, output: kinds.add(output.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        low = network(torch.ones(2, 1, 16, 16), torch.tensor([0, 9]))
    assert kinds == {torch.bfloat16}
    full = network(torch.ones(2, 1, 16, 16), torch.tensor([0, 9]))
    assert (low.float() - full).abs().max() < 0.05 * full.abs().max()


def test_predictions_and_gradients_do_not_depend_on_the_layout(network):
    image = torch.randn(3, 1, 20, 20, generator=torch.Generator().manual_seed(0))
    times, found = torch.tensor([0, 400, 999]), []
    for layout in (torch.contiguous_format, torch.channels_last):
        network = network.to(memory_format=layout)
        network.zero_grad()
        predicted = network(image.contiguous(memory_format=layout), times)
        predicted.square().mean().backward()
        found.append([predicted.detach(), *(each.grad for each in network.parameters())])
    # Some gradients are zero, but for rounding: what is the same for all keys, say, changes no attention.
    largest = max(float(plain.abs().max()) for plain in found[0])
    for plain, last in zip(*found, strict=True):
        assert torch.allclose(plain, last, rtol=1e-3, atol=3e-5 * largest)


def test_attention_is_softmax_of_products_in_heads_of_32_channels():
    layer = Attention(64)
    torch.nn.init.normal_(layer.gather.weight)
    x = torch.randn(1, 64, 2, 3)
    query, key, value = layer.project(layer.norm(x)).flatten(2)[0].view(3, 2, 32, 6)
    weights = torch.softmax(query.transpose(1, 2) @ key / 32**0.5, dim=2)
    heads = (weights @ value.transpose(1, 2)).transpose(1, 2).reshape(1, 64, 2, 3)
    assert torch.allclose(layer(x), x + layer.gather(heads), atol=1e-4)


@pytest.mark.parametrize("options", [{"width": 12}, {"width": 0}, {"levels": 0}, {"blocks": 0}])
def test_sizes_that_cannot_be_are_refused(options):
    with pytest.raises(InvalidInputError, match=next(iter(options))):
        UNet(1, **options)
