"""What cells share: computed once, kept on disk under the hash of everything it depends on."""

from __future__ import annotations

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from gmmatch.files import replacing

Arrays: TypeAlias = dict[str, NDArray[Any]]

# Arrays of the last few entries stay in memory: cells that follow each other mostly share them.
_KEPT = 3


class Cache:
    """A folder of arrays by what made them.

    Several processes can use it at once: what one of them computes, the others wait for.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._memory: OrderedDict[Path, Arrays] = OrderedDict()

    def get(self, kind: str, key: Mapping[str, Any], make: Callable[[], Arrays]) -> Arrays:
        """Return the arrays of a key, made by ``make`` if they are not there yet."""
        path = self.path(kind, key)
        if path in self._memory:
            self._memory.move_to_end(path)
            return self._memory[path]
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(path.with_suffix(".lock")):  # it ends with the process that holds it
                if not path.exists():  # another process may have made it in the meantime
                    _write(path, make(), key)
        with np.load(path, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        self._memory[path] = arrays
        while len(self._memory) > _KEPT:
            self._memory.popitem(last=False)
        return arrays

    def path(self, kind: str, key: Mapping[str, Any]) -> Path:
        """Return the file of a key."""
        text = json.dumps(key, sort_keys=True)
        return self.folder / kind / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.npz"


def _write(path: Path, arrays: Arrays, key: Mapping[str, Any]) -> None:
    with replacing(path) as [temporary], temporary.open("xb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]
        # Beside it, what it is, for whoever looks into the folder.
        path.with_suffix(".json").write_text(json.dumps(key, sort_keys=True, indent=1), encoding="utf-8")
