"""Worked examples of the parts."""

from __future__ import annotations

import torch
from torch import nn

from gmmatch_paper.training.networks.layers import SqueezeExcitation, StochasticDepth
from gmmatch_paper.training.networks.shufflenetv2 import ShuffleBlock, interleave
from gmmatch_paper.training.networks.vit import Attention


def test_squeeze_and_excitation_by_hand():
    gate = SqueezeExcitation(2, 1)
    first, _, second, _ = gate.gate
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, -1.0]]))
        first.bias.fill_(0.5)
        second.weight.copy_(torch.tensor([[2.0], [0.0]]))
        second.bias.copy_(torch.tensor([0.0, -1.0]))
    image = torch.tensor([[[[1.0, 3.0]], [[0.0, 2.0]]]])
    # Means 2 and 1; relu(2 - 1 + 0.5) = 1.5; gates sigmoid(3) and sigmoid(-1).
    gates = torch.sigmoid(torch.tensor([3.0, -1.0]))[None, :, None, None]
    torch.testing.assert_close(gate(image), image * gates)


def test_the_shuffle_is_the_one_of_the_paper():
    left, right = torch.randn(2, 6, 3, 3), torch.randn(2, 6, 3, 3)
    expected = nn.ChannelShuffle(2)(torch.cat((left, right), dim=1))
    assert torch.equal(interleave(left, right), expected)


def test_a_shuffle_block_leaves_the_first_half_alone():
    block = ShuffleBlock(8, 8, stride=1)
    images = torch.randn(2, 8, 4, 4)
    assert torch.equal(block(images)[:, ::2], images[:, :4])


def test_stochastic_depth_drops_whole_images_and_keeps_the_mean():
    torch.manual_seed(0)
    dropped = StochasticDepth(0.25)(torch.ones(10_000, 2, 1, 1))
    assert torch.equal(dropped[:, 0], dropped[:, 1])
    share = (dropped[:, 0] == 0.0).float().mean()
    assert abs(share - 0.25) < 6 * (0.25 * 0.75 / 10_000) ** 0.5
    torch.testing.assert_close(dropped.unique(), torch.tensor([0.0, 1 / 0.75]))


def test_attention_is_the_softmax_of_scaled_products():
    torch.manual_seed(0)
    attention = Attention(width=6, heads=2)
    tokens = torch.randn(1, 4, 6)
    queries, keys, values = attention.queries_keys_values(tokens)[0].split(6, dim=1)
    mixed = [
        torch.softmax(queries[:, part] @ keys[:, part].T / 3**0.5, dim=1) @ values[:, part]
        for part in (slice(0, 3), slice(3, 6))
    ]
    torch.testing.assert_close(attention(tokens)[0], attention.projection(torch.cat(mixed, dim=1)))
