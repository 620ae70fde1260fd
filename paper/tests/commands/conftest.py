"""The commands are tried on the same small data as those of the library."""

from tests.cli.conftest import (  # noqa: F401
    gmmatch,
    photos,
    refused,
    small_disk,
    succeeds,
    texts,
    vectors,
)
