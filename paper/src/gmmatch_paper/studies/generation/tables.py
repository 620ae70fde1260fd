"""The numbers of the study for its page: statements, distances, corrupted picks."""

from __future__ import annotations

from math import isnan

from gmmatch_paper.studies.classification.tables import NOT_RUN, amount_size, in_order
from gmmatch_paper.studies.generation.blocks import (
    Block,
    blocks_of,
    only,
    rate_of,
    seeds_of,
)
from gmmatch_paper.studies.generation.claims import CLAIMS
from gmmatch_paper.studies.generation.recipes import generation_recipe
from gmmatch_paper.studies.image_cells.corruptions import CorruptionSpec
from gmmatch_paper.studies.labels import number_of
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.study import Table, how_many_agree
from gmmatch_paper.studies.style import METHOD_NAMES


def generation_tables(results: Results, paper: tuple[str, ...] = ()) -> list[Table]:
    """Return all tables: those of the setting with most cells first."""
    tables = []
    for block in blocks_of(results):
        tables.append(claims_table(block))
        tables += [distance_table(block, corruption) for corruption in block.corruptions]
        tables += contamination_table(block)
    return tables


def claims_table(block: Block) -> Table:
    """Return the statements with what the numbers say to them."""
    rows = []
    for claim in CLAIMS:
        found = claim.check(block)
        answer = ["not run", ""] if found is None else [found.word, found.measured]
        rows.append([claim.statement, number_of(claim.source), *answer])
    return Table(
        f"What the paper says, held against the distances below ({_setting(block)}).",
        ("statement", "in the paper", "our numbers", "measured"),
        rows,
    )


def generation_verdict(results: Results) -> str:
    """Return how many of the statements the distances agree with."""
    [block, *_] = blocks_of(results)
    found = [each.agrees for claim in CLAIMS if (each := claim.check(block)) is not None]
    return how_many_agree(found)


def distance_table(block: Block, corruption: str) -> Table:
    """Return the distances under one corruption: method by share kept."""
    cells = block.cells.where(corruption=corruption)
    amounts = sorted(cells.distinct("amount"), key=amount_size)
    methods = cells.distinct("method")
    caption = f"{CorruptionSpec.parse(corruption).words}: Fréchet distance to real digits, less is better."
    heads = ("method", *(f"{amount} kept" for amount in amounts))
    rows = []
    for method in in_order(methods):
        row = [METHOD_NAMES[method]]
        for amount in amounts:
            found = block.spread(corruption, amount, method)
            if found is None:
                row.append(NOT_RUN)
                continue
            text = f"{found.mean:.2f}" + ("" if isnan(found.deviation) else f" ± {found.deviation:.2f}")
            best = min(block.column(corruption, amount).values())
            row.append(f"**{text}**" if found.mean <= best and amount != "100%" else text)
        rows.append(row)
    caption += f" {seeds_of(cells)}; as many real training images have {cells.mean('frechet_real'):.2f}."
    return Table(caption, heads, rows)


def contamination_table(block: Block) -> list[Table]:
    """Return the share of corrupted images among the picks, if any were corrupted."""
    columns = [
        (corruption, amount)
        for corruption in block.corruptions
        if rate_of(corruption) > 0.0
        for amount in block.amounts
        if amount != "100%" and len(block.cells.where(corruption=corruption, amount=amount))
    ]
    if not columns:
        return []
    rows = []
    for method in block.methods:
        found = [block.spread(corruption, amount, method, "contamination") for corruption, amount in columns]
        rows.append(
            [
                METHOD_NAMES.get(method, method),
                *(NOT_RUN if each is None else f"{100 * each.mean:.1f}" for each in found),
            ]
        )
    heads = (f"{100 * rate_of(corruption):g}% corrupted, {amount} kept" for corruption, amount in columns)
    return [Table("Corrupted images among the picks, in percent.", ("method", *heads), rows)]


def _setting(block: Block) -> str:
    setting, cells = block.setting, block.cells
    space = (
        f"features of `{setting.features.partition(':')[0]}`, weights {only(cells, 'features_fingerprint')}"
    )
    accuracies = [cell["features_accuracy"] for cell in cells if cell["features_accuracy"] is not None]
    if accuracies:
        space += f", {100 * min(accuracies):.1f}% of the test images right"
    return (
        f"{setting.dataset}, picked in `{setting.encoder}`; {generation_recipe(setting.recipe).words}; distances in "
        f"{space}"
    )
