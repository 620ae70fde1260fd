"""Where the paper's labels stand in print."""

from __future__ import annotations

from collections.abc import Iterable

_FIGURES = (
    "fig:toy-moment",
    "fig:exp-syn-corr=40",
    "fig:diffusion_noise_samples_mnist",
    "fig:diffusion_noise_samples_tsne_mnist",
    "fig:toy-gm",
    "fig:exp-syn-moment",
    "fig:main-toy-conv-mme",
    "fig:wall-clock",
    "fig:conv-mean-est",
    "fig:main-conv-gmm",
    "fig:exp-syn-kernel",
    "fig:exp-domain-vanilla",
    "fig:exp-domain-lp",
    "fig:exp-generation-fid",
    "fig:gen-clean",
    "fig:gen-noisy",
)
_TABLES = (
    "tab:exp-classification-clean",
    "tab:imagenet_accuracy",
    "tab:cifarC",
    "tab:tinyC",
    "tab:exp-classification-label_noise",
    "tab:exp-classification-label_noise-tinyN",
    "tab:exp-classification-Adv",
    "tab:cifar100_vit_small",
    "tab:exp-nw-clean",
    "tab:exp-nw-corrupt",
    "tab:exp-clip-cifar",
)
_NUMBERS = {
    **{label: f"Figure {number}" for number, label in enumerate(_FIGURES, 1)},
    **{label: f"Table {number}" for number, label in enumerate(_TABLES, 1)},
    "th:gm_match_cvg": "Theorem 1",
    "lemma:bound_mmd": "Lemma 1",
    "lemma:gmm_comp": "Lemma 2",
    "lemma:score_dist_dev": "Lemma 3",
    "def:breakdown_point": "Definition 2",
    "def:geo_med": "Definition 4",
    "sec:vulnerability": "Section 4.1",
    "sec:gmm": "Section 5",
    "sec:comp": "Section 5.4",
    "sec:exp-syn": "Section 6.2",
    "sec:exp-generation": "Section 6.4",
}


def number_of(label: str) -> str:
    """Return the number that a label has in print; other words stay as they are.

    Examples
    --------
    >>> number_of("tab:cifarC"), number_of("abstract")
    ('Table 3', 'abstract')
    """
    return _NUMBERS.get(label, label)


def numbers_of(labels: Iterable[str]) -> str:
    """Return the numbers of several labels, with commas between them."""
    return ", ".join(map(number_of, labels))
