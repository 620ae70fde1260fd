"""Public sentences use the field's words: docs, README, examples, help, messages and docstrings are searched."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from .blocks import ROOT, pages

# What to say instead. A pattern is a regular expression that begins and ends at the border of a word.
INSTEAD = {
    r"spoil(?:s|t|ed|ing)?": "corrupt, corrupted",
    r"(?:rightly|wrongly) label\w+|(?:mis|un)?labell(?:ed|ing)": "correctly labeled, mislabeled",
    r"bad rows?|dirty (?:data|rows)|made bad|(?:bad|wrong) on purpose": "corrupted rows, outliers, noisy data",
    r"heaps?": "groups, duplicates",
    r"of all that is random": "random seed",
    r"(?:is|are) no (?:class|row|column|method|parameter)s? of": "not found in",
    r"stands? for (?:all|the whole|it)|weeds? out": "represents, removes",
    r"yardstick": "baseline",
    r"learnt|anew": "learned, again",
    # American spelling, as the field's libraries have it in their names.
    r"(?:colour|neighbour|behaviour|favour)[a-z]*|cent(?:re|res|red|ring)|grey": "color, neighbor, center, gray",
    r"(?:normal|standard|minim|maxim|optim|regular|recogn|summar|initial)is(?:e|es|ed|ing|ations?)": "-ize",
}
# Result pages keep the words of what was measured.
RESULTS = re.compile(r"docs/(results-|studies/|choose|methods/index)")
CODE = [ROOT / "src/gmmatch", ROOT / "paper/src/gmmatch_paper", ROOT / "examples"]


@cache
def sentences(path: Path) -> str:
    """What a file says: of a module its docstrings, help texts and messages; a word alone is a name."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return " ".join(re.sub(r"<[^>]+>", " ", text).split())
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return " ".join(" ".join(one for one in strings if isinstance(one, str) and " " in one).split())


@pytest.mark.parametrize("pattern", INSTEAD)
def test_the_words_of_the_field_are_used(pattern):
    written = [ROOT / "CONTRIBUTING.md", *(ROOT / page for page in pages() if not RESULTS.match(page))]
    files = written + [path for folder in CODE for path in folder.rglob("*") if path.suffix in (".py", ".j2")]
    word = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    found = {str(path.relative_to(ROOT)): word.findall(sentences(path)) for path in files}
    assert {name: words for name, words in found.items() if words} == {}, f"say {INSTEAD[pattern]}"
