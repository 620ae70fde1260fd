"""What tests of several rooms share."""

from __future__ import annotations

from functools import partial

import pytest

from tests.ray_processes import ray_folder, retry


@pytest.fixture(scope="session")
def ray_cluster():
    """Ray on this machine with two cores, started once for all tests that need it."""
    ray = pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
    options = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 200_000_000}
    with ray_folder() as folder:
        start = partial(
            ray.init, "local", log_to_driver=False, logging_level="ERROR", _temp_dir=folder, **options
        )
        retry(start, ray.shutdown)
        yield ray
        ray.shutdown()


@pytest.fixture(scope="session")
def torch():
    """The package, imported before a test begins: that takes longer than a quick test may."""
    return pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
