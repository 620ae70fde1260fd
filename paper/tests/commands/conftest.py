"""The commands are tried as those of gmmatch are."""

from tests.cli.conftest import gmmatch, photos, refused, succeeds, vectors  # noqa: F401
