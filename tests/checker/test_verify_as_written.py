"""Saved answers of users' own blocks: proved as the file writes them, and no changed file that is false."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.rows import Rows
from fairopt.checker import verify

POOL = fo.Instance([[4, 1], [1, 3], [2, 2]], [20, 18], weights=[1, 2, 1], task_limits=[None, None, 3.5])
SERVERS = fo.Instance([[4, 1], [1, 3]], [[20, 18], [7, 9]], eligible=[[True, True], [True, False]])


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    half: float = 3.0

    def expression(self, model: Any) -> Any:
        return model.weights @ (1 - cp.exp(-np.log(2) / self.half * model.tasks))


@dataclass(frozen=True, repr=False)
class ByPrices(Saturating):
    def by_user(self, instance: fo.Instance) -> fo.blocks.Marginal:
        rate, w = np.log(2) / self.half, instance.weights
        return fo.blocks.Marginal(
            slope=lambda x: w * rate * np.exp(-rate * x), curvature=lambda x: -w * rate**2 * np.exp(-rate * x)
        )


@dataclass(frozen=True, repr=False)
class Together(fo.Constraint):
    most: float

    def constraints(self, model: Any) -> dict[str, Any]:
        return {"together": model.loads[0] * self.most >= model.tasks[0], "first": cp.sum(model.tasks[:2]) <= self.most}


@dataclass(frozen=True, repr=False)
class Near(fo.Constraint):
    by: float

    def rows(self, pairs: Any) -> dict[str, Rows]:
        s = pairs.share(fo.DominantShare())
        return {"near": Rows(s[[0]] - s[[1]], self.by)}


@dataclass(frozen=True, repr=False)
class Norm(fo.Constraint):
    most: float

    def constraints(self, model: Any) -> dict[str, Any]:
        return {"norm": cp.norm(model.share(fo.DominantShare())) <= self.most}


@dataclass(frozen=True, repr=False)
class WithVariables(fo.Objective):
    def expression(self, model: Any) -> Any:
        t, below = model.variable(), model.variable(model.tasks.shape, lower=0)
        model.require("below", below >= t - model.tasks)
        return 2 * t - cp.sum(below)


def above(model: Any) -> Any:
    return cp.sum(cp.log(model.tasks - 0.2))


PROGRAMS: dict[str, fo.Policy] = {
    "expression": fo.Policy(Saturating()),
    "expression and affine condition": fo.Policy(Saturating() + 0.1 * fo.Total(), [Together(4.0)]),
    "function": fo.Policy(above, [lambda model: model.tasks <= 4]),
    "square": fo.Policy(lambda model: -cp.sum_squares(model.tasks - 9)),
    "norm": fo.Policy(fo.AlphaFair(1), [Norm(0.5)]),
    "norms": fo.Policy(lambda model: -cp.norm(model.tasks - 9), [Norm(0.5), fo.MaxTasks(6)]),
    "variables": fo.Policy(WithVariables(), [Near(0.1)]),
    "level": fo.Policy(fo.Total(), [Saturating() >= 0.5]),
    "largest": fo.Policy(fo.AlphaFair(2), [lambda m: cp.max(m.tasks) <= 1.5 * cp.min(m.tasks)]),
    "second tier": fo.Policy(fo.MaxMin().then(above)),
}
TANGENTS = {"prices": fo.Policy(ByPrices()), "prices, bounds": fo.Policy(ByPrices() + fo.Total(), [fo.MaxTasks(5)])}
LINEAR = {
    "rows": fo.Policy(fo.AlphaFair(2), [Near(0.05)]),
    "rows of leximin": fo.DRF().with_constraints(Near(0.05)),
    "condition of leximin": fo.DRF().with_constraints(Together(4.0)),
    "rows of a plane": fo.Policy(fo.FairnessEfficiency(0.5, 0.2), [Near(0.05)]),
    "rows of tiers": fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks())), [Near(0.05), fo.SharingIncentive()]),
}
ALL = PROGRAMS | TANGENTS | LINEAR
ON: dict[str, fo.Instance] = {"pool": POOL, "servers": SERVERS}
CASES = [pytest.param(policy, ON[on], id=f"{name}, {on}") for name, policy in ALL.items() for on in ON]


@pytest.mark.parametrize(("policy", "instance"), CASES)
def test_answers_of_users_blocks_are_proved_as_written(
    policy: fo.Policy, instance: fo.Instance, tmp_path: Path
) -> None:
    answer = policy.allocate(instance)
    found = fo.verify(answer.save(tmp_path / "a.json"), instance)
    assert found.ok and "as written in the file" in found.statement, str(found)
    assert "text means" in found.not_proved["as_written"]
    loaded = fo.Allocation.load(tmp_path / "a.json", policy=policy)
    assert loaded.certificate.ok and fo.verify(loaded.save(tmp_path / "b.json")).ok
    text_only = fo.Allocation.load(tmp_path / "a.json").save(tmp_path / "c.json")
    assert fo.verify(text_only).ok


@pytest.mark.parametrize("name", TANGENTS)
def test_that_a_tangent_stands_for_the_objective_is_said(name: str, tmp_path: Path) -> None:
    found = fo.verify(TANGENTS[name].allocate(POOL).save(tmp_path / "a.json"))
    assert "taken to be below its tangent" in found.statement


def of_mean(model: Any) -> Any:
    mean = cp.sum(model.share(fo.DominantShare())) / 60
    return cp.sum(cp.log(model.share(fo.DominantShare()) + mean))


@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(of_mean),
        fo.Policy(of_mean, [lambda model: model.tasks <= 3 * cp.sum(model.tasks) / 60]),
        fo.Policy(fo.AlphaFair(1), [lambda model: cp.abs(model.tasks - cp.sum(model.tasks) / 60) <= 0.1]),
    ],
    ids=["in an objective", "in rows and an objective", "in a constraint"],
)
def test_sums_that_are_used_many_times_are_proved(policy: fo.Policy, tmp_path: Path) -> None:
    answer = policy.allocate(fo.datasets.log_uniform(60, 3, seed=2))
    found = fo.verify(answer.save(tmp_path / "a.json"))
    assert found.ok, str(found)


def test_an_answer_holds_numbers_and_no_model(tmp_path: Path) -> None:
    answer = pickle.loads(pickle.dumps(PROGRAMS["expression"].allocate(POOL)))
    assert fo.verify(answer.save(tmp_path / "a.json")).ok


def test_the_text_of_blocks_stands_in_the_file_and_its_digest_is_checked(tmp_path: Path) -> None:
    file = PROGRAMS["norms"].allocate(POOL).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    assert "class Norm" in data["as_written"]["text"] and "cp.norm(model.tasks - 9)" in data["as_written"]["text"]
    data["as_written"]["text"] += " "
    file.write_text(json.dumps(data))
    assert "SHA-256" in str(verify(file))


@dataclass(frozen=True, repr=False)
class OfFunction(fo.Objective):
    function: Callable[[Any], Any]

    def expression(self, model: Any) -> Any:
        return self.function(model)


def test_blocks_whose_text_is_no_python_are_quoted(tmp_path: Path) -> None:
    policy = fo.Policy(OfFunction(above), [fo.MaxTasks(4)])
    file = policy.allocate(POOL).save(tmp_path / "a.json")
    assert "OfFunction('" in json.loads(file.read_text())["policy"].replace('"', "'")
    assert fo.verify(file).ok and fo.Allocation.load(file, policy=policy).certificate.ok


@dataclass(frozen=True, repr=False)
class MaxTasks(fo.Constraint):
    most: float

    def constraints(self, model: Any) -> dict[str, Any]:
        return {"most": cp.norm(model.tasks) <= self.most}


def test_a_block_that_is_called_as_one_of_fairopts_is_not_taken_for_it(tmp_path: Path) -> None:
    policy = fo.Policy(fo.AlphaFair(1), [MaxTasks(3.0)])
    file = policy.allocate(POOL).save(tmp_path / "a.json")
    found = fo.verify(file)
    assert found.ok and "OwnMaxTasks" in found.statement
    assert isinstance(fo.Allocation.load(file).policy, str) and fo.Allocation.load(file, policy=policy).certificate.ok
    data = json.loads(file.read_text())
    for name in ("policy", "user_policy"):
        data[name] = repr(policy)
    file.write_text(json.dumps(data))
    assert not fo.verify(file).ok


def test_a_program_beside_blocks_of_fairopt_alone_is_refused(tmp_path: Path) -> None:
    file = PROGRAMS["norm"].allocate(POOL).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    data["policy"] = "Policy(AlphaFair(1))"
    file.write_text(json.dumps(data))
    assert "none of the user's" in str(verify(file))
    data["policy"] = "Policy(AlphaFair(1), constraints=[MaxTasks(5), Own()])"
    file.write_text(json.dumps(data))
    assert not verify(file).ok


def test_a_program_under_a_tier_that_no_block_of_the_users_limits_is_refused(tmp_path: Path) -> None:
    file = fo.Policy(fo.MaxMin().then(above), [Norm(0.3)]).allocate(POOL).save(tmp_path / "a.json")
    assert fo.verify(file).ok
    data = json.loads(file.read_text())
    data["policy"] = data["policy"].split(", constraints=")[0] + ")"
    for entry in data["evidence"]:  # the rows stay, in the name of nobody
        entry["written"]["constraints"] = []
    file.write_text(json.dumps(data))
    assert "which no block of the user's limits" in str(verify(file))


def test_a_sum_with_a_term_of_the_users_is_as_written_as_a_whole(tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total() + 0.5 * Saturating())
    found = fo.verify(policy.allocate(POOL).save(tmp_path / "a.json"))
    assert found.ok and f"{policy.objective} as written in the file" in found.statement


def test_a_constraint_without_a_row_is_not_said_to_be_kept(tmp_path: Path) -> None:
    file = LINEAR["rows"].allocate(POOL).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    data["as_written"]["rows"]["0"] = []
    file.write_text(json.dumps(data))
    assert "neither its rows nor its program" in str(verify(file))


def test_levels_under_a_curve_and_first_tiers_are_not_said_to_be_proved(tmp_path: Path) -> None:
    for policy in (fo.DRF().with_constraints(Norm(0.5)), fo.Policy(fo.Objective.then(Saturating(), fo.Total()))):
        found = fo.verify(policy.allocate(POOL).save(tmp_path / "a.json"))
        assert not found.ok and found.statement.startswith("cannot be checked this way"), str(found)


# -- changed files ----------------------------------------------------------------------------------------------------


def numbers_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers of a file."""
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers_in(one, (*path, key))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


def keys_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all keys of a file."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield (*path, key)
            yield from keys_in(one, (*path, key))
    elif isinstance(value, list):
        for k, one in enumerate(value):
            yield from keys_in(one, (*path, k))


def held(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def read_by_best(data: Any) -> str:
    """What `best` reads of a file, which most changes leave as it is."""
    instance = {key: value for key, value in data["instance"].items() if key in READ}
    return json.dumps([instance, data["tasks_by_server"], data["as_written"]["rows"], data["evidence"][-1]["written"]])


READ = ("demands", "capacities", "counts", "task_limits", "eligible")


def best(data: Any, objective: Callable[[Any], Any] | None) -> tuple[float, float, float]:
    """By CVXPY, of the problem that a file writes: the optimum, the value at its tasks, and what these break."""
    instance, entry = data["instance"], data["evidence"][-1]
    tasks = np.array(data["tasks_by_server"], dtype=float)
    x = cp.Variable(tasks.shape, nonneg=True)
    pairs = cp.vec(x, order="C")  # as arrays, which CVXPY compiles in a third of the time that single numbers take
    demands, capacities = (np.array(instance[key], dtype=float) for key in ("demands", "capacities"))
    limits = np.array([np.inf if limit is None else limit for limit in instance["task_limits"]])
    room = capacities * np.array(instance["counts"])[:, None]
    limited = np.flatnonzero(np.isfinite(limits))
    conditions = [x.T @ demands <= room, cp.sum(x[limited], axis=1) <= limits[limited]]
    if instance["eligible"] is not None:
        conditions.append(cp.multiply(1 - np.array(instance["eligible"], dtype=float), x) == 0)
    broken = [float((tasks.T @ demands / room).max() - 1), float((tasks.sum(axis=1) - limits).max())]
    for rows in data["as_written"]["rows"].values():
        for one in rows:
            of = np.zeros((len(one["right"]), *tasks.shape))
            np.add.at(of, (one["row"], one["user"], one["server"]), one["value"])
            of = of.reshape(len(of), -1)
            conditions.append(of @ pairs <= one["right"])
            broken += (of @ tasks.ravel() - one["right"]).tolist()
    written = entry["written"]
    program, n = written["program"], len(written["user"])
    v = cp.Variable(max(program["columns"] - n, 1))
    z = pairs[np.ravel_multi_index((written["user"], written["server"]), tasks.shape)]
    z = cp.hstack([z, v]) if program["columns"] > n else z
    at = program["matrix"]
    a = np.zeros((program["rows"], program["columns"]))
    np.add.at(a, (at["row"], at["column"]), at["value"])
    c = np.zeros(program["columns"])
    np.add.at(c, program["cost"]["column"], program["cost"]["value"])
    slack, cones = np.array(program["right"]) - a @ z if program["rows"] else cp.Constant(np.zeros(1)), program["cones"]
    first = np.cumsum([0, cones["zero"], cones["nonneg"], *cones["soc"], 3 * cones["exp"]])
    zero, positive, *second, triples = (slack[k:end] for k, end in pairwise(first.tolist()))
    conditions += [zero == 0] * (cones["zero"] > 0) + [positive >= 0] * (cones["nonneg"] > 0)
    conditions += [cp.SOC(part[0], part[1:]) for part in second]
    conditions += [cp.ExpCone(triples[0::3], triples[1::3], triples[2::3])] * (cones["exp"] > 0)
    assert not cones["power"] and not cones["psd"]
    for limit, sign in ((written["limits"]["least"], 1), (written["limits"]["most"], -1)):
        ends = {k - n: end for k, end in enumerate(limit) if k >= n and end is not None}
        conditions += [sign * v[[*ends]] >= sign * np.array([*ends.values()])] * bool(ends)
    goal = -c @ z - program["offset"] if c.any() else objective(x)
    options = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}
    problem = cp.Problem(cp.Maximize(goal), conditions)
    problem.solve(solver="CLARABEL", **options)
    most = float(problem.value)
    problem = cp.Problem(cp.Maximize(goal), [*conditions, cp.abs(x - tasks) <= 1e-6 * (1 + tasks)])
    problem.solve(solver="CLARABEL", **options)
    return most, float(problem.value) if problem.status.startswith("optimal") else -np.inf, max(broken)


CHANGED: dict[str, Callable[[Any], Any] | None] = {
    "expression": None,
    "expression and affine condition": None,
    "function": None,
    "square": None,
    "norms": None,
    "norm": lambda x: np.array(POOL.weights) @ cp.log(cp.sum(x, axis=1)),
    "prices": None,
}
FACTORS = (0.0, 0.999, 2.0)


@pytest.mark.parametrize("name", CHANGED)
def test_no_changed_file_is_proved_that_is_false(name: str, tmp_path: Path) -> None:
    file = ALL[name].allocate(POOL).save(tmp_path / "a.json")
    text, wrong, proved = file.read_text(), list[Any](), dict[str, tuple[float, float, float]]()
    skipped = ("certificate", "loaded", "variables", "multipliers")
    for path in numbers_in(json.loads(text)):
        if any(key in skipped for key in path):
            continue
        for factor in FACTORS:
            data = json.loads(text)
            *start, last = path
            number = held(data, path)
            held(data, tuple(start))[last] = type(number)(number * factor) if number else type(number)(factor)
            file.write_text(json.dumps(data))
            if not verify(file).ok or held(data, path) == number:
                continue
            if (read := read_by_best(data)) not in proved:
                proved[read] = best(data, CHANGED[name])
            most, value, broken = proved[read]
            unit = max(abs(most), 1e-3)
            if not (value >= most - 2e-6 * unit and broken <= 1e-6):
                wrong.append((path, factor, most, value, broken))
    assert proved and not wrong


@pytest.mark.parametrize("name", [*CHANGED, *LINEAR])
def test_no_file_is_proved_that_lacks_a_part(name: str, tmp_path: Path) -> None:
    file = ALL[name].allocate(POOL).save(tmp_path / "a.json")
    text = file.read_text()
    for path in keys_in(json.loads(text)):
        if "as_written" not in path and "written" not in path:
            continue
        data = json.loads(text)
        *start, last = path
        del held(data, tuple(start))[last]
        file.write_text(json.dumps(data))
        assert not verify(file).ok, path
