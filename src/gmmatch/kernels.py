"""Kernels: the space in which moments are matched.

A kernel stands for features, k(x, y) = ⟨φ(x), φ(y)⟩. With explicit features (:class:`RandomFeatures`,
:class:`Nystroem`) matching in its space is linear matching of mapped rows, on every backend. The kernel itself is
matched by its Gram matrix, for classes of up to 5,000 rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from gmmatch._array import Matrix, Vector, array_namespace, asarray_like, is_numpy_array, sample_indices
from gmmatch._checks import check_number, check_whole_number
from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.problem import Problem
from gmmatch.rows.base import RowMap

# Rows that a bandwidth is estimated from: half a million pairs give the median distance to well under one percent.
_BANDWIDTH_ROWS = 1000
# Rows whose coordinate-wise median is the origin of features: only differences count, and near 0 they keep digits.
_CENTER_ROWS = 31
# Phases farther out than this are arbitrary, but float32 holds them.
_LARGEST_PHASE = 1e30
# Squared lengths above this, in bandwidths, could lose more than about 1e-10 of an exponent to cancellation.
_CANCELLING = 1e5
# Eigenvalues below this share of the largest are rounding, and dividing by them would magnify it.
_LEAST_EIGENVALUE = 1e-10


@runtime_checkable
class Kernel(Protocol):
    """What every kernel offers; implement it to write your own."""

    bounded: ClassVar[bool]
    """Whether k(x, x) is the same for all rows, so that no row is far from the others in its space."""

    def fit(self, blocks: list[Matrix]) -> Kernel:
        """Return the kernel with numbers for what depends on the data: some rows of each group, in float64."""
        ...

    def gram(self, A: Any, B: Any) -> Any:
        """Return k(a, b) of all pairs of rows of two float64 blocks, shape (len(A), len(B))."""
        ...


@runtime_checkable
class FeatureMap(Protocol):
    """What maps rows to explicit features of a kernel, as an option of every matching."""

    def fit(self, problem: Problem) -> RowMap:
        """Return the map of rows for a problem."""
        ...


@dataclass(frozen=True)
class Polynomial:
    """The polynomial kernel k(x, y) = (⟨x, y⟩ + c)^degree, which matches all moments up to ``degree``.

    The paper's study of noisy Gaussians uses degrees 1, 3, 5 and 10 with c = 1. High degrees magnify far rows, so
    scale the data first.

    Parameters
    ----------
    degree : int
    c : float
        Weight of the lower moments, at least 0.

    Examples
    --------
    >>> Polynomial(degree=3).gram(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[1728.,   27.]])
    """

    degree: int = 3
    c: float = 1.0

    bounded: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole_number(self.degree, "degree")
        check_number(self.c, "c")

    def fit(self, blocks: list[Matrix]) -> Polynomial:
        """Return the kernel itself: nothing depends on the data."""
        return self

    def gram(self, A: Any, B: Any) -> Any:
        """Return (⟨a, b⟩ + c)^degree of all pairs."""
        return (A @ B.T + self.c) ** self.degree


Self = TypeVar("Self", bound="_DistanceKernel")


@dataclass(frozen=True)
class _DistanceKernel:
    """A kernel that falls from 1 to 0 with distance, over a length that may come from the data."""

    bandwidth: float | str = "median"

    bounded: ClassVar[bool] = True
    metric: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.bandwidth, str) and self.bandwidth != "median":
            raise InvalidInputError(
                f"bandwidth={self.bandwidth!r}: expected a number, or 'median' for the median distance of rows."
            )
        if not isinstance(self.bandwidth, str):
            check_number(self.bandwidth, "bandwidth", above_zero=True)

    def fit(self: Self, blocks: list[Matrix]) -> Self:
        """Return the kernel with the median distance between rows of the same group as its bandwidth.

        What sets groups apart is not to be matched. Where more than half of the pairs are copies, the mean of the
        other distances stands in; where all rows are equal, 1.
        """
        if not isinstance(self.bandwidth, str):
            return self
        from scipy.spatial.distance import pdist

        share = max(2, _BANDWIDTH_ROWS // max(1, len(blocks)))
        samples = [block[sample_indices(len(block), share)] for block in blocks if len(block) > 1]
        distances = np.concatenate([np.zeros(0), *(pdist(sample, self.metric) for sample in samples)])
        median = float(np.median(distances)) if len(distances) else 0.0
        if not median and distances.any():
            median = float(distances[distances > 0.0].mean())
        return replace(self, bandwidth=median or 1.0)

    @property
    def scale(self) -> float:
        """The bandwidth as a number."""
        if isinstance(self.bandwidth, str):
            raise InvalidInputError("bandwidth='median' has no value yet: give one, or let a method fit it.")
        return float(self.bandwidth)


@dataclass(frozen=True)
class RBF(_DistanceKernel):
    """The Gaussian kernel k(x, y) = exp(−‖x − y‖² / 2h²).

    It is characteristic: matching means in its space matches whole distributions (Gretton et al., A kernel two-sample
    test, JMLR 2012, which is also where the median bandwidth comes from).

    Parameters
    ----------
    bandwidth : float or "median"
        The length h; "median" becomes the median distance between rows of the same group.

    Examples
    --------
    >>> RBF(bandwidth=1.0).gram(np.array([[0.0], [1.0]]), np.array([[0.0]])).round(4)
    array([[1.    ],
           [0.6065]])
    """

    metric: ClassVar[str] = "euclidean"

    def gram(self, A: Any, B: Any) -> Any:
        """Return exp(−‖a − b‖² / 2h²) of all pairs."""
        xp = array_namespace(A)
        # From a row in the middle, and in bandwidths: little cancels in the difference of squares.
        center = typical_row(B)
        left, right = ((rows - center) / max(self.scale, 1e-300) for rows in (A, B))
        with np.errstate(over="ignore", invalid="ignore"):
            half_squares = [0.5 * xp.sum(rows**2, axis=1) for rows in (left, right)]
            cancels = len(A) and len(B) and not 2.0 * sum(map(xp.max, half_squares)) <= _CANCELLING
            if cancels and is_numpy_array(A):
                # Squares that dwarf the distances cancel, or overflow: take the differences themselves.
                from scipy.spatial.distance import cdist

                return np.exp(-0.5 * cdist(left, right, "sqeuclidean"))
            # The squares are two more columns of the product: each further pass over a matrix of this size, and new
            # memory for it, takes longer than the numbers in it.
            ones = [xp.ones_like(squares) for squares in half_squares]
            left = xp.concat([left, xp.stack([-half_squares[0], ones[0]], axis=1)], axis=1)
            right = xp.concat([right, xp.stack([ones[1], -half_squares[1]], axis=1)], axis=1)
            exponents = left @ right.T
            if not is_numpy_array(A):
                return xp.exp(xp.clip(exponents, max=0.0))
            return np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)


@dataclass(frozen=True)
class Laplacian(_DistanceKernel):
    """The Laplacian kernel k(x, y) = exp(−‖x − y‖₁ / h), with heavier tails than :class:`RBF`.

    The L1 distance is the convention of scikit-learn and coreax; there is no matrix product behind it, so it is
    several times slower.

    Parameters
    ----------
    bandwidth : float or "median"
        The length h; "median" becomes the median L1 distance between rows of the same group.

    Examples
    --------
    >>> Laplacian(bandwidth=2.0).gram(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(4)
    array([[0.3679]])
    """

    metric: ClassVar[str] = "cityblock"

    def gram(self, A: Any, B: Any) -> Any:
        """Return exp(−‖a − b‖₁ / h) of all pairs."""
        xp = array_namespace(A)
        if is_numpy_array(A):
            from scipy.spatial.distance import cdist

            distances = cdist(A, B, "cityblock")
        else:
            distances = xp.cdist(A, B, p=1.0)
        with np.errstate(over="ignore"):
            return xp.exp(-distances / max(self.scale, 1e-300))


def _sample_groups(problem: Problem) -> list[Matrix]:
    """Return some rows of each group that count; of the reference where that alone is followed."""
    if problem.reference is not None and problem.reference.weight == 1.0:
        problem = problem.reference.problem
    groups = problem.groups.split(problem.weights > 0.0)
    share = max(2, _BANDWIDTH_ROWS // len(groups))
    samples = [rows[sample_indices(len(rows), share)] for rows in groups]
    values = problem.rows.take(np.concatenate(samples))
    return np.split(values, np.cumsum([len(sample) for sample in samples])[:-1])


def typical_row(rows: Any) -> Any:
    """Return a point in the middle of most rows.

    The coordinate-wise median of a few, which no far row can drag away.
    """
    xp = array_namespace(rows)
    sample = xp.sort(rows[:: max(1, len(rows) // _CENTER_ROWS)][:_CENTER_ROWS], axis=0)
    return 0.5 * (sample[(len(sample) - 1) // 2] + sample[len(sample) // 2])


@dataclass(frozen=True)
class RandomFeatures:
    """Random Fourier features of a kernel, as ``kernel=RandomFeatures(RBF(), 512)``.

    Every mapped row has length 1, and the product of two mapped rows is the kernel on average, with a standard
    deviation of at most n_components^(−1/2).

    Parameters
    ----------
    kernel : RBF or Laplacian
    n_components : int
        Number of features, even: a cosine and a sine for each random frequency.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> Herding(k=4, kernel=RandomFeatures(RBF(), 64), random_state=0).select(X).k
    4
    """

    kernel: RBF | Laplacian = RBF()
    n_components: int = 512

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, (RBF, Laplacian)):
            raise InvalidTypeError(
                f"kernel={self.kernel!r}: random features exist for RBF and Laplacian; use Nystroem for others."
            )
        check_whole_number(self.n_components, "n_components", 2)
        if self.n_components % 2:
            raise InvalidInputError(
                f"n_components={self.n_components}: features come in pairs of cosine and sine; give an even number."
            )

    def fit(self, problem: Problem) -> FourierMap:
        """Draw the frequencies: Gaussian for RBF, Cauchy for Laplacian, by Bochner's theorem."""
        random = np.random.default_rng(problem.seed)
        draw = random.standard_normal if isinstance(self.kernel, RBF) else random.standard_cauchy
        frequencies = draw((problem.rows.n_features, self.n_components // 2))
        center = typical_row(problem.rows.take(sample_indices(len(problem.rows), _CENTER_ROWS)))
        return FourierMap(frequencies / self.kernel.fit(_sample_groups(problem)).scale, center)


@dataclass(frozen=True, eq=False)
class FourierMap:
    """The map x ↦ D^(−1/2) (cos Ωᵀx, sin Ωᵀx) of blocks in any namespace.

    Attributes
    ----------
    frequencies : array of shape (s, D)
    center : array of shape (s,)
    """

    frequencies: Matrix
    center: Vector

    def __call__(self, block: Any) -> Any:
        """Return the features of a block, shape (m, 2 D), in its precision."""
        xp = array_namespace(block)
        # Rows are scaled before they are multiplied: float32 does not hold numbers of every size.
        highest = float(np.clip(np.abs(self.frequencies).max(), 1e-300, 1e300))
        center = asarray_like(self.center, block)
        frequencies = xp.astype(asarray_like(self.frequencies / highest, block), block.dtype)
        with np.errstate(over="ignore"):
            scaled = xp.clip((block - center) * highest, -_LARGEST_PHASE, _LARGEST_PHASE)
        phases = xp.astype(scaled, block.dtype) @ frequencies
        return xp.concat([xp.cos(phases), xp.sin(phases)], axis=1) * float(phases.shape[1] ** -0.5)


@dataclass(frozen=True)
class Nystroem:
    """Nyström features of any kernel, as ``kernel=Nystroem(Polynomial(3), 256)``.

    With landmarks L drawn from the rows and K(L, L) = V Λ Vᵀ, φ(x) = K(x, L) V Λ^(−1/2): products of features are
    exact between landmarks.

    Parameters
    ----------
    kernel : Kernel
    n_components : int
        Number of landmarks; there are fewer features where eigenvalues vanish.

    References
    ----------
    Williams and Seeger, Using the Nyström method to speed up kernel machines, NIPS 2000.

    Examples
    --------
    >>> from gmmatch import Herding
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> Herding(k=4, kernel=Nystroem(Polynomial(2), 8), random_state=0).select(X).k
    4
    """

    kernel: Kernel = RBF()
    n_components: int = 256

    def __post_init__(self) -> None:
        check_whole_number(self.n_components, "n_components")

    def fit(self, problem: Problem) -> NystroemMap:
        """Draw the landmarks among the rows that count."""
        kernel = self.kernel.fit(_sample_groups(problem))
        rows = np.flatnonzero((problem.groups.codes >= 0) & (problem.weights > 0.0))
        count = min(self.n_components, len(rows))
        drawn = np.sort(np.random.default_rng(problem.seed).choice(rows, count, replace=False))
        landmarks = problem.rows.take(drawn)
        gram = kernel.gram(landmarks, landmarks)
        eigenvalues, eigenvectors = np.linalg.eigh((gram + gram.T) / 2.0)
        if not eigenvalues[-1] > 0.0:
            raise InvalidInputError("The kernel is 0 between all landmarks: give rows that are not all 0.")
        kept = eigenvalues > _LEAST_EIGENVALUE * eigenvalues[-1]
        return NystroemMap(
            kernel, landmarks, (eigenvectors[:, kept] / np.sqrt(eigenvalues[kept]))[:, ::-1].copy()
        )


@dataclass(frozen=True, eq=False)
class NystroemMap:
    """The map x ↦ K(x, L) V Λ^(−1/2) of blocks in any namespace."""

    kernel: Kernel
    landmarks: Matrix
    projection: Matrix

    def __call__(self, block: Any) -> Any:
        """Return the features of a block in its precision."""
        xp = array_namespace(block)
        landmarks, projection = asarray_like(self.landmarks, block), asarray_like(self.projection, block)
        return xp.astype(self.kernel.gram(xp.astype(block, xp.float64), landmarks) @ projection, block.dtype)
