"""Whether a path is a store."""

from __future__ import annotations

import json
from pathlib import Path


def is_store(path: str | Path) -> bool:
    """Tell whether a path is a store, even if its manifest cannot be read.

    Examples
    --------
    >>> is_store("nowhere.emb")
    False
    """
    manifest = Path(path) / "manifest.json"
    if not manifest.is_file():
        return False
    try:
        document = json.loads(manifest.read_bytes())
    except (OSError, ValueError, RecursionError):
        return True
    return isinstance(document, dict) and document.get("format") == "gmmatch-embeddings"
