"""A compact SimCLR: an encoder learned from images without labels (Chen et al., 2020, arXiv:2002.05709)."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch.files import write_file
from gmmatch_paper.checks import check_number, check_whole_number
from gmmatch_paper.training.devices import choose_device
from gmmatch_paper.training.images import Images, put_images
from gmmatch_paper.training.networks import build_network
from gmmatch_paper.training.networks.base import seeded
from gmmatch_paper.training.views import random_views

_PROJECTED = 64


class CompactNetwork(nn.Module):
    """Four convolutions, each halving the image after the first: 256 features at a CPU's pace.

    Examples
    --------
    >>> CompactNetwork(1).features(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 256])
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs, stride in ((channels, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2)):
            layers += [
                nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
        self.body = nn.Sequential(*layers)

    def features(self, x: Tensor) -> Tensor:
        """Return one vector per image."""
        return self.body(x).mean(dim=(2, 3))


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.5) -> Tensor:
    """Return SimCLR's loss of two views of m images each.

    Every view is to tell its partner from the 2m − 2 others: the mean over all 2m views of
    −log(exp(s⁺/τ) / Σ exp(s/τ)), s being cosines and the sum over all views but the one itself.

    Parameters
    ----------
    first, second : tensors of shape (m, s)
        Row i of both comes from the same image.
    temperature : float
        τ.

    Examples
    --------
    >>> views = torch.eye(2)
    >>> bool(torch.isclose(nt_xent(views, views, 1.0), torch.tensor(2 + torch.e).log() - 1))
    True
    """
    views = functional.normalize(torch.cat([first, second]).float(), dim=1)
    scores = views @ views.T / temperature
    scores.fill_diagonal_(-torch.inf)
    count = len(first)
    partners = torch.arange(2 * count, device=views.device).roll(count)
    return functional.cross_entropy(scores, partners)


class ContrastiveEncoder:
    """Turns images into the features of a network that was trained without labels.

    It is called with a list of images, as :func:`gmmatch.encoders.load_encoder` and ``gmmatch embed`` do,
    or with an array of them.

    Attributes
    ----------
    network
        The network, in evaluation mode.
    losses
        The mean loss of every epoch.
    fingerprint
        A SHA-256 of the weights and of how images are prepared.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 255, (16, 12, 12, 3), dtype=np.uint8)
    >>> encoder = train_simclr(images, epochs=1, device="cpu")
    >>> encoder(images[:5]).shape
    (5, 256)
    >>> from gmmatch.encoders import load_encoder
    >>> load_encoder(encoder).encode(images[:5]).shape
    (5, 256)
    """

    batch_size = 256

    def __init__(
        self, network: nn.Module, data: Images, name: str | None, losses: tuple[float, ...] = ()
    ) -> None:
        self.network = network.eval()
        self.losses = losses
        self._data = data  # its mean, deviation and size; not the images
        self._name = name
        digest = hashlib.sha256(json.dumps({"encoder": "simclr", **_settings(data)}, sort_keys=True).encode())
        for key, value in network.state_dict().items():
            digest.update(key.encode() + value.detach().float().cpu().numpy().tobytes())
        self.fingerprint = digest.hexdigest()

    def __call__(self, images: Any) -> NDArray[np.float32]:
        """Return one row of features per image; PIL images are brought to the size trained on."""
        data = self._data
        pixels = images if isinstance(images, (np.ndarray, Tensor)) else self._from_pictures(images)
        given = put_images(
            pixels, np.zeros(len(pixels), dtype=np.int64), device=data.device, mean=data.mean,
            deviation=data.deviation,
        )  # fmt: skip
        with torch.no_grad():
            parts = [features_of(self.network, inputs) for _, inputs, _ in given.batches(self.batch_size)]
        found: NDArray[np.float32] = torch.cat(parts).float().cpu().numpy()
        return found

    def _from_pictures(self, images: Any) -> NDArray[np.uint8]:
        height, width, channels = self._data.pixels.shape[1:]
        mode = "RGB" if channels == 3 else "L"
        return np.stack([np.asarray(image.convert(mode).resize((width, height))) for image in images])

    def save(self, path: str | Path) -> None:
        """Write the encoder to a file, from which :func:`load_contrastive_encoder` restores it."""
        if self._name is None:
            raise InvalidInputError(
                "network was a module of your own, which a file cannot describe: save its state_dict()."
            )
        buffer = io.BytesIO()
        weights = {key: value.cpu() for key, value in self.network.state_dict().items()}
        settings = {"format": 1, "network": self._name, "losses": list(self.losses), **_settings(self._data)}
        torch.save({"settings": settings, "weights": weights}, buffer)
        write_file(path, buffer.getbuffer())


def load_contrastive_encoder(path: str | Path, device: str = "auto") -> ContrastiveEncoder:
    """Read an encoder that :meth:`ContrastiveEncoder.save` wrote.

    Examples
    --------
    >>> import tempfile
    >>> images = np.random.default_rng(0).integers(0, 255, (16, 12, 12), dtype=np.uint8)
    >>> encoder = train_simclr(images, epochs=1, device="cpu")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     encoder.save(f"{folder}/encoder.pt")
    ...     again = load_contrastive_encoder(f"{folder}/encoder.pt", device="cpu")
    >>> bool((again(images) == encoder(images)).all()), again.fingerprint == encoder.fingerprint
    (True, True)
    """
    place = choose_device(device)
    if not Path(path).is_file():
        raise DataFileNotFoundError(f"path={str(path)!r}: there is no such file.")
    try:
        found = torch.load(path, map_location=place, weights_only=True)
        settings, weights = found["settings"], found["weights"]
        shape = tuple(settings["shape"])
        network = _build(settings["network"], max(shape[:2]), shape[2], seed=0).to(place)
        network.load_state_dict(weights)
    except Exception as error:  # torch raises whatever its unpickler and archive reader do
        raise InvalidInputError(
            f"path={str(path)!r} is not an encoder that gmmatch saved, or is damaged ({type(error).__name__})."
        ) from error
    data = Images(
        torch.empty((0, *shape), dtype=torch.uint8, device=place),
        torch.empty(0, dtype=torch.int64, device=place),
        torch.tensor(settings["mean"], device=place),
        torch.tensor(settings["deviation"], device=place),
    )
    return ContrastiveEncoder(network, data, settings["network"], tuple(settings["losses"]))


def train_simclr(
    images: Any,
    *,
    network: str | nn.Module = "compact",
    epochs: int = 50,
    batch_size: int = 256,
    temperature: float = 0.5,
    learning_rate: float = 1e-3,
    seed: int = 0,
    device: str = "auto",
    progress: Callable[[int, int], object] | None = None,
) -> ContrastiveEncoder:
    """Train an encoder on images alone: two views of an image should be alike, and unlike all others.

    Views are random crops, flips and changes of color, made on the device. The network's features go
    through a projection, which is thrown away afterwards, to SimCLR's loss; Adam with a cosine schedule.

    Parameters
    ----------
    images : array of shape (n, height, width) or (n, height, width, channels)
        Bytes, or floats between 0 and 1; gray or color. At least two.
    network : str or torch.nn.Module
        ``"compact"``, four convolutions; a name of :func:`gmmatch_paper.training.networks.networks`; or a
        module of your own, whose ``features(x)``, or else whose output, is used.
    epochs, batch_size, temperature, learning_rate
        Of the training. A last batch that is not full is left out.
    seed : int
        Decides the weights, the order and the views; no global random state is touched.
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ...
    progress : function, optional
        Called after every epoch with the epochs done and their number.

    Returns
    -------
    ContrastiveEncoder
        Its losses tell whether it learned: without learning they stay near log(2 · batch_size − 1).

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 255, (16, 12, 12, 3), dtype=np.uint8)
    >>> len(train_simclr(images, epochs=2, device="cpu").losses)
    2
    """
    check_whole_number(epochs, "epochs")
    check_whole_number(batch_size, "batch_size")
    check_number(temperature, "temperature", above_zero=True)
    check_number(learning_rate, "learning_rate", above_zero=True)
    place = choose_device(device)
    count = len(images)
    if count < 2:
        raise InvalidInputError(f"images has {count} of them: at least 2 are needed, to tell them apart.")
    data = put_images(images, np.zeros(count, dtype=np.int64), device=place)
    name = network if isinstance(network, str) else None
    model = _build(network, data.size, data.channels, seed) if isinstance(network, str) else network
    model = model.to(place).train()
    losses = _train(model, data, epochs, min(batch_size, count), temperature, learning_rate, seed, progress)
    empty = Images(data.pixels[:0].clone(), data.codes[:0].clone(), data.mean, data.deviation)
    return ContrastiveEncoder(model, empty, name, losses)


def _train(
    model: nn.Module,
    data: Images,
    epochs: int,
    batch_size: int,
    temperature: float,
    learning_rate: float,
    seed: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[float, ...]:
    random = torch.Generator(data.device).manual_seed(seed)
    with torch.no_grad():
        width = features_of(model, data.normalized(data.pixels[:2])).shape[1]
    projection = seeded(lambda: _projection(width), seed + 1).to(data.device)
    parameters = [*model.parameters(), *projection.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=1e-4)
    steps = len(data) // batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    losses = []
    for epoch in range(epochs):
        order = torch.randperm(len(data), generator=random, device=data.device)
        total = torch.zeros((), device=data.device)
        for step in range(steps):
            pixels = data.pixels[order[step * batch_size : (step + 1) * batch_size]]
            first, second = (
                projection(features_of(model, data.normalized(random_views(pixels, random))))
                for _ in range(2)
            )
            loss = nt_xent(first, second, temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.detach()
        losses.append(float(total) / steps)
        if progress is not None:
            progress(epoch + 1, epochs)
    return tuple(losses)


def features_of(network: nn.Module, inputs: Tensor) -> Tensor:
    """Return ``network.features(inputs)``, or what the network returns if it has no features."""
    found = network.features(inputs) if hasattr(network, "features") else network(inputs)
    return found.flatten(1)


def _projection(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, _PROJECTED))


def _build(name: str, image_size: int, channels: int, seed: int) -> nn.Module:
    if name == "compact":
        return seeded(lambda: CompactNetwork(channels), seed)
    return seeded(lambda: build_network(name, 1, image_size, channels), seed)


def _settings(data: Images) -> dict[str, Any]:
    return {
        "shape": list(data.pixels.shape[1:]),
        "mean": data.mean.tolist(),
        "deviation": data.deviation.tolist(),
    }
