"""Settings as text: names with dots become option objects, and what cannot be is said by name."""

from __future__ import annotations

import pytest

import gmmatch as gm
from gmmatch.errors import InvalidInputError
from gmmatch.methods.settings import describe_settings, parse_settings


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
        (["target=mean", "target.eps=3"], "mean has no eps; it has unit"),
        (["target.eps=small"], "expected a number, such as 1e-08"),
        (["target.max_iter=1.5"], "expected a whole number"),
        (["target.eps=-1"], "target.eps=-1: "),
        (["replacement=maybe"], "expected true or false"),
        (["replacement.x=1"], "replacement has no settings"),
        (["kernel.bandwidth=1"], "say of which, as kernel=rbf"),
        (["screening=none", "screening.tolerance=1"], "say of which"),
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
