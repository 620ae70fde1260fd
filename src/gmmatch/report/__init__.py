"""The report: what a selection picked and what a screening says, as one HTML file that needs no network."""

from gmmatch.report.page import write_report as write_report
