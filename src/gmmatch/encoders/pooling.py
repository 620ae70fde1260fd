"""Which vector of a vision model's output stands for the picture."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from gmmatch.errors import InvalidInputError

Pooling: TypeAlias = Literal["auto", "cls", "mean"]

_CLS_TOKENS = ("cls_token", "class_embedding")


class Pooler:
    """Runs a model and takes one vector per picture from its output.

    ``"auto"`` takes the first of these that there is:

    1. what the model was trained to compare pictures and texts by, projected (CLIP, SigLIP);
    2. its ``pooler_output`` (ResNet, MobileNetV2, ViT, DINOv2);
    3. the CLS token of its last hidden state;
    4. the mean of its last hidden state over all positions.

    Parameters
    ----------
    model
        A model of ``transformers`` that takes ``pixel_values``.
    pooling
        ``"auto"``; ``"cls"`` or ``"mean"`` for 3 or 4 whatever else there is.
    trained
        Whether the weights of its pooler came with the checkpoint. A classifier's checkpoint has none:
        they are random then, and 2 is passed over.
    """

    def __init__(self, model: Any, pooling: Pooling, *, trained: bool) -> None:
        if pooling not in ("auto", "cls", "mean"):
            raise InvalidInputError(f"pooling={pooling!r}: use auto, cls or mean.")
        self.model = model
        self.pooling = pooling
        self.trained = trained
        self.has_cls = any(name.endswith(_CLS_TOKENS) for name, _ in model.named_parameters())

    def __call__(self, pixels: Any) -> tuple[Any, str]:
        """Return the vectors, and what was taken: ``features``, ``pooler``, ``cls`` or ``mean``."""
        if self.pooling == "auto" and hasattr(self.model, "get_image_features"):
            features = self.model.get_image_features(pixel_values=pixels)
            # Version 5 of transformers returns the whole output, version 4 the vectors alone.
            return getattr(features, "pooler_output", features), "features"
        output = self._run(pixels)
        if self.pooling == "auto":
            if getattr(output, "image_embeds", None) is not None:
                return output.image_embeds, "features"
            if self.trained and getattr(output, "pooler_output", None) is not None:
                return output.pooler_output.flatten(1), "pooler"
        hidden = output.last_hidden_state
        if self.pooling == "cls" or (self.pooling == "auto" and self.has_cls):
            if not self.has_cls:
                raise InvalidInputError(
                    f"pooling='cls': {type(self.model).__name__} has no CLS token; use mean or auto."
                )
            return hidden[:, 0], "cls"
        return hidden.mean(dim=(2, 3) if hidden.ndim == 4 else 1), "mean"

    def _run(self, pixels: Any) -> Any:
        both_towers = hasattr(self.model, "get_image_features")
        return (self.model.vision_model if both_towers else self.model)(pixel_values=pixels)
