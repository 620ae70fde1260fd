"""Which rows may be picked at all, decided from the rows themselves."""

from gmmatch.screening.result import Screening

__all__ = ["Screening"]
