"""The commands are tried on the same small data as those of the library."""

from tests.cli.conftest import gmmatch, photos, refused, store, succeeds, vectors  # noqa: F401
