"""What selectors tell scikit-learn and imbalanced-learn about themselves; imported when one of them asks."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.utils import InputTags, Tags, TargetTags


@dataclass
class SamplerInputTags(InputTags):
    """scikit-learn's input tags with the one that imbalanced-learn adds."""

    dataframe: bool = True


@dataclass
class SamplerTags:
    """imbalanced-learn's tag: whether ``sample_indices_`` is set."""

    sample_indices: bool = True


@dataclass
class EstimatorTags(Tags):
    """scikit-learn's tags with the group that imbalanced-learn adds."""

    sampler_tags: SamplerTags | None = None


def selector_tags(*, needs_labels: bool) -> EstimatorTags:
    """Return the tags of a selector."""
    return EstimatorTags(
        estimator_type=None,
        target_tags=TargetTags(required=needs_labels),
        input_tags=SamplerInputTags(sparse=False, allow_nan=False),
        sampler_tags=SamplerTags(),
    )
