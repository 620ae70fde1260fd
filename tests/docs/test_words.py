"""Public sentences use the field's words; docs, README, examples, help, messages and docstrings are searched."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .blocks import ROOT, pages

# What to say instead. A pattern is a regular expression that begins and ends at the border of a word.
INSTEAD = {
    r"spoil(s|t|ed|ing)?": "corrupt, corrupted",
    r"(rightly|wrongly) label\w+": "correctly labeled, mislabeled",
    r"(mis|un)?labell(ed|ing)": "labeled, mislabeled",
    r"(?<!to )corrupt (rows?|picks?)": "corrupted rows",
    r"bad rows?": "corrupted rows, mislabeled rows, outliers",
    r"dirty (data|rows)": "noisy data",
    r"made bad|(bad|wrong) on purpose": "corrupted",
    r"heaps?": "groups, duplicates",
    r"(the )?truth about": "ground truth",
    r"of all that is random": "random seed",
    r"(goes|go|went|going) on (where|from there)": "resumes",
    r"(is|are) more than there are": "exceeds the number of",
    r"(is|are) no (class|row|column|method|parameter)s? of": "not found in",
    r"(is|are) no (duplicate|outlier|kernel|class)s?": "is not a",
    r"the one pointed at": "the row under the pointer",
    r"stands? for (all|the whole|it)": "represents",
    r"weeds? out": "removes",
    r"good citizen": "conforms",
    r"warning example": "example",
    r"in earnest": "in practice",
    r"whatever (came|comes) in": "the input",
    r"is itself what": "the thing itself",
    r"give that one": "what to pass",
    r"(a|the) page to look at": "a report",
    r"more rows than one machine should read": "running on a cluster",
    r"one's own": "your own",
    r"and its kin": "and similar methods",
    r"for want of": "without",
    r"borne out": "confirmed",
    r"hold(s|ing)? (them|it) against": "compare with",
    r"as (they|it) likes?": "in any way",
    r"weighs? behind": "weight",
    r"(can|could) live with": "accept",
    r"the laboratory": "gmmatch-paper",
    r"(put|puts|putting) (that|this|it|them)? ?right": "correct",
    r"next to no(thing)?": "almost no",
    r"yardstick": "baseline",
    r"in the midst": "in the middle",
    r"middling": "medium",
    r"(led|lead|leads) astray": "misled",
    r"dragged (along|away)": "moved",
    r"has no opinion": "does not judge",
    r"hand(s|ed)? (it |them )?over": "pass",
    r"in whatever company": "whatever the others are",
    r"learnt": "learned",
    r"anew": "again",
    # American spelling, as in "labeled", "center" and "color", which the field's libraries have in their names.
    r"(colour|neighbour|behaviour|favour)[a-z]*": "color, neighbor, behavior, favor",
    r"cent(re|res|red|ring)": "center",
    r"grey|spelt|\w*metres?": "gray, spelled, meters",
    r"(normal|standard|minim|maxim|optim|regular|recogn|summar|initial|random)is(e|es|ed|ing|ations?)": "-ize",
}
WORDS = {re.compile(rf"\b{pattern}\b", re.IGNORECASE): instead for pattern, instead in INSTEAD.items()}


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings, help texts and messages of a module, each with its line; a word alone is a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def found_in(text: str) -> list[str]:
    joined = " ".join(text.split())
    return [f"{hit[0]!r}: say {instead}" for word, instead in WORDS.items() for hit in word.finditer(joined)]


def public_texts() -> list[Path]:
    modules = [path for folder in ("src", "paper/src", "examples") for path in (ROOT / folder).rglob("*.py")]
    templates = [*(ROOT / "src/gmmatch/report/assets").glob("*.j2")]
    return [*(ROOT / page for page in [*pages(), "CONTRIBUTING.md", "CHANGELOG.md"]), *modules, *templates]


def words_in(path: Path) -> list[str]:
    if path.suffix == ".py":
        return [f"line {line}: {hit}" for line, text in strings_of(path) for hit in found_in(text)]
    return found_in(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")))


def test_public_sentences_use_the_words_of_the_field():
    found = {str(path.relative_to(ROOT)): words_in(path) for path in public_texts()}
    assert {path: hits for path, hits in found.items() if hits} == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "The map of such a page: the digits by class, the picks, and the one pointed at",
        "gmmatch picks the k rows of a dataset that stand for all of it.",
        "More rows than one machine should read",
        "Texts are the warning example: scrambled ones form a tight cluster",
        "See that it is a good citizen",
        "Making data bad on purpose",
        "Of all that is random.",
        "--output picks.parquet is itself what is read",
        "row by row: give that one, or a source in which every id is there once",
        "Labels with what is likely wrong, to put it right",
        "It does not weed out wrong labels: it keeps somewhat fewer than there are, no more.",
        "mean of the rightly labelled",
        "Rows far from the centre of their neighbours",
    ],
)
def test_sentences_that_were_hard_to_read_are_found(sentence):
    assert found_in(sentence)


def test_plain_sentences_are_not_found():
    assert found_in("Mislabeled rows are dropped. The random seed decides which rows are picked.") == []
