"""Preparing rows in processes of their own, for models that are faster than one interpreter.

Threads of one process take turns wherever Python itself is at work, which for small pictures is half
of the time: 16 threads were hardly faster than two. So each preparing thread can have a process that
does its work. They talk through the process's standard input and output: the process ends when its
parent does, however that ends, and a script that uses gmmatch needs no ``if __name__ == "__main__"``.
Arrays come back through memory that both share where the system has it (Linux), else through the pipe.
"""

from __future__ import annotations

import mmap
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from gmmatch.encoders.base import Items
from gmmatch.errors import GMMatchError

_LENGTH = struct.Struct("<Q")
_START = "from gmmatch.encoders.worker import serve; serve"
# Room for 16 pictures of 1,000 by 1,000 pixels; what is not used takes no memory.
_SHARED_BYTES = 1 << 26


class WorkerDiedError(GMMatchError, RuntimeError):
    """A process that prepared rows ended before its work was done."""


class Worker:
    """A process that prepares rows; to be used by one thread."""

    def __init__(self, preparation: Callable[[Items], Items]) -> None:
        package = str(Path(__file__).resolve().parents[2])
        descriptor = _new_shared_memory()
        code = f"import sys; sys.path.insert(0, {package!r}); {_START}({descriptor}, {_SHARED_BYTES})"
        try:
            self._shared = _map(descriptor, _SHARED_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                pass_fds=() if descriptor is None else (descriptor,),
            )
        finally:
            if descriptor is not None:
                os.close(descriptor)
        self._send(preparation)

    def prepare(self, items: Items) -> Items:
        """Let the process prepare items, and wait for it; its exceptions are raised here."""
        self._send(items)
        try:
            sort, *answer = _receive(self._process.stdout)
            if sort == "arrays":
                return self._arrays(*answer)
        except (EOFError, OSError) as error:
            raise self._died() from error
        if sort == "error":
            raise answer[0]
        result: Items = answer[0]
        return result

    def _arrays(self, dtype: Any, shapes: list[tuple[int, ...]], in_shared: bool) -> list[NDArray[Any]]:
        """Fetch arrays that were announced: from the shared memory, or out of the pipe."""
        sizes = [int(np.prod(shape)) for shape in shapes]
        if in_shared and self._shared is not None:
            flat = self._shared[: sum(sizes) * dtype.itemsize].copy().view(dtype)
        else:
            flat = np.empty(sum(sizes), dtype=dtype)
            _read_into(self._process.stdout, flat.view(np.uint8).data)
        ends = np.cumsum(sizes)
        pieces = zip(ends - sizes, ends, shapes, strict=True)
        return [flat[start:end].reshape(shape) for start, end, shape in pieces]

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None and self._process.stdout is not None:
            self._process.stdin.close()
            self._process.stdout.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, thing: object) -> None:
        try:
            _send(self._process.stdin, thing)
        except OSError as error:
            raise self._died() from error

    def _died(self) -> WorkerDiedError:
        self.close()
        code = self._process.returncode
        reason = f"signal {-code}, maybe for lack of memory" if code < 0 else f"exit code {code}"
        return WorkerDiedError(
            f"A process that decodes rows ended early ({reason}): run again with fewer workers."
        )


def serve(descriptor: int | None, n_bytes: int) -> None:
    """Do what the parent process asks for until it closes the pipe; the other side of :class:`Worker`."""
    # Ctrl-C goes to all processes of a terminal; the parent's decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # whatever a library prints must not end up between the answers
    shared = _map(descriptor, n_bytes)
    try:
        preparation = _receive(requests)
        while True:
            items = _receive(requests)
            try:
                result = preparation(items)
            except Exception as error:
                _send(answers, ("error", error))
                continue
            if _are_alike(result):
                _send_arrays(answers, result, shared)
            else:
                _send(answers, ("result", result))
    except (EOFError, OSError):
        pass


def _send_arrays(file: Any, arrays: list[NDArray[Any]], shared: NDArray[np.uint8] | None) -> None:
    pieces = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    n_bytes = sum(len(piece) for piece in pieces)
    if shared is not None and n_bytes <= len(shared):
        np.concatenate(pieces, out=shared[:n_bytes])
        _send(file, ("arrays", arrays[0].dtype, [array.shape for array in arrays], True))
        return
    _send(file, ("arrays", arrays[0].dtype, [array.shape for array in arrays], False))
    for piece in pieces:
        _write_all(file, piece.data)


def _new_shared_memory() -> int | None:
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("gmmatch")
    os.truncate(descriptor, _SHARED_BYTES)
    return descriptor


def _map(descriptor: int | None, n_bytes: int) -> NDArray[np.uint8] | None:
    if descriptor is None:
        return None
    return np.frombuffer(mmap.mmap(descriptor, n_bytes), dtype=np.uint8)


def _are_alike(result: object) -> bool:
    return (
        isinstance(result, list)
        and len(result) > 0
        and all(isinstance(array, np.ndarray) and array.dtype == result[0].dtype for array in result)
        and result[0].dtype.kind in "fiub"
        and all(array.size for array in result)
    )


def _send(file: Any, thing: object) -> None:
    data = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    _write_all(file, memoryview(_LENGTH.pack(len(data)) + data))


def _receive(file: BinaryIO | Any) -> Any:
    header = bytearray(_LENGTH.size)
    _read_into(file, memoryview(header))
    data = bytearray(_LENGTH.unpack(header)[0])
    _read_into(file, memoryview(data))
    return pickle.loads(data)


def _write_all(file: Any, data: memoryview) -> None:
    while data:
        data = data[file.write(data) :]


def _read_into(file: Any, data: memoryview) -> None:
    while data:
        count = file.readinto(data)
        if not count:
            raise EOFError
        data = data[count:]
