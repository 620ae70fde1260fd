"""Moments to match: one point that represents a group of rows."""

from gmmatch.targets.moments import (
    CoordinateMedianTarget,
    GeometricMedianTarget,
    MeanTarget,
    Moment,
    Target,
    resolve_target,
)
from gmmatch.targets.reference import Reference

__all__ = [
    "CoordinateMedianTarget",
    "GeometricMedianTarget",
    "MeanTarget",
    "Moment",
    "Reference",
    "Target",
    "resolve_target",
]
