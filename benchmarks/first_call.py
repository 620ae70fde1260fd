"""What a fresh process pays: imports, the first call and the second, printed as JSON.

Run by other benchmarks as ``python -m benchmarks.first_call gmmatch-herding 10000 64 1000``.
"""

from __future__ import annotations

import json
import sys
import time

_STARTED = time.perf_counter()


def main(arguments: list[str]) -> dict[str, float]:
    """Time the calls of one side."""
    from benchmarks import data

    side, n, s, k = arguments[0], *map(int, arguments[1:4])
    X = data.isotropic(n, s)
    ready = time.perf_counter()
    if side == "median":
        from gmmatch import geometric_median

        def call() -> object:
            return geometric_median(X)
    else:
        from benchmarks import herding_sides

        make = herding_sides.gmmatch_side if side == "gmmatch-herding" else herding_sides.coreax_side
        call = make(X, k, data.typical_distance(s))
    imported = time.perf_counter()
    call()
    first = time.perf_counter()
    call()
    return {
        "imports_s": imported - ready,
        "first_s": first - imported,
        "second_s": time.perf_counter() - first,
        "numpy_and_data_s": ready - _STARTED,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
