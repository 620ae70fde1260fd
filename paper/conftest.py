"""What the tests and the examples of gmmatch-paper share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _import_slow_modules() -> None:
    """Load what takes seconds when it is first used, so that no single test has to pay for it."""
    import matplotlib.pyplot  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.cluster  # noqa: F401
    from threadpoolctl import threadpool_limits

    # Threads that wait for each other take processor time, most of all where tests run side by side.
    threadpool_limits(1)
    import torch

    torch.set_num_threads(1)
    # The first optimizer loads the compiler.
    model = torch.nn.Linear(2, 2)
    torch.optim.SGD(model.parameters(), lr=0.1).step()
