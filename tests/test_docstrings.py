"""Docstrings: every public name explains itself and its parameters, and shows an example (run as a doctest)."""

import dataclasses
import functools
import inspect
import re
import types

import pytest

import fairopt as fo

PUBLIC = {name: getattr(fo, name) for name in fo.__all__ if not inspect.ismodule(getattr(fo, name))}
ERRORS = {name for name, kind in PUBLIC.items() if inspect.isclass(kind) and issubclass(kind, BaseException)}
GIVEN = {"Allocations", "AuditReport", "Certificate", "Finding", "Try", "Model", "Witness"}  # users are given these
CALLED = sorted(set(PUBLIC) - ERRORS - GIVEN)
CLASSES = sorted(name for name, kind in PUBLIC.items() if inspect.isclass(kind) and name not in ERRORS)


def methods(name):
    """Public methods and properties that the class itself defines."""
    kinds = (property, classmethod, staticmethod, functools.cached_property, types.FunctionType)
    return {key: value for key, value in vars(PUBLIC[name]).items() if isinstance(value, kinds) and key[0] != "_"}


METHODS = [(name, key) for name in CLASSES for key in methods(name)]


def function_of(value):
    return getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", None) or value


def documented(kind):
    """The docstring that a user reads: an inherited one where the class writes none of its own."""
    return inspect.getdoc(kind) or ""


def test_all_lists_exactly_the_public_names():
    assert sorted(fo.__all__) == sorted(set(fo.__all__))
    public = {name for name, value in vars(fo).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(fo.__all__) - {"datasets", "metrics"}


def test_every_public_name_that_the_design_names_is_there():
    named = [
        "Instance",
        "Policy",
        "Allocation",
        "read",
        "DRF",
        "KDF",
        "FDS",
        "GFJ",
        "PNormFairness",
        "DRFH",
        "TSF",
        "NoFairness",
        "NashWelfare",
        "Tasks",
        "DominantShare",
        "KDominantShare",
        "PNormShare",
        "ResourceShare",
        "Total",
        "AlphaFair",
        "MaxMin",
        "Leximin",
        "FairnessEfficiency",
        "OrderedWeighted",
        "SharingIncentive",
        "EnvyFree",
        "EqualShares",
        "MinTasks",
        "MaxTasks",
        "MinShare",
        "MaxShare",
        "Reserve",
        "FairoptError",
        "InvalidInstance",
        "InvalidBlock",
        "OutOfDomain",
        "Infeasible",
        "Unbounded",
        "NotConcave",
        "NotCertified",
        "SolverUnavailable",
        "MissingExtra",
        "Share",
        "Objective",
        "Constraint",
        "datasets",
        "metrics",
    ]
    assert set(named) <= set(fo.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_has_a_docstring_of_its_own(name):
    assert vars(PUBLIC[name]).get("__doc__") if inspect.isclass(PUBLIC[name]) else PUBLIC[name].__doc__


@pytest.mark.parametrize("name", CALLED)
def test_what_users_call_shows_an_example(name):
    assert ">>> " in documented(PUBLIC[name])


@pytest.mark.parametrize("name", CALLED)
def test_an_example_can_be_pasted_as_it_stands(name):
    example = documented(PUBLIC[name])
    assert "import fairopt as fo" in example or "fairopt" in example


@pytest.mark.parametrize("name", CALLED + sorted(GIVEN))
def test_every_parameter_is_documented(name):
    kind, text = PUBLIC[name], documented(PUBLIC[name])
    if inspect.isclass(kind) and not dataclasses.is_dataclass(kind) and kind.__init__ is object.__init__:
        return
    section = text.partition("Parameters\n---")[2] or text.partition("Attributes\n---")[2]
    for parameter in inspect.signature(kind).parameters:
        if parameter not in ("args", "kwargs", "given_bundles") and not parameter.startswith("_"):
            assert re.search(rf"\b{parameter}\b.* :|\b{parameter}\b,|, {parameter}\b", section), parameter


@pytest.mark.parametrize(("name", "key"), METHODS, ids=lambda value: value)
def test_every_public_method_has_a_docstring(name, key):
    assert (
        inspect.getdoc(getattr(PUBLIC[name], key))
        if not isinstance(methods(name)[key], property)
        else methods(name)[key].__doc__
    )


@pytest.mark.parametrize(
    ("name", "key"), [(n, k) for n, k in METHODS if n in ("Allocation", "Policy", "Instance")], ids=lambda value: value
)
def test_every_parameter_of_a_method_that_users_call_is_documented(name, key):
    function = function_of(methods(name)[key])
    text = inspect.getdoc(function) or ""
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls", "changes")]
    if len(text.splitlines()) == 1 and len(parameters) <= 1:
        return  # a line says it all
    for parameter in parameters:
        assert re.search(rf"\b{parameter}\b", text.partition("Parameters\n---")[2]), parameter


@pytest.mark.parametrize("name", sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "DRFH", "TSF", "NoFairness"}))
def test_a_named_notion_cites_its_paper(name):
    assert re.search(r"00[0-4]\b|\b(19|20)\d\d\b", documented(PUBLIC[name]))


@pytest.mark.parametrize(
    "name", sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "DRFH", "TSF", "NoFairness", "NashWelfare"})
)
def test_a_named_notion_is_at_most_about_forty_lines_docstring_included(name):
    assert len(inspect.getsource(PUBLIC[name]).splitlines()) <= 40


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_says_when_it_is_raised(name):
    assert len(documented(PUBLIC[name])) > 20


def test_no_docstring_uses_a_synonym_of_the_words_of_the_design():
    # no synonyms: a user is no agent or customer, a server no machine, node or host
    # but what a file calls them, in double quotes of code
    wrong = re.compile(r"\b(agent|customer|node|host)s?\b", re.IGNORECASE)
    quoted = re.compile(r"``[^`]*``")
    found = {name: wrong.findall(quoted.sub("", documented(value))) for name, value in PUBLIC.items()}
    assert {name: words for name, words in found.items() if words} == {}
