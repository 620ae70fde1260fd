"""The counts on the page of promises, from committed results, and the tests that it and SECURITY.md name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from docs.scripts.results import DOCS, ROOT, load
from tests.reliability.counts import harness_version

RESULTS = "tests/reliability/results"


def _load(found: dict[str, Any]) -> str:
    notes, gained = found["notes"], found["gained"]
    return (
        f"{found['rounds']:,} rounds of `embed`, `select` and `update` in {found['minutes']:.0f} minutes. "
        f"Between the second quarter and the last one, memory grew by {gained['megabytes']:.1f} of "
        f"{notes[-1]['megabytes']:.0f} MB, open files by {gained['files']:.0f} and threads by {gained['threads']:.0f}"
    )


def _kills(found: dict[str, Any]) -> str:
    commands = sorted({name.partition(",")[0] for name in found["commands"]})
    return (
        f"{found['killed_at_random']:,} kills at random moments, and {found['killed_at_a_step']:,} at every step on "
        f"the disk, of {', '.join(f'`{name}`' for name in commands)}"
    )


def _disks(found: dict[str, Any]) -> str:
    return (
        f"{found['full']} runs on a full disk, {found['read_only']} on a read-only one, {found['forbidden']} in a "
        f"forbidden folder, {found['removed']} whose folder was removed meanwhile, {found['slow']} on a slow disk"
    )


def _damaged(found: dict[str, Any]) -> str:
    results = found["damaged_results"]
    return (
        f"{found['damaged']:,} files of a store truncated, removed or with one bit flipped: "
        f"{results['refused by info --verify']:,} found by `info --verify` and {results['refused by select']:,} by "
        f"`select`, which did not need the other {results['not read by select']:,} and picked the same"
    )


def _workers(found: dict[str, Any]) -> str:
    return (
        f"{found['deaths']:,} workers killed in {found['selections']} selections by {len(found['by_method'])} "
        f"methods, in {len(found['by_function'])} kinds of calls, and a node removed"
    )


def _dead(found: dict[str, Any]) -> str:
    return (
        f"an error {found['all_dead_error_seconds']:.0f} s after the last machine was gone; no worker "
        f"{found['workers_gone_after_interrupted_driver_seconds']:.1f} s after its driver was interrupted, or "
        f"{found['workers_gone_after_killed_driver_seconds']:.1f} s after it was killed"
    )


def _fuzz(found: dict[str, Any]) -> str:
    return (
        f"{found['inputs']:,} inputs of {len(found['cases'])} kinds: {found['read']:,} read, {found['refused']:,} "
        f"refused in one sentence, {found['failed']:,} with any other end"
    )


def _counted(module: str, options: str, say: Callable[[dict[str, Any]], str]) -> str:
    """Return a line with a count, the command that made it, and with which versions it was run."""
    path = f"{RESULTS}/{module}.json"
    found = load(path)
    by = f"gmmatch {found['version']}" if "version" in found else "gmmatch 0.2"
    if found.get("harness") != harness_version(module):
        by += " and an earlier version of the command"
    return f"Counted by `python -m tests.reliability.{module}{options}` with {by}: {say(found)} (`{path}`)."


COUNTS: Mapping[str, Callable[[], str]] = {
    "load": partial(_counted, "load", " --minutes 30", _load),
    "fuzz": partial(_counted, "fuzz", " --inputs 100000", _fuzz),
    "kills": partial(_counted, "kills", " --kills 500", _kills),
    "disks": partial(_counted, "disks", " --damages 2000", _disks),
    "damaged": partial(_counted, "disks", " --damages 2000", _damaged),
    "workers": partial(_counted, "cluster", " --deaths 100", _workers),
    "dead": partial(_counted, "cluster", " --deaths 100", _dead),
}


def missing() -> list[str]:
    """Return the tests that the pages name and that are not there, and the statements that name none."""
    pages = [path.read_text(encoding="utf-8") for path in (DOCS / "promises.md", ROOT / "SECURITY.md")]
    named = [test for page in pages for test in re.findall(r"([\w/]+\.py)::(\w+)", page)]
    statements = re.findall(r"^- (.*?)(?=^- |^$|\Z)", pages[1], re.MULTILINE | re.DOTALL)
    unproved = [statement for statement in statements if "::" not in statement]
    return [f"{file}::{name}" for file, name in named if not _is_there(file, name)] + unproved


def _is_there(file: str, name: str) -> bool:
    path = ROOT / "tests" / file
    return path.is_file() and f"def {name}(" in path.read_text(encoding="utf-8")
