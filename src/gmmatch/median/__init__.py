"""The geometric median: Weiszfeld's iteration, its certificate, weights and kernels."""

from gmmatch.median.result import MedianResult
from gmmatch.median.weiszfeld import geometric_median

__all__ = ["MedianResult", "geometric_median"]
