"""Loading a model without chatter, with one line for whatever goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from gmmatch.encoders.base import first_line, missing_package
from gmmatch.errors import GMMatchError, InvalidInputError, MissingDependencyError


@contextmanager
def explained(name: str, what: str, package: str, extra: str) -> Iterator[None]:
    """Silence ``transformers`` while a model is loaded, and turn its errors into gmmatch's.

    Parameters
    ----------
    name
        The encoder as the user named it.
    what
        What it is loaded as.
    package, extra
        What must be installed for that, and the extra of gmmatch that brings it.

    Examples
    --------
    >>> with explained("m", "a model", "no_such_package", "text"):
    ...     pass
    Traceback (most recent call last):
    gmmatch.errors.MissingDependencyError: Loading a model needs no-such-package, which is not installed: ...
    """
    try:
        import_module(package)
        logging: Any = import_module("transformers.utils.logging")
    except ImportError as error:
        raise missing_package(f"Loading {what}", package.replace("_", "-"), extra) from error
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except (GMMatchError, MemoryError):
        raise
    except ImportError as error:
        raise MissingDependencyError(
            f"encoder={name!r} needs a package that is not installed: {first_line(error)}."
        ) from error
    except Exception as error:  # a folder can be damaged in any way
        raise InvalidInputError(
            f"encoder={name!r} cannot be loaded as {what}: {first_line(error)}."
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
