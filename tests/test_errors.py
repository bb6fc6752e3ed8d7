"""The tree of errors: one base, split by what the caller should do, each told apart by its type and told well."""

import importlib
import inspect
import pickle
import pkgutil
import re

import pytest

import fairopt as fo
from fairopt import errors

DESIGNED = {
    "FairoptError", "InvalidInstance", "InvalidBlock", "OutOfDomain", "Infeasible", "Unbounded", "NotConcave",
    "NotCertified", "SolverUnavailable", "MissingExtra",
}  # fmt: skip
CLASSES = {n: kind for n, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__}
BY_MESSAGE = sorted(set(CLASSES) - {"MissingExtra"})
KINDS = (errors.InvalidInput, errors.NoAnswer, errors.TryAnother)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_error_derives_from_one_base(name: str) -> None:
    assert issubclass(CLASSES[name], fo.FairoptError)


@pytest.mark.parametrize("name", sorted(DESIGNED))
def test_every_error_of_the_design_is_exported(name: str) -> None:
    assert getattr(fo, name) is CLASSES[name]
    assert name in fo.__all__


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
    again = pickle.loads(pickle.dumps(CLASSES[name]("why")))
    assert type(again) is CLASSES[name]
    assert str(again) == "why"


def test_no_other_public_error_hides_in_the_package() -> None:
    hidden = set()
    for info in pkgutil.walk_packages(fo.__path__, "fairopt."):
        module = importlib.import_module(info.name)
        for name, kind in inspect.getmembers(module, inspect.isclass):
            ours = issubclass(kind, BaseException) and kind.__module__.startswith("fairopt")
            if ours and name not in CLASSES and not name.startswith("_"):
                hidden.add(f"{info.name}.{name}")
    assert hidden == set()


def test_bad_input_is_a_value_error_for_those_who_catch_that() -> None:
    assert issubclass(fo.InvalidInstance, ValueError)
    assert issubclass(fo.InvalidBlock, ValueError)


def test_missing_extra_is_an_import_error_with_the_exact_pip_line() -> None:
    error = fo.MissingExtra("matplotlib", "plots", "a picture")
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
    assert fo.Infeasible("no", conflict=("a", "b")).conflict == ("a", "b")
    assert fo.Infeasible("no").conflict == ()


def test_not_certified_holds_the_best_found_and_what_was_tried() -> None:
    tried = (fo.Try("SCS", "optimal", 0.1),)
    error = fo.NotCertified("no", best="an allocation", tried=tried)
    assert error.best == "an allocation"
    assert error.tried == tried


@pytest.mark.parametrize(
    ("name", "known", "end"),
    [
        ("drff", ["drf", "nash"], "did you mean 'drf'?"),
        ("zzz", ["drf", "2df"], "known: drf, 2df"),
        ("zzz", [f"n{k}" for k in range(40)], ", ..."),
        (3, [1, 2], "known: 1, 2"),
    ],
)
def test_unknown_names_are_answered_with_the_nearest(name: object, known: list[object], end: str) -> None:
    assert errors.nearest(name, known).endswith(end)


def test_names_as_long_as_a_file_may_hold_are_cut_in_messages():
    listed = errors.nearest("x", ["9" * 5000, "team"])
    assert listed.startswith("known: 999") and listed.endswith("…, team") and len(listed) < 150
    assert len(errors.nearest("9" * 4999, ["9" * 5000])) < 150
