"""Finding a model: a folder, the cache of this machine, or the Hugging Face hub.

Everything that can be wrong with a name is found out here, with one question to the hub: the loading
functions of ``transformers`` ask many times, and wait long when there is no network.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from gmmatch.encoders.base import first_line
from gmmatch.errors import DataFileNotFoundError, GMMatchError, InvalidInputError, did_you_mean

IMAGE_MODELS = (
    "openai/clip-vit-base-patch32",
    "openai/clip-vit-base-patch16",
    "openai/clip-vit-large-patch14",
    "facebook/dinov2-small",
    "facebook/dinov2-base",
    "facebook/dinov2-large",
    "google/mobilenet_v2_1.0_224",
    "google/siglip-base-patch16-224",
    "google/vit-base-patch16-224-in21k",
    "microsoft/resnet-18",
    "microsoft/resnet-50",
)
TEXT_MODELS = (
    "sentence-transformers/all-MiniLM-L6-v2",
    "sentence-transformers/all-MiniLM-L12-v2",
    "sentence-transformers/all-mpnet-base-v2",
    "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
)
BUILT_IN = ("identity", "pixels")

_HUB_TIMEOUT = 10.0


class UnknownEncoderError(InvalidInputError):
    """No encoder goes by that name; the message says how to get one."""


class Model(NamedTuple):
    """Where a model was found.

    Attributes
    ----------
    path
        What the loading functions take: a folder or a name on the hub.
    local
        Whether its files are on this machine.
    """

    path: str
    local: bool

    @property
    def folder(self) -> str | None:
        """The absolute path of a folder; None for a model of the hub."""
        return str(Path(self.path).resolve()) if Path(self.path).is_dir() else None

    @property
    def name(self) -> str:
        """What to call the model: its name on the hub, or its folder's own name.

        Not the whole path: the same weights are the same encoder wherever they lie.
        """
        return self.path if self.folder is None else Path(self.folder).name


def find_model(name: str, also_try: tuple[str, ...] = ()) -> Model:
    """Find a model by folder or by its name on the hub.

    Parameters
    ----------
    name
        A folder, or a name such as ``openai/clip-vit-base-patch32``.
    also_try
        Other names for the same model.

    Returns
    -------
    Model

    Examples
    --------
    >>> find_model("./no/such/folder")
    Traceback (most recent call last):
    gmmatch.errors.DataFileNotFoundError: encoder='./no/such/folder': there is no such folder.
    """
    if Path(name).expanduser().is_dir():
        return Model(str(Path(name).expanduser()), True)
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        raise DataFileNotFoundError(f"encoder={name!r}: there is no such folder.")
    for candidate in (name, *also_try):
        if _is_cached(candidate):
            return Model(candidate, True)
    failures = []
    for candidate in (name, *also_try):
        failure = _ask_hub(candidate)
        if failure is None:
            return Model(candidate, False)
        failures.append(failure)
    raise failures[0]


def nearest(name: str) -> str:
    """Return a sentence with the well-known encoders that are called almost like this.

    Examples
    --------
    >>> nearest("opnai/clip-vit-base-patch32").partition(" or ")[0]
    " Did you mean 'openai/clip-vit-base-patch32'"
    >>> nearest("something-else-entirely")
    ''
    """
    known = (*IMAGE_MODELS, *TEXT_MODELS, *BUILT_IN)
    return "" if name in known else did_you_mean(name, known)


def _is_cached(name: str) -> bool:
    hub: Any = import_module("huggingface_hub")
    errors: Any = import_module("huggingface_hub.errors")

    try:
        files = [hub.try_to_load_from_cache(name, file) for file in ("config.json", "modules.json")]
    except errors.HFValidationError:
        return False
    return any(isinstance(file, str) for file in files)


def _ask_hub(name: str) -> GMMatchError | None:
    """Return what is wrong with a name, or None if the hub has the model."""
    hub: Any = import_module("huggingface_hub")
    errors: Any = import_module("huggingface_hub.errors")

    try:
        hub.HfApi().model_info(name, timeout=_HUB_TIMEOUT)
    except errors.GatedRepoError:
        return InvalidInputError(
            f"encoder={name!r}: the model's owner grants access by request: ask for it on the model's page, "
            "then run `hf auth login`."
        )
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        return UnknownEncoderError(
            f"encoder={name!r} is not known: there is no such folder, and no such model on the Hugging Face "
            f"hub (or it is private: run `hf auth login`).{nearest(name)}"
        )
    except Exception as error:  # the network library differs between versions, and so do its errors
        return UnknownEncoderError(
            f"encoder={name!r} is neither a folder nor in this machine's cache, and the Hugging Face hub cannot "
            f"be reached ({first_line(error)}).{nearest(name)} Where there is a network, run "
            f"`hf download {name} --local-dir FOLDER`, and give the FOLDER."
        )
    return None
