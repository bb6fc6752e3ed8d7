"""The kinds of evidence: a kind of one's own needs its class and a line of the table; a solver's is numbers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from oracle.chains import chain

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.entries import Named
from fairopt.proof.evidence import kinds
from fairopt.proof.evidence.solved import Solved
from fairopt.proof.proposal import Evidence, Measured, Proposal, Reader, as_numbers
from fairopt.solve.form.program import ConeModel, Program

TASKS = fo.Tasks()


@dataclass(frozen=True)
class DearestResource(Evidence):
    """The most tasks on one pool by the price of one resource alone: no task costs less than ``least`` of it."""

    program: Program
    least: float
    resource: int = 0

    kind = "dearest resource"

    def applies(self, program: Program) -> bool:
        return self.program is program and program.single and not program.rest and program.objective == fo.Total(TASKS)

    def measured(self, program: Program, tasks: Any, bundles: Any) -> Measured:
        instance = program.instance
        least = min(self.least, float(instance.demands[:, self.resource].min()))  # wrong evidence proves less
        top = float(instance.capacities[0, self.resource]) / least if least > 0 else np.inf
        return Measured(tasks, 1.0 - float(tasks.sum()) / top)

    def entry(self, program: Program, tasks: Any, names: Named) -> dict[str, Any]:
        return {"kind": self.kind, "least": self.least, "resource": self.resource}

    @classmethod
    def restored(cls, program: Program, held: Mapping[str, Any], read: Reader) -> DearestResource:
        return cls(program, float(as_numbers(held["least"], ())), int(held["resource"]))


def test_a_kind_of_ones_own_is_judged_saved_and_loaded_by_a_line_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, policy = fo.Instance([[2, 1], [4, 1]], [8, 9]), fo.Policy(fo.Total(TASKS))
    program = Program(instance, policy.objective, ())

    def judged(tasks: list[float], least: float) -> gate.JudgedPoint:
        return gate.judge(program, Proposal("by hand", np.array(tasks), DearestResource(program, least)))

    assert judged([4.0, 0.0], 2.0).gap == 0 and judged([3.0, 0.5], 2.0).gap == pytest.approx(1 / 8)
    assert not judged([4.0, 0.0], 1.0).ok and judged([3.0, 0.5], 3.0).gap == pytest.approx(1 / 8)
    assert not gate.judge(
        Program(instance, fo.MaxMin(TASKS), ()), Proposal("", np.ones(2), judged([4, 0], 2).evidence)
    ).ok

    answer = gate.allocation(policy, [(program, judged([4.0, 0.0], 2.0))], time.perf_counter())
    assert answer.certificate.ok
    monkeypatch.setitem(kinds.KINDS, DearestResource.kind, DearestResource.restored)
    with pytest.MonkeyPatch.context() as unsolved:
        unsolved.setattr("fairopt.solve.judged_again.solve_tiers", None)  # what the file holds is enough
        loaded = fo.Allocation.load(answer.save(tmp_path / "answer.json"))
    assert loaded.certificate.ok and loaded.certificate.method == "by hand"


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    def expression(self, model: Any) -> Any:
        return -cp.sum(cp.exp(-0.5 * model.tasks))


def solved(policy: fo.Policy, instance: fo.Instance) -> tuple[Program, ConeModel]:
    """A program and its cone model, which Clarabel solved."""
    program = Program(instance, policy.objective, policy.constraints)
    cone = ConeModel(program, "CLARABEL")
    cp.Problem(cp.Maximize(cone.maximand[0]), cone.all_constraints).solve(solver="CLARABEL")
    return program, cone


POLICIES = (
    fo.Policy(fo.AlphaFair(2), [fo.MaxShare(0.4)]),
    fo.Policy(fo.AlphaFair(0.5) + 0.1 * fo.MaxMin(TASKS), [fo.AlphaFair(1) >= -40]),
    fo.Policy(Saturating(), [fo.EnvyFree()]),
)


def parts(value: Any) -> Iterator[Any]:
    """All that evidence holds, but for the program that it is of."""
    yield value
    if is_dataclass(value):
        value = [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from parts(part)


@pytest.mark.parametrize(
    "policy",
    [
        fo.Policy(fo.AlphaFair(2), [fo.MaxShare(0.4)]),
        fo.Policy(fo.Leximin(), [fo.AlphaFair(1) >= -40, fo.MaxTasks(2)]),
        fo.Policy(fo.Leximin(TASKS), [fo.EqualShares(fo.ResourceShare("resource1"))]),
        fo.Policy(fo.FairnessEfficiency(2, -0.1), [fo.EqualShares(fo.ResourceShare("resource2"))]),
        fo.Policy(fo.WeightedLog() + fo.Total(TASKS)),
        fo.Policy(fo.Total(TASKS), [fo.EnvyFree()]),
        fo.Policy(Saturating()),
    ],
    ids=repr,
)
def test_no_evidence_holds_an_expression(policy: fo.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, judged = gate.judge, list[Any]()

    def kept(program: Program, proposal: Proposal) -> gate.JudgedPoint:
        judged.append(proposal.evidence)
        return judge(program, proposal)

    monkeypatch.setattr(gate, "judge", kept)
    assert policy.allocate(fo.Instance([[1, 2], [3, 1]], [[6, 5], [4, 7]])).certificate.ok
    held = [part for evidence in judged for part in parts(evidence)]
    assert any(isinstance(part, np.ndarray) for part in held)
    assert not [part for part in held if isinstance(part, (ConeModel, cp.Expression, cp.Constraint, cp.Problem))]


ONE, TWO = fo.Instance([[1, 2], [3, 1]], [6, 5]), fo.Instance([[1, 2], [3, 1]], [[6, 5], [4, 7]])
TEAMS = fo.Instance([[1, 2], [3, 1], [2, 2]], [[6, 5], [4, 7]], teams={"team": ["a", "b", "b"]})
KEPT = fo.Instance([[1, 2], [3, 1]], [6, 5], guarantees=[1, 0])
OF_EACH_KIND = [
    ("bottlenecks", fo.DRF(), ONE),
    (
        "pulled",
        fo.Policy(fo.Leximin(), [fo.EnvyFree()]),
        fo.Instance([[2, 1], [1, 3], [1, 0]], [6, 5], weights=[1, 3, 1]),
    ),
    ("rows", fo.Policy(fo.Total(), [fo.EnvyFree()]), fo.Instance([[2, 3], [2, 1]], [6, 4])),
    ("prices", fo.Policy(fo.AlphaFair(2)), ONE),
    ("prices", fo.Policy(fo.Total(TASKS)), ONE),
    ("prices", fo.Policy(fo.AlphaFair(2) + 0.1 * fo.Total(TASKS)), ONE),
    ("prices", fo.Policy(fo.AlphaFair(2)), TWO),
    ("prices", fo.Policy(fo.OrderedWeighted([2, 1])), ONE),
    ("levels", fo.DRF(), TWO),
    ("exact levels", fo.Policy(fo.Leximin(TASKS)), fo.Instance(**chain(2))),
    ("number levels", fo.Policy(fo.Leximin(fo.OfTeam())), TEAMS),
    ("duals", fo.Policy(Saturating()), TWO),
    ("lines", fo.Policy(fo.FairnessEfficiency(2, -0.1)), TWO),
    ("", fo.Policy(fo.Leximin(fo.Surplus())), KEPT),
]


def all_held(value: Any, seen: set[int]) -> Iterator[Any]:
    """All that an object reaches through fields and containers, but for programs: they follow from the instance."""
    if id(value) in seen or isinstance(value, Program):
        return
    seen.add(id(value))
    yield value
    held: list[Any] = []
    if isinstance(value, np.ndarray):
        held = value.ravel().tolist() if value.dtype == object else []
    elif isinstance(value, Mapping):
        held = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        held = list(value)
    elif type(value).__module__.startswith("fairopt."):
        held = [getattr(value, name) for name in (*getattr(value, "__slots__", ()), *getattr(value, "__dict__", ()))]
    for one in held:
        yield from all_held(one, seen)


@pytest.mark.fast_methods
@pytest.mark.parametrize(("kind", "policy", "instance"), OF_EACH_KIND)
def test_evidence_holds_nothing_that_can_be_called(
    kind: str, policy: fo.Policy, instance: fo.Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, judged = gate.judge, list[Any]()

    def kept(program: Program, proposal: Proposal) -> gate.JudgedPoint:
        judged.append(proposal.evidence)  # as the method gave it, before it is measured
        before = [type(one) for one in all_held(proposal.evidence, set()) if callable(one)]
        assert before == []
        return judge(program, proposal)

    monkeypatch.setattr(gate, "judge", kept)
    answer = policy.allocate(instance, method="water-filling" if kind == "pulled" else "auto")
    assert answer.certificate.ok
    judged += [
        kinds.restored(Program(instance, policy.objective, policy.constraints), entry, None)
        for entry in answer.evidence
    ]
    assert kind in {one.kind for evidence in judged for one in all_held(evidence, set()) if isinstance(one, Evidence)}


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def test_every_kind_is_drawn() -> None:
    classes = {one for one in subclasses(Evidence) if one.__module__.startswith("fairopt.")}
    assert {one.kind for one in classes if one.kind} <= {kind for kind, _, _ in OF_EACH_KIND}


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_nothing_that_a_solver_does_later_changes_its_evidence(policy: fo.Policy) -> None:
    program, cone = solved(policy, fo.Instance([[1, 2], [3, 1]], [[6, 5], [4, 7]]))
    evidence, tasks = Solved.of(cone), cone.tasks()
    for condition in cone.all_constraints:
        for variable in condition.dual_variables:
            variable.save_value(np.full(variable.shape, 7.0))
    cone.unknowns.save_value(np.zeros(cone.unknowns.shape))
    answer = gate.judge(program, Proposal("cone", tasks, evidence))
    assert answer.ok and gate.judge(program, Proposal("cone", tasks, evidence)).gap == answer.gap


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_units_that_are_made_up_prove_no_worse_point(policy: fo.Policy) -> None:
    program, cone = solved(policy, fo.Instance([[1, 2], [3, 1]], [[6, 5], [4, 7]]))
    worse, evidence = 0.9 * cone.tasks(), Solved.of(cone)
    for factor in (None, 1e-9, 1e9):
        for rate in (None, 1e-9, 1e9):
            wrong = replace(evidence, factor=factor, rate=rate)
            assert not gate.judge(program, Proposal("cone", worse, wrong)).ok
