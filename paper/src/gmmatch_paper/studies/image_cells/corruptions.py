"""What is done to the training data of a cell, written as ``kind:share``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError
from gmmatch_paper.arrays import Indices, Mask
from gmmatch_paper.studies.image_cells.data import ImageData

ATTACKS = ("pgd", "fgsm")
SEVERITIES = ("xia", "mild")
"""How severe the paper's mixture of five corruptions of images is: as in Xia et al. (2023), or severity 3 of 5."""

_KINDS = ("label", "pair", "image", *ATTACKS)


@dataclass(frozen=True)
class CorruptionSpec:
    """A corruption that a study names.

    ``none``; ``label:20%`` and ``pair:20%`` (labels turned into any other class, or into the next one);
    ``image-xia:20%`` (the paper's mixture of five, as severe as in Xia et al.), ``image:20%`` (milder) and
    ``image-KIND:20%`` (one of them); ``pgd:100%`` and
    ``fgsm:100%`` (attacks on a network that was trained on the clean images); ``human:worse`` (labels
    that people gave).

    Examples
    --------
    >>> CorruptionSpec.parse("label:20%")
    CorruptionSpec(kind='label', detail='', rate=0.2)
    >>> CorruptionSpec.parse("image-fog:0.1").text
    'image-fog:10%'
    """

    kind: str
    detail: str = ""
    rate: float = 0.0

    @classmethod
    def parse(cls, text: str) -> CorruptionSpec:
        """Read a corruption as it is written on the command line."""
        name, _, value = text.strip().partition(":")
        if name in ("none", "human"):
            if (name == "human") != bool(value):
                raise _unknown(text)
            return cls(name, value)
        kind, _, detail = name.partition("-")
        if kind not in _KINDS or (detail and kind != "image"):
            raise _unknown(text)
        return cls(kind, detail, _share(value, text))

    @property
    def text(self) -> str:
        """The corruption as tables and files write it."""
        if self.kind in ("none", "human"):
            return f"human:{self.detail}" if self.kind == "human" else "none"
        return f"{self.kind}{'-' if self.detail else ''}{self.detail}:{100 * self.rate:g}%"

    @property
    def touches_images(self) -> bool:
        """Whether it changes pixels, and not only labels."""
        return self.kind in ("image", *ATTACKS)

    @property
    def words(self) -> str:
        """The corruption for people."""
        share = f"{100 * self.rate:g}%"
        # The mixture of the study of generation is all that it has.
        named = {"generation-mixture": "", "": "mild", "xia": "Xia et al."}.get(self.detail, self.detail)
        return {
            "none": "No corruption",
            "label": f"{share} label noise",
            "pair": f"{share} labels turned into the next class",
            "image": f"{share} of images corrupted{f' ({named})' if named else ''}",
            "pgd": f"{share} of images attacked (PGD)",
            "fgsm": f"{share} of images attacked (gradient sign)",
            "human": f"Human labels ({self.detail})",
        }[self.kind]


def at_severity(corruption: str, severity: str) -> str:
    """Return a corruption with the paper's mixture at a severity; all others stay as they are.

    Examples
    --------
    >>> at_severity("image:20%", "xia"), at_severity("image:20%", "mild")
    ('image-xia:20%', 'image:20%')
    >>> at_severity("image-random-image:45%", "xia")
    'image-random-image:45%'
    """
    kind, _, share = corruption.partition(":")
    return f"image-xia:{share}" if kind == "image" and severity == "xia" else corruption


def in_the_paper(corruption: str) -> str:
    """Return how the paper's tables write a corruption, whatever its severity.

    Examples
    --------
    >>> in_the_paper("image-xia:20%"), in_the_paper("label:20%")
    ('image:20%', 'label:20%')
    """
    return corruption.replace("image-xia:", "image:")


@dataclass(frozen=True, eq=False)
class NoisyImages:
    """Training images and labels as a method sees them, and which of them are bad."""

    images: NDArray[np.uint8]
    labels: Indices
    corrupt: Mask


def corrupt_data(
    data: ImageData, spec: CorruptionSpec, seed: int, attacked: NDArray[np.uint8] | None = None
) -> NoisyImages:
    """Return the training data under a corruption; ``attacked`` are the images that an attack made."""
    from gmmatch_paper.corruption import ImageCorruption, PairFlip, SymmetricNoise

    images, labels = data.x_train, data.y_train
    if spec.kind in ("label", "pair"):
        noise: Any = {"label": SymmetricNoise, "pair": PairFlip}[spec.kind]
        found = noise(rate=spec.rate, classes=range(data.n_classes), seed=seed).apply(labels)
        return NoisyImages(images, np.asarray(found.data, dtype=np.int64), found.mask)
    if spec.kind == "human":
        if spec.detail not in data.human:
            known = ", ".join(data.human) or "none"
            raise InvalidInputError(
                f"human:{spec.detail}: the dataset has no such labels (there are: {known}); a .npz dataset holds "
                f"them as labels_{spec.detail}."
            )
        given = data.human[spec.detail]
        return NoisyImages(images, given, given != labels)
    if spec.kind == "image":
        corrupted = ImageCorruption(kind=spec.detail or "mixture", rate=spec.rate, seed=seed).apply(images)
        return NoisyImages(corrupted.data, labels, corrupted.mask)
    if spec.kind in ATTACKS:
        assert attacked is not None
        return NoisyImages(attacked, labels, (attacked != images).any(axis=(1, 2, 3)))
    return NoisyImages(images, labels, np.zeros(len(labels), dtype=np.bool_))


def _share(value: str, text: str) -> float:
    number = value.strip().removesuffix("%")
    try:
        share = float(number) / (100.0 if value.strip().endswith("%") else 1.0)
    except ValueError:
        raise _unknown(text) from None
    if not 0.0 < share <= 1.0:
        raise InvalidInputError(f"--corruptions {text}: the share must be above 0 and at most 100%.")
    return share


def _unknown(text: str) -> InvalidInputError:
    return InvalidInputError(
        f"--corruptions {text} is not known: expected none, label:20%, pair:20%, image:20%, image-KIND:20%, "
        "pgd:100%, fgsm:100% or human:NAME."
    )
