"""A second thread for work of some microseconds: a leader announces steps, helpers take parts of them.

Waking a thread takes longer than such a step, so helpers wait by looking at a word in memory. The leader never
depends on them: it takes the parts that nobody has claimed when its own is done, and does again what takes a helper
too long. So a thread that the system starts late, or stops to let others work, costs little.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

# Words are a cache line apart: the step that is worked on, then for each part the step for which it was last claimed,
# and the one for which it was last finished.
_LINE = 8
# Announced when there is nothing more to do.
LAST_STEP = 1 << 62
# How often a helper looks for the next step before it lets others have its core (some microseconds), and before it
# leaves (about a second). How often a leader looks for a helper's results.
_SPINS, _MOST_LOOKS, _PATIENCE = 20_000, 1_000_000, 20_000


def _word(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


@intrinsic
def _load(typing: Any, words: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_word(context, builder, signature, arguments), "acquire", 8)

    return types.int64(words, place), generate


@intrinsic
def _store(typing: Any, words: Any, place: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word(context, builder, signature, arguments)
        builder.store_atomic(arguments[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(words, place, types.int64), generate


@intrinsic
def _replace(typing: Any, words: Any, place: Any, expected: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _word(context, builder, signature, arguments)
        done = builder.cmpxchg(pointer, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(done, 1)

    return types.boolean(words, place, types.int64, types.int64), generate


@intrinsic
def _give_way(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        name = "SwitchToThread" if os.name == "nt" else "sched_yield"
        signature = ir.FunctionType(ir.IntType(32), [])
        return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), [])

    return types.int32(), generate


def new_words(parts: int) -> NDArray[np.int64]:
    """Return the words by which a leader and those who help with some parts of its work understand each other."""
    return np.zeros((2 * parts + 1) * _LINE, dtype=np.int64)


@njit(nogil=True, cache=True, boundscheck=False)
def announce(words: NDArray[np.int64], step: int) -> None:
    """Say that the parts of a step can be worked on."""
    _store(words, 0, step)


@njit(nogil=True, cache=True, boundscheck=False)
def await_step(words: NDArray[np.int64], after: int) -> int:
    """Return the first step that is announced after another; the last one if nothing is announced for long."""
    for look in range(_MOST_LOOKS):
        step = int(_load(words, 0))
        if step > after:
            return step
        if look > _SPINS:
            _give_way()
    return LAST_STEP


@njit(nogil=True, cache=True, boundscheck=False)
def claim(words: NDArray[np.int64], part: int, step: int) -> bool:
    """Return whether the caller is the one to work on a part at this step."""
    place = (2 * part + 1) * _LINE
    last = _load(words, place)
    return bool(last < step and _replace(words, place, last, step))


@njit(nogil=True, cache=True, boundscheck=False)
def finish(words: NDArray[np.int64], part: int, step: int) -> None:
    """Say that the results of a part are there."""
    _store(words, (2 * part + 2) * _LINE, step)


@njit(nogil=True, cache=True, boundscheck=False)
def finished(words: NDArray[np.int64], part: int, step: int) -> bool:
    """Wait until a part is finished; return False if that takes too long."""
    looks = 0
    while looks < _PATIENCE and _load(words, (2 * part + 2) * _LINE) != step:
        looks += 1
    return looks < _PATIENCE
