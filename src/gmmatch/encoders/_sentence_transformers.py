"""Text models of ``sentence-transformers``, by their name on the hub or by folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gmmatch.data.source import Kind
from gmmatch.encoders.base import Items, Vectors, check_texts, sha256_of
from gmmatch.encoders.models import MINILM, ModelEncoder, named_weights

_WHAT = ("a text model of sentence-transformers", "sentence_transformers", "text")


class SentenceEncoder(ModelEncoder):
    """A text model of ``sentence-transformers``, called as that package calls it.

    Parameters
    ----------
    model
        ``"minilm"``, which needs no hub: all-MiniLM-L6-v2, whose weights are a package. Or a folder, a name on the
        hub, or the short name of one of the package's own models (``all-mpnet-base-v2``).
    device
        ``"auto"``, ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"``.
    dtype
        ``"auto"`` (half precision on a GPU, else single), ``"float32"``, ``"float16"``, ``"bfloat16"``.
    prompt
        Put before every text; some models want ``"query: "`` or the like.
    trust_pickle
        Whether weights may be a pickle, which can run code when it is loaded.

    Notes
    -----
    Texts longer than the model reads are cut off, as the package does. Texts of a batch are padded to one
    length, so the last digits of a vector depend on its batch: the same batches give the same bits.

    Examples
    --------
    >>> encoder = SentenceEncoder("minilm")  # doctest: +SKIP
    >>> encoder.encode(encoder.prepare(["a cat", "a dog"])).shape  # doctest: +SKIP
    (2, 384)
    """

    kind: Kind = "text"
    settings = ("folder", *ModelEncoder.settings, "prompt")

    def __init__(
        self,
        model: str = MINILM,
        *,
        device: str = "auto",
        dtype: str = "auto",
        prompt: str = "",
        trust_pickle: bool = False,
    ) -> None:
        spec = str(model)
        if "/" not in spec and spec != MINILM and not Path(spec).is_dir():
            spec = f"sentence-transformers/{spec}"
        super().__init__(device, dtype, "text")
        with self._loading(spec, _WHAT, trust_pickle) as (path, options, weights):
            from sentence_transformers import SentenceTransformer

            self.model = SentenceTransformer(path, device="cpu", model_kwargs=weights, **options)
        self.prompt = prompt
        # Texts of a batch are sorted by length, so that smaller ones compute less padding.
        self._at_once, self.batch_size = self.batch_size, 256
        self._place_model()
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
            named_weights(self.model.state_dict()),
        )
        self.n_features = self.encode(self.prepare(["a text"])).shape[1]

    def prepare(self, items: Items) -> list[str]:
        """Check that the items are texts."""
        return check_texts(items, self.name)

    def encode(self, batch: Sequence[str]) -> Vectors:
        """Run the model; float16 numbers if it computes in float16, else float32."""
        return self._numbers(
            self.model.encode(
                list(batch),
                batch_size=min(len(batch), self._at_once),
                prompt=self.prompt or None,
                show_progress_bar=False,
                convert_to_tensor=True,
            )
        )
