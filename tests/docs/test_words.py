"""Public sentences use the field's words; docs, README, examples, help, messages and docstrings are searched."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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
# Also avoided in pages, README and examples, where nothing but plain words will do.
IN_PAGES = {
    r"beside": "next to, with, compared with; besides",
    r"(very |so |too )?far out": "outlier, far from the others",
    r"(is|are|be) told (that|what|which|from)": "knows, is passed, differs from",
    r"(lie|lies|stand|stands) apart": "is separate, is far from the others",
    r"(can|cannot|could|could not) be told": "is known, can be distinguished",
    r"moment.matching": "matching",
    r"local engine|engine local": "without an engine",
}
# Result pages keep the words of what was measured; studies are written by gmmatch-paper.
_RESULTS = re.compile(r"docs/(results-|studies/|choose|methods/index)")


def _compile(words: dict[str, str]) -> re.Pattern[str]:
    """One pattern for all words, each a group of its own: searching once is much faster."""
    groups = (f"(?P<w{number}>{_without_groups(pattern)})" for number, pattern in enumerate(words))
    return re.compile(rf"\b(?:{'|'.join(groups)})\b", re.IGNORECASE)


def _without_groups(pattern: str) -> str:
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


WORDS, PAGE_WORDS = _compile(INSTEAD), _compile({**INSTEAD, **IN_PAGES})
SAY = [*INSTEAD.values(), *IN_PAGES.values()]


def strings_of(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings, help texts and messages of a module, each with its line; a word alone is a name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def search(text: str, words: re.Pattern[str] = WORDS) -> list[str]:
    """The words of a text to avoid, each with what to say instead."""
    hits = words.finditer(" ".join(text.split()))
    return [f"{hit[0]!r}: say {SAY[int(str(hit.lastgroup)[1:])]}" for hit in hits]


def search_file(path: Path, words: re.Pattern[str] = WORDS) -> list[str]:
    if path.suffix == ".py":
        return [f"line {line}: {hit}" for line, text in strings_of(path) for hit in search(text, words)]
    return search(re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8")), words)


def search_files(paths: Iterable[Path], words: re.Pattern[str] = WORDS) -> dict[str, list[str]]:
    hits = {str(path.relative_to(ROOT)): search_file(path, words) for path in paths}
    return {name: lines for name, lines in hits.items() if lines}


def test_pages_and_examples_use_the_words_of_the_field():
    written = [ROOT / page for page in pages()]
    plain = [path for path in written if not _RESULTS.match(path.relative_to(ROOT).as_posix())]
    assert search_files([*plain, *(ROOT / "examples").glob("*.py")], PAGE_WORDS) == {}
    others = [path for path in written if path not in plain]
    assert search_files([*others, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]) == {}


@pytest.mark.parametrize(
    "folder", ["src/gmmatch", "paper/src/gmmatch_paper/studies", "paper/src/gmmatch_paper"]
)
def test_docstrings_help_and_messages_use_the_words_of_the_field(folder):
    studies = ROOT / "paper/src/gmmatch_paper/studies"
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".j2")]
    assert (
        search_files(path for path in files if folder.endswith("studies") or studies not in path.parents)
        == {}
    )


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
        "300 rows far out, and a file beside the output",
    ],
)
def test_sentences_that_were_hard_to_read_are_noticed(sentence):
    assert search(sentence, PAGE_WORDS)


def test_plain_sentences_are_not_noticed():
    sentence = "Mislabeled rows are dropped. The random seed decides which rows are picked."
    assert search(sentence, PAGE_WORDS) == []


def test_the_advice_belongs_to_the_word():
    assert search("Rows far from the centre", PAGE_WORDS) == ["'centre': say center"]
    assert search("a file beside the output", PAGE_WORDS)[0].startswith("'beside': say next to")
