"""Commands that this package adds to ``gmmatch``: ``corrupt`` and ``reproduce``."""
