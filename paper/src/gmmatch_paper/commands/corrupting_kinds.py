"""The corruptions that `gmmatch corrupt` knows by name."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gmmatch.errors import InvalidInputError, first_line, unknown_name

LABEL_KINDS = ("symmetric", "pair-flip", "transition")
DEFAULT_RATE, DEFAULT_SEVERITY, DEFAULT_DISTANCE = 0.2, 3, 10.0
_UNRATED = ("transition", "mean-attack")


def build_corruption(
    kind: str,
    *,
    rate: float | None = None,
    severity: int | None = None,
    seed: int = 0,
    matrix: Path | None = None,
    settings: dict[str, Any] | None = None,
) -> Any:
    """Return the corruption that the options describe.

    Parameters
    ----------
    kind
        The name of a corruption of images, labels or vectors.
    rate, severity, seed
        As for the classes of :mod:`gmmatch_paper.corruption`; None for the default.
    matrix
        The file of a transition matrix.
    settings
        Fields of the kind's class.

    Returns
    -------
    ImageCorruption, LabelNoise, GrossCorruption or MeanAttack

    Examples
    --------
    >>> build_corruption("fog", rate=0.4, settings={"brightness": 1.0}).distortions[0].brightness
    1.0
    """
    from gmmatch_paper.corruption import adversaries, image_kinds

    kinds = (*image_kinds(), *LABEL_KINDS, *adversaries(), "mean-attack")
    if kind not in kinds:
        raise unknown_name("--kind", kind, kinds, "there is no such corruption; there are")
    if kind in _UNRATED and rate is not None:
        raise InvalidInputError(f"--rate {rate}: {kind} has no rate of its own; leave it out.")
    if severity is not None and kind not in image_kinds():
        raise InvalidInputError(f"--severity {severity}: only images have severities; leave it out.")
    if (matrix is not None) != (kind == "transition"):
        raise InvalidInputError("--matrix FILE goes with --kind transition, and each needs the other.")
    share = DEFAULT_RATE if rate is None else rate
    options = dict(settings or {})
    if kind in image_kinds():
        from gmmatch_paper.corruption.images import ImageCorruption

        level = DEFAULT_SEVERITY if severity is None else severity
        return ImageCorruption(kind=_image_kind(kind, options), rate=share, severity=level, seed=seed)
    if kind in LABEL_KINDS:
        return _label_noise(kind, share, seed, matrix, options)
    from gmmatch_paper.corruption.adversaries import adversary_class
    from gmmatch_paper.corruption.gross import GrossCorruption, MeanAttack

    if kind == "mean-attack":
        where = {} if "target" in options else {"distance": DEFAULT_DISTANCE}
        return _made(MeanAttack, kind, {**where, **options}, seed=seed)
    return GrossCorruption(rate=share, adversary=_made(adversary_class(kind), kind, options), seed=seed)


def _image_kind(kind: str, options: dict[str, Any]) -> Any:
    if not options:
        return kind
    if "mixture" in kind:
        raise InvalidInputError(f"--set: {kind} has no settings; give them to one of its kinds, alone.")
    from gmmatch_paper.corruption.kinds import distortion_class

    return _made(distortion_class(kind), kind, options)


def _label_noise(kind: str, rate: float, seed: int, matrix: Path | None, options: dict[str, Any]) -> Any:
    from gmmatch_paper.corruption import PairFlip, SymmetricNoise, TransitionNoise

    if matrix is not None:
        try:
            return _made(TransitionNoise, kind, options, matrix=read_matrix(matrix), seed=seed)
        except InvalidInputError as error:
            if str(error).startswith("--"):
                raise
            raise InvalidInputError(f"--matrix {matrix}: {error}") from None
    return _made(SymmetricNoise if kind == "symmetric" else PairFlip, kind, options, rate=rate, seed=seed)


def _made(cls: type[Any], kind: str, options: dict[str, Any], **fixed: Any) -> Any:
    known = [field.name for field in fields(cls) if field.name not in ("rate", "seed", "matrix")]
    for name in options:
        if name not in known:
            raise unknown_name("--set", name, known, f"{kind} has no such setting; it has")
    _check_numbers(cls, options)
    try:
        return cls(**fixed, **options)
    except InvalidInputError as error:
        if str(error).startswith(tuple(f"{name}=" for name in options)):
            raise InvalidInputError(f"--set {error}") from None
        raise
    except TypeError as error:
        raise InvalidInputError(f"--set: {kind} cannot be made with these settings: {error}.") from None


def parse_settings(texts: Sequence[str] | None) -> dict[str, Any]:
    """Return settings that were given as ``name=value``; a value is a Python literal, or else text.

    Examples
    --------
    >>> parse_settings(["fill=black", "distance=50"])
    {'fill': 'black', 'distance': 50}
    """
    settings: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name.isidentifier():
            raise InvalidInputError(f"--set {text}: write name=value, such as --set distance=50.")
        try:
            settings[name] = ast.literal_eval(value.strip())
        except (ValueError, SyntaxError):
            settings[name] = value.strip()
    return settings


def _check_numbers(cls: type[Any], settings: Mapping[str, Any]) -> None:
    for field in fields(cls):
        value = settings.get(field.name)
        if isinstance(field.default, (int, float)) and isinstance(value, str):
            raise InvalidInputError(
                f"--set {field.name}={value}: expected a number, such as {field.default}."
            )


def read_matrix(path: Path) -> Any:
    """Read a matrix of numbers from a ``.npy``, ``.csv`` or ``.json`` file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "m.csv").write_text("0.9,0.1\\n0,1\\n")
    ...     read_matrix(Path(folder, "m.csv")).tolist()
    [[0.9, 0.1], [0.0, 1.0]]
    """
    import json

    import numpy as np

    if path.is_file() and not path.stat().st_size:
        raise InvalidInputError(f"--matrix {path} is empty: give one row of shares per class.")
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, allow_pickle=False).astype(np.float64)
        if path.suffix.lower() == ".json":
            return np.array(json.loads(path.read_text(encoding="utf-8")), dtype=np.float64)
        if path.suffix.lower() == ".csv":
            return np.loadtxt(path, delimiter=",", ndmin=2)
    except (ValueError, TypeError, OSError) as error:
        raise InvalidInputError(f"--matrix {path} cannot be read: {first_line(error)}.") from None
    raise InvalidInputError(f"--matrix {path}: expected a file that ends in .npy, .csv or .json.")
