"""Docstrings: every public name explains itself and its parameters, and shows an example (run as a doctest)."""

import dataclasses
import functools
import inspect
import re
import types

import pytest

import fairopt as fo

PUBLIC = {name: getattr(fo, name) for name in fo.__all__ if not inspect.ismodule(getattr(fo, name))}
IN_MODULES = {
    f"{module}.{name}": getattr(getattr(fo, module), name)
    for module in ("datasets", "metrics", "preferences") for name in getattr(fo, module).__all__
}  # fmt: skip
CALLED = {**PUBLIC, **{name: kind for name, kind in IN_MODULES.items() if callable(kind)}}
ERRORS = {name for name, kind in PUBLIC.items() if inspect.isclass(kind) and issubclass(kind, BaseException)}
CLASSES = sorted(name for name, kind in CALLED.items() if inspect.isclass(kind) and name not in ERRORS)
BLOCKS = (fo.Share, fo.Objective, fo.Constraint, fo.BundleBase, fo.Model)  # examples of classes show their methods
OF_SOLVERS = {  # public methods of `Instance` that methods and blocks call, not users
    "taking_part", "window", "server_window", "common_level", "tasks_alone_within", "spread",
}  # fmt: skip
MINE = ("Instance", "Policy", "Allocation", "BottleneckFairness", "NaivePerServer", "PSDSF", "datasets", "metrics")


OURS = re.compile(r"fairopt\.")
ODD = re.compile(r"\b((some|no|every|any)body|(no |every)one|wh(o|at)ever)\b|(?<!there )\b(is|are) no\b", re.IGNORECASE)


def methods(name):
    """Public methods and properties that the class itself defines."""
    kinds = (property, classmethod, staticmethod, functools.cached_property, types.FunctionType)
    return {key: value for key, value in vars(CALLED[name]).items() if isinstance(value, kinds) and key[0] != "_"}


METHODS = [(name, key) for name in CLASSES for key in methods(name)]
FUNCTIONS = [
    (name, key) for name, key in METHODS
    if not isinstance(methods(name)[key], (property, functools.cached_property))
    and not issubclass(CALLED[name], BLOCKS)
]  # fmt: skip


def function_of(value):
    return getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", None) or value


def documented(kind):
    """The docstring that a user reads: an inherited one where the class writes none of its own."""
    return inspect.getdoc(kind) or ""


def of_method(name, key):
    value = methods(name)[key]
    return documented(getattr(CALLED[name], key) if inspect.isfunction(value) else function_of(value))


def test_all_lists_exactly_the_public_names():
    assert sorted(fo.__all__) == sorted(set(fo.__all__))
    public = {name for name, value in vars(fo).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public == set(fo.__all__) - {"datasets", "metrics", "preferences"}


def test_every_public_name_that_the_design_names_is_there():
    named = """
        Instance Policy Allocation read DRF KDF FDS GFJ PNormFairness DRFH TSF NoFairness NashWelfare Tasks
        DominantShare KDominantShare PNormShare ResourceShare Total AlphaFair MaxMin Leximin FairnessEfficiency
        OrderedWeighted SharingIncentive EnvyFree EqualShares MinTasks MaxTasks MinShare MaxShare Reserve FairoptError
        InvalidInstance InvalidBlock OutOfDomain Infeasible Unbounded NotConcave NotCertified SolverUnavailable
        MissingExtra Share Objective Constraint datasets metrics
    """
    assert set(named.split()) <= set(fo.__all__)


@pytest.mark.parametrize("name", sorted(CALLED))
def test_every_public_name_has_a_docstring_of_its_own(name):
    assert vars(CALLED[name]).get("__doc__") if inspect.isclass(CALLED[name]) else CALLED[name].__doc__


@pytest.mark.parametrize("name", sorted(CALLED))
def test_every_public_name_shows_an_example_that_can_be_pasted_as_it_stands(name):
    example = documented(CALLED[name]).partition("Examples\n---")[2]
    assert ">>> " in example
    assert re.search(r">>> (import|from) .*\bfairopt\b", example)


@pytest.mark.parametrize(
    ("name", "key"), [(n, k) for n, k in FUNCTIONS if n.startswith(MINE) and k not in OF_SOLVERS], ids=lambda v: v
)
def test_every_method_that_users_call_shows_an_example(name, key):
    assert re.search(r">>> (import|from) .*\bfairopt\b", of_method(name, key))


@pytest.mark.parametrize("name", sorted(CALLED))
def test_every_parameter_is_documented(name):
    kind, text = CALLED[name], documented(CALLED[name])
    if inspect.isclass(kind) and not dataclasses.is_dataclass(kind) and kind.__init__ is object.__init__:
        return
    if name in ERRORS and not inspect.isfunction(kind.__init__):
        return  # it takes a message
    section = text.partition("Parameters\n---")[2] or text.partition("Attributes\n---")[2]
    for parameter in inspect.signature(kind).parameters:
        if parameter not in ("args", "kwargs", "message") and not parameter.startswith("_"):
            assert re.search(rf"\b{parameter}\b.* :|\b{parameter}\b,|[,*] ?{parameter}\b", section), parameter


@pytest.mark.parametrize(("name", "key"), METHODS, ids=lambda value: value)
def test_every_public_method_has_a_docstring(name, key):
    assert of_method(name, key)


@pytest.mark.parametrize(("name", "key"), [(n, k) for n, k in FUNCTIONS if n.startswith(MINE)], ids=lambda v: v)
def test_every_parameter_of_a_method_that_users_call_is_documented(name, key):
    text, function = of_method(name, key), function_of(methods(name)[key])
    parameters = [p for p in inspect.signature(function).parameters if p not in ("self", "cls", "changes")]
    section = text.partition("Parameters\n---")[2]
    if not section and len(parameters) <= 1:
        return  # the first line names it
    for parameter in parameters:
        assert re.search(rf"\b{parameter}\b", section or text), parameter


@pytest.mark.parametrize("name", sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "DRFH", "TSF", "NoFairness"}))
def test_a_named_notion_cites_its_paper(name):
    assert re.search(r"\b(19|20)\d\d\b", documented(PUBLIC[name]))


@pytest.mark.parametrize(
    "name", sorted({"DRF", "KDF", "FDS", "GFJ", "PNormFairness", "DRFH", "TSF", "NoFairness", "NashWelfare"})
)
def test_a_named_notion_is_at_most_about_forty_lines_docstring_included(name):
    assert len(inspect.getsource(PUBLIC[name]).splitlines()) <= 40


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_an_error_says_when_it_is_raised(name):
    assert len(documented(PUBLIC[name])) > 20


@pytest.mark.parametrize("name", sorted(CALLED))
def test_backticks_come_in_pairs_and_sections_have_their_underlines(name):
    texts = [documented(CALLED[name]), *(of_method(name, key) for key in (methods(name) if name in CLASSES else ()))]
    for text in texts:
        prose = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith((">>>", "...")))
        prose = prose.partition("Examples\n---")[0]
        assert re.sub(r"``.*?``", "", prose, flags=re.DOTALL).count("`") % 2 == 0, text
        titles = re.findall(r"^(Parameters|Returns|Yields|Raises|Attributes|Notes|Examples)\n(.*)$", text, re.MULTILINE)
        assert all(underline == "-" * len(title) for title, underline in titles), text


@pytest.mark.parametrize("name", sorted(name for name, kind in CALLED.items() if OURS.match(kind.__module__)))
def test_docstrings_are_in_plain_english(name):
    texts = [documented(CALLED[name]), *(of_method(name, key) for key in (methods(name) if name in CLASSES else ()))]
    assert [found.group() for text in texts for found in ODD.finditer(text)] == []


def test_no_docstring_uses_a_synonym_of_the_words_of_the_design():
    # no synonyms: a user is no agent or customer, a server no machine, node or host
    # but what a file calls them, in double quotes of code
    wrong = re.compile(r"\b(agent|customer|node|host)s?\b", re.IGNORECASE)
    quoted = re.compile(r"``[^`]*``")
    found = {name: wrong.findall(quoted.sub("", documented(value))) for name, value in PUBLIC.items()}
    assert {name: words for name, words in found.items() if words} == {}
