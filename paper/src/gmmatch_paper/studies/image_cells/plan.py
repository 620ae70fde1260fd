"""Which cells a study on images measures: the study's own, and what a user chose in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gmmatch.errors import InvalidInputError, unknown_name
from gmmatch_paper.studies.image_cells.amounts import parse_amount
from gmmatch_paper.studies.image_cells.corruptions import SEVERITIES, CorruptionSpec, at_severity
from gmmatch_paper.studies.image_cells.data import ImageData, load_images
from gmmatch_paper.studies.image_cells.downstream import WITHOUT_IMAGES, study_recipe
from gmmatch_paper.studies.image_cells.picks import study_methods
from gmmatch_paper.studies.image_cells.proxies import IN_DOMAIN, ProxySpec

CHOICES = (
    "dataset", "label_column", "encoder", "ratios", "methods", "recipe", "downstream", "networks", "corruptions",
    "seeds", "image_size", "limit", "test_limit", "severity", "best_epoch",
)  # fmt: skip
"""The fields of a plan that are options of the command line."""


@dataclass(frozen=True)
class Plan:
    """The cells of a study: all combinations.

    Parameters
    ----------
    dataset, encoder
        Names, or paths.
    corruptions, ratios, methods
        What varies; no methods means all of the registry.
    downstream
        ``"probe"``, ``"head"`` (a small network on the proxy's features), ``"scratch"``, or several.
    networks
        What is trained from scratch.
    recipe
        ``"fast"``, ``"paper"``, or one by name.
    seeds
        Repetitions.
    proxy_network
        The network of the in-domain proxy if the encoder names none, and of attacks on other proxies.
    label_column, image_size, limit, test_limit
        See :func:`~gmmatch_paper.studies.image_cells.data.load_images`.
    severity
        What ``image:20%`` means: ``"xia"``, the settings of Xia et al. (2023), or ``"mild"``.
    best_epoch
        Also measure the best epoch's accuracy on the test images, which reference repositories report.
    """

    dataset: str
    encoder: str
    corruptions: tuple[str, ...]
    ratios: tuple[str, ...] = ("20%",)
    methods: tuple[str, ...] = ()
    downstream: tuple[str, ...] = ("scratch",)
    networks: tuple[str, ...] = ("resnet18",)
    recipe: str = "fast"
    seeds: int = 5
    proxy_network: str = "resnet18"
    label_column: str | None = None
    image_size: int | None = None
    limit: int | None = None
    test_limit: int | None = None
    severity: str = "xia"
    best_epoch: bool = False

    @property
    def proxy(self) -> ProxySpec:
        """What methods pick in."""
        return ProxySpec.parse(self.encoder, self.proxy_network)

    @property
    def attacked(self) -> str:
        """The network that attacks are made on: the in-domain one where there is one."""
        return self.proxy.spec if self.proxy.kind == IN_DOMAIN else self.proxy_network

    def load(self) -> ImageData:
        """Return the images."""
        return load_images(
            self.dataset,
            label_column=self.label_column,
            image_size=self.image_size,
            limit=self.limit,
            test_limit=self.test_limit,
        )

    def chosen(self, choices: Mapping[str, Any]) -> Plan:
        """Return the plan with a user's choices, by the names of ``CHOICES``, every one of them checked."""
        given = dict(choices)
        if "ratios" in given:
            given["ratios"] = tuple(dict.fromkeys(map(parse_amount, given["ratios"])))
        if "corruptions" in given:
            given["corruptions"] = tuple(CorruptionSpec.parse(text).text for text in given["corruptions"])
        for name in given.get("downstream", ()):
            if name not in (*WITHOUT_IMAGES, "scratch"):
                raise InvalidInputError(f"--downstream {name}: expected probe, head or scratch.")
        check_networks(given.get("networks", ()))
        plan = replace(self, **given)
        if plan.severity not in SEVERITIES:
            raise InvalidInputError(f"--severity {plan.severity}: expected {' or '.join(SEVERITIES)}.")
        severe = tuple(at_severity(text, plan.severity) for text in plan.corruptions)
        plan = replace(plan, corruptions=severe)
        plan.proxy.check()
        if plan.proxy.recipe:
            study_recipe(plan.proxy.recipe, plan.proxy.spec, 0)
        return replace(plan, methods=study_methods(plan.methods))


def check_networks(names: tuple[str, ...]) -> None:
    """Raise for a network that there is not."""
    from gmmatch_paper.training.networks import networks

    known = (*networks(), "tiny", "tiny-wide")
    for name in names:
        if name not in known:
            raise unknown_name("networks", name, known, "there is no such network; there are")
