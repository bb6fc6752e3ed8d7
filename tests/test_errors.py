"""The tree of errors: one base, split by what the caller should do, each told apart by its type and told well."""

import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt import errors

DESIGNED = {
    "FairoptError",
    "InvalidInstance",
    "InvalidBlock",
    "UnknownName",
    "OutOfDomain",
    "Infeasible",
    "Unbounded",
    "NotConcave",
    "NotCertified",
    "SolverUnavailable",
    "MissingExtra",
    "OutOfMemory",
    "OutOfTime",
}
CLASSES = {n: kind for n, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
BY_MESSAGE = sorted(set(CLASSES) - {"MissingExtra"})
KINDS = (errors.InvalidInput, errors.NoAnswer, errors.TryAnother)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_derives_from_one_base(name: str) -> None:
    assert issubclass(CLASSES[name], fo.FairoptError)


@pytest.mark.parametrize("name", sorted(DESIGNED))
def test_every_error_of_the_design_is_exported(name: str) -> None:
    assert getattr(fo.errors, name) is CLASSES[name]
    assert name in fo.errors.__all__


@pytest.mark.parametrize("name", sorted(DESIGNED - {"FairoptError"}))
def test_every_error_says_what_the_caller_should_do(name: str) -> None:
    assert sum(issubclass(CLASSES[name], kind) for kind in KINDS) == 1


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(CLASSES[name])


@pytest.mark.parametrize("name", BY_MESSAGE)
def test_an_error_prints_its_message(name: str) -> None:
    assert str(CLASSES[name]("user 'web' is wrong; fix it")) == "user 'web' is wrong; fix it"


@pytest.mark.parametrize("name", BY_MESSAGE)
def test_an_error_survives_pickling_as_workers_need_it(name: str) -> None:
    kind = CLASSES[name]
    assert type(kind.__new__(kind, "why")) is kind  # as Dask makes it again
    again = pickle.loads(pickle.dumps(kind("why")))
    assert type(again) is CLASSES[name]
    assert str(again) == "why"


def test_no_other_public_error_hides_in_the_package() -> None:
    hidden = set()
    for info in pkgutil.walk_packages(fo.__path__, "fairopt."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            ours = issubclass(kind, Exception) and kind.__module__.startswith("fairopt")
            alone = info.name.startswith("fairopt.checker")  # whose errors are their own
            if ours and name not in CLASSES and not name.startswith("_") and not alone:
                hidden.add(f"{info.name}.{name}")
    assert hidden == set()


def test_bad_input_is_a_value_error_for_those_who_catch_that() -> None:
    assert issubclass(fo.errors.InvalidInstance, ValueError)
    assert issubclass(fo.errors.InvalidBlock, ValueError)


def test_missing_extra_is_an_import_error_with_the_exact_pip_line() -> None:
    error = fo.errors.MissingExtra("matplotlib", "plots", "a picture")
    assert isinstance(error, ImportError)
    assert str(error) == "a picture needs matplotlib, which is not installed: pip install 'fairopt[plots]'"
    assert (error.package, error.extra) == ("matplotlib", "plots")


def test_every_extra_named_in_an_error_exists() -> None:
    import tomllib
    from pathlib import Path

    root = Path(__file__).parents[1]
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = set()
    for path in (root / "fairopt").rglob("*.py"):
        named |= set(re.findall(r"""MissingExtra\(\s*"[^"]+",\s*"([^"]+)\"""", path.read_text(encoding="utf-8")))
    assert named
    assert named <= set(extras)


def test_infeasible_holds_the_conflict() -> None:
    assert fo.errors.Infeasible("no", conflict=("a", "b")).conflict == ("a", "b")
    assert fo.errors.Infeasible("no").conflict == ()


def test_not_certified_holds_the_best_found_and_what_was_tried() -> None:
    tried = (fo.certificate.Try("SCS", "optimal", 0.1),)
    error = fo.errors.NotCertified("no", best="an allocation", tried=tried)
    assert error.best == "an allocation"
    assert error.tried == tried


@pytest.mark.parametrize(
    ("name", "known", "end"),
    [
        ("drff", ["drf", "nash"], "did you mean 'drf'?"),
        ("zzz", ["drf", "2df"], "known: drf, 2df"),
        ("zzz", [f"n{k}" for k in range(40)], ", ..."),
        (3, [1, 2], "known: 1, 2"),
        ("ghodsi", ["kash-2014", "ghodsi-2011-example"], "did you mean 'ghodsi-2011-example'?"),
        ("gpu", ["cpu", "memory", "nvidia.com/gpu"], "did you mean 'nvidia.com/gpu'?"),
        ("gavel", ["mesos-disk", "gavel-many", "gavel-few"], "did you mean 'gavel-many' or 'gavel-few'?"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(name: object, known: list[object], end: str) -> None:
    assert errors.nearest(name, known).endswith(end)


def test_names_as_long_as_a_file_may_hold_are_cut_in_messages():
    listed = errors.nearest("x", ["9" * 5000, "team"])
    assert listed.startswith("known: 999") and listed.endswith("…, team") and len(listed) < 150
    assert len(errors.nearest("9" * 4999, ["9" * 5000])) < 150


# -- blocks of users' own -----------------------------------------------------------------------------------------


CLUSTER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["A", "B"])


def own(base: type, **methods: Any) -> Any:
    """A block of the user's own by the name of Mine, with these methods."""
    return dataclass(frozen=True, repr=False)(type("Mine", (base,), methods))()


def objective(written: Callable[[Any], Any]) -> Any:
    """An objective of one's own."""
    return own(fo.Objective, expression=lambda self, model: written(model))


def constraint(written: Callable[[Any], Any]) -> Any:
    """A constraint of one's own."""
    return own(fo.Constraint, constraints=lambda self, model: written(model))


def share(written: Callable[[Any], Any]) -> Any:
    """A share of one's own."""
    return own(fo.Share, per_task=lambda self, instance: written(instance))


LABEL = (
    r"Mine\.{} uses a label as an index .*x\[{}\.user_index\('A'\)\]\. Users: 'A', 'B'; "
    r"resources, by resource_index: 'resource1', "
)
FAULTS: dict[str, tuple[Any, list[Any], str]] = {
    "no sum": (objective(lambda m: cp.log(m.tasks)), [], r"Mine\.expression gave shape \(2,\); .* such as cp\.sum"),
    "no return": (objective(lambda m: None), [], r"Mine\.expression returned None; is a `return` missing\?"),
    "a text": (objective(lambda m: "x"), [], r"Mine\.expression gave 'x'; .* such as cp\.sum"),
    "no return in a constraint": (fo.Total(), [constraint(lambda m: None)], r"Mine\.constraints returned None; is a"),
    "no return in a share": (fo.Total(share(lambda i: None)), [], r"Mine\.per_task returned None; is a `return`"),
    "a text as a share": (fo.Total(share(lambda i: "x")), [], r"Mine\(\)\.per_task gave 'x'; give an array of numbers"),
    "a label": (objective(lambda m: m.tasks["A"]), [], LABEL.format("expression", r"model\.instance")),
    "a label of tasks by server": (
        objective(lambda m: m.tasks_by_server["A", 0]),
        [],
        LABEL.format("expression", r"model\.instance"),
    ),
    "a label in a constraint": (
        fo.Total(),
        [constraint(lambda m: {"few": m.tasks["A"] <= 1})],
        LABEL.format("constraints", r"model\.instance"),
    ),
    "a label in a share": (fo.Total(share(lambda i: i.demands["A"])), [], LABEL.format("per_task", "instance")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_a_block_of_ones_own_names_class_and_method_and_says_the_fix(fault: str) -> None:
    first, constraints, said = FAULTS[fault]
    policies = [fo.Policy(first, constraints)]
    if not constraints and not isinstance(first, fo.Total):  # so it is within sums and levels
        policies += [fo.Policy(first + fo.Total()), fo.Policy(fo.Total(), [first >= 0.1])]
    for policy in policies:
        for ask in (policy.allocate, policy.problem):
            with pytest.raises(fo.errors.InvalidBlock, match=said):
                ask(CLUSTER)


def test_other_errors_of_a_block_of_ones_own_are_left_as_they_are() -> None:
    for written, kind in ((lambda m: 1 / 0, ZeroDivisionError), (lambda m: int("x"), ValueError)):
        with pytest.raises(kind) as raised:
            fo.Policy(objective(written)).allocate(CLUSTER)
        assert not isinstance(raised.value, fo.FairoptError)


@pytest.mark.parametrize("of", [fo.Total(), fo.AlphaFair(1), fo.Leximin()])
def test_conditions_of_whole_numbers_are_not_convex_programs(of: fo.Objective) -> None:
    switch = cp.Variable(2, boolean=True)
    either = constraint(lambda m: {"on": m.tasks <= 30 * switch, "one": cp.sum(switch) <= 1})
    with pytest.raises(fo.errors.NotConcave, match=r"Mine\(\) has an integer variable .* integral=True"):
        fo.Policy(of, [either]).allocate(CLUSTER)


def test_a_matrix_condition_says_which_solvers_take_it() -> None:
    pytest.importorskip("ecos", reason="ECOS is not installed")
    below = constraint(lambda m: {"below": cp.diag(m.tasks) << 3 * np.eye(2)})
    with pytest.raises(fo.errors.SolverUnavailable, match=r"ECOS cannot take .*; try one of CLARABEL, SCS$"):
        fo.Policy(fo.AlphaFair(1), [below]).allocate(CLUSTER, solver="ECOS")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fo.FDS("2"), "alpha is '2'; give a number"),
        (lambda: fo.GFJ("x"), "alpha is 'x'; give a number"),
        (lambda: fo.FDS(beta="2", lam=-1), "beta is '2'; give"),
        (lambda: fo.KDF("2"), "k is '2'; give a whole number"),
        (lambda: fo.PNormFairness("1", 1), "p is '1'; give a number"),
        (lambda: fo.AlphaFair("2"), "alpha is '2'"),
        (lambda: fo.MaxShare("0.2"), "MaxShare is '0.2'"),
        (lambda: fo.MinTasks({"A": "2"}), "MinTasks is {'A': '2'}"),
    ],
)
def test_a_text_is_not_the_number_of_a_notion(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(fo.errors.InvalidBlock, match=said):
        make()


def test_memory_that_ended_is_told_however_deep_errors_hide_it() -> None:
    with (
        pytest.raises(fo.errors.OutOfMemory, match=r"a table does not fit into memory \(2 TiB\)"),
        fo.errors.within_memory("a table", "cut it"),
    ):
        try:
            try:
                raise MemoryError("2 TiB")
            except MemoryError as error:
                raise fo.errors.InvalidInstance("a row") from error
        except fo.errors.InvalidInstance as error:
            raise fo.errors.InvalidInstance("a shard") from error
