"""Rows of a matrix, wherever they are: in memory, in files, on a device, or with the workers of a Ray cluster.

Names load when they are first used: compiled code, which most of them need, takes long to import.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
