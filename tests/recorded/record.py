"""Record the picks of every case in ``picks.json``, or check them: ``python -m tests.recorded.record --check``."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

PICKS = Path(__file__).with_name("picks.json")


@dataclass(frozen=True)
class Case:
    """A call in an empty folder that returns row numbers; ``needs`` names what it cannot do without."""

    name: str
    call: Callable[[Path], Any]
    needs: tuple[str, ...] = ()

    def record(self, folder: Path) -> dict[str, Any]:
        """Make the call and describe its row numbers as the JSON file does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            order = np.ascontiguousarray(self.call(folder), dtype="<i8")
        digest = hashlib.sha256(order.tobytes()).hexdigest()
        return {"hash": digest, "first": order[:5].tolist(), "k": len(order)}

    def lacks(self) -> str | None:
        """Return what the case needs and this machine does not have."""
        for need in self.needs:
            if need == "cuda":
                import torch

                if not torch.cuda.is_available():
                    return "a CUDA device"
            elif find_spec(need) is None:
                return need
        return None


def read() -> dict[str, dict[str, Any]]:
    """Return what is recorded."""
    recorded: dict[str, dict[str, Any]] = json.loads(PICKS.read_text(encoding="utf-8"))
    return recorded


def main() -> int:
    """Record or check, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if picks differ")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose name has this in it")
    asked = parser.parse_args()
    from tests.recorded.cases import CASES

    recorded, changed = read(), 0
    for name, case in CASES.items():
        if asked.only not in name:
            continue
        if lacking := case.lacks():
            print(f"left out, needs {lacking}: {name}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            now, then = case.record(Path(folder)), recorded.get(name)
        if now != then:
            changed += 1
            print(f"{name}: {then} is now {now}")
        recorded[name] = now
    print(f"{changed} cases differ from what was recorded.")
    if not asked.check:
        # In the order of the cases; what is no case any more goes.
        lines = [f"{json.dumps(name)}: {json.dumps(recorded[name])}" for name in CASES if name in recorded]
        PICKS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return int(asked.check and changed > 0)


if __name__ == "__main__":
    sys.exit(main())
