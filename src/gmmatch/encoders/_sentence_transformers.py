"""Text models of ``sentence-transformers``, by their name on the hub or by folder."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, describe_encoder, sha256_of
from gmmatch.encoders.models import (
    check_trusted,
    choose_device,
    choose_dtype,
    devices_present,
    explained,
    find_model,
    import_torch,
    named_weights,
)
from gmmatch.errors import InvalidTypeError

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


class SentenceEncoder:
    """A text model of ``sentence-transformers``, called as that package calls it.

    Parameters
    ----------
    model
        A folder, a name on the hub, or the short name of one of the package's own models
        (``all-MiniLM-L6-v2``).
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    dtype
        ``"auto"`` (half precision on a GPU, else single), ``"float32"``, ``"float16"``, ``"bfloat16"``.
    prompt
        Put before every text; some models want ``"query: "`` or the like.
    trust_pickle
        Whether weights of a folder may be a pickle, which can run code when it is loaded.

    Notes
    -----
    Texts longer than the model reads are cut off, as the package does. Texts of a batch are padded to one
    length, so the last digits of a vector depend on its batch: the same batches give the same bits.

    Examples
    --------
    >>> encoder = SentenceEncoder("all-MiniLM-L6-v2")  # doctest: +SKIP
    >>> encoder.encode(encoder.prepare(["a cat", "a dog"])).shape  # doctest: +SKIP
    (2, 384)
    """

    kind: Kind = "text"

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        device: str = "auto",
        dtype: str = "auto",
        prompt: str = "",
        trust_pickle: bool = False,
    ) -> None:
        torch = import_torch("text")
        spec = str(model)
        self.prompt = prompt
        self.device = choose_device(device, devices_present(torch))
        self.dtype = choose_dtype(dtype, self.device)
        self.batch_size = 64 if self.device == "cpu" else 256
        with explained(spec, "a text model of sentence-transformers", "sentence_transformers", "text"):
            package: Any = import_module("sentence_transformers")
            found = find_model(spec, () if "/" in spec else (f"sentence-transformers/{spec}",))
            check_trusted(found, trust_pickle=trust_pickle)
            self.model = package.SentenceTransformer(
                found.path, device="cpu", local_files_only=found.local, trust_remote_code=False
            )
        self.name, self.folder = found.name, found.folder
        self.model = self.model.to(getattr(torch, self.dtype)).eval().requires_grad_(False)
        self.fingerprint = sha256_of(
            {
                "encoder": "sentence-transformers",
                "modules": str(self.model),  # names the layers and how words are pooled
                "max_length": self.model.max_seq_length,
                "vocabulary": sorted(self.model.tokenizer.get_vocab().items()),
                "default_prompt": self.model.default_prompt_name,
                "prompts": self.model.prompts,
                "prompt": prompt,
            },
            named_weights(self.model),
        )
        self.model = self.model.to(self.device)
        self.n_features = self.encode(self.prepare(["a text"])).shape[1]

    def prepare(self, items: Items) -> list[str]:
        """Check that the items are texts."""
        for item in items:
            if not isinstance(item, str):
                raise InvalidTypeError(
                    f"encoder={self.name!r} takes texts, and one item is a {type(item).__name__}."
                )
        return list(items)

    def encode(self, batch: Sequence[str]) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        vectors = self.model.encode(
            list(batch),
            batch_size=len(batch),
            prompt=self.prompt or None,
            show_progress_bar=False,
            convert_to_tensor=True,
        )
        if self.dtype != "float16":
            vectors = vectors.float()
        return np.asarray(vectors.cpu().numpy())

    def describe(self) -> dict[str, Any]:
        """Say what the encoder is and how it was set up."""
        return describe_encoder(
            self, folder=self.folder, dtype=self.dtype, device=self.device, prompt=self.prompt
        )
