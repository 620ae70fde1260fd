"""Whether Triton's kernels run on a device: asked once, and answered by running one.

Triton compiles when a kernel is first used, its launcher with a C compiler: that it is installed says little.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from gmmatch.errors import GMMatchWarning
from gmmatch.rows.checks import warn_caller

_INSTALL = "install Triton in the version that your torch was made for (torch for CUDA on Linux brings it)"
_REPAIR = (
    "install a C compiler, for example gcc, and Python's headers, or set the environment variable CC to the path of "
    "one; where there is one, install Triton in the version that your torch was made for"
)


class TritonWarning(GMMatchWarning):
    """Triton's kernels do not run on a device; plain torch operations do their work, more slowly."""


def triton_works(device: Any) -> bool:
    """Return whether kernels of Triton compile and run on a device; warn once where they do not.

    The answer is found once per process. Kernels that Triton keeps on disk need no compiler: where one was taken
    away, what was used before runs, this trial too, and only something new fails.

    Examples
    --------
    Triton has no kernels for a CPU:

    >>> import warnings, torch
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     triton_works(torch.device("cpu"))
    False
    """
    failure = _failure_on(device)
    if failure is not None:
        _warn_of(*failure)
    return failure is None


_compiled: set[tuple[Any, ...]] = set()


def compile_together(data: Any, key: tuple[Any, ...], launches: list[Callable[[], None]]) -> None:
    """Make launches that each compile a kernel side by side, on the device of a tensor, once for each key.

    Triton compiles a kernel when it is first used, for a second or so, most of it in passes and programs that leave
    the interpreter to others.

    Examples
    --------
    >>> import torch
    >>> made = []
    >>> for _ in range(2):
    ...     compile_together(torch.zeros(1), ("an example",), [lambda: made.append(1), lambda: made.append(2)])
    >>> sorted(made)
    [1, 2]
    """
    if key in _compiled:
        return
    import torch

    def work(launch: Callable[[], None]) -> None:
        with torch.cuda.device_of(data):  # does nothing for a tensor of the CPU
            launch()

    def wait() -> None:  # threads have streams of their own, which know nothing of each other's work
        if data.is_cuda:
            torch.cuda.synchronize(data.device)

    wait()
    with ThreadPoolExecutor(len(launches)) as pool:
        for done in [pool.submit(work, launch) for launch in launches]:
            done.result()
    wait()
    _compiled.add(key)


@cache
def _failure_on(device: Any) -> tuple[str, str] | None:
    """Return why a trivial kernel does not run, and what would be right; None where it runs."""
    import torch

    # Outside of the trial: what fails here, be it an earlier error of the device, is not Triton's.
    numbers = torch.arange(16, dtype=torch.float32, device=device)
    expected = [2.0 * number for number in numbers.tolist()]
    try:
        _double(numbers)
        found = numbers.tolist()
    except Exception as error:  # compilers, drivers and caches on disk fail in many ways
        missing = isinstance(error, ModuleNotFoundError) and error.name == "triton"
        reason = textwrap.shorten(f"{type(error).__name__}: {error}".rstrip(": ."), 300)
        return reason, _INSTALL if missing else _REPAIR
    return None if found == expected else ("a kernel that doubles numbers did not", _REPAIR)


def _double(numbers: Any) -> None:
    import torch

    from gmmatch.backends.cuda.picks_triton import double

    with torch.cuda.device_of(numbers):  # Triton launches on the current device
        double[(1,)](numbers, COUNT=len(numbers))


# By its text, so that many devices with one reason give one warning. A warning that is made an error is not
# remembered, and stops every use.
@cache
def _warn_of(reason: str, remedy: str) -> None:
    warn_caller(
        TritonWarning(
            f"Triton's kernels do not run here ({reason}). Plain torch operations take their place, and the CPU for "
            f"matching in a kernel's space: slower, with the same results up to rounding. For the kernels, {remedy}."
        )
    )
