"""Diffusion: closed forms of the schedule, walks that end at a known Gaussian, training that learns and resumes."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gmmatch.errors import InvalidInputError  # noqa: E402
from gmmatch_paper.training.diffusion import FAST, PAPER, DiffusionRecipe, train_diffusion  # noqa: E402
from gmmatch_paper.training.diffusion_sampling import sample_images, walk_times  # noqa: E402
from gmmatch_paper.training.diffusion_schedule import NoiseSchedule, mix  # noqa: E402

TINY = DiffusionRecipe("tiny", steps=150, batch_size=4, learning_rate=2e-3, width=8, levels=1)


@pytest.fixture
def squares():
    """Return images of a white square at one of four places."""
    images = np.zeros((64, 8, 8), dtype=np.uint8)
    for number, image in enumerate(images):
        top, left = 4 * (number % 2), 4 * (number // 2 % 2)
        image[top : top + 4, left : left + 4] = 255
    return images


class TwoLayers(torch.nn.Module):
    """A network that costs next to nothing, with the same weights every time."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.first, self.last = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 1, 3, padding=1)
            self.time = torch.nn.Linear(1, 4)

    def forward(self, x, times):
        shift = self.time((times[:, None] / 1000.0).to(x.dtype))[:, :, None, None]
        return self.last(torch.relu(self.first(x) + shift))


class KnownGaussian:
    """The best denoiser of N(mean, covariance), in closed form: what a perfect network would be."""

    def __init__(self, schedule, mean, covariance):
        values, self.axes = np.linalg.eigh(covariance)
        self.schedule, self.mean = schedule, torch.tensor(mean, dtype=torch.float32)
        self.values, self.axes = torch.tensor(values), torch.tensor(self.axes)

    def __call__(self, noisy, times):
        remaining = float(self.schedule.remaining[int(times[0])])
        away = (noisy - remaining**0.5 * self.mean).double() @ self.axes
        scaled = away / (remaining * self.values + 1.0 - remaining)
        return ((1.0 - remaining) ** 0.5 * (scaled @ self.axes.T)).float()


def test_the_paper_settings():
    assert (PAPER.batch_size, PAPER.learning_rate, PAPER.noise) == (
        128,
        1e-4,
        NoiseSchedule(1000, 1e-4, 0.02),
    )
    assert PAPER.rate_at(0) == PAPER.rate_at(PAPER.steps - 1) == 1e-4
    rates = [FAST.rate_at(step) for step in range(FAST.steps)]
    assert max(rates) == pytest.approx(FAST.learning_rate, rel=1e-2) and rates[-1] < 1e-6
    assert FAST.batch_size == 128


def test_the_marginals_are_those_of_the_steps_one_after_another():
    schedule = NoiseSchedule(steps=60, last=0.2)
    x0, n = 0.7, 200_000
    x = torch.full((n,), x0)
    random = torch.Generator().manual_seed(0)
    for time, beta in enumerate(schedule.betas):
        x = (1.0 - beta) ** 0.5 * x + beta**0.5 * torch.randn(n, generator=random)
        if time in (0, 9, 59):
            remaining = schedule.remaining[time]
            # Five standard errors of a mean and of a variance.
            assert abs(float(x.mean()) - remaining**0.5 * x0) < 5.0 * ((1.0 - remaining) / n) ** 0.5
            assert abs(float(x.var()) / (1.0 - remaining) - 1.0) < 5.0 * (2.0 / n) ** 0.5


def test_each_image_is_mixed_at_its_own_time():
    factors = NoiseSchedule().factors()
    times = torch.tensor([0, 500, 999])
    mixed = mix(torch.ones(3, 1, 2, 2), torch.full((3, 1, 2, 2), 10.0), times, factors)
    expected = factors[0][times] + 10.0 * factors[1][times]
    assert torch.equal(mixed, expected[:, None, None, None].expand(3, 1, 2, 2))


@pytest.mark.parametrize("steps", [pytest.param(1000, marks=pytest.mark.slow), 100])
def test_sampling_with_the_best_denoiser_ends_at_the_known_gaussian(steps):
    random = np.random.default_rng(0)
    # So narrow that hardly a guess lies beyond the values of an image, where it is clipped.
    mean, factor = 0.1 * random.standard_normal(5), 0.1 * random.standard_normal((5, 5))
    covariance = factor @ factor.T + 0.001 * np.eye(5)
    schedule = NoiseSchedule()
    n = 20_000
    found = sample_images(
        KnownGaussian(schedule, mean, covariance),
        n,
        (5,),
        schedule=schedule,
        steps=steps,
        batch_size=n,
    )
    drawn = found.double().numpy()
    error = 5.0 * np.sqrt(np.diag(covariance) / n)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < error + 0.003)
    gap = np.linalg.norm(np.cov(drawn, rowvar=False) - covariance, 2) / np.linalg.norm(covariance, 2)
    # Chance alone gives about two percent; few steps fall a little short of the variance.
    assert gap < (0.05 if steps == 1000 else 0.09)


def test_a_walk_visits_late_times_first_and_each_once():
    assert walk_times(1000, 1).tolist() == [999]
    assert walk_times(1000, None).tolist() == list(range(999, -1, -1))
    times = walk_times(1000, 50)
    assert (times[0], times[-1], len(set(times.tolist()))) == (999, 0, 50)
    with pytest.raises(InvalidInputError, match="steps=1001"):
        walk_times(1000, 1001)


def test_ddim_does_not_depend_on_the_batches_and_the_seed_decides():
    schedule = NoiseSchedule()
    network = KnownGaussian(schedule, np.zeros(4), np.eye(4))

    def draw(seed, **options):
        return sample_images(network, 7, (4,), schedule=schedule, steps=10, seed=seed, **options)

    assert torch.allclose(draw(3, batch_size=7), draw(3, batch_size=2), atol=1e-5)
    assert not torch.allclose(draw(3), draw(4))


def test_training_touches_no_global_randomness_and_says_how_far_it_is(squares):
    torch.manual_seed(5)
    before, told = torch.get_rng_state(), []
    short = DiffusionRecipe("short", steps=101, batch_size=2, width=8, levels=1)
    done = train_diffusion(
        squares, recipe=short, network=TwoLayers(), device="cpu", progress=lambda *counts: told.append(counts)
    )
    done.sample(2, steps=2, progress=lambda *counts: told.append(counts))
    assert torch.equal(torch.get_rng_state(), before)
    assert told == [(100, 101), (101, 101), (1, 2), (2, 2)]
    assert (len(done.losses), done.n_rows, done.shape) == (2, 64, (1, 8, 8))


@pytest.mark.slow
def test_the_loss_falls_and_samples_are_squares(squares):
    recipe = DiffusionRecipe(
        "squares", steps=800, batch_size=32, learning_rate=3e-3, width=8, levels=2, schedule="one-cycle",
        average=0.99,
    )  # fmt: skip
    done = train_diffusion(squares, recipe=recipe, device="cpu")
    assert done.losses[-1] < 0.25 * done.losses[0] < 0.5
    drawn = done.sample(64, steps=50).reshape(64, -1).astype(float)
    kinds = np.unique(squares.reshape(64, -1), axis=0).astype(float)
    distances = np.abs(drawn[:, None] - kinds).mean(axis=2)
    assert np.median(distances.min(axis=1)) < 25.0  # of 255; between two kinds it is 127
    assert len(set(distances.argmin(axis=1).tolist())) == 4


def test_a_step_in_bfloat16_moves_weights_in_float32(squares):
    from gmmatch_paper.training.diffusion_step import DiffusionStep
    from gmmatch_paper.training.step import make_optimizer

    pixels, cpu = torch.from_numpy(squares[..., None]), torch.device("cpu")
    rows, times = torch.arange(64), torch.arange(64) * 15
    ends = {}
    for dtype in (torch.float32, torch.bfloat16):
        model = TwoLayers()
        step = DiffusionStep(model, make_optimizer(model, TINY.updates, cpu), TINY, pixels, dtype)
        with torch.random.fork_rng():
            torch.manual_seed(1)
            step.prepare(rows, times)
            losses = [float(step(rows, times, 1e-2)) for _ in range(20)]
        ends[dtype] = losses[-1]
        assert losses[-1] < 0.9 * losses[0]
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        for mine, copied in zip(model.parameters(), step.worker.parameters(), strict=True):
            assert torch.equal(mine.to(dtype), copied)
    assert ends[torch.bfloat16] == pytest.approx(ends[torch.float32], rel=0.02)


def test_gradients_arrive_whatever_their_layout(squares):
    from gmmatch_paper.training.diffusion_step import DiffusionStep
    from gmmatch_paper.training.networks.unet import UNet
    from gmmatch_paper.training.step import make_optimizer

    model = UNet(1, width=8, levels=2).to(memory_format=torch.channels_last)
    pixels, rows = torch.from_numpy(squares[..., None]), torch.arange(8)
    optimizer = make_optimizer(model, TINY.updates, torch.device("cpu"))
    step = DiffusionStep(model, optimizer, TINY, pixels, torch.bfloat16)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        for _ in range(3):  # what starts at zero moves first, and then lets the others move
            step(rows, rows, 1e-2)
    for mine, copied in zip(model.parameters(), step.worker.parameters(), strict=True):
        assert torch.equal(mine.grad, copied.grad.float()) and mine.grad.any()


def test_the_average_follows_the_weights_and_is_not_the_initial_ones(squares):
    lazy = DiffusionRecipe(
        "lazy", steps=100, batch_size=8, learning_rate=5e-3, width=8, levels=1, average=0.9999
    )
    done = train_diffusion(squares, recipe=lazy, device="cpu")
    # With plain decay 99% of the initial weights would be left, and the last layer starts at zero.
    last = [parameter for name, parameter in done.model.named_parameters() if name == "last.1.weight"]
    assert last[0].abs().mean() > 1e-3


@pytest.mark.parametrize(
    "options", [{"steps": 0}, {"steps": 1, "schedule": "rising"}, {"steps": 1, "average": 1.0}]
)
def test_recipes_that_cannot_be_are_refused(options):
    with pytest.raises(InvalidInputError):
        DiffusionRecipe("bad", **options)


def test_the_blocks_of_the_guide_run_in_their_order(squares, monkeypatch, capsys):
    import re
    from dataclasses import replace
    from pathlib import Path

    from gmmatch_paper.training import diffusion

    guide = Path(__file__).parents[3] / "docs/guides/generation.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    monkeypatch.setattr(diffusion, "FAST", replace(TINY, steps=2))
    names = {"images": squares}
    for block in blocks:
        exec(compile(block.replace("steps=50)", "steps=2)"), str(guide), "exec"), names)
    first, second = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"loss [\d.]+ → [\d.]+", first)
    assert float(second) > 0.0
    assert names["drawn"].shape == (16, 8, 8, 1)
    assert names["shorter"].steps == 500
