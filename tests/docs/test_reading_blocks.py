"""Blocks are read wherever a page may have them, and a block that does not do what the page says is noticed."""

from __future__ import annotations

import pytest

from .blocks import Block, read_blocks
from .running import check_output, run_block
from .shell import (
    Command,
    Shell,
    check_arguments,
    check_module_options,
    check_requirement,
    commands_of,
    takes_long,
    unknown_programs,
)

PAGE = """
```python
print(1)
```

```text
1
```

Then:

- in a list

  ```sh
  gmmatch methods  # all of them
  ```

<!-- not run: needs a CUDA device -->
```python
X.cuda()
```

````{note}
```python
inside = True
```
````

```{code-block} python
:linenos:

directive = True
```

```{figure} x.png
```

```text
a diagram → of something
```
"""


def block(text: str, language: str = "python", **more) -> Block:
    return Block("page.md", 1, language, text, **more)


def test_blocks_are_read_in_lists_and_directives_with_their_outputs_and_reasons():
    blocks = list(read_blocks(PAGE))
    assert [(block.language, block.reason, block.output) for block in blocks] == [
        ("python", None, "1\n"),
        ("sh", None, None),
        ("python", "needs a CUDA device", None),
        ("python", None, None),
        ("python", None, None),
        ("text", None, None),
    ]
    assert [block.text for block in blocks[3:5]] == ["inside = True\n", "directive = True\n"]


def test_the_line_of_a_block_is_its_first():
    lines = PAGE.splitlines()
    first_lines = {block.line: block.text for block in read_blocks(PAGE)}
    for line, text in list(first_lines.items())[:4]:
        assert lines[line - 1].strip() == text.splitlines()[0]


def test_commands_have_no_comments_and_know_their_outputs():
    text = "$ gmmatch methods  # which\neasy\nhard\n$ ls \\\n  -l\n"
    assert commands_of(block(text, "console")) == [
        Command(["gmmatch", "methods"], "gmmatch methods  # which", "easy\nhard\n"),
        Command(["ls", "-l"], "ls  -l", None),
    ]
    first, last = commands_of(block("mkdir a\n\n# so\nls\n", "sh", output="a\n"))
    assert first.output is None and (last.words, last.output) == (["ls"], "a\n")
    assert unknown_programs(block("source → embeddings\n", "")) == ["source"]


def test_names_last_from_block_to_block_and_sessions_are_compared(monkeypatch):
    names: dict = {}
    shell = Shell(monkeypatch)
    run_block(block("two = 2"), names, shell)
    run_block(block(">>> three = two + 1\n>>> three\n3\n", "pycon"), names, shell)
    assert names["three"] == 3
    with pytest.raises(AssertionError, match="Expected"):
        run_block(block(">>> two\n3\n"), names, shell)


def test_an_output_that_is_not_what_is_printed_is_noticed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shell = Shell(monkeypatch)
    run_block(block("print(1,   2)", output="1 2\n"), {}, shell)
    with pytest.raises(AssertionError, match="is said to print"):
        run_block(block("print(1)", output="2\n"), {}, shell)
    with pytest.raises(AssertionError, match="is said to print"):
        run_block(block("$ echo one\ntwo\n", "console"), {}, shell)
    check_output("page", "in ... seconds\n", "in 1.3 seconds\n")


def test_errors_have_the_line_of_the_page(monkeypatch):
    with pytest.raises(NameError) as caught:
        run_block(Block("page.md", 40, "python", "x = 1\nundefined\n"), {}, Shell(monkeypatch))
    assert caught.traceback[-1].lineno + 1 == 41


def test_a_command_that_fails_is_noticed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shell = Shell(monkeypatch)
    for text in ("gmmatch select nothing.npy -k 3 -o picks.parquet", "ls nothing", "make no-such-target"):
        with pytest.raises(AssertionError):
            run_block(block(text, "sh"), {}, shell)


@pytest.mark.parametrize(
    "line",
    [
        "reproduce noisy-gaussian --ful",
        "reproduce no-such-study --full",
        "select x.npy -k 3",
        "select x.npy -k 3 -o y.parquet --per-class sometimes",
        "no-such-command",
    ],
)
def test_words_that_the_command_line_does_not_know_are_noticed(line):
    with pytest.raises(Exception, match=r"no-such|--ful|Missing|sometimes"):
        check_arguments(line.split())


def test_only_the_full_studies_are_not_run():
    assert takes_long(["reproduce", "bounds", "--full"])
    assert not takes_long(["reproduce", "bounds"])
    assert not takes_long(["reproduce", "label-noise", "--dry-run"])


def test_extras_and_options_of_modules_are_looked_up():
    check_requirement(["install", ".[report,torch]"])
    with pytest.raises(AssertionError, match="no extras"):
        check_requirement(["install", "gmmatch[grahpics]"])
    check_module_options("benchmarks.store_selection", ["--gigabytes", "5"])
    with pytest.raises(AssertionError, match="--gigabites"):
        check_module_options("benchmarks.store_selection", ["--gigabites", "5"])
