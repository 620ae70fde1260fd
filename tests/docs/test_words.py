"""Public sentences use the field's words: docs, README, examples, help, messages and docstrings are searched for others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .blocks import ROOT, pages

# What to say instead. A pattern is a regular expression that begins and ends at the border of a word.
INSTEAD = {
    r"spoil\w*": "corrupt, corrupted",
    r"(rightly|wrongly) label\w*": "correctly labeled, mislabeled",
    r"(mis)?labell\w*": "labeled, mislabeled",
    r"bad rows?": "corrupted rows, outliers",
    r"heaps?": "duplicates, groups",
    r"(the )?truth about": "ground truth",
    r"of all that is random": "random seed",
    r"(goes|go|went|going) on where": "resumes",
    r"(is|are) more than there are": "exceeds the number of",
    r"(is|are) no (class|rows?|columns?|methods?|parameters?|numbers?|folders?|files?|programs?) of": "not found in",
    r"on purpose": "synthetic",
    r"pointed at": "under the pointer",
    r"stands? for all": "represents",
    r"weeds? out": "removes",
    r"good citizen": "conforms",
    r"warning example": "example",
    r"in earnest": "in practice",
    r"as ever": "as before",
    r"whatever (came|comes) in": "the input",
    r"is itself what": "say what it is",
    r"give that one": "say what to pass",
    r"(a|the) page to look at": "report",
    r"more rows than one machine should read": "running on a cluster",
    r"bring (it|them) along": "include",
    r"one's own": "your own",
    r"of (their|its) own kin": "similar",
    r"kin": "similar methods",
    r"for want of": "without",
    r"borne out": "confirmed",
    r"hold\w* (them|it) against": "compare",
    r"as (he|they|it) likes?": "in any way",
    r"whatever (they|it) likes?": "in any way",
    r"dirty (data|rows)": "noisy data",
    r"weigh\w* behind": "weight",
    r"live with": "accept",
    r"laboratory": "gmmatch-paper",
    r"put right": "correct",
    r"next to no(thing)?": "little",
    r"yardstick": "baseline",
    r"farther on": "later",
    r"in the midst": "among",
    r"dragged( along)?": "moved",
    r"how bad": "corrupted",
    r"made bad": "corrupted",
    r"telling(s)? apart": "distinguish",
    r"no opinion": "does not judge",
    r"hand(s|ed)? (it |them )?over": "pass",
    r"begin\w* to end": "all",
    r"is what is": "say what it is",
    r"what is what": "say what it is",
    r"the other way round": "the reverse",
    r"learnt": "learned",
    r"anew": "again",
}
WORDS = {re.compile(rf"\b{pattern}\b", re.IGNORECASE): instead for pattern, instead in INSTEAD.items()}


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings, help texts and messages of a module, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
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
    return found_in(path.read_text(encoding="utf-8"))


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
        "is itself what is read",
    ],
)
def test_sentences_that_were_hard_to_read_are_found(sentence):
    assert found_in(sentence)


def test_plain_sentences_are_not_found():
    assert found_in("Mislabeled rows are dropped. The random seed decides which rows are picked.") == []
