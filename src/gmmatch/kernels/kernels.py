"""Kernels: how alike two rows are, and so the space in which moments are matched.

Each kernel is a small immutable object. Calling it on two blocks of rows gives their kernel matrix in
float64; :func:`row_means` gives the means of a matrix that would be too large to hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError, unknown_name
from gmmatch.kernels.distances import ScaledRows, median_distance, typical_row
from gmmatch.kernels.means import row_means
from gmmatch.rows.checks import check_number, check_whole_number
from gmmatch.types import Matrix, RandomState, Vector

__all__ = ["RBF", "Kernel", "KernelSpec", "Laplacian", "Linear", "Polynomial", "resolve_kernel", "row_means"]

Gram: TypeAlias = NDArray[np.float64]
"""Kernel values, one row per left row and one column per right row."""

Self = TypeVar("Self", bound="_KernelBase")
Scaled = TypeVar("Scaled", bound="_BandwidthKernel")

Bandwidth: TypeAlias = "float | Literal['median']"
"""A length in the units of the data, or the median distance between its rows."""


@runtime_checkable
class Kernel(Protocol):
    """What every kernel k(x, y) = ⟨φ(x), φ(y)⟩ offers; implement it to write your own.

    Examples
    --------
    >>> isinstance(Linear(), Kernel)
    True
    """

    @property
    def name(self) -> str:
        """The name :func:`resolve_kernel` knows it by."""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that JSON can hold, enough to build the kernel again."""

    @property
    def is_linear(self) -> bool:
        """Whether k(x, y) = ⟨x, y⟩, so that sums over rows have a shortcut."""

    @property
    def is_translation_invariant(self) -> bool:
        """Whether k(x + t, y + t) = k(x, y)."""

    def fit(self, X: Any, random_state: RandomState = 0) -> Kernel:
        """Return a kernel whose data-dependent parameters are numbers; itself when it has none."""

    def diagonal(self, A: Matrix) -> Vector:
        """Return k(x, x) for every row."""

    def __call__(self, A: Matrix, B: Matrix, out: Gram | None = None) -> Gram:
        """Return the float64 matrix of k(aᵢ, bⱼ), written to ``out`` when that is given."""


KernelSpec: TypeAlias = "Kernel | str | tuple[str, Mapping[str, Any]]"
"""What :func:`resolve_kernel` understands."""


class _KernelBase:
    """The members that most kernels share."""

    @property
    def params(self) -> dict[str, Any]:
        """Parameters that JSON can hold."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    @property
    def is_linear(self) -> bool:
        """Whether k(x, y) = ⟨x, y⟩."""
        return False

    def fit(self: Self, X: Any, random_state: RandomState = 0) -> Self:
        """Return a kernel whose parameters are numbers: itself, where nothing depends on the data."""
        return self


@dataclass(frozen=True)
class Linear(_KernelBase):
    """The inner product k(x, y) = ⟨x, y⟩: matching in the space the rows are in.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[11.,  2.]])
    """

    name: ClassVar[str] = "linear"
    is_translation_invariant: ClassVar[bool] = False

    @property
    def is_linear(self) -> bool:
        """Always true."""
        return True

    def diagonal(self, A: Matrix) -> Vector:
        """Return ‖x‖² for every row."""
        rows = _wide(A, "A")
        squares: Vector = np.einsum("ij,ij->i", rows, rows)
        return squares

    def __call__(self, A: Matrix, B: Matrix, out: Gram | None = None) -> Gram:
        """Return the matrix of ⟨aᵢ, bⱼ⟩."""
        left, right = _pair(A, B)
        return np.matmul(left, right.T, out=out)


@dataclass(frozen=True)
class Polynomial(_KernelBase):
    """The polynomial kernel k(x, y) = (⟨x, y⟩ + c)^degree.

    It matches every moment of the rows up to ``degree``; the paper's study of noisy Gaussians uses
    degrees 1, 3, 5 and 10 with c = 1. High degrees magnify far rows, so scale the data first.

    Parameters
    ----------
    degree : int
        The highest moment to match, at least 1.
    c : float
        Weight of the lower moments, at least 0 (otherwise it is not a kernel).

    Examples
    --------
    >>> Polynomial(degree=3)([[1.0, 2.0]], [[3.0, 4.0], [0.0, 1.0]])
    array([[1728.,   27.]])
    """

    degree: int = 3
    c: float = 1.0

    name: ClassVar[str] = "polynomial"
    is_translation_invariant: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole_number(self.degree, "degree")
        check_number(self.c, "c")
        # Plain numbers, so that the parameters can be written as JSON.
        object.__setattr__(self, "degree", int(self.degree))
        object.__setattr__(self, "c", float(self.c))

    @property
    def is_linear(self) -> bool:
        """Whether it is the inner product in disguise."""
        return self.degree == 1 and self.c == 0.0

    def diagonal(self, A: Matrix) -> Vector:
        """Return (‖x‖² + c)^degree for every row."""
        products = Linear().diagonal(A)
        products += self.c
        return _power_in_place(products, self.degree)

    def __call__(self, A: Matrix, B: Matrix, out: Gram | None = None) -> Gram:
        """Return the matrix of (⟨aᵢ, bⱼ⟩ + c)^degree."""
        products = Linear()(A, B, out)
        products += self.c
        return _power_in_place(products, self.degree)


@dataclass(frozen=True)
class _BandwidthKernel(_KernelBase):
    """A kernel that falls from 1 to 0 with distance, over a length that may come from the data."""

    bandwidth: Bandwidth = "median"

    is_translation_invariant: ClassVar[bool] = True
    _metric: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str) and self.bandwidth == "median":
            return
        if isinstance(self.bandwidth, str):
            raise InvalidInputError(
                f"bandwidth={self.bandwidth!r}: expected a number, or 'median' for the median distance of rows."
            )
        check_number(self.bandwidth, "bandwidth", above_zero=True)
        object.__setattr__(self, "bandwidth", float(self.bandwidth))

    @property
    def scale(self) -> float:
        """The bandwidth as a number; an error before :meth:`fit` when it is "median"."""
        if isinstance(self.bandwidth, str):
            raise InvalidInputError(
                f"bandwidth='median' has no value yet: call kernel = {type(self).__name__}().fit(X) first, "
                "or give a number."
            )
        return self.bandwidth

    def diagonal(self, A: Matrix) -> Vector:
        """Return 1 for every row."""
        return np.ones(len(_wide(A, "A")))

    def fit(self: Scaled, X: Any, random_state: RandomState = 0) -> Scaled:
        """Return the kernel with a number for its bandwidth."""
        if not isinstance(self.bandwidth, str):
            return self
        return replace(self, bandwidth=median_distance(X, self._metric, random_state))


@dataclass(frozen=True)
class RBF(_BandwidthKernel):
    """The Gaussian kernel k(x, y) = exp(−‖x − y‖² / (2h²)).

    It is characteristic: matching means in its space matches whole distributions (Gretton et al., A
    kernel two-sample test, JMLR 2012, which is also where the median bandwidth comes from).

    Parameters
    ----------
    bandwidth : float or "median"
        The length h. "median" becomes the median distance between rows when :meth:`fit` is called.

    Examples
    --------
    >>> RBF(bandwidth=1.0)([[0.0], [1.0]], [[0.0]]).round(4)
    array([[1.    ],
           [0.6065]])
    >>> RBF().fit([[0.0], [1.0], [3.0]])
    RBF(bandwidth=2.0)
    """

    name: ClassVar[str] = "rbf"
    _metric: ClassVar[str] = "euclidean"

    @classmethod
    def from_gamma(cls, gamma: float) -> RBF:
        """Return exp(−γ‖x − y‖²), scikit-learn's way to write it (γ = 1 / (2h²)).

        Examples
        --------
        >>> RBF.from_gamma(0.5)
        RBF(bandwidth=1.0)
        """
        check_number(gamma, "gamma", above_zero=True)
        return cls(bandwidth=float(np.sqrt(0.5 / gamma)))

    def prepared(self, A: Matrix, centre: Vector) -> ScaledRows:
        """Return rows in the form in which they are compared; what is compared must have the same center."""
        return ScaledRows(_wide(A, "A"), centre, self.scale)

    def __call__(self, A: Matrix | ScaledRows, B: Matrix | ScaledRows, out: Gram | None = None) -> Gram:
        """Return the matrix of exp(−‖aᵢ − bⱼ‖² / (2h²)); rows may be prepared."""
        if not (isinstance(A, ScaledRows) and isinstance(B, ScaledRows)):
            left, right = _pair(A, B)
            centre = typical_row(right)
            A, B = self.prepared(left, centre), self.prepared(right, centre)
        exponents = A.exponents(B, out)
        return np.exp(exponents, out=exponents)


@dataclass(frozen=True)
class Laplacian(_BandwidthKernel):
    """The Laplacian kernel k(x, y) = exp(−‖x − y‖₁ / h), with the L1 distance.

    Characteristic like :class:`RBF`, with heavier tails: rows at a medium distance still count. The L1
    distance is the convention of scikit-learn and coreax; there is no matrix product behind it, so it
    is several times slower than :class:`RBF`.

    Parameters
    ----------
    bandwidth : float or "median"
        The length h. "median" becomes the median L1 distance between rows when :meth:`fit` is called.

    Examples
    --------
    >>> Laplacian(bandwidth=2.0)([[0.0, 0.0]], [[1.0, 1.0]]).round(4)
    array([[0.3679]])
    """

    name: ClassVar[str] = "laplacian"
    _metric: ClassVar[str] = "cityblock"

    def __call__(self, A: Matrix, B: Matrix, out: Gram | None = None) -> Gram:
        """Return the matrix of exp(−‖aᵢ − bⱼ‖₁ / h)."""
        from scipy.spatial.distance import cdist

        scale = self.scale
        left, right = _pair(A, B)
        exponents: Gram = cdist(left, right, "cityblock", out=out)
        with np.errstate(over="ignore"):  # exp(-∞) is 0
            exponents *= -1.0 / max(
                scale, 1e-300
            )  # of a smaller one the inverse would be ∞, and 0 · ∞ is no number
        return np.exp(exponents, out=exponents)


_KERNELS: dict[str, type[Linear | Polynomial | RBF | Laplacian]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "poly": Polynomial,
    "rbf": RBF,
    "gaussian": RBF,
    "laplacian": Laplacian,
}


def resolve_kernel(spec: KernelSpec) -> Kernel:
    """Return the kernel that ``spec`` stands for.

    Parameters
    ----------
    spec : Kernel, str, or (str, dict)
        A kernel; or "linear", "polynomial" (or "poly"), "rbf" (or "gaussian"), "laplacian"; or such a
        name with its parameters. ``resolve_kernel((kernel.name, kernel.params))`` gives a kernel back.

    Examples
    --------
    >>> resolve_kernel("rbf")
    RBF(bandwidth='median')
    >>> resolve_kernel(("polynomial", {"degree": 5}))
    Polynomial(degree=5, c=1.0)
    """
    if isinstance(spec, type):
        raise InvalidTypeError(f"kernel={spec.__name__} is a class; give an instance: {spec.__name__}().")
    if isinstance(spec, Kernel):
        return spec
    # JSON gives lists where tuples went in.
    name, params = spec if isinstance(spec, (tuple, list)) and len(spec) == 2 else (spec, {})
    if not isinstance(name, str) or not isinstance(params, Mapping):
        raise InvalidTypeError(
            f"kernel={spec!r}: expected a kernel, a name such as 'rbf', or a pair such as "
            "('polynomial', {'degree': 5})."
        )
    kind = _KERNELS.get(name.lower())
    if kind is None:
        raise unknown_name("kernel", name, _KERNELS, "there is no such kernel; there are")
    known = [field.name for field in dataclasses.fields(kind)]
    unknown = sorted(set(params) - set(known))
    if unknown:
        allowed = ", ".join(known) or "none at all"
        raise InvalidInputError(f"kernel {name!r} has no parameter {unknown[0]!r}; it takes {allowed}.")
    return kind(**params)


def _wide(A: Matrix, name: str) -> Gram:
    """Return a block of rows as C-ordered float64."""
    array = np.asarray(A)
    if array.ndim != 2:
        raise InvalidInputError(
            f"{name} must be two-dimensional (rows by features); got shape {array.shape}."
        )
    return np.ascontiguousarray(array, dtype=np.float64)


def _pair(A: Any, B: Any) -> tuple[Gram, Gram]:
    left, right = _wide(A, "A"), _wide(B, "B")
    if left.shape[1] != right.shape[1]:
        raise InvalidInputError(
            f"A has {left.shape[1]} columns and B has {right.shape[1]}; both must hold the same features."
        )
    return left, right


def _power_in_place(values: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """Raise to a whole power by repeated squaring, many times faster than ``values ** exponent``."""
    bits = bin(exponent)[3:]
    base = values.copy() if "1" in bits else values
    for bit in bits:
        values *= values
        if bit == "1":
            values *= base
    return values
