"""Sources: raw rows (images, text, vectors) in a fixed order, read a batch at a time.

:func:`open_source` opens anything a user can name; what it returns follows the protocol
:class:`Source`. Nothing here holds more than a batch of rows in memory.
"""

from gmmatch.data.checks import check_rows as check_rows
from gmmatch.data.images import BrokenImageError as BrokenImageError
from gmmatch.data.images import load_image as load_image
from gmmatch.data.opening import open_source as open_source
from gmmatch.data.source import Batch as Batch
from gmmatch.data.source import BrokenRowError as BrokenRowError
from gmmatch.data.source import ImageBytes as ImageBytes
from gmmatch.data.source import Source as Source
