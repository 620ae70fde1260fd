"""Embeddings to select in: an in-domain network, a frozen encoder, features from a file, or pixels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import gmmatch as gm
from gmmatch.errors import DataFileNotFoundError, InvalidInputError
from gmmatch_paper.studies.image_cells.cache import Arrays
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.image_cells.data import ImageData, digest_of
from gmmatch_paper.studies.image_cells.downstream import recipe_named, train_network
from gmmatch_paper.studies.image_cells.heads import Head

if TYPE_CHECKING:
    from gmmatch_paper.studies.image_cells.cell import Given

IN_DOMAIN = "in-domain"
PIXELS = "pixels"
HIDDEN = "hidden"
SIMCLR = "simclr"
# Proxies are numbered: a change in how one is made leaves the old ones in the cache unused.
VERSION = 3


@dataclass(frozen=True)
class ProxySpec:
    """The encoder of a study, as the user named it.

    ``in-domain``, ``in-domain:NETWORK`` or ``in-domain:NETWORK:RECIPE``; ``simclr``, ``simclr:NETWORK`` or
    ``simclr:NETWORK:EPOCHS``, a network that learned from the images alone; ``pixels``; ``hidden:ENCODER``, a hidden
    layer on one of the others that is trained on the labels as they are; a folder or ``.npz``
    file with features (``train.npy`` and ``test.npy``, or members ``train`` and ``test``); or anything that
    :func:`gmmatch.encoders.load_encoder` takes.

    Examples
    --------
    >>> ProxySpec.parse("in-domain:resnet50").name, ProxySpec.parse("openai/clip-vit-base-patch32").kind
    ('in-domain:resnet50', 'encoder')
    >>> ProxySpec.parse("in-domain:resnet50:fast").recipe
    'fast'
    """

    kind: str
    spec: str
    name: str
    recipe: str = ""

    @classmethod
    def parse(cls, spec: str, network: str = "resnet18") -> ProxySpec:
        """Tell what a text names; ``network`` is the in-domain one if the text names none."""
        if spec.partition(":")[0] == IN_DOMAIN:
            chosen, _, recipe = spec.partition(":")[2].partition(":")
            name = f"{IN_DOMAIN}:{chosen or network}"
            return cls(IN_DOMAIN, chosen or network, f"{name}:{recipe}" if recipe else name, recipe)
        if spec.partition(":")[0] == HIDDEN:
            inner = cls.parse(spec.partition(":")[2], network)
            if inner.kind in (IN_DOMAIN, HIDDEN):
                raise InvalidInputError(
                    f"--encoder {spec}: a hidden layer needs a frozen encoder, or features."
                )
            return cls(HIDDEN, inner.spec, f"{HIDDEN}:{inner.name}")
        if spec.partition(":")[0] == SIMCLR:
            chosen, _, epochs = spec.partition(":")[2].partition(":")
            if not (epochs or "1").isdecimal():
                raise InvalidInputError(
                    f"--encoder {spec}: expected a number of epochs, as in simclr:resnet18:200."
                )
            return cls(SIMCLR, f"{chosen or 'compact'}:{epochs or 50}", spec)
        if spec == PIXELS:
            return cls(PIXELS, spec, spec)
        path = Path(spec)
        if path.suffix == ".npz" or (path / "train.npy").exists():
            return cls("features", spec, path.stem if path.suffix == ".npz" else path.name)
        return cls("encoder", spec, path.name if path.exists() else spec)

    @property
    def frozen(self) -> ProxySpec:
        """The encoder under a hidden layer; any other proxy is its own."""
        return ProxySpec.parse(self.spec) if self.kind == HIDDEN else self

    def check(self) -> None:
        """Raise for a path where nothing is; whether a hub has a name is found out when it is loaded."""
        if self.spec.startswith(("/", ".", "~")) and not Path(self.spec).expanduser().exists():
            raise DataFileNotFoundError(f"--encoder {self.name}: there is no such file or folder.")

    def fingerprint(self) -> str:
        """Return a hash of features that come from files, and nothing for the others."""
        if self.kind == HIDDEN:
            return self.frozen.fingerprint()
        if self.kind != "features":
            return ""
        return digest_of(load_features(self.spec).values())


@dataclass(frozen=True, eq=False)
class Embedded:
    """Rows to select from and to test on; ``dynamics`` is the recording of an in-domain training."""

    train: Any
    test: NDArray[Any]
    dynamics: Path | None = None

    def on(self, device: str) -> Embedded:
        """Return them with the rows to select from where they are to be picked: on a GPU, if the device is one."""
        if not device.startswith("cuda"):
            return self
        import torch

        return replace(self, train=torch.from_numpy(self.train).to(device))


@lru_cache(maxsize=1)
def load_features(spec: str) -> Arrays:
    """Return features that were computed before: a ``.npz`` file, or a folder with two ``.npy`` files."""
    path = Path(spec)
    if path.suffix == ".npz":
        if not path.exists():
            raise DataFileNotFoundError(f"--encoder {spec}: there is no such file.")
        with np.load(path, allow_pickle=False) as members:
            found = {key: members[key] for key in members.files if key in ("train", "test")}
    else:
        found = {
            key: np.load(path / f"{key}.npy") for key in ("train", "test") if (path / f"{key}.npy").exists()
        }
    missing = [key for key in ("train", "test") if key not in found]
    if missing:
        raise InvalidInputError(
            f"--encoder {spec} has no {' and no '.join(missing)}: expected features of the training and of the "
            "test images."
        )
    return found


def embed_data(given: Given) -> Embedded:
    """Return the training images of a cell, as they are under its corruption, and the test images as vectors."""
    kind = given.proxy.kind
    if kind == PIXELS:
        return Embedded(_pixels(given.noisy.images), _pixels(given.images.x_test))
    if kind == "features":
        return _from_file(given.images, given.spec, given.proxy)
    if kind in (HIDDEN, SIMCLR):
        return _hidden(given) if kind == HIDDEN else _self_supervised(given)
    return _in_domain(given) if kind == IN_DOMAIN else _frozen(given)


def _hidden(given: Given) -> Embedded:
    """A layer that was trained on the labels as they are, wrong ones included: what an in-domain proxy learns."""

    def learn() -> Arrays:
        frozen = embed_data(given.frozen())
        head = Head.fit(frozen.train, given.noisy.labels, n_classes=given.images.n_classes, seed=given.seed)
        return {name: head.features(getattr(frozen, name)).astype(np.float16) for name in ("train", "test")}

    key = {
        "version": VERSION,
        "data": given.images.fingerprint + given.proxy.fingerprint(),
        "encoder": given.proxy.name,
        "corruption": given.spec.text,
        "seed": given.seed,
    }
    found = given.cache.get("hidden", key, learn)
    return Embedded(found["train"], found["test"])


def _self_supervised(given: Given) -> Embedded:
    """SimCLR on the images as they are under their corruption; labels, right or wrong, are not looked at."""

    def learn() -> Arrays:
        from gmmatch_paper.training.contrastive import train_simclr

        (network, _, epochs), images = given.proxy.spec.partition(":"), given.noisy.images
        model, _ = train_simclr(
            images, network=network, epochs=int(epochs), seed=given.seed, device=given.device
        )
        return _features_of(model, images, given)

    key = {
        "version": VERSION,
        "images": hashlib.sha256(given.noisy.images.data).hexdigest(),
        "test": given.images.images_fingerprint,
        "encoder": given.proxy.name,
        "seed": given.seed,
    }
    found = given.cache.get("simclr", key, learn)
    return Embedded(found["train"], found["test"])


def _features_of(model: Any, images: NDArray[np.uint8], given: Given) -> Arrays:
    """Return a trained network's features of the training images, and of the test images, in float16."""
    from gmmatch_paper.training.evaluation import predict
    from gmmatch_paper.training.images import put_images

    train = put_images(images, np.zeros(len(images), dtype=np.int64), device=given.device)
    test = put_images(
        given.images.x_test,
        given.images.y_test,
        device=given.device,
        mean=train.mean,
        deviation=train.deviation,
    )
    return {
        name: predict(model, part, of=model.features).half().cpu().numpy()
        for name, part in (("train", train), ("test", test))
    }


def _pixels(images: NDArray[np.uint8]) -> NDArray[np.float32]:
    return images.reshape(len(images), -1).astype(np.float32) / np.float32(255.0)


def _from_file(data: ImageData, corruption: CorruptionSpec, proxy: ProxySpec) -> Embedded:
    if corruption.touches_images:
        raise InvalidInputError(
            f"--encoder {proxy.name} holds features of the clean images, but {corruption.text} changes images: "
            "give an encoder, or in-domain."
        )
    features = load_features(proxy.spec)
    train, test = features["train"], features["test"]
    for part, rows, images in (("train", train, data.x_train), ("test", test, data.x_test)):
        if len(rows) < len(images):
            raise InvalidInputError(
                f"--encoder {proxy.name} has {len(rows):,} {part} rows for {len(images):,} images."
            )
    return Embedded(train[: len(data.x_train)], test[: len(data.x_test)])


def _in_domain(given: Given) -> Embedded:
    key = {
        "version": VERSION,
        "data": given.images.fingerprint,
        "corruption": given.spec.text,
        "network": given.proxy.spec,
        "recipe": repr(recipe_named(given.proxy_recipe)),
        "seed": given.seed,
    }
    recording = given.cache.path("proxies", key).with_suffix(".dynamics.npz")
    found = given.cache.get("proxies", key, lambda: _train_proxy(given, recording))
    return Embedded(found["train"], found["test"], recording if recording.exists() else None)


def _train_proxy(given: Given, recording: Path) -> Arrays:
    """Train a network on the data as they are; return its features, and record how it learned."""
    noisy = given.noisy
    plan = recipe_named(given.proxy_recipe)
    # EL2N and GraNd tell most early in a training.
    recorder = gm.Dynamics(len(noisy.labels), first_epochs=max(1, plan.epochs // 10))
    steps, seen = plan.steps_per_epoch(len(noisy.labels)), 0

    def record(rows: Any, logits: Any, codes: Any, features: Any) -> None:
        nonlocal seen
        recorder.update(rows, logits, codes, features)
        seen += 1
        if seen % steps == 0:
            recorder.end_epoch()

    trained = train_network(
        given.proxy.spec,
        noisy.images,
        noisy.labels,
        n_classes=given.images.n_classes,
        recipe=given.proxy_recipe,
        seed=given.seed,
        device=given.device,
        on_batch=record,
    )
    recorder.save(recording)
    return _features_of(trained.model, noisy.images, given)


def _frozen(given: Given) -> Embedded:
    data, noisy, corruption, cache = given.images, given.noisy, given.spec, given.cache
    encoder = _encoder(given.proxy.spec, given.device)
    key = {"version": VERSION, "images": data.images_fingerprint, "encoder": encoder.fingerprint}
    clean = cache.get(
        "embeddings",
        key,
        lambda: {"train": encode(data.x_train, encoder), "test": encode(data.x_test, encoder)},
    )
    if not corruption.touches_images:
        return Embedded(clean["train"], clean["test"])
    # Only the images that changed are encoded again.
    rows = np.flatnonzero(noisy.corrupt)
    changed = cache.get(
        "embeddings",
        {
            **key,
            "corruption": corruption.text,
            "seed": given.seed,
            "rows": hashlib.sha256(noisy.images.data).hexdigest(),
        },
        lambda: {"changed": encode(noisy.images[rows], encoder)},
    )["changed"]
    train = clean["train"].copy()
    train[rows] = changed
    return Embedded(train, clean["test"])


@lru_cache(maxsize=1)
def _encoder(spec: str, device: str) -> Any:
    return gm.load_encoder(spec, kind="image", device=device)


def encode(images: NDArray[np.uint8], encoder: Any) -> NDArray[Any]:
    """Return images as an encoder's vectors, in float16 as a store keeps them."""
    from PIL import Image

    from gmmatch.data import Batch
    from gmmatch.encoders import encode_batches

    def batches() -> Any:
        for start in range(0, len(images), encoder.batch_size):
            part = images[start : start + encoder.batch_size]
            pictures = [
                Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).convert("RGB")
                for image in part
            ]
            yield Batch(pictures, list(range(start, start + len(part))), None, start)

    return np.concatenate([found.vectors.astype(np.float16) for found in encode_batches(batches(), encoder)])
