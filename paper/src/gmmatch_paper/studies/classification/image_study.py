"""What a study on images is: the paper's tables, the cells that recompute them, and what a user may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from gmmatch.errors import InvalidInputError
from gmmatch_paper.studies.classification.figures import draw_accuracy
from gmmatch_paper.studies.classification.tables import study_tables
from gmmatch_paper.studies.image_cells.cell import CODE, MeasureCell, Places
from gmmatch_paper.studies.image_cells.corruptions import ATTACKS, CorruptionSpec
from gmmatch_paper.studies.image_cells.data import BUILT_IN, ImageData
from gmmatch_paper.studies.image_cells.downstream import QUICK, WITHOUT_IMAGES, study_recipe
from gmmatch_paper.studies.image_cells.plan import CHOICES, Plan
from gmmatch_paper.studies.image_cells.proxies import IN_DOMAIN
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Described, Draw, Grid, Part, SizeName, Study, Table

CLIP = "openai/clip-vit-base-patch32"
SIX = ("random", "easy", "hard", "moderate", "herding", "gm-matching")
"""The methods of the paper's figures and of its CLIP table."""
NINE = (
    "random", "herding", "forgetting", "grand", "el2n", "optimization", "self-supervised", "moderate", "gm-matching",
)  # fmt: skip
"""The methods of the paper's other tables."""
CONTROLS = ("gm-matching-authors", "herding-authors", "easy-unit")
"""The authors' variant, and what tells whether its gain is the median's."""
TINY = "zh-plus/tiny-imagenet"


def cells_part(places: Places, data: ImageData) -> Part:
    """Return the cells of a plan as a part that the runner measures."""
    plan, proxy = places.plan, places.plan.proxy

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
            dict.fromkeys(
                (
                    *(WITHOUT_IMAGES[name] for name in plan.downstream if name in WITHOUT_IMAGES),
                    *plan.networks,
                )
            )
        ),
        "recipe": ("", *dict.fromkeys(map(recipe_for, (plan.proxy_network, *plan.networks)))),
        "corruption": plan.corruptions,
        "amount": plan.ratios,
        "method": plan.methods,
    }

    def keep(cell: Mapping[str, Any]) -> bool:
        without_images = cell["network"] in WITHOUT_IMAGES.values()
        if WITHOUT_IMAGES.get(cell["downstream"]) != (cell["network"] if without_images else None):
            return False
        trains = (
            cell["downstream"] == "scratch"
            or proxy.kind == IN_DOMAIN
            or CorruptionSpec.parse(cell["corruption"]).kind in ATTACKS
        )
        network = plan.proxy_network if without_images else cell["network"]
        if cell["encoder"] != encoder_for(network) or cell["recipe"] != (
            recipe_for(network) if trains else ""
        ):
            return False
        # All methods pick the same when they pick everything.
        return bool(cell["amount"] != "100%" or cell["method"] == plan.methods[0])

    grid = Grid(vary, seeds=plan.seeds)
    return Part("cells", MeasureCell(places), quick=grid, full=grid, keep=keep, code=CODE)


PartOf = Callable[[Places, ImageData], Part]


@dataclass(frozen=True, kw_only=True)
class ImageStudy(Described):
    """A study on images.

    Parameters
    ----------
    full, quick
        The paper's cells, and a few on the built-in digits.
    more
        The paper's cells on other data: the rest of its tables.
    lacks
        The choices that it does not take.
    part
        How its cells are made; ``tables``, called with the results and the labels in ``paper``, and ``pictures``
        how they are shown.
    verdict
        What was found, where that is not a margin of GM Matching.
    """

    full: Plan
    quick: Plan
    more: tuple[Plan, ...] = ()
    lacks: tuple[str, ...] = ()
    part: PartOf = cells_part
    tables: Callable[[Results, tuple[str, ...]], list[Table]] = study_tables
    pictures: Mapping[str, Draw] = field(default_factory=lambda: {"": draw_accuracy})
    verdict: Callable[[Results], str] | None = None

    def plan(self, size: SizeName, choices: Mapping[str, Any]) -> Plan:
        """Return the cells to measure: the study's own at a size, with what the user chose."""
        for option in choices:
            if option in self.lacks:
                known = ", ".join("--" + name.replace("_", "-") for name in CHOICES if name not in self.lacks)
                raise InvalidInputError(
                    f"--{option.replace('_', '-')} is not an option of the study {self.name!r}; it takes {known}."
                )
        return (self.full if size == "full" else self.quick).chosen(choices)

    def plans(self, size: SizeName, choices: Mapping[str, Any]) -> list[Plan]:
        """Return the plan and, of all the paper's cells, those on other data unless the user chose the data."""
        more = self.more if size == "full" and "dataset" not in choices else ()
        return [self.plan(size, choices), *(plan.chosen(choices) for plan in more)]

    def as_study(self, places: Places, data: ImageData) -> Study:
        """Return the study in the form that the runner takes."""
        said = {each.name: getattr(self, each.name) for each in fields(Described)}
        return Study(**said, parts=(self.part(places, data),))


def paper_plan(corruptions: tuple[str, ...], ratios: tuple[str, ...], **changes: Any) -> Plan:
    """Return cells of the paper's tables: CIFAR-100, its recipe, a ResNet-50 as proxy and trained on the picks."""
    plan = Plan(
        "uoft-cs/cifar100",
        "in-domain",
        corruptions,
        ratios,
        methods=(*NINE, *CONTROLS),
        networks=("resnet50",),
        recipe="paper",
        proxy_network="resnet50",
    )
    return replace(plan, **changes)


def quick_plan(corruptions: tuple[str, ...], **changes: Any) -> Plan:
    """Return a few cells on the built-in digits."""
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
