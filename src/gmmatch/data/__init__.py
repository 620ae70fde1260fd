"""Sources: raw rows (images, text, vectors) in a fixed order, read a batch at a time.

:func:`open_source` opens anything a user can name; what it returns follows the protocol
:class:`Source`. Nothing here holds more than a batch of rows in memory.
"""

from gmmatch.data.checks import check_rows
from gmmatch.data.images import BrokenImageError, load_image
from gmmatch.data.opening import open_source
from gmmatch.data.source import Batch, BrokenRowError, ImageBytes, Source

__all__ = [
    "Batch",
    "BrokenImageError",
    "BrokenRowError",
    "ImageBytes",
    "Source",
    "check_rows",
    "load_image",
    "open_source",
]
