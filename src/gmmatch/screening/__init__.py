"""Which rows may be picked at all, decided from the rows themselves."""

from gmmatch.screening.result import Screening
from gmmatch.screening.screens import screen

__all__ = ["Screening", "screen"]
