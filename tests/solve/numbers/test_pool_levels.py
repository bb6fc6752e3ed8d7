"""Leximin of numbers on one pool by small programs, and what single rows imply of numbers."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.constraints import Constraint
from fairopt.blocks.rows import Rows
from fairopt.proof import gate
from fairopt.proof.entries import Named
from fairopt.proof.evidence.kinds import restored
from fairopt.proof.number_level_bounds import NumberBounds, judge_number_levels
from fairopt.proof.proposal import Proposal
from fairopt.solve.form.program import Program
from fairopt.solve.form.simplex import Simplex
from fairopt.solve.numbers import leximin, pool_levels
from fairopt.solve.settings import Settings

OBJECTIVE = fo.Leximin(fo.OfTeam(fo.Tasks(), inside="any"))


def network(seed: int, demands: int = 30, links: int = 12) -> fo.Instance:
    """Demands over up to three random sets of links each, with weights, and volumes for about half of them."""
    rng = np.random.default_rng(seed)
    teams = np.sort(np.concatenate([np.arange(demands), rng.integers(0, demands, 2 * demands)]))
    uses = (rng.random((len(teams), links)) < 0.25).astype(float)
    uses[np.arange(len(teams)), rng.integers(0, links, len(teams))] = 1
    names = [f"d{t}" for t in range(demands)]
    volumes = rng.uniform(0.2, 3.0, demands)
    some = np.flatnonzero(rng.random(demands) < 0.5).tolist()
    return fo.Instance(
        np.column_stack([uses, np.ones(len(teams))]),
        [*rng.integers(2, 40, links).astype(float), 1e4],
        resources=[*(f"l{i}" for i in range(links)), "flow"],
        weights={name: float(w) for name, w in zip(names, rng.choice([0.5, 1, 2], demands), strict=True)},
        teams={"team": [names[t] for t in teams]},
        limits=[{"name": f"v{t}", "resource": "flow", "amount": volumes[t], "of": [names[t]]} for t in some],
    )


def proposed(instance: fo.Instance) -> tuple[Program, Proposal]:
    program = Program(instance, OBJECTIVE, ())
    return program, next(leximin.solve_leximin_of_numbers(program, Settings()))


@pytest.mark.parametrize("seed", range(20))
def test_levels_are_those_of_programs_with_all_rows_and_columns(seed):
    program = Program(network(seed), OBJECTIVE, ())
    bounds = NumberBounds(program)
    assert pool_levels.on_a_pool(bounds)
    levels = [kind(bounds, Settings()) for kind in (pool_levels.PoolLevels, leximin._Levels)]
    for one in levels:
        one.fill()
    few, every = (bounds.at(one.tasks) for one in levels)
    np.testing.assert_allclose(few, every, rtol=1e-9)
    np.testing.assert_allclose(levels[0].prices, levels[1].prices, atol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_demands_at_their_volumes_need_no_level_but_in_files(seed, tmp_path):
    program, proposal = proposed(network(seed))
    evidence = proposal.evidence
    bounds, tasks = NumberBounds(program), proposal.tasks
    full = np.flatnonzero(bounds.at(tasks) >= bounds.by_rows.most * (1 - 1e-12))
    fixed = {t for dual in evidence.duals for t in dual.fixed.tolist()}
    assert len(full) and not fixed & set(full.tolist())
    assert gate.judge(program, proposal).gap < 1e-9
    entry = evidence.entry(program, tasks, Named())
    assert len(entry["levels"]) == len(evidence.duals) + len(full)
    again = restored(program, entry, None)
    assert len(again.duals) == len(evidence.duals)
    assert gate.judge(program, Proposal("levels", tasks, again)).gap < 1e-9
    fo.Policy(OBJECTIVE).allocate(network(seed)).save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
    assert fo.Allocation.load(tmp_path / "answer.json").certificate.ok


def test_a_demand_below_its_volume_is_not_excused():
    program, proposal = proposed(network(1))
    bounds = NumberBounds(program)
    t = int(np.flatnonzero(np.isclose(bounds.at(proposal.tasks), bounds.by_rows.most))[0])
    less = np.where(bounds.number == t, 0.99 * proposal.tasks, proposal.tasks)
    assert judge_number_levels(program, proposal.evidence.duals, less)[0] >= 0.0099
    missing = replace(proposal.evidence, duals=proposal.evidence.duals[1:])
    assert gate.judge(program, Proposal("levels", proposal.tasks, missing)).gap > 1e-3


@dataclass(frozen=True, repr=False)
class Written(Constraint):
    """Rows on two teams of two users each."""

    table: tuple[tuple[float, ...], ...]
    equal: bool

    def rows(self, pairs):
        return {"written": Rows(np.array(self.table, dtype=float), 6.0, self.equal)}


@pytest.mark.parametrize(
    ("table", "equal", "most", "alone"),
    [
        ([[1, 1, 0, 0]], False, [6, np.inf], True),
        ([[2, 2, 0, 0], [0, 0, 1, 1]], False, [3, 6], True),
        ([[2, 4, 0, 0]], False, [3, np.inf], False),  # 3 tasks of the first user, or 1.5 of the second
        ([[1, 1, 1, 1]], False, [6, 6], False),  # together
        ([[1, 0, 0, 0]], False, [np.inf, np.inf], False),  # of a user alone
        ([[1, 1, -1, 0]], False, [np.inf, np.inf], False),  # the others may raise it
        ([[1, 1, 0, 0]], True, [6, np.inf], False),  # it is at least that, too
        ([[1, 1, 0, 0], [2, 2, 0, 0]], False, [3, np.inf], True),
    ],
)
def test_what_a_row_implies_of_a_team(table, equal, most, alone):
    instance = fo.Instance(np.ones((4, 1)), [50], teams={"team": ["a", "a", "b", "b"]})
    bounds = NumberBounds(Program(instance, OBJECTIVE, (Written(tuple(map(tuple, table)), equal),)))
    assert bounds.by_rows.most.tolist() == pytest.approx(most)
    assert bounds.by_rows.alone == alone


def test_what_the_gate_refuses_is_solved_with_all_rows_and_columns(monkeypatch):
    monkeypatch.setattr(pool_levels.PoolLevels, "cheapest", lambda self, prices: 1e-3 + 0 * self.first)
    answer = fo.Policy(OBJECTIVE).allocate(network(2))
    assert answer.certificate.ok
    assert len(answer.certificate.tried) == 2


def test_a_program_without_an_optimum_is_solved_with_all_rows_and_columns(monkeypatch):
    monkeypatch.setattr(pool_levels.LevelProgram, "solve", lambda self, clock: None)
    answer = fo.Policy(OBJECTIVE).allocate(network(2))
    assert answer.certificate.ok
    assert [one.status[:10] for one in answer.certificate.tried] == ["no optimum", "optimal (1"]


def test_programs_that_rounding_leaves_no_point_get_wider_tolerances(monkeypatch):
    run, sizes = Simplex.run, []

    def infeasible_at_first(self, clock, *args, **options):
        sizes.append(self.size)
        self.infeasible = len(sizes) <= 2
        return not self.infeasible and run(self, clock, *args, **options)

    monkeypatch.setattr(Simplex, "run", infeasible_at_first)
    answer = fo.Policy(OBJECTIVE).allocate(network(3))
    assert answer.certificate.gap < 1e-9
    assert len(answer.certificate.tried) == 1
    assert sizes == pytest.approx([1.0, 0.1, *[0.01] * (len(sizes) - 2)])


def test_levels_far_above_the_first_change_units():
    n = 6
    uses = np.eye(n)
    instance = fo.Instance(uses, 10.0 ** (2 * np.arange(n)), teams={"team": [f"d{t}" for t in range(n)]})
    answer = fo.Policy(OBJECTIVE).allocate(instance)
    assert answer.tasks == pytest.approx(10.0 ** (2 * np.arange(n)), rel=1e-9)
    assert all(a < b for a, b in pairwise(answer.tasks))
