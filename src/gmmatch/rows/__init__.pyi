from .base import GreedyTask as GreedyTask
from .base import LocalRows as LocalRows
from .base import RowMap as RowMap
from .base import Rows as Rows
from .open import open_rows as open_rows
