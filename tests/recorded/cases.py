"""Inputs and calls whose picks are recorded in ``picks.json``. Only public names are used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from tests.recorded.inputs import (
    as_tensor,
    dense,
    far_from_zero,
    half_lattice,
    labelled,
    lattice,
    lattice_labelled,
    many,
    many_alone,
    named,
    strided,
    strided_alone,
    two_classes,
    wide,
    with_minus_one,
    with_missing,
)
from tests.recorded.record import Case
from tests.reliability.killed_commands import gmmatch

MEDIAN = gm.GeometricMedian
METHODS = (
    "robust",
    "gm-matching",
    "random",
    "easy",
    "hard",
    "moderate",
    "herding",
    "kernel-herding",
    "matching",
    "by-score",
)


# --- the cases -------------------------------------------------------------------------------------------------

CASES: dict[str, Case] = {}


def add(name: str, call: Callable[[Path], Any], needs: tuple[str, ...] = ()) -> None:
    assert name not in CASES, name
    CASES[name] = Case(name, call, needs)


def select(
    name: str,
    data: Callable[[], tuple[Any, Any]],
    *,
    needs: tuple[str, ...] = (),
    **options: Any,
) -> None:
    """Add a call of ``gm.select``."""

    def call(folder: Path) -> Any:
        rows, labels = data()
        return gm.select(rows, **{"y": labels, "method": "gm-matching", "random_state": 5, **options}).order

    add(name, call, needs)


def _scores(method: str, n: int) -> dict[str, Any]:
    return {"scores": np.random.default_rng(19).integers(0, 40, n)} if method == "by-score" else {}


def _every_method() -> None:
    for method in METHODS:
        select(f"{method}/dense", dense, k=60, method=method, **_scores(method, 400))
        select(f"{method}/labelled", labelled, k=70, method=method, **_scores(method, 360))
        select(
            f"{method}/balanced",
            two_classes,
            k=0.2,
            method=method,
            per_class="balanced",
            **_scores(method, 300),
        )
        select(f"{method}/float32", lambda: dense(np.float32), k="10%", method=method, **_scores(method, 400))
        select(f"{method}/lattice", lattice, k=50, method=method, **_scores(method, 300))
        select(
            f"{method}/include and exclude", labelled, k=60, method=method,
            include=[3, 201, 102], exclude=np.arange(0, 360, 5)[1:],
            sample_weight=np.random.default_rng(20).integers(1, 4, 360).astype(float),
            per_class=None, **_scores(method, 360),
        )  # fmt: skip
    for name, center in (("coordinate-median", gm.CoordinateMedian()), ("geometric-median", MEDIAN())):
        for method in ("easy", "hard", "moderate"):
            select(f"{method}/{name}", labelled, k=50, method=method, center=center)
    select("robust/not screened", labelled, k=60, method="robust", screening=None)
    select("robust/two classes", two_classes, k=60, method="robust")
    select("random/replacement", dense, k=500, method="random", replacement=True)


def _every_input() -> None:
    for method in ("gm-matching", "herding", "moderate"):
        for dtype in (np.float16, np.float32):
            name = np.dtype(dtype).name
            select(f"{method}/{name} rows", lambda dtype=dtype: dense(dtype), k=80, method=method)
            select(f"{method}/{name} labelled", lambda dtype=dtype: labelled(dtype), k=80, method=method)
        for dtype in ("bfloat16", "float32"):
            data = as_tensor(labelled, dtype)
            select(f"{method}/{dtype} tensor", data, k=80, method=method, needs=("torch",))
        for data in (
            strided, strided_alone, lattice_labelled, half_lattice, named, with_missing, with_minus_one,
            far_from_zero, wide,
        ):  # fmt: skip
            select(f"{method}/{data.__name__.replace('_', ' ')}", data, k=40, method=method)
        select(f"{method}/unlabeled group", with_missing, k=60, method=method, unlabeled="group")
        select(
            f"{method}/class counts", named, method=method, per_class={"cat": 9, "zebra": 0.1, "lone wolf": 1}
        )
        select(f"{method}/labels ignored", labelled, k=40, method=method, per_class=None)
        select(f"{method}/share of what is left", labelled, k=0.3, method=method, exclude=np.arange(0, 90))
    select("kernel-herding/strided", strided, k=40, method="kernel-herding")
    select("kernel-herding/bfloat16 tensor", as_tensor(labelled, "bfloat16"), k=50, method="kernel-herding",
           needs=("torch",))  # fmt: skip
    select("robust/bfloat16 tensor", as_tensor(labelled, "bfloat16"), k=50, method="robust", needs=("torch",))
    select("robust/missing labels", with_missing, k=50, method="robust", unlabeled="group")


def _every_option() -> None:
    options: dict[str, dict[str, Any]] = {
        "start zero": {"start": "zero"},
        "replacement": {"replacement": True},
        "normalize": {"preprocess": "unit"},
        "unit target": {"preprocess": "unit", "target": "unit"},
        "centred and scaled": {"preprocess": ["center", "scale"]},
        "principal axes": {"preprocess": ["pca:4"]},
        "unit rows": {"preprocess": "unit"},
        "batches": {"batches": 4},
        "independent batches": {"batches": gm.Independent(4), "k": 200},
        "batches of few picks": {"batches": 50},
        "include": {"include": [7, 300, 21], "exclude": np.arange(100, 200)},
        "weights": {"sample_weight": np.random.default_rng(21).integers(0, 3, 360) + 0.5},
    }
    for name, given in options.items():
        for method in ("gm-matching", "herding"):
            own = {"target": _unit(method)} if given.get("target") == "unit" else {}
            select(f"{method}/{name}", labelled, **{"k": 72, "method": method, **given, **own})
    for data in (dense, labelled, lattice, half_lattice):
        select(f"strategy direct/{data.__name__.replace('_', ' ')}", data, k=64)
    select("strategy direct/replacement", lattice, k=64, replacement=True)
    select("strategy direct/batches", many_alone, k=64, batches=3)
    median = {"method": "gm-matching", "k": 60}
    select("gm-matching/median of half the rows", dense, **median, target=MEDIAN(fraction=0.5))
    select("gm-matching/smoothed median", dense, **median, target=MEDIAN(delta=0.1))
    select("gm-matching/exact median", dense, **median, target=MEDIAN(eps=1e-13))
    select(
        "moment-matching/coordinate median",
        labelled,
        k=60,
        method="matching",
        target=gm.CoordinateMedian(),
    )
    select("gm-matching/many batches", many, k=120, batches=5)
    for batches in (2, 5):
        for name, data in (("labelled", many), ("alone", many_alone)):
            select(
                f"independent batches {batches}/{name}",
                data,
                k=240,
                batches=gm.Independent(batches),
            )
    select("independent batches/replacement", many_alone, k=240, batches=gm.Independent(4), replacement=True,
           start="zero")  # fmt: skip

    def fitted(folder: Path) -> Any:
        rows, labels = labelled()
        return gm.GMMatching(k=50, random_state=1).fit(rows, labels).selection_.order

    def near_the_median(folder: Path) -> Any:
        rows, _ = dense()
        point = gm.geometric_median(rows).point
        return np.argsort(np.square(rows - point).sum(axis=1), kind="stable")

    def near_the_weighted_median(folder: Path) -> Any:
        rows, _ = dense(np.float16)
        weights = np.random.default_rng(22).random(len(rows))
        found = gm.geometric_median(rows, sample_weight=weights)
        return np.argsort(np.square(rows.astype(float) - found.point).sum(axis=1), kind="stable")

    add("estimator/fit", fitted)
    add("geometric median/rows by distance", near_the_median)
    add("geometric median/weighted", near_the_weighted_median)
    add("screen/labelled", lambda _: np.flatnonzero(gm.screen(*labelled(), random_state=0).trusted))
    add("screen/dense", lambda _: np.flatnonzero(gm.screen(dense()[0], random_state=0).trusted))


def _every_kernel() -> None:
    kernels: dict[str, Any] = {
        "rbf": gm.RBF(),
        "laplacian": gm.Laplacian(),
        "polynomial": gm.Polynomial(),
        "rbf of width 2": gm.RBF(2.0),
    }
    for name, kernel in kernels.items():
        for method in ("gm-matching", "kernel-herding"):
            for data in (dense, labelled):
                select(f"{method}/{name} {data.__name__}", data, k=50, method=method, kernel=kernel)
            options = {"k": 40, "method": method, "kernel": kernel}
            select(f"{method}/{name} replacement", lattice, **options, replacement=True)
            select(f"{method}/{name} include", labelled, **options, include=[7, 300, 21], start="zero")
    select("gm-matching/rbf unit target", labelled, k=40, kernel=gm.RBF(), target=MEDIAN(unit=True))
    select("gm-matching/rbf half the rows", dense, k=40, kernel=gm.RBF(), target=MEDIAN(fraction=0.5))
    for name, features in (
        ("nystroem", gm.Nystroem(gm.RBF(), 24)),
        ("fourier", gm.RandomFeatures(gm.RBF(), 24)),
    ):
        for method in ("gm-matching", "kernel-herding"):
            select(f"{method}/{name}", labelled, k=50, method=method, kernel=features)
    select("kernel-herding/nystroem independent", many_alone, k=160, method="kernel-herding",
           kernel=gm.Nystroem(gm.RBF(), 24), batches=gm.Independent(4))  # fmt: skip


def _unit(method: str) -> Any:
    return MEDIAN(unit=True) if method == "gm-matching" else gm.Mean(unit=True)


# --- rows in files ---------------------------------------------------------------------------------------------


def make_store(path: Path, dtype: str = "float32") -> Path:
    """Write the 600 rows into a store of six files."""
    from gmmatch.store import StoreWriter

    rows, labels = many()
    settings: dict[str, Any] = {"encoder": "made", "encoder_fingerprint": "1", "rows_per_shard": 100}
    with StoreWriter(path, dtype=dtype, **settings) as writer:
        writer.append(rows.astype(dtype), ids=[f"row-{i}" for i in range(len(rows))], labels=labels.tolist())
        writer.finish()
    return path


def from_store(name: str, *, labels: bool = True, dtype: str = "float32", **options: Any) -> None:
    """Add a call of ``gm.select`` on the rows of a store."""

    def call(folder: Path) -> Any:
        store = gm.open_store(make_store(folder / "x.emb", dtype))
        given = {} if labels else {"per_class": None}
        return gm.select(store, **{"method": "gm-matching", "random_state": 5, **given, **options}).order

    add(f"store/{name}", call)


def by_command(name: str, *arguments: object, source: str = "store", needs: tuple[str, ...] = ()) -> None:
    """Add a call of ``gmmatch select`` on a store, or on one file of vectors."""

    def call(folder: Path) -> Any:
        path = folder / "x.npy"
        if source == "store":
            path = make_store(folder / "x.emb")
        else:
            np.save(path, many()[0])
        picks = folder / "picks.parquet"
        method = () if "-m" in arguments else ("-m", "gm-matching")
        gmmatch("select", path, "-o", picks, *arguments, *method)
        return gm.Selection.load(picks).order

    add(name, call, needs)


def _rows_in_files() -> None:
    # Of the store's labels, which are random, a screening can say nothing that the next processor says as well.
    follows_rows = {"y": np.arange(600) < 150}
    for method in METHODS:
        given = follows_rows if method == "robust" else _scores(method, 600)
        from_store(method, k=60, method=method, **given)
    from_store("float16", k=60, dtype="float16")
    from_store("no labels", k=60, labels=False)
    from_store("batches", k=120, batches=4)
    from_store("independent batches", k=240, batches=gm.Independent(4))
    from_store("preprocess", k=60, preprocess=["center", "pca:3", "unit"])
    from_store("rbf", k=60, kernel=gm.RBF())
    by_command("command/store", "-k", 60)
    by_command("command/balanced", "-k", 60, "--per-class", "balanced", "--seed", 3, "-m", "herding")
    by_command("command/file", "-k", 60, "-m", "kernel-herding", "--set", "start=zero", source="file")
    on, needs = ("--engine", "ray", "--workers", 2), ("ray",)
    by_command("ray engine/store", "-k", 60, *on, needs=needs)
    by_command("ray engine/file", "-k", 60, *on, source="file", needs=needs)
    by_command("ray engine/herding", "-k", 60, *on, "-m", "herding", "--set", "start=zero", needs=needs)
    for batches in (2, 5):
        more = ("-k", 240, *on, "--set", "batches=independent", "--set", f"batches.n_batches={batches}")
        by_command(f"ray engine/batches {batches}", *more, needs=needs)
        by_command(f"ray engine/batches {batches} file", *more, needs=needs, source="file")


# --- on a GPU --------------------------------------------------------------------------------------------------


def _on_cuda() -> None:
    def cuda(name: str, data: Callable[[], Any], dtype: str = "float32", **options: Any) -> None:
        select(f"cuda/{name}", as_tensor(data, dtype, "cuda"), needs=("torch", "cuda"), **options)

    for method in METHODS:
        cuda(f"{method} dense", dense, k=60, method=method, **_scores(method, 400))
        cuda(f"{method} labelled", labelled, k=70, method=method, **_scores(method, 360))
    for method in ("gm-matching", "herding"):
        for dtype in ("float64", "float16", "bfloat16"):
            cuda(f"{method} {dtype}", dense, dtype, k=60, method=method)
            cuda(f"{method} {dtype} labelled", labelled, dtype, k=70, method=method)
        cuda(f"{method} lattice", lattice, k=50, method=method)
        cuda(f"{method} missing labels", with_missing, k=50, method=method)
        for name, given in {
            "start zero": {"start": "zero"},
            "replacement": {"replacement": True},
            "unit target": {"preprocess": "unit", "target": _unit(method)},
            "preprocess": {"preprocess": ["center", "scale", "pca:4"]},
            "batches": {"batches": 4},
            "independent batches": {"batches": gm.Independent(4), "k": 200},
            "include": {"include": [7, 300, 21]},
            "exclude": {"exclude": np.arange(100, 200)},
            "weights": {"sample_weight": np.random.default_rng(21).integers(0, 3, 360) + 0.5},
        }.items():
            cuda(f"{method} {name}", labelled, **{"k": 72, "method": method, **given})
    for name, kernel in (("rbf", gm.RBF()), ("laplacian", gm.Laplacian()), ("polynomial", gm.Polynomial())):
        for method in ("gm-matching", "kernel-herding"):
            cuda(f"{method} {name} dense", dense, k=50, method=method, kernel=kernel)
            cuda(f"{method} {name} labelled", labelled, k=50, method=method, kernel=kernel)


_every_method()
_every_input()
_every_option()
_every_kernel()
_rows_in_files()
_on_cuda()
