"""A bound on the number of mislabeled picks, from a random sample that a person has checked."""

from gmmatch.certificate.sample import CheckSample

__all__ = ["CheckSample"]
