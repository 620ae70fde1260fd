"""One model of what is wrong with the data: duplicates, rows far out, rows of no class, label noise."""

from gmmatch.screening.result import Screening

__all__ = ["Screening"]
