"""Networks run where training runs them: channels last, bfloat16, captured."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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
