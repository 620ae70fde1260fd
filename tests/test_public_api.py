"""The public names: complete, documented with examples, typed, and loaded only when they are used."""

from __future__ import annotations

import dataclasses
import doctest
import inspect
import types

import pytest

import gmmatch
from gmmatch import errors
from gmmatch.methods.base import Method
from gmmatch.methods.registry import METHODS

PUBLIC = {name: getattr(gmmatch, name) for name in gmmatch.__all__}
MODULES = {name: value for name, value in PUBLIC.items() if isinstance(value, types.ModuleType)}


def own_names(module):
    """What a module defines itself and does not hide; what it lists as public, where it does."""
    listed = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    values = {name: getattr(module, name) for name in listed}
    return {
        name: value for name, value in values.items() if getattr(value, "__module__", None) == module.__name__
    }


DOCUMENTED = {
    name: value
    for name, value in PUBLIC.items()
    if callable(value) and not (inspect.isclass(value) and issubclass(value, Exception))
}
for module_name, module in MODULES.items():
    if module is not errors:
        DOCUMENTED |= {
            f"{module_name}.{name}": value for name, value in own_names(module).items() if callable(value)
        }
CLASSES = {name: value for name, value in DOCUMENTED.items() if inspect.isclass(value)}
SELECTORS = [gmmatch.method_class(name) for name in METHODS]


def test_the_names_are_found():
    assert set(gmmatch.__all__) <= set(dir(gmmatch))
    assert gmmatch.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="GMMatchin"):
        gmmatch.GMMatchin  # noqa: B018


def test_every_method_is_a_public_class():
    for name, cls in zip(METHODS, SELECTORS, strict=True):
        assert cls.name == name
        assert cls is getattr(gmmatch, cls.__name__)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_public_name_has_a_docstring_with_an_example(name):
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    assert text.partition("\n")[0].rstrip().endswith((".", "?")), "the first line is a sentence"
    assert doctest.DocTestParser().get_examples(text), "there is an example"


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_and_property_is_documented(name):
    for attribute, value in inspect.getmembers(CLASSES[name]):
        owner = getattr(value, "__module__", None) or getattr(getattr(value, "fget", None), "__module__", "")
        if attribute.startswith("_") or not str(owner).startswith("gmmatch"):
            continue
        if callable(value) or isinstance(value, property):
            assert inspect.getdoc(value), f"{name}.{attribute}"


@pytest.mark.parametrize("cls", SELECTORS, ids=lambda cls: cls.__name__)
def test_every_parameter_of_a_method_is_documented(cls):
    """In its own docstring, or in that of Matching or Method, to which the others refer."""
    text = "\n".join(inspect.getdoc(owner) for owner in (cls, gmmatch.Matching, Method))
    headings = {
        name.strip()
        for line in text.splitlines()
        if not line.startswith(" ")
        for name in line.partition(" : ")[0].split(",")
    }
    for field in dataclasses.fields(cls):
        assert field.name in headings, field.name


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if not inspect.isclass(DOCUMENTED[name])])
def test_every_function_is_typed(name):
    function = DOCUMENTED[name]
    hints = function.__annotations__
    parameters = inspect.signature(function).parameters
    assert set(parameters) | {"return"} <= set(hints)


def test_the_package_says_that_it_is_typed():
    import importlib.resources

    assert (importlib.resources.files("gmmatch") / "py.typed").is_file()


@pytest.mark.parametrize(
    "name", [name for name in own_names(errors) if inspect.isclass(getattr(errors, name))]
)
def test_every_error_is_a_gmmatch_error_and_a_builtin(name):
    error = getattr(errors, name)
    assert inspect.getdoc(error)
    if issubclass(error, Warning):
        assert issubclass(error, errors.GMMatchWarning) and issubclass(error, UserWarning)
    else:
        assert issubclass(error, errors.GMMatchError)
        if error is not errors.GMMatchError:
            builtins = {base for base in error.__mro__ if base.__module__ == "builtins"}
            assert builtins - {Exception, BaseException, object}
