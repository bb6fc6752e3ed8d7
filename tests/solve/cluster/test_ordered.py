"""Ordered weights on several servers by an interior point: against linear programs with all rows."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.gate import judge
from fairopt.proof.proposal import Proposal
from fairopt.solve.cluster.ordered import solve_ordered_on_servers
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings


def by_hand(instance: fo.Instance, v: tuple[float, ...]) -> float:
    """The optimum of dominant shares, which may differ by server, by all sums of k smallest levels."""
    n, servers = instance.n_users, instance.n_servers
    x = cp.Variable((n, servers), nonneg=True)
    of_task = np.asarray(fo.DominantShare().coefficients(instance)).reshape(n, -1) * np.ones((1, servers))
    limited, total = np.isfinite(instance.task_limits), cp.sum(x, axis=1)
    rows = [x[:, s] @ instance.per_server_demands[:, s] <= instance.capacities[s] for s in range(servers)]
    rows += [cp.multiply(x, 1.0 - instance.eligible) == 0, total[limited] <= instance.task_limits[limited]]
    z = n * cp.sum(cp.multiply(of_task / instance.weights[:, None], x), axis=1)  # HiGHS's tolerances are absolute
    term = fo.OrderedWeighted(v).term
    form = sum(drop * (cp.sum(z) if k == n else cp.sum_smallest(z, k)) for k, drop in term.kind.steps(n))
    return float(cp.Problem(cp.Maximize(form), rows).solve(solver="HIGHS")) * term.factor / n


@pytest.mark.fast_methods
@pytest.mark.parametrize("seed", range(12))
def test_the_optimum_is_that_of_a_program_with_all_rows(seed):
    limits, own_demands, n = bool(seed % 2), bool(seed // 2 % 2), 20
    v = (tuple(range(n, 0, -1)), tuple(0.8**k for k in range(n)), (3, 2, 1))[seed % 3]
    instance = fo.datasets.log_uniform(
        n,
        2,
        n_servers=3,
        decades=2,
        limits=limits,
        different_demands=own_demands,
        weights=True,
        ineligible=0.2,
        seed=seed,
    )
    a = fo.Policy(fo.OrderedWeighted(v)).allocate(instance, method="prices")
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-7
    assert a.objective == pytest.approx(by_hand(instance, v), rel=1e-6)


@pytest.mark.fast_methods
@pytest.mark.parametrize("limits", [False, True])
def test_demands_that_differ_by_server_have_a_proof(limits):
    """With weights or limits, programs in which the order of users is fixed ended after 40 s without one."""
    instance = fo.datasets.log_uniform(
        400, 3, n_servers=4, different_servers=True, different_demands=True, weights=True, limits=limits, seed=3
    )
    a = fo.Policy(fo.OrderedWeighted(tuple(range(400, 0, -1)))).allocate(instance)
    assert a.certificate.method == "prices" and a.certificate.gap <= 1e-8


@pytest.mark.fast_methods
def test_a_file_keeps_the_weights_that_prove_the_answer(tmp_path):
    """By those that the gate finds itself the gap is 3.9e-4: a user who costs little is paid a part of the mean."""
    instance = fo.datasets.log_uniform(
        300, 3, n_servers=4, different_servers=True, different_demands=True, weights=True, limits=True, seed=4
    )
    a = fo.Policy(fo.OrderedWeighted(tuple(range(300, 0, -1)))).allocate(instance)
    again = fo.Allocation.load(a.save(tmp_path / "a.json"))
    assert again.certificate.gap <= 1e-8 and fo.verify(tmp_path / "a.json").ok


def test_wrong_weights_only_weaken_the_bound():
    """Weights of a method are made legal by the gate, whatever they are."""
    instance = fo.datasets.log_uniform(30, 2, n_servers=3, different_demands=True, limits=True, decades=2, seed=1)
    program = Program(instance, fo.OrderedWeighted(tuple(range(30, 0, -1))), ())
    (proposal,) = solve_ordered_on_servers(program, Settings())
    right = judge(program, proposal)
    dual = proposal.evidence.dual
    for wrong in (np.zeros(30), np.ones(30), 1e9 * np.arange(30.0), -np.ones(30), np.full(30, 1e308)):
        for prices in (dual.prices, 1e-3 * dual.prices):
            evidence = replace(proposal.evidence, dual=replace(dual, prices=prices, mixtures=[wrong]))
            half = judge(program, Proposal("prices", proposal.tasks / 2, evidence))
            assert half.value / (1 - half.gap) >= right.value * (1 - 1e-9)  # the bound


def test_prices_that_are_asked_for_answer_few_users():
    """Of these the interior point leaves one in ten uncertified; cutting planes then answer."""
    rng = np.random.default_rng(1)
    for k in range(25):
        n, servers = int(rng.integers(2, 30)), int(rng.integers(2, 5))
        instance = fo.Instance(
            rng.uniform(0.1, 4, (n, 3)),
            rng.uniform(5, 30, (servers, 3)),
            task_limits=rng.uniform(0.5, 10, n) if k % 2 else None,
        )
        fo.Policy(fo.OrderedWeighted(tuple(range(n, 0, -1)))).allocate(instance, method="prices")
