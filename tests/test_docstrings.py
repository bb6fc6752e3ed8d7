"""Docstrings: every public name explains itself and its parameters, and shows an example (run as a doctest)."""

import dataclasses
import functools
import importlib
import inspect
import pickle
import re
import types

import pytest
from rooms import KITS, ROOMS, kit_of

import fairopt as fo
from fairopt.runtime.lazy import public_places

PUBLIC = {name: getattr(fo, name) for name in fo.__all__ if not inspect.ismodule(getattr(fo, name))}
PUBLIC |= {
    name: getattr(getattr(fo, room), name)
    for room in (*ROOMS, "errors")
    for name in getattr(fo, room).__all__
    if not inspect.ismodule(getattr(getattr(fo, room), name)) and (room == "errors" or name not in kit_of(room))
}
PUBLIC["Try"] = fo.certificate.Try
IN_MODULES = {
    f"{module}.{name}": getattr(place, name)
    for module, place in {
        "datasets": fo.datasets,
        "metrics": fo.metrics,
        "preferences": fo.tradeoff.preferences,
    }.items()
    for name in place.__all__
}
CALLED = {**PUBLIC, **{name: kind for name, kind in IN_MODULES.items() if callable(kind)}}
ERRORS = {name for name, kind in PUBLIC.items() if inspect.isclass(kind) and issubclass(kind, BaseException)}
CLASSES = sorted(name for name, kind in CALLED.items() if inspect.isclass(kind) and name not in ERRORS)
BLOCKS = (fo.Share, fo.Objective, fo.Constraint, fo.BundleBase, fo.Model)  # examples of classes show their methods
MINE = ("Instance", "Policy", "Allocation", "BottleneckFairness", "NaivePerServer", "PSDSF", "datasets", "metrics")


def methods(name):
    """Public methods and properties that the class itself defines."""
    kinds = (property, classmethod, staticmethod, functools.cached_property, types.FunctionType)
    return {key: value for key, value in vars(CALLED[name]).items() if isinstance(value, kinds) and key[0] != "_"}


METHODS = [(name, key) for name in CLASSES for key in methods(name)]
FUNCTIONS = [
    (name, key)
    for name, key in METHODS
    if not isinstance(methods(name)[key], (property, functools.cached_property))
    and not issubclass(CALLED[name], BLOCKS)
]


def function_of(value):
    return getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", None) or value


def documented(kind):
    """The docstring that a user reads: an inherited one where the class writes none of its own."""
    return inspect.getdoc(kind) or ""


def of_method(name, key):
    value = methods(name)[key]
    return documented(getattr(CALLED[name], key) if inspect.isfunction(value) else function_of(value))


@pytest.mark.parametrize("room", (fo, *(getattr(fo, name) for name in ROOMS)), ids=lambda room: room.__name__)
def test_a_package_lists_the_names_that_its_modules_define(room):
    assert len(set(room.__all__)) == len(room.__all__)
    assert set(room.__all__) == {name for name in dir(room) if not name.startswith("__")}
    for name, module in public_places(room.__name__).items():
        place = room if module == room.__name__ else importlib.import_module(module)
        assert getattr(room, name) is getattr(place, name)


def test_the_top_has_fewer_than_eighty_names():
    assert len(fo.__all__) < 80


def test_public_names_are_what_the_rooms_have_and_others_are_not_there():
    assert inspect.ismodule(fo.tradeoff.preferences) and inspect.isfunction(fo.progress)
    with pytest.raises(AttributeError, match="has no attribute 'Alocation'"):
        _ = fo.Alocation
    assert pickle.loads(pickle.dumps(fo.DRF())) == fo.DRF() and pickle.loads(pickle.dumps(fo.frontier)) is fo.frontier


def test_every_public_name_that_the_design_names_is_there():
    named = """
        Instance Policy Allocation read DRF KDF FDS GFJ PNormFairness TSF MostTasks NashWelfare Tasks
        DominantShare KDominantShare PNormShare ResourceShare Total AlphaFair MaxMin Leximin FairnessEfficiency
        OrderedWeighted SharingIncentive EnvyFree EqualShares MinTasks MaxTasks MinShare MaxShare Reserve FairoptError
        Share Objective Constraint datasets metrics
    """
    assert set(named.split()) <= set(fo.__all__)


def test_every_public_name_has_a_docstring_of_its_own():
    own = {name: vars(kind).get("__doc__") if inspect.isclass(kind) else kind.__doc__ for name, kind in CALLED.items()}
    assert [name for name, text in own.items() if not text] == []


@pytest.mark.parametrize("room", KITS)
def test_every_name_for_packages_that_extend_fairopt_is_there_and_says_what_it_is(room):
    package = importlib.import_module(f"fairopt.{room}")
    for name, module in kit_of(room).items():
        found = getattr(package, name)
        assert found is getattr(importlib.import_module(module), name)
        assert not (inspect.isclass(found) or inspect.isfunction(found)) or vars(found).get("__doc__") or found.__doc__


def test_every_public_name_shows_an_example_that_can_be_pasted_as_it_stands():
    examples = {name: documented(kind).partition("Examples\n---")[2] for name, kind in CALLED.items()}
    assert [name for name, text in examples.items() if not re.search(r">>> (import|from) .*\bfairopt\b", text)] == []


def test_every_method_that_users_call_shows_an_example():
    called = [(name, key) for name, key in FUNCTIONS if name.startswith(MINE) and key != "read"]
    assert [at for at in called if not re.search(r">>> (import|from) .*\bfairopt\b", of_method(*at))] == []


def test_every_parameter_is_documented():
    missing = []
    for name, kind in CALLED.items():
        if inspect.isclass(kind) and not dataclasses.is_dataclass(kind) and kind.__init__ is object.__init__:
            continue
        if name in ERRORS and not inspect.isfunction(kind.__init__):
            continue  # it takes a message
        text = documented(kind)
        section = text.partition("Parameters\n---")[2] or text.partition("Attributes\n---")[2]
        for p in inspect.signature(kind).parameters:
            if p not in ("args", "kwargs", "message") and not p.startswith("_"):
                missing += [(name, p)] * (not re.search(rf"\b{p}\b.* :|\b{p}\b,|[,*] ?{p}\b", section))
    assert missing == []


def test_every_public_method_has_a_docstring():
    assert [at for at in METHODS if not of_method(*at)] == []


def test_every_parameter_of_a_method_that_users_call_is_documented():
    missing = []
    for name, key in [(name, key) for name, key in FUNCTIONS if name.startswith(MINE) and key != "read"]:
        text, function = of_method(name, key), function_of(methods(name)[key])
        parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls", "changes")]
        section = text.partition("Parameters\n---")[2]
        if section or len(parameters) > 1:  # else the first line names it
            missing += [(name, key, p) for p in parameters if not re.search(rf"\b{p}\b", section or text)]
    assert missing == []


@pytest.mark.parametrize(
    "name",
    sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "TSF", "MostTasks", "NashBargaining", "KalaiSmorodinsky"}),
)
def test_a_named_notion_cites_its_paper(name):
    assert re.search(r"\b(19|20)\d\d\b", documented(PUBLIC[name]))


@pytest.mark.parametrize(
    "name", sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "TSF", "MostTasks", "NashWelfare"})
)
def test_a_named_notion_is_at_most_about_forty_lines_docstring_included(name):
    assert len(inspect.getsource(PUBLIC[name]).splitlines()) <= 40


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_says_when_it_is_raised(name):
    assert len(documented(PUBLIC[name])) > 20


def texts_of(name):
    return [documented(CALLED[name]), *(of_method(name, key) for key in (methods(name) if name in CLASSES else ()))]


def test_backticks_come_in_pairs_and_sections_have_their_underlines():
    for text in (text for name in CALLED for text in texts_of(name)):
        prose = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith((">>>", "...")))
        prose = prose.partition("Examples\n---")[0]
        assert re.sub(r"``.*?``", "", prose, flags=re.DOTALL).count("`") % 2 == 0, text
        titles = re.findall(r"^(Parameters|Returns|Yields|Raises|Attributes|Notes|Examples)\n(.*)$", text, re.MULTILINE)
        assert all(underline == "-" * len(title) for title, underline in titles), text
