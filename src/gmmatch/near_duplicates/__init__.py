"""Rows that are copies of others, or nearly so: within one set of rows, or in another."""

from gmmatch.near_duplicates.result import Duplicates

__all__ = ["Duplicates"]
