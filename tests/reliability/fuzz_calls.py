"""Calls of ``gmmatch.select`` drawn at random, each by its number alone: what users pass, and what none should.

``make_call(number)`` draws rows of any magnitude, type and layout, labels, a budget, and parameters of the method.
One call in six has one argument that is wrong; ``Call.wrong`` names it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

import gmmatch as gm
from tests.reliability.fuzz_values import PARAMETERS, WRONG, WRONG_ARGUMENTS, wrong_rows

# Out of 100 calls; methods that train a model or screen take a hundred times as long as the others.
SHARES = {
    "gm-matching": 22, "herding": 14, "moment-matching": 14, "kernel-herding": 12, "easy": 7, "hard": 6,
    "moderate": 7,
    "random": 5, "self-supervised": 2, "robust": 3, "forgetting": 2, "grand": 2, "el2n": 2, "optimization": 2,
}  # fmt: skip
SCALES = (
    5e-324, 1e-310, 1e-200, 1e-160, 1e-154, 1e-100, 1e-40, 1e-8, 1.0, 1.0, 1.0, 1.0, 1.0, 1e8, 1e20, 1e38, 3.4e38,
    1e100, 1e149, 1e150, 1e200, 1.7e308,
)  # fmt: skip
DTYPES = ("<f8",) * 4 + (
    "<f4",
    "<f4",
    "<f2",
    ">f8",
    ">f4",
    "longdouble",
    "i1",
    "i4",
    "i8",
    "u1",
    "u8",
    "bool",
    "bfloat16",
)
LAYOUTS = (
    "C", "C", "C", "C", "C", "C", "C", "C", "Fortran", "every other row", "reversed", "unaligned", "list", "frame",
    "tensor", "object", "memory map", "store", "engine",
)  # fmt: skip


@dataclass
class Call:
    """One call: ``gm.select(X, y=y, method=method, **options)``."""

    number: int
    method: str
    X: Any
    y: Any
    options: dict[str, Any]
    layout: str
    wrong: str | None = None

    def __repr__(self) -> str:
        about = f"{type(self.X).__name__} {getattr(self.X, 'shape', '')} {getattr(self.X, 'dtype', '')} {self.layout}"
        given = {name: value for name, value in {"y": self.y, **self.options}.items() if value is not None}
        return f"select(<{about}>, method={self.method!r}, {given})".replace("\n", " ")


def make_call(number: int) -> Call:
    """Return the call of this number, always the same."""
    random = np.random.default_rng([24, number])
    method = str(random.choice(list(SHARES), p=np.array(list(SHARES.values())) / sum(SHARES.values())))
    n, s = int(random.choice([1, 2, 3, 5, 12, 30, 60, 200])), int(random.choice([1, 2, 3, 8, 17, 40]))
    dtype, layout = str(random.choice(DTYPES)), str(random.choice(LAYOUTS))
    X = laid_out(draw_rows(random, n, s), dtype, layout)
    y = draw_labels(random, n, needed=method in ("forgetting", "grand", "el2n", "optimization"))
    options = draw_options(random, method, n, s, y)
    call = Call(number, method, X, y, options, layout)
    if random.random() < 1 / 6:
        make_wrong(random, call, n, s)
    elif not usable(X):
        call.wrong = "X"
    if call.wrong is not None:  # one wrong thing at a time: others may not go together
        kept = ("random_state", "scores", call.wrong)
        call.options = {"k": 1} | {name: value for name, value in call.options.items() if name in kept}
        if call.wrong != "y" and call.y is not None:
            call.y = np.arange(n) % 2
    return call


def draw_rows(random: np.random.Generator, n: int, s: int) -> np.ndarray:
    """Return rows in float64: scattered or degenerate, of one magnitude or many."""
    X = random.standard_normal((n, s)).clip(-3, 3) / 3
    kind = random.choice(
        ["scattered"] * 4 + ["grid", "equal", "zero", "copies", "line", "far row", "one-hot", "half"]
    )
    if kind == "grid":
        X = random.integers(-2, 3, size=(n, s)) / 2
    elif kind == "equal":
        X[:] = X[0]
    elif kind == "zero":
        X[:] = 0.0
    elif kind == "copies":
        X = X[random.integers(0, max(1, n // 3), size=n)]
    elif kind == "line":
        X = np.arange(n)[:, None] / n * X[0]
    elif kind == "far row":
        X[random.integers(n)] *= 1e6
        X /= 1e6
    elif kind == "one-hot":
        X = np.eye(s)[random.integers(0, s, size=n)]
    elif kind == "half":
        X[: n // 2] = 0.0
    sizes = random.choice(["one", "one", "one", "one", "by row", "by column", "each"])
    shape = {"one": (1, 1), "by row": (n, 1), "by column": (1, s), "each": (n, s)}[str(sizes)]
    # Mixtures hold only what can be squared, or few would be valid.
    scales = SCALES if sizes == "one" else SCALES[:-2]
    return X * random.choice(scales, size=shape)


def laid_out(X: np.ndarray, dtype: str, layout: str) -> Any:
    """Return rows in another type and memory layout."""
    with np.errstate(all="ignore"):
        if dtype == "bfloat16":
            import torch

            return torch.from_numpy(X).to(torch.bfloat16)
        if np.dtype(dtype).kind in "iu":
            limits = np.iinfo(dtype)
            rows = np.clip(X * 100, limits.min / 2, limits.max / 2).astype(dtype)
        else:
            rows = X.astype(dtype)
    if layout == "Fortran":
        return np.asfortranarray(rows)
    if layout == "every other row":
        return np.repeat(rows, 2, axis=0)[::2]
    if layout == "reversed":
        return rows[::-1].copy()[::-1]
    if layout == "unaligned":
        raw = np.zeros(rows.nbytes + 1, dtype=np.uint8)
        odd = raw[1:].view(rows.dtype).reshape(rows.shape) if rows.nbytes else rows
        odd[:] = rows
        return odd
    if layout == "list":
        return rows.tolist()
    if layout == "frame":
        import pandas as pd

        return pd.DataFrame(rows) if rows.dtype.isnative and dtype != "longdouble" else rows
    if layout == "tensor" and dtype in ("<f8", "<f4", "<f2", "i1", "i4", "i8", "u1", "bool"):
        import torch

        return torch.from_numpy(rows)
    return rows.astype(object) if layout == "object" else rows


def usable(X: Any) -> bool:
    """Whether every number is finite and can be squared."""
    with np.errstate(all="ignore"):
        rows = np.asarray(X.double() if hasattr(X, "double") else X, dtype=np.float64)
    return bool(np.isfinite(rows).all() and (np.abs(rows) <= 1e150).all())


def draw_labels(random: np.random.Generator, n: int, needed: bool) -> Any:
    """Return labels of some kind, or none."""
    if not needed and random.random() < 0.4:
        return None
    classes = int(random.choice([1, 2, 2, 3, 5, max(1, n // 2), n]))
    y = random.integers(0, classes, size=n)
    kind = random.choice(
        ["int", "int", "uint8", "text", "bool", "float", "bytes", "list", "mixed", "some missing", "some -1",
         "tensor", "categories", "binary", "column", "huge"]
    )  # fmt: skip
    if kind in ("some missing", "some -1"):
        y = np.where(random.random(n) < 0.3, -1, y)
        return y if kind == "some -1" else [None if one < 0 else f"class {one}" for one in y.tolist()]
    if kind == "mixed":
        return [one if one % 2 else f"c{one}" for one in y.tolist()]
    if kind == "tensor":
        import torch

        return torch.from_numpy(y)
    if kind == "categories":
        import pandas as pd

        return pd.Categorical(y.astype(str))
    made = {
        "uint8": lambda: y.astype(np.uint8), "text": lambda: y.astype(str), "bool": lambda: y % 2 == 1,
        "float": lambda: y.astype(float), "bytes": lambda: y.astype("S4"), "list": y.tolist,
        "binary": lambda: np.where(y % 2, 1, -1), "column": lambda: y[:, None], "huge": lambda: y + 2**62,
    }  # fmt: skip
    return made[str(kind)]() if kind in made else y


def draw_options(random: np.random.Generator, method: str, n: int, s: int, y: Any) -> dict[str, Any]:
    """Return a budget, other arguments of ``select`` and some of the method's parameters."""
    options: dict[str, Any] = {"random_state": int(random.integers(0, 2**31))}
    k = int(random.integers(1, n + 1))
    budget = random.integers(0, 8)
    if budget < 7:
        options["k"] = [k, k, np.int32(k), str(k), round(float(random.uniform(0.01, 1)), 2), "25%", 1.0][
            budget
        ]
    if random.random() < 0.15:
        options["sample_weight"] = random.choice([0.0, 1.0, 1.0, 2.5, 1e-300, 1e300], size=n).clip(
            0, 1e300 / n
        )
    if random.random() < 0.1:
        options["exclude"] = np.flatnonzero(random.random(n) < 0.2)
    if random.random() < 0.1:
        options["include"] = random.choice(n, size=min(n, 2), replace=False)
    if random.random() < 0.1:
        options["ids"] = [f"row {i}" for i in range(n)]
    if random.random() < 0.25:
        options["per_class"] = [None, "balanced", "proportional"][random.integers(3)]
    for one in fields(gm.method_class(method)):
        if one.name in PARAMETERS and random.random() < 0.12:
            values = PARAMETERS[one.name]
            values = values(random, n, s, y) if callable(values) else values
            options[one.name] = values[random.integers(len(values))]
    if "reference" not in options:
        options.pop("reference_weight", None)
    if method in ("forgetting", "grand", "el2n") and random.random() < 0.9:  # mostly without a training
        options["scores"] = random.integers(0, 5, size=n) / 2
    return options


def make_wrong(random: np.random.Generator, call: Call, n: int, s: int) -> None:
    """Make one argument of a call wrong, and note which."""
    names = ["X", "X", "X", *WRONG_ARGUMENTS, *(field.name for field in fields(gm.method_class(call.method)))]
    names = [name for name in names if name == "X" or name in WRONG_ARGUMENTS or name in WRONG]
    name = call.wrong = str(random.choice(names))
    if name == "X":
        call.X, call.layout = wrong_rows(random, n, s), "wrong"
        return
    values = WRONG_ARGUMENTS[name](n) if name in WRONG_ARGUMENTS else WRONG[name]
    value = values[random.integers(len(values))]
    if name == "y":
        call.y = value
        call.options.pop("per_class", None)
    elif name == "method":
        call.method = value
    else:
        call.options[name] = value
    if not usable(call.X):  # one wrong argument at a time
        call.X, call.layout = np.eye(n, s), "C"
