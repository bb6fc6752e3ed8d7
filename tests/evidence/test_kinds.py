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

import fairopt as fo
from fairopt.evidence import kinds
from fairopt.evidence.solved import Solved
from fairopt.formulation.program import ConeModel, Program
from fairopt.proofs import gate
from fairopt.proofs.entries import Named
from fairopt.proofs.proposal import Evidence, Measured, Proposal, Reader, as_numbers

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

    def judged(tasks: list[float], least: float) -> gate.Answer:
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
        unsolved.setattr("fairopt.methods.saved.solve_tiers", None)  # what the file holds is enough
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

    def kept(program: Program, proposal: Proposal) -> gate.Answer:
        judged.append(proposal.evidence)
        return judge(program, proposal)

    monkeypatch.setattr(gate, "judge", kept)
    assert policy.allocate(fo.Instance([[1, 2], [3, 1]], [[6, 5], [4, 7]])).certificate.ok
    held = [part for evidence in judged for part in parts(evidence)]
    assert any(isinstance(part, np.ndarray) for part in held)
    assert not [part for part in held if isinstance(part, (ConeModel, cp.Expression, cp.Constraint, cp.Problem))]


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
