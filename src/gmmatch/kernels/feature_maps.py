"""Explicit feature maps: vectors whose inner products stand in for a kernel.

With φ(x) in hand every linear method works in the kernel's space, at a cost linear in the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gmmatch.errors import InvalidInputError, InvalidTypeError
from gmmatch.kernels.distances import typical_row
from gmmatch.kernels.kernels import RBF, Kernel, KernelSpec, Laplacian, Linear, Polynomial, resolve_kernel
from gmmatch.rows.checks import as_generator, check_rows, check_whole_number
from gmmatch.rows.rows import as_rows
from gmmatch.types import RandomState, beside, evenly_spaced, is_tensor, namespace

# Not scikit-learn's RBFSampler and Nystroem. The first draws a phase where this has a cosine and a sine: with 512
# features the root mean square error of a wide kernel's values was 0.03 instead of 0.0002; and it knows no Laplacian.
# The second holds the kernel of all rows with all landmarks at once, and divides by eigenvalues that are rounding.
Self = TypeVar("Self", bound="FeatureMap")

# Float64 numbers that a block's intermediate results may hold: 8 MB.
_BLOCK_ELEMENTS = 1 << 20
# Phases of rows that are farther out than so many periods; float32 holds sums of them.
_FARTHEST = 1e30


class FeatureMap(ABC):
    """Fit on rows, then turn rows into features block by block."""

    kernel_: Kernel
    n_features_in_: int
    n_features_out_: int

    def __init__(
        self,
        kernel: KernelSpec = "rbf",
        n_components: int = 256,
        random_state: RandomState = 0,
        dtype: Any = np.float32,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.dtype = dtype

    def fit(self: Self, X: Any) -> Self:
        """Learn from ``X`` what the features need, and return the map itself.

        Parameters
        ----------
        X : array of shape (n, s)
        """
        check_whole_number(self.n_components, "n_components")
        if np.dtype(self.dtype) not in (np.float32, np.float64):
            raise InvalidInputError(f"dtype={self.dtype!r}: features come as float32 or float64.")
        rows = check_rows(X)
        # The kernel draws with its own fixed seed: maps of different seeds approximate the same kernel.
        self.kernel_ = resolve_kernel(self.kernel).fit(X)
        self.n_features_in_ = rows.n_features
        self._learn(X, as_generator(self.random_state))
        return self

    def transform(self, X: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the features of every row, computed block by block.

        Parameters
        ----------
        X : array of shape (n, s)
        out : float array of shape (n, n_features_out_), optional
            Where to write them (a memory map, say); by default a new array of ``dtype``.
        """
        if not hasattr(self, "n_features_out_"):
            raise InvalidInputError(f"This {type(self).__name__} is not fitted yet: call fit(X) first.")
        rows = as_rows(X)
        if rows.n_features != self.n_features_in_:
            raise InvalidInputError(
                f"X has {rows.n_features} columns; the map was fitted on rows of {self.n_features_in_}."
            )
        shape = (len(rows), self.n_features_out_)
        if out is None:
            out = np.empty(shape, dtype=self.dtype)
        elif out.shape != shape:
            raise InvalidInputError(f"out has shape {out.shape}; these features need {shape}.")
        step = max(1, _BLOCK_ELEMENTS // (self._work_per_row() + self.n_features_in_))
        for number in range(rows.n_chunks):
            first, last = rows.bounds(number)
            block, written = rows.block(number), out[first:last]
            for start in range(0, last - first, step):
                self._write(block[start : start + step], written[start : start + step])
        return out

    def __call__(self, block: Any) -> Any:
        """Return the features of a block of rows: what :meth:`Rows.mapped <gmmatch.rows.rows.Rows.mapped>` takes."""
        if is_tensor(block):
            from gmmatch.backends.cuda.blocks import whole_precision

            with whole_precision():
                return self._of_tensor(block, getattr(namespace(block), np.dtype(self.dtype).name))
        return self.transform(block)

    @property
    def takes_tensors(self) -> bool:
        """Whether a block may be a tensor, whose features are then made where it lies."""
        return True

    @abstractmethod
    def _of_tensor(self, block: Any, dtype: Any) -> Any:
        """Return the features of a tensor's rows, where it lies."""

    def fit_transform(self, X: Any) -> NDArray[Any]:
        """Fit on ``X`` and return its features."""
        return self.fit(X).transform(X)

    @abstractmethod
    def _learn(self, X: Any, generator: np.random.Generator) -> None:
        """Set what :meth:`_write` needs, and ``n_features_out_``."""

    def _work_per_row(self) -> int:
        """Return how many float64 numbers :meth:`_write` holds for each row."""
        return self.n_features_out_

    @abstractmethod
    def _write(self, block: NDArray[Any], out: NDArray[Any]) -> None:
        """Write the features of a block of rows, which are float32 or float64."""


class FourierFeatures(FeatureMap):
    """Random Fourier features of a translation-invariant kernel.

    By Bochner's theorem such a kernel is the mean of cos⟨ω, x − y⟩ over a distribution of frequencies:
    Gaussian with deviation 1/h for :class:`~gmmatch.kernels.kernels.RBF`, Cauchy with scale 1/h in each
    coordinate for :class:`~gmmatch.kernels.kernels.Laplacian`. With D = n_components / 2 frequencies,

        φ(x) = D^(−1/2) (cos⟨ω₁, x⟩, …, cos⟨ω_D, x⟩, sin⟨ω₁, x⟩, …, sin⟨ω_D, x⟩),

    every φ(x) has length 1, and ⟨φ(x), φ(y)⟩ is k(x, y) on average with a standard deviation of at most
    (2D)^(−1/2).

    Parameters
    ----------
    kernel : Kernel or name
        An RBF or a Laplacian; a "median" bandwidth is fitted to the rows.
    n_components : int
        Number of features, even: a cosine and a sine for each frequency.
    random_state : int, Generator, RandomState or None
        Draws the frequencies.
    dtype : float32 or float64
        Type of the features.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, NIPS 2007.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0]])
    >>> features = FourierFeatures(RBF(bandwidth=1.0), n_components=20_000).fit_transform(X)
    >>> (features @ features.T).round(1)
    array([[1. , 0.6],
           [0.6, 1. ]], dtype=float32)
    """

    def _learn(self, X: Any, generator: np.random.Generator) -> None:
        if self.n_components % 2:
            raise InvalidInputError(
                f"n_components={self.n_components}: features come in pairs of cosine and sine; give an even "
                "number."
            )
        shape = (self.n_features_in_, self.n_components // 2)
        if isinstance(self.kernel_, RBF):
            frequencies = generator.standard_normal(shape)
        elif isinstance(self.kernel_, Laplacian):
            frequencies = generator.standard_cauchy(shape)
        else:
            raise InvalidTypeError(
                f"kernel={self.kernel_!r}: Fourier features exist here for RBF and Laplacian; use "
                "NystroemFeatures for any other kernel."
            )
        self.frequencies_: NDArray[np.float64] = frequencies / self.kernel_.scale
        # Only differences of rows matter; near 0 the phases keep their digits.
        rows = as_rows(X)
        self.centre_: NDArray[np.float64] = typical_row(rows.gather(evenly_spaced(len(rows), 31)))
        self.n_features_out_ = int(self.n_components)

    def _of_tensor(self, block: Any, dtype: Any) -> Any:
        length = 1.0 / max(float(np.abs(self.frequencies_).max()), 1e-300)
        seen = (block - beside(self.centre_, block).to(block.dtype)) * (1.0 / length)
        seen = seen.clip(-_FARTHEST, _FARTHEST)
        phases = seen.to(dtype) @ beside(self.frequencies_ * length, block).to(dtype)
        waves = namespace(block).cat([phases.cos(), phases.sin()], dim=1)
        return waves.mul_(1.0 / float(np.sqrt(phases.shape[1])))

    def _write(self, block: NDArray[Any], out: NDArray[Any]) -> None:
        # Rows are divided by a length before they are narrowed: float32 does not hold numbers of every size.
        highest = min(max(float(np.abs(self.frequencies_).max()), 1e-300), float(np.finfo(block.dtype).max))
        with np.errstate(over="ignore"):
            seen = (block - self.centre_.astype(block.dtype)) * block.dtype.type(highest)
        # The phase of a row so far out is arbitrary, but it has one.
        np.clip(seen, -_FARTHEST, _FARTHEST, out=seen)
        phases = seen.astype(out.dtype, copy=False) @ (self.frequencies_ * (1.0 / highest)).astype(out.dtype)
        half = phases.shape[1]
        np.cos(phases, out=out[:, :half])
        np.sin(phases, out=out[:, half:])
        out *= 1.0 / np.sqrt(half)


class NystroemFeatures(FeatureMap):
    """Nyström features: the kernel as seen from a sample of landmark rows.

    With landmarks L drawn from the rows without replacement and K(L, L) = V Λ Vᵀ,

        φ(x) = K(x, L) V Λ^(−1/2),

    so that ⟨φ(x), φ(y)⟩ is exact between landmarks and the best guess from them elsewhere. Eigenvalues
    below ``tolerance`` times the largest are dropped: they are rounding, and dividing by them would
    magnify it. The number of features can therefore be smaller than ``n_components``.

    Parameters
    ----------
    kernel : Kernel or name
        Any kernel; a "median" bandwidth is fitted to the rows.
    n_components : int
        Number of landmarks, cut to the number of rows.
    random_state : int, Generator, RandomState or None
        Draws the landmarks.
    dtype : float32 or float64
        Type of the features.
    tolerance : float
        Relative size below which eigenvalues are dropped.

    References
    ----------
    Williams and Seeger, Using the Nyström method to speed up kernel machines, NIPS 2000.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0]])
    >>> features = NystroemFeatures(RBF(bandwidth=1.0), n_components=2).fit_transform(X)
    >>> (features @ features.T).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]], dtype=float32)
    """

    def __init__(
        self,
        kernel: KernelSpec = "rbf",
        n_components: int = 256,
        random_state: RandomState = 0,
        dtype: Any = np.float32,
        tolerance: float = 1e-10,
    ) -> None:
        super().__init__(kernel, n_components, random_state, dtype)
        self.tolerance = tolerance

    def _learn(self, X: Any, generator: np.random.Generator) -> None:
        if not 0.0 <= self.tolerance < 1.0:
            raise InvalidInputError(f"tolerance={self.tolerance!r}: expected a number from 0 to below 1.")
        rows = as_rows(X)
        count = min(int(self.n_components), len(rows))
        self.landmark_indices_ = np.sort(generator.choice(len(rows), count, replace=False)).astype(np.int64)
        # A copy: what is fitted must not change with the caller's array.
        self.landmarks_: NDArray[np.float64] = rows.gather(self.landmark_indices_).copy()
        gram = self.kernel_(self.landmarks_, self.landmarks_)
        values, vectors = np.linalg.eigh((gram + gram.T) / 2.0)
        if not values[-1] > 0.0:
            raise InvalidInputError(
                f"The {self.kernel_.name} kernel is 0 between all landmarks, so there is nothing to "
                "approximate; give rows that are not all 0."
            )
        kept = values > self.tolerance * values[-1]
        # Largest first, so that leading columns are the ones that matter most.
        self.projection_: NDArray[np.float64] = (vectors[:, kept] / np.sqrt(values[kept]))[:, ::-1].copy()
        self.n_features_out_ = int(kept.sum())

    def _work_per_row(self) -> int:
        return len(self.landmarks_) + self.n_features_out_

    @property
    def takes_tensors(self) -> bool:
        """Whether a block may be a tensor: for kernels that are functions of a product of matrices."""
        return isinstance(self.kernel_, (RBF, Polynomial, Linear))

    def _of_tensor(self, block: Any, dtype: Any) -> Any:
        block, kernel = block.double(), self.kernel_
        landmarks = beside(self.landmarks_, block)
        if isinstance(kernel, RBF):
            # Seen from the midst of the landmarks, little cancels.
            origin = beside(typical_row(self.landmarks_), block)
            block, landmarks = (block - origin) / kernel.scale, (landmarks - origin) / kernel.scale
            squares = block.square().sum(dim=1)[:, None] + landmarks.square().sum(dim=1)
            gram = (block @ landmarks.T - 0.5 * squares).clamp(max=0.0).exp()
        else:
            gram = block @ landmarks.T
            if isinstance(kernel, Polynomial):
                gram = (gram + kernel.c) ** kernel.degree
        return (gram @ beside(self.projection_, block)).to(dtype)

    def _write(self, block: NDArray[Any], out: NDArray[Any]) -> None:
        out[...] = self.kernel_(block.astype(np.float64, copy=False), self.landmarks_) @ self.projection_
