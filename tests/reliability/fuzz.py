"""Fuzzed calls in processes whose death is noticed: ``python -m tests.reliability.fuzz --calls 100000``.

A worker process makes calls in the order of their numbers, and says what came of each. If it dies, or says nothing
for three minutes, the next call is a failure, and another worker goes on with the one after. ``--only NUMBER`` makes
one call again.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.reliability.counts import parser_of, report

HANGS_AFTER = 180.0  # seconds; on a busy machine the first call may have much to compile
_ROOT = Path(__file__).parents[2]
_COMMAND = [sys.executable, "-m", "tests.reliability.fuzz", "--work"]


def judged(number: int) -> dict[str, Any]:
    """Make a call in this process; return its outcome, and what is wrong if something is."""
    from tests.reliability.fuzz_calls import make_call
    from tests.reliability.fuzz_oracle import BrokenPromiseError, outcome_of

    call = make_call(number)
    about = {
        "method": call.method if isinstance(call.method, str) else repr(call.method),
        "layout": call.layout,
    }
    try:
        return {"outcome": outcome_of(call), **about}
    except BrokenPromiseError as failure:
        return {"outcome": "failed", "why": str(failure), "call": repr(call)[:600], **about}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        why = f"foreign error: {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        return {"outcome": "failed", "why": why, "call": repr(call)[:600], **about}


def work(first: int, stop: int) -> None:
    """Make calls one after another, and say so: what a worker process does."""
    for number in range(first, stop):
        print(json.dumps({"end": number, **judged(number)}), flush=True)


def run_calls(first: int, stop: int) -> Iterator[dict[str, Any]]:
    """Yield what came of every call, made by worker processes that are replaced when they die or hang."""
    while first < stop:
        command = [*_COMMAND, str(first), str(stop)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=_ROOT) as worker:
            for said in _lines(worker):
                yield said
                first = said["end"] + 1
            if first < stop:
                hung = worker.poll() is None
                worker.kill()
                why = (
                    f"no answer for {HANGS_AFTER:.0f} s"
                    if hung
                    else f"the process died, exit status {worker.wait()}"
                )
                yield {"end": first, "outcome": "failed", "why": why, "method": "", "layout": ""}
                first += 1


def _lines(worker: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Yield what a worker says until it ends, or says nothing for too long."""
    assert worker.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        rest = b""
        while selector.select(HANGS_AFTER):
            data = os.read(worker.stdout.fileno(), 1 << 16)
            if not data:
                worker.wait()
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line.startswith(b"{"):
                    yield json.loads(line)


def summary(results: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return the counts, and every failure with the command that repeats it."""
    words = Counter(one["outcome"].partition(":")[0] for one in results)
    failures = [
        {"repeat": f"python -m tests.reliability.fuzz --only {one['end']}", "why": one["why"][:300]}
        for one in results
        if one["outcome"] == "failed"
    ]
    refused = Counter(
        one["outcome"].partition(": ")[2] for one in results if one["outcome"].startswith("refused")
    )
    return {
        "calls": len(results),
        "seconds": round(seconds),
        "outcomes": dict(words.most_common()),
        "methods": dict(
            Counter(one["method"] for one in results if one["outcome"] != "rejected").most_common()
        ),
        "layouts": dict(Counter(one["layout"] for one in results).most_common()),
        "combinations_refused": dict(refused.most_common()),
        "failures": failures[:100],
    }


def main() -> None:
    """Run as a command."""
    parser = parser_of("fuzz", __doc__)
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first call")
    parser.add_argument("--only", type=int, help="make this call alone, and show its traceback")
    parser.add_argument("--work", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        return work(*options.work)
    if options.only is not None:
        from tests.reliability.fuzz_calls import make_call
        from tests.reliability.fuzz_oracle import outcome_of

        print(call := make_call(options.only))
        print(outcome_of(call))
        return None
    begun, results = time.monotonic(), []
    for one in run_calls(options.first, options.first + options.calls):
        results.append(one)
        if one["outcome"] == "failed":
            print(f"call {one['end']}: {one['why'][:300]}", file=sys.stderr, flush=True)
    counts = summary(results, time.monotonic() - begun)
    report(counts, options.json)
    sys.exit(counts["outcomes"].get("failed", 0) > 0)


if __name__ == "__main__":
    main()
