"""What a study on images is: the paper's tables, the cells that recompute them, and what a user may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from gmmatch.errors import InvalidInputError, unknown_name
from gmmatch_paper.studies.classification.amounts import parse_amount
from gmmatch_paper.studies.classification.cell import (
    CODE,
    MeasureCell,
    Places,
    check_downstream,
)
from gmmatch_paper.studies.classification.corruptions import ATTACKS, CorruptionSpec
from gmmatch_paper.studies.classification.data import BUILT_IN, ImageData
from gmmatch_paper.studies.classification.downstream import LINEAR, QUICK, study_recipe
from gmmatch_paper.studies.classification.picks import study_methods
from gmmatch_paper.studies.classification.proxies import IN_DOMAIN, ProxySpec
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Described, Grid, Part, Picture, SizeName, Study, Table

CLIP = "openai/clip-vit-base-patch32"
SIX = ("random", "easy", "hard", "moderate", "herding", "gm-matching")
"""The methods of the paper's figures and of its CLIP table."""


@dataclass(frozen=True)
class Choices:
    """What a user chose on the command line; None where the study decides."""

    dataset: str | None = None
    label_column: str | None = None
    encoder: str | None = None
    ratios: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    recipe: str | None = None
    downstream: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None
    corruptions: tuple[str, ...] | None = None
    seeds: int | None = None
    image_size: int | None = None
    limit: int | None = None
    test_limit: int | None = None

    def given(self) -> dict[str, Any]:
        """Return what was chosen, by name."""
        return {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if getattr(self, each.name) is not None
        }


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
        ``"probe"``, ``"scratch"`` or both.
    networks
        What is trained from scratch.
    recipe
        ``"fast"``, ``"paper"``, or one by name.
    seeds
        Repetitions.
    proxy_network
        The network of the in-domain proxy and of attacks.
    label_column, image_size, limit, test_limit
        See :func:`~gmmatch_paper.studies.classification.data.load_images`.
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

    def chosen(self, choices: Choices) -> Plan:
        """Return the plan with a user's choices, every one of them checked."""
        given = choices.given()
        if "ratios" in given:
            given["ratios"] = tuple(dict.fromkeys(map(parse_amount, given["ratios"])))
        if "corruptions" in given:
            given["corruptions"] = tuple(CorruptionSpec.parse(text).text for text in given["corruptions"])
        if "downstream" in given:
            given["downstream"] = tuple(map(check_downstream, given["downstream"]))
        if "networks" in given:
            check_networks(given["networks"])
        plan = replace(self, **given)
        proxy = ProxySpec.parse(plan.encoder, plan.proxy_network)
        if proxy.recipe:
            study_recipe(proxy.recipe, proxy.spec, 0)
        return replace(plan, methods=study_methods(plan.methods))


def check_networks(names: tuple[str, ...]) -> None:
    """Raise for a network that there is not."""
    from gmmatch_paper.training.networks import networks

    known = (*networks(), "tiny", "tiny-wide")
    for name in names:
        if name not in known:
            raise unknown_name("--networks", name, known, "there is no such network; there are")


def cells_part(plan: Plan, places: Places, data: ImageData) -> Part:
    """Return the cells of a plan as a part that the runner measures."""
    proxy = ProxySpec.parse(plan.encoder, plan.proxy_network)

    def recipe_for(network: str) -> str:
        return study_recipe(plan.recipe, network, data.image_size)

    def encoder_for(network: str) -> str:
        """Name the proxy, with its own recipe where that is not the recipe of what is trained on the picks."""
        if proxy.kind != IN_DOMAIN or proxy.recipe or recipe_for(proxy.spec) == recipe_for(network):
            return proxy.name
        return f"{proxy.name}:{recipe_for(proxy.spec)}"

    vary = {
        "dataset": (data.name,),
        "data": (data.fingerprint + proxy.fingerprint(),),
        "encoder": tuple(dict.fromkeys(map(encoder_for, (plan.proxy_network, *plan.networks)))),
        "downstream": plan.downstream,
        "network": tuple(
            dict.fromkeys((*(LINEAR for one in plan.downstream if one == "probe"), *plan.networks))
        ),
        "recipe": ("", *dict.fromkeys(map(recipe_for, (plan.proxy_network, *plan.networks)))),
        "corruption": plan.corruptions,
        "amount": plan.ratios,
        "method": plan.methods,
    }

    def keep(cell: Mapping[str, Any]) -> bool:
        if (cell["downstream"] == "probe") != (cell["network"] == LINEAR):
            return False
        trains = (
            cell["downstream"] == "scratch"
            or proxy.kind == IN_DOMAIN
            or CorruptionSpec.parse(cell["corruption"]).kind in ATTACKS
        )
        network = cell["network"] if cell["network"] != LINEAR else plan.proxy_network
        if cell["encoder"] != encoder_for(network) or cell["recipe"] != (
            recipe_for(network) if trains else ""
        ):
            return False
        # All methods pick the same when they pick everything.
        return bool(cell["amount"] != "100%" or cell["method"] == plan.methods[0])

    grid = Grid(vary, seeds=plan.seeds)
    return Part("cells", MeasureCell(places), quick=grid, full=grid, keep=keep, code=CODE)


PartOf = Callable[[Plan, Places, ImageData], Part]


@dataclass(frozen=True, kw_only=True)
class ImageStudy(Described):
    """A study on images.

    Parameters
    ----------
    full, quick
        The paper's cells, and a few on the built-in digits.
    lacks
        The options of :class:`Choices` that it does not take.
    part
        How its cells are made; ``tables`` and ``pictures`` how they are shown.
    verdict
        What was found, where that is not a margin of GM Matching.
    """

    full: Plan
    quick: Plan
    lacks: tuple[str, ...] = ()
    part: PartOf = cells_part
    tables: Callable[[ImageStudy, Results], list[Table]] | None = None
    pictures: tuple[Picture, ...] | None = None
    verdict: Callable[[Results], str] | None = None

    def plan(self, size: SizeName, choices: Choices) -> Plan:
        """Return the cells to measure: the study's own at a size, with what the user chose."""
        for option in choices.given():
            if option in self.lacks:
                names = [each.name for each in fields(Choices) if each.name not in self.lacks]
                known = ", ".join("--" + name.replace("_", "-") for name in names)
                raise InvalidInputError(
                    f"--{option.replace('_', '-')} is not an option of the study {self.name!r}; it takes {known}."
                )
        return (self.full if size == "full" else self.quick).chosen(choices)

    def as_study(self, plan: Plan, places: Places, data: ImageData) -> Study:
        """Return the study in the form that the runner takes."""
        said = {each.name: getattr(self, each.name) for each in fields(Described)}
        return Study(**said, parts=(self.part(plan, places, data),))


def places_of(plan: Plan, *, cache: str, device: str, threads: int) -> Places:
    """Return where the things of a plan are; attacks are made on the in-domain network where one is named."""
    proxy = ProxySpec.parse(plan.encoder, plan.proxy_network)
    return Places(
        dataset=plan.dataset,
        encoder=plan.encoder,
        cache=cache,
        device=device,
        label_column=plan.label_column,
        image_size=plan.image_size,
        limit=plan.limit,
        test_limit=plan.test_limit,
        proxy_network=proxy.spec if proxy.kind == IN_DOMAIN else plan.proxy_network,
        threads=threads,
    )


def quick_plan(corruptions: tuple[str, ...], **changes: Any) -> Plan:
    """Return a few cells on the built-in digits.

    Examples
    --------
    >>> quick_plan(("none",)).dataset
    'digits'
    """
    plan = Plan(
        dataset=BUILT_IN,
        encoder="pixels",
        corruptions=corruptions,
        ratios=("20%",),
        methods=("random", "gm-matching"),
        downstream=("probe",),
        networks=("tiny",),
        recipe=QUICK.name,
        seeds=1,
        proxy_network="tiny",
        limit=400,
        test_limit=200,
    )
    return replace(plan, **changes)


__all__ = [
    "CLIP",
    "SIX",
    "Choices",
    "ImageStudy",
    "Plan",
    "cells_part",
    "places_of",
    "quick_plan",
]
