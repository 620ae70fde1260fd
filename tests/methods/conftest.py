"""Which methods can be treated alike."""

from __future__ import annotations

ROW_BASED = ("gm-matching", "random", "easy", "hard", "moderate", "herding", "kernel-herding", "matching")
RUNNABLE = ("robust", *ROW_BASED)
