"""The report: what a selection picked, how good it is and what it left out, as one HTML file.

The page needs no network: its style, its script, its data and its pictures are inside it.
"""

from gmmatch.report.page import write_comparison, write_report

__all__ = ["write_comparison", "write_report"]
