"""The machine and the libraries a result was measured with; no names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_LIBRARIES = ("gmmatch", "numpy", "numba", "scikit-learn", "coreax", "jax", "geom-median")


def describe() -> dict[str, Any]:
    """Return the processor, its cores, the memory and the versions of everything involved."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_gib": round(_memory_bytes() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "libraries": {name: installed_version(name) for name in _LIBRARIES},
        # Well above zero before a benchmark starts means that others were using the machine.
        "load_before": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def installed_version(name: str) -> str:
    """Return a library's version, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def as_text(machine: dict[str, Any]) -> str:
    """Return the description in two lines."""
    libraries = ", ".join(f"{name} {number}" for name, number in machine["libraries"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load before the start {machine['load_before']}\nPython {machine['python']}, {libraries}"
    )


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu_model() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        fields = dict(
            (part.strip() for part in line.split(":", 1))
            for line in reversed(information.read_text().splitlines())
            if ":" in line
        )
        family = f"family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
        # Of two machines with one model of processor, one may hide its widest instructions.
        widest = next(
            (name for name in ("avx512_vnni", "avx512f", "avx2") if name in fields.get("flags", "")), ""
        )
        return f"{fields.get('model name', 'unknown')} ({family}{widest and f', {widest}'})"
    return platform.processor() or "unknown"


def _memory_bytes() -> int:
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 0
