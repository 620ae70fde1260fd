"""Recipes as data."""

from __future__ import annotations

import pytest

from gmmatch.errors import InvalidInputError
from gmmatch_paper.training.recipes import (
    FAST,
    PAPER_CIFAR,
    PAPER_IMAGENET,
    PAPER_TINY_IMAGENET,
    Recipe,
    find_recipe,
)


def test_the_papers_recipe_for_cifar():
    n, steps = 50_000, 391
    assert PAPER_CIFAR.steps_per_epoch(n) == steps
    assert PAPER_CIFAR.epochs_for(n) == PAPER_CIFAR.epochs_for(500) == 200
    at = [PAPER_CIFAR.rate_at(epoch * steps, n) for epoch in (0, 59, 60, 119, 120, 159, 160, 199)]
    assert at == pytest.approx([0.1, 0.1, 0.02, 0.02, 0.004, 0.004, 0.0008, 0.0008])
    assert (PAPER_CIFAR.batch_size, PAPER_CIFAR.momentum, PAPER_CIFAR.weight_decay) == (128, 0.9, 5e-4)
    assert PAPER_CIFAR.crop_padding == 4
    assert PAPER_CIFAR.flip


@pytest.mark.parametrize("recipe", [PAPER_TINY_IMAGENET, PAPER_IMAGENET])
def test_the_papers_recipe_for_larger_images(recipe):
    steps = recipe.steps_per_epoch(100_000)
    at = [recipe.rate_at(epoch * steps, 100_000) for epoch in (29, 30, 59, 60, 89)]
    assert at == pytest.approx([0.1, 0.01, 0.01, 0.001, 0.001])
    assert (recipe.batch_size, recipe.weight_decay, recipe.epochs) == (256, 1e-4, 90)
    assert recipe.crop_padding == 0
    assert recipe.flip


def test_one_cycle_rises_once_and_falls_to_nothing():
    n = 5000
    total = FAST.steps_per_epoch(n) * FAST.epochs_for(n)
    rates = [FAST.rate_at(step, n) for step in range(total)]
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(FAST.learning_rate)
    assert peak == pytest.approx(FAST.warmup * total, abs=1.5)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert 0 < rates[-1] < FAST.learning_rate / 100


def test_a_small_subset_gets_more_epochs_and_its_milestones_move_along():
    recipe = Recipe("x", 10, 100, 1.0, 0.0, milestones=(5,), min_steps=400)
    assert recipe.epochs_for(10_000) == 10
    assert recipe.epochs_for(1_000) == 40
    assert recipe.rate_at(19 * 10, 1_000) == 1.0
    assert recipe.rate_at(20 * 10, 1_000) == 0.1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: find_recipe("fats"), "Did you mean 'fast'"),
        (lambda: Recipe("x", 0, 1, 0.1, 0.0), "epochs=0"),
        (lambda: Recipe("x", 1, 0, 0.1, 0.0), "batch_size=0"),
        (lambda: Recipe("x", 1, 1, 0.1, 0.0, schedule="cosine"), "schedule='cosine'"),
        (lambda: Recipe("x", 1, 1, 0.1, 0.0, optimizer="adam"), "optimizer='adam'"),
        (lambda: Recipe("x", 1, 1, 0.1, 0.0, crop_fill="wrap"), "crop_fill='wrap'"),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()
