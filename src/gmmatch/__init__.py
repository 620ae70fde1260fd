"""gmmatch picks the examples of a noisy dataset that are worth training on.

Public names are listed in ``__init__.pyi`` and load when they are first used.
"""

import lazy_loader as lazy

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
