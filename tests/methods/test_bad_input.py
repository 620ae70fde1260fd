"""Bad input: every message names the argument and says what would be right; settings as text."""

from __future__ import annotations

import numpy as np
import pytest

import gmmatch as gm
from gmmatch.errors import GMMatchError, InvalidInputError, InvalidTypeError, UnknownMethodError
from gmmatch.methods.settings import describe_settings, parse_settings
from tests.methods.conftest import ROW_BASED

X = np.random.default_rng(0).normal(size=(20, 3))
Y = np.repeat(["cat", "dog"], [18, 2])

every_method = pytest.mark.parametrize("method", ROW_BASED)


def with_value(value, *places):
    changed = X.copy()
    for place in places:
        changed[place] = value
    return changed


@every_method
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        # rows
        ({"X": with_value(np.nan, (3, 1), (7, 0))}, r"X contains NaN.* 2 of 20 rows \(first: 3, 7\)"),
        ({"X": with_value(-np.inf, (5, 2))}, r"infinity.* 1 of 20 rows \(first: 5\).*Drop"),
        ({"X": X[:, 0]}, r"X has shape \(20,\): expected a 2d array, rows by features.*X.reshape\(-1, 1\)"),
        ({"X": np.array([[10**400, 1], [1, 2]], dtype=object)}, "X must be a 2d array of numbers: int too"),
        ({"X": np.ma.masked_greater(X, 1.0)}, "X has masked values"),
        # k
        ({"k": 21}, r"k=21 exceeds the number of rows \(20\): give a count from 1 to 20"),
        ({"k": 0}, "k=0: give a count of at least 1"),
        ({"k": 2.5}, "k=2.5: write k=2 for a count, or a fraction above 0 and up to 1"),
        ({"k": "many"}, "k='many' is not an amount: give a count such as 500"),
        ({"k": True}, "k=True has type bool"),
        ({"k": [5]}, "k=.* has type list: give a count"),
        ({"k": 15, "exclude": range(10)}, r"k=15 .* rows that may be picked \(10\)"),
        ({"k": 1, "exclude": range(20)}, "X has no rows that may be picked"),
        # labels and classes
        ({"y": Y[:-1]}, "y has 19 labels but X has 20 rows: give one per row"),
        ({"y": [None] * 20}, "No row has a label.*: leave the labels out"),
        ({"y": Y, "unlabeled": "keep"}, "unlabeled='keep': give 'drop' or 'group'"),
        ({"y": "cat"}, "y has type str"),
        ({"k": 10, "y": Y, "per_class": "balanced"}, "class 'dog' has 2 rows .* quota is 5: lower k"),
        ({"y": Y, "per_class": "equal"}, "per_class='equal': give 'proportional', 'balanced'"),
        ({"y": Y, "per_class": {"bird": 2}}, "per_class names 'bird'.*classes are 'cat', 'dog'"),
        ({"y": Y, "per_class": {"dog": 3}}, "class 'dog' has 2 rows .* quota is 3"),
        ({"y": Y, "per_class": {"cat": -5}}, r"per_class\['cat'\]=-5"),
        ({"y": Y, "per_class": {"cat": 10**30}}, r"per_class\['cat'\] is above"),
        ({"y": Y, "per_class": ["dog"]}, "per_class=.*give class to count"),
        ({"per_class": {"dog": 1}}, "per_class names classes, but y was not given"),
        ({"y": Y, "per_class": {"dog": 1}, "k": 5}, "k=5 disagrees with per_class, .* sums to 1"),
        # rows in and out
        ({"include": [20]}, "include names row 20; X has rows 0 to 19"),
        ({"exclude": [-1]}, "exclude names row -1; X has rows 0 to 19"),
        ({"include": [1, 2], "exclude": [2, 3]}, "Row 2 is in include and in exclude"),
        ({"include": [True, False]}, r"include is a mask of shape \(2,\); expected \(20,\)"),
        ({"exclude": 3}, r"exclude must be a list of row numbers.*shape \(\)"),
        ({"exclude": [0.5]}, "exclude must be a list of row numbers .*float64"),
        ({"exclude": [[1], [2, 3]]}, "exclude must be a list of row numbers or a boolean mask: setting an"),
        ({"include": ["a"]}, "include must be a list of row numbers"),
        ({"k": 2, "include": [1, 2, 3]}, "include names 3 rows of the data, more than its 2 picks"),
        ({"k": 10, "y": Y, "include": [18, 19]}, "include names 2 rows of class 'dog', .* 1 picks"),
        ({"y": [None, *["a"] * 19], "include": [0]}, "include names row 0, which has no label"),
        # weights and ids
        ({"sample_weight": -np.ones(20)}, r"sample_weight\[0\] is -1.0; .* at least 0"),
        ({"sample_weight": np.ones(19)}, r"sample_weight .*expected shape \(20,\), got \(19,\)"),
        ({"sample_weight": np.zeros(20)}, "sample_weight is zero for every row"),
        ({"k": 10, "y": Y, "sample_weight": Y == "cat"}, "sample_weight is 0 .* class 'dog'"),
        ({"sample_weight": [1j] * 20}, "sample_weight: Complex data not supported"),
        ({"sample_weight": np.zeros(20, dtype="M8[s]")}, r"sample_weight has dtype datetime64\[s\]"),
        ({"sample_weight": [10**400] * 20}, "sample_weight must be one number per row: int too large"),
        ({"ids": range(19)}, "ids has 19 entries for 20 rows of X: give one each"),
        ({"ids": np.arange(20) / 2}, "ids hold values of type .*: give integers or strings"),
        ({"ids": [1, "b"] * 10}, "ids hold values of type .*: give integers or strings"),
        # what every method takes
        ({"preprocess": ["whiten"]}, "preprocess=.*'whiten' is not a step"),
        ({"random_state": -1}, "random_state=-1: a seed must be at least 0"),
        ({"random_state": "x"}, "random_state='x': expected an integer"),
        ({"n_jobs": 0}, "n_jobs=0: give a number of threads, or -1"),
        ({"memory_limit": 0}, "memory_limit=0: expected a number of bytes of at least 1"),
        ({"memory_limit": "1GB"}, "memory_limit='1GB': expected a number of bytes"),
        ({"kk": 3}, "kk= is not a parameter of method '.*'"),
        ({"method": "robust", "y": Y, "pred_probs": "abc"}, "pred_probs must be one row of probabilities"),
        ({"method": "robust", "y": Y, "answers": [np.arange(2)] + 19 * [None]}, r"answers\[0\]=array"),
        ({"method": "by-score", "scores": [1j] * 20}, "scores: Complex data not supported"),
        ({"method": "random", "k": 10**12, "replacement": True}, "k is above 2,147,483,648"),
    ],
)
@pytest.mark.filterwarnings("ignore::gmmatch.errors.UnlabeledRowsWarning")
def test_messages(method, arguments, message):
    with pytest.raises(GMMatchError, match=message) as caught:
        gm.select(**{"X": X, "method": method, **arguments})
    assert isinstance(caught.value, ValueError | TypeError)


@pytest.mark.parametrize("method", ["herding", "gm-matching", "kernel-herding", "matching"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "mean"}, "start='mean': give 'target' .*, 'zero' or an array"),
        ({"start": [1.0, 2.0], "kernel": None}, r"start has shape \(2,\): expected a vector of 3 numbers"),
        ({"start": [0.0, 1.0, float("nan")], "kernel": None}, "start holds NaN or infinity"),
        ({"batches": 0, "kernel": None}, "batches=0: expected a whole number of at least 1"),
        ({"replacement": 2}, "replacement=2: expected True or False"),
    ],
)
def test_options_of_the_matchings(method, options, message):
    with pytest.raises(InvalidInputError, match=message):
        gm.select(X, k=3, method=method, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gm.GeometricMedian(fraction=0), "fraction=0: expected a number above 0 and at most 1"),
        (lambda: gm.GeometricMedian(eps=-1), "eps=-1: expected a finite number of at least 0"),
        (lambda: gm.GeometricMedian(max_iter=0), "max_iter=0: expected a whole number of at least 1"),
        (lambda: gm.GeometricMedian(delta=-1.0), "delta=-1.0: expected a finite number of at least 0"),
        (lambda: gm.Independent(0), "n_batches=0: expected a whole number"),
        (lambda: gm.RBF("mean"), "bandwidth='mean': expected a number, or 'median'"),
        (lambda: gm.RBF(0.0), "bandwidth=0.0: expected a finite number above 0"),
        (lambda: gm.RandomFeatures(gm.RBF(), 7), "n_components=7: .* give an even number"),
        (lambda: gm.RandomFeatures(gm.Polynomial()), "use Nystroem for others"),
        (lambda: gm.Polynomial(degree=0), "degree=0: expected a whole number of at least 1"),
    ],
)
def test_options_check_themselves(make, message):
    with pytest.raises(GMMatchError, match=message):
        make()


@pytest.mark.parametrize("method", ["easy", "hard", "moderate"])
def test_options_of_the_rankings(method):
    with pytest.raises(InvalidTypeError, match="center='median': give an object with compute"):
        gm.select(X, k=3, method=method, center="median")
    with pytest.raises(InvalidInputError, match="replacement= is not a parameter of method"):
        gm.select(X, k=3, method=method, replacement=True)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("gm-match", "'gm-matching'"), ("kernelherding", "'kernel-herding'"), ("eazy", "'easy'")],
)
def test_an_unknown_method_names_the_nearest(name, nearest):
    with pytest.raises(UnknownMethodError, match=f"method='{name}': .*Did you mean {nearest}"):
        gm.select(X, method=name)
    with pytest.raises(ValueError, match="there are 'robust', 'gm-matching', 'random'"):
        gm.method_class(name)
    assert gm.method_class("GM_Matching") is gm.GMMatching


def test_a_misspelt_option_names_the_nearest():
    with pytest.raises(InvalidInputError, match=r"kernal= is not a parameter .* Did you mean 'kernel'\?"):
        gm.select(X, kernal="rbf", method="gm-matching")
    with pytest.raises(InvalidInputError, match=r"sample_weights= .* Did you mean 'sample_weight'"):
        gm.select(X, sample_weights=np.ones(20), method="gm-matching")
    # What others have is not misspelt, and 'engine' not meant.
    with pytest.raises(InvalidInputError, match=r"batches= .* 'easy'\. It is one of 'robust', 'gm-matching'"):
        gm.select(X, batches=2, method="easy")


def test_random_draws_only_rows_with_a_weight():
    weights = np.r_[1.0, 1.0, np.zeros(18)]
    with pytest.raises(
        InvalidInputError, match=r"k asks for 3 picks of the data, but only 2 .* positive sample_weight"
    ):
        gm.Random(k=3).select(X, sample_weight=weights)
    assert gm.Random(k=2).select(X, sample_weight=weights).indices.tolist() == [0, 1]
    assert set(gm.Random(k=9, replacement=True).select(X, sample_weight=weights).order) <= {0, 1}


class Unwilling:
    """An object that raises when it is asked for its numbers."""

    def __array__(self, *_, **__):
        raise RuntimeError("no numbers today")


ARRAYS = ("X", "sample_weight", "include", "exclude", "scores", "pred_probs", "answers", "ids", "reference")


@pytest.mark.parametrize("argument", ARRAYS)
def test_whatever_keeps_something_from_being_an_array_is_named(argument):
    arguments = {"X": X, "method": "by-score" if argument == "scores" else "robust", "k": 3}
    with pytest.raises(GMMatchError, match=rf"^{argument}"):
        gm.select(**{**arguments, argument: Unwilling()})


@pytest.mark.parametrize("argument", ["X", "y", "sample_weight", "exclude", "ids"])
def test_tensors_without_data_are_refused(torch, argument):
    tensor = torch.empty((20, 3) if argument == "X" else 20, device="meta")
    with pytest.raises(InvalidInputError, match=rf"^{argument} must be .*meta tensor"):
        gm.select(**{"X": X, "k": 3, "method": "easy", argument: tensor})


def test_rows_out_as_a_tensor(torch):
    expected = gm.select(X, k=3, method="easy", exclude=[1, 2]).indices.tolist()
    mask = torch.zeros(20, dtype=torch.bool)
    mask[1:3] = True
    for exclude in (torch.tensor([1, 2]), mask):
        assert gm.select(X, k=3, method="easy", exclude=exclude).indices.tolist() == expected


def test_a_column_of_a_table_is_not_taken_for_labels_or_ids():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "labels": X[:, 1], "ids": X[:, 2]})
    selection = gm.select(table, k=3, method="easy")
    assert selection.ids is None and selection.classes == [None]
    assert selection.indices.tolist() == gm.select(X, k=3, method="easy").indices.tolist()


@pytest.mark.parametrize(
    ("method", "texts", "expected"),
    [
        (gm.GMMatching, ["target.eps=1e-6"], {"target": gm.GeometricMedian(eps=1e-6)}),
        (gm.GMMatching, ["target.max-iter=1e3"], {"target": gm.GeometricMedian(max_iter=1000)}),
        (gm.GMMatching, ["target=mean", "target.unit=true"], {"target": gm.Mean(unit=True)}),
        (gm.GMMatching, ["target.unit=True", "target=Mean"], {"target": gm.Mean(unit=True)}),
        (gm.Moderate, ["center=coordinate_median"], {"center": gm.CoordinateMedian()}),
        (gm.Herding, ["kernel=rbf", "kernel.bandwidth=2"], {"kernel": gm.RBF(bandwidth=2)}),
        (gm.Robust, ["kernel.n_components=64"], {"kernel": gm.RandomFeatures(gm.RBF(), 64)}),
        (
            gm.Herding,
            ["kernel=nystroem", "kernel.kernel=laplacian", "kernel.kernel.bandwidth=3"],
            {"kernel": gm.Nystroem(gm.Laplacian(bandwidth=3))},
        ),
        (gm.Herding, ["batches=8", "start=zero"], {"batches": 8, "start": "zero"}),
        (gm.Herding, ["replacement=false"], {"replacement": False}),
        (gm.Robust, ["screening=none"], {"screening": None}),
        (gm.Herding, ["screening=true"], {"screening": gm.Screening()}),
        (gm.Herding, ["screening.tolerance=0.1"], {"screening": gm.Screening(tolerance=0.1)}),
        (gm.Herding, [], {}),
    ],
)  # fmt: skip
def test_settings_become_arguments_of_the_constructor(method, texts, expected):
    arguments = parse_settings(method, texts)
    assert arguments == expected
    assert method(k=3, **arguments).get_params()


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["target"], "write name=value"),
        (["=3"], "write name=value"),
        (["eps=3"], "the method has no eps"),
        (["targt=mean"], "Did you mean 'target'"),
        (["target=meen"], "expected mean or geometric-median or coordinate-median. Did you mean 'mean'?"),
        (["target=none"], "expected mean"),
        (["target.epss=3"], "geometric-median has no epss"),
        (["target=mean", "target.eps=3"], "mean has no eps, but unit"),
        (["target.eps=small"], "expected a number, such as 1e-08"),
        (["target.max_iter=1.5"], "expected a whole number"),
        (["target.eps=-1"], "target.eps=-1: "),
        (["replacement=maybe"], "expected true or false"),
        (["replacement.x=1"], "replacement has no settings"),
        (["kernel.bandwidth=1"], "of which, as kernel=rbf"),
        (["screening=none", "screening.tolerance=1"], "of which"),
        (["target.eps=1", "target.eps=2"], "target.eps was given twice"),
        (["batches=many"], "expected carried or independent or a number or none"),
        (["k=3"], "the method has no k"),
    ],
)
def test_what_cannot_be_is_said_by_name(texts, words):
    with pytest.raises(InvalidInputError) as raised:
        parse_settings(gm.GMMatching, texts, exclude=["k"])
    assert words in str(raised.value)


def test_an_option_object_may_need_a_parameter():
    with pytest.raises(InvalidInputError, match=r"also give batches\.\w+="):
        parse_settings(gm.Herding, ["batches=independent"])


@pytest.mark.parametrize("name", gm.methods())
def test_every_setting_of_every_method_can_be_given_as_it_is_described(name):
    method = gm.method_class(name)
    for setting, value in describe_settings(method).items():
        if isinstance(value, (bool, int, float, str)):
            arguments = parse_settings(method, [f"{setting}={value}"])
            assert arguments == {setting.partition(".")[0]: getattr(method(), setting.partition(".")[0])}


def test_settings_of_option_objects_are_described_by_their_place():
    settings = describe_settings(gm.Robust)
    assert settings["kernel"] == "random-features" and settings["kernel.kernel.bandwidth"] == "median"
