"""Which end of a score is worth keeping: the one place where that is settled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Score:
    """A number per row, what a high one means, and which rows a method that ranks by it keeps.

    Attributes
    ----------
    name
        What it is called.
    keep
        The end that is kept.
    high_means
        What is said of a row whose score is high.
    source
        Where the score, and which end of it to keep, comes from.

    Examples
    --------
    >>> EL2N.keep, AREA_UNDER_MARGIN.high_means
    ('highest', 'learned early and surely')
    """

    name: str
    keep: Literal["lowest", "highest"]
    high_means: str
    source: str


FORGETTING = Score(
    "forgetting", "highest", "forgotten often, or never learned", "Toneva et al., 2019, arXiv:1812.05159"
)
EL2N = Score("el2n", "highest", "predicted wrongly", "Paul et al., 2021, arXiv:2107.07075")
GRAND = Score("grand", "highest", "pulls hard on the parameters", "Paul et al., 2021, arXiv:2107.07075")
PROTOTYPE_DISTANCE = Score(
    "self-supervised", "highest", "unlike every prototype", "Sorscher et al., 2022, arXiv:2206.14486"
)
AREA_UNDER_MARGIN = Score(
    "area-under-margin", "highest", "learned early and surely", "Pleiss et al., 2020, arXiv:2001.10528"
)

SCORES = {score.name: score for score in (FORGETTING, EL2N, GRAND, PROTOTYPE_DISTANCE, AREA_UNDER_MARGIN)}
"""All scores that come from a model, by name."""
