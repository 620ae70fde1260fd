"""Greedy matching of a target moment, and its strategies."""
