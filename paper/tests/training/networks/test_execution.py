"""Networks run where training runs them: channels last, bfloat16, captured, compiled, per image."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel

from gmmatch_paper.training.networks import build_network, networks

# One of each code path.
KINDS = ("resnet18", "senet18", "vgg16", "shufflenetv2", "efficientnet-b0", "vit-s")


@pytest.mark.parametrize("name", KINDS)
def test_channels_last_stays_so_up_to_the_last_convolution_and_changes_no_logit(name, settled, images):
    expected = settled(name)(images).detach()
    network = build_network(name, 10)
    network.load_state_dict(settled(name).state_dict())
    network = network.eval().to(memory_format=torch.channels_last)
    strides = []
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda _, inputs, output: strides.append(inputs[0].stride(1)))
    with torch.no_grad():
        logits = network(images.contiguous(memory_format=torch.channels_last))
    assert set(strides) == {1}
    torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_bfloat16_gives_nearly_the_same_logits(name, settled, images):
    network = settled(name)
    with torch.no_grad():
        exact = network(images)
        with torch.autocast("cpu", torch.bfloat16):
            rough = network(images)
    assert rough.dtype == torch.bfloat16
    assert (rough.float() - exact).norm() < 0.2 * exact.norm()


@pytest.mark.parametrize("name", networks())
def test_a_step_never_looks_at_values(name):
    """What needs a value fails without values, and would fail inside a CUDA graph."""
    with pytest.raises(RuntimeError):
        torch.zeros(1, device="meta").item()
    with torch.device("meta"):
        network = build_network(name, 10).train()
        loss = nn.functional.cross_entropy(
            network(torch.empty(4, 3, 32, 32)), torch.empty(4, dtype=torch.long)
        )
        loss.backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_step_compiles_into_one_graph(name, images):
    network = build_network(name, 10).train()
    torch._dynamo.reset()
    compiled = torch.compile(network, fullgraph=True, backend="eager")
    torch.manual_seed(0)
    expected = network(images)
    torch.manual_seed(0)
    torch.testing.assert_close(compiled(images), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_gradients_per_image_at_once_are_those_one_by_one(name):
    torch.manual_seed(0)
    size = 32 if name == "vgg16" else 8
    network = build_network(name, 10, image_size=size).eval()
    parameters = {key: value.detach() for key, value in network.named_parameters()}
    buffers = dict(network.named_buffers())
    images, labels = torch.randn(2, 3, size, size), torch.tensor([3, 7])

    def loss(parameters, image, label):
        logits = functional_call(network, (parameters, buffers), (image[None],))
        return nn.functional.cross_entropy(logits, label[None])

    with warnings.catch_warnings(), sdpa_kernel(SDPBackend.MATH):
        warnings.simplefilter("error")  # torch warns where it falls back to a loop
        together = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    for row in range(2):
        network.zero_grad()
        nn.functional.cross_entropy(network(images[row : row + 1]), labels[row : row + 1]).backward()
        for key, parameter in network.named_parameters():
            scale = parameter.grad.abs().max()
            torch.testing.assert_close(together[key][row] / scale, parameter.grad / scale, rtol=0, atol=1e-4)
