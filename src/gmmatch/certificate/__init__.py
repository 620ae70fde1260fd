"""How many picks are mislabeled at most, by the answers of a person about a random sample of them."""

from gmmatch.certificate.sample import CheckSample

__all__ = ["CheckSample"]
