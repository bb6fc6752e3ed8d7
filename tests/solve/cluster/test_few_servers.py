"""Steps on few servers of each user end at the answer of steps on all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fairopt as fo
from fairopt.proof.gate import JudgedPoint, judge
from fairopt.solve.cluster import alpha_fair, few_servers
from fairopt.solve.cluster.few_servers import FewServers
from fairopt.solve.form.demands_at_prices import OnChosen, demands_of
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

N, SERVERS = 120, 50


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it apply to small markets, where it does not pay."""
    monkeypatch.setattr(few_servers, "LEAST_SERVERS", SERVERS)
    monkeypatch.setattr(few_servers, "LEAST_WORK", 0.0)


def market(kind: str, seed: int = 0) -> fo.Instance:
    """Buyers and goods of the same supply, of which a unit is worth ``rates`` to each buyer."""
    rng = np.random.default_rng(seed)
    rates, weights = np.exp(rng.normal(size=(N, SERVERS))), rng.uniform(0.5, 1.5, N)
    given: dict[str, Any] = {}
    if kind == "popular goods":
        rates *= np.exp(2 * rng.normal(size=SERVERS))
    if kind == "a rich buyer":  # it buys more goods than are chosen at first
        weights[7] = 1.2 * weights.sum()
    if kind == "equal rates":
        rates = rng.integers(1, 4, (N, SERVERS)).astype(float)
    if kind == "few may buy":
        allowed = rng.random((N, SERVERS)) < 0.1
        allowed[np.arange(N), rng.integers(SERVERS, size=N)] = True
        given["eligible"] = allowed
    return fo.Instance(np.ones((N, 1)), np.ones((SERVERS, 1)), rates=rates, weights=weights, **given)


def answer(
    instance: fo.Instance, objective: fo.Objective, monkeypatch: Any, few: bool
) -> tuple[JudgedPoint, list[Any]]:
    """The judged answer, and the choices of servers that were made for it."""
    chosen: list[Any] = []

    class Counted(FewServers):
        def _choose(self, count: int, prices: Any) -> None:
            super()._choose(count, prices)
            chosen.append(None if self.servers is None else self.servers.shape[1])

    with monkeypatch.context() as patch:
        patch.setattr(alpha_fair, "FewServers", Counted)
        patch.setattr(Counted, "applies", FewServers.applies if few else lambda units: False)
        program = Program(instance, objective, ())
        return judge(program, next(alpha_fair.solve_alpha_fair_on_servers(program, Settings()))), chosen


@pytest.mark.parametrize("kind", ["rates", "popular goods", "a rich buyer", "equal rates", "few may buy"])
@pytest.mark.parametrize(
    "objective",
    [fo.AlphaFair(1, fo.ThroughputShare()), fo.MaxMin(fo.ThroughputShare())],
    ids=str,
)
def test_answers_are_those_of_all_servers(kind: str, objective: fo.Objective, monkeypatch: Any) -> None:
    instance = market(kind)
    few, chosen = answer(instance, objective, monkeypatch, few=True)
    every, none = answer(instance, objective, monkeypatch, few=False)
    assert chosen and chosen[0] == few_servers.CHOSEN and not none
    assert few.ok and every.ok and few.gap < 1e-7
    assert few.value == pytest.approx(every.value, rel=1e-7)


def test_servers_are_added_where_a_user_needs_more(monkeypatch: Any) -> None:
    found, chosen = answer(market("a rich buyer"), fo.AlphaFair(1, fo.ThroughputShare()), monkeypatch, few=True)
    assert found.ok and len(chosen) > 1
    program = Program(market("a rich buyer"), fo.AlphaFair(1, fo.ThroughputShare()), ())
    assert (program.pairs.table(found.tasks)[7] > 1e-3).sum() > few_servers.CHOSEN


def test_without_steps_on_few_servers_all_are_taken(monkeypatch: Any) -> None:
    monkeypatch.setattr(few_servers, "MOST_STEPS", 2)
    found, chosen = answer(market("rates"), fo.AlphaFair(1, fo.ThroughputShare()), monkeypatch, few=True)
    assert found.ok and chosen == [few_servers.CHOSEN, None]


def test_it_applies_to_many_servers_on_which_users_differ() -> None:
    objective = fo.AlphaFair(1, fo.ThroughputShare())

    def applies(instance: fo.Instance, policy: fo.Objective = objective) -> bool:
        program = Program(instance, policy, ())
        return FewServers.applies(alpha_fair.LevelUnits(program))

    assert applies(market("rates"))
    alike = fo.Instance(np.ones((N, 1)), np.linspace(1, 2, SERVERS)[:, None])
    assert not applies(alike, fo.AlphaFair(1))  # all cost the same on all servers
    assert not applies(market("rates").replace(task_limits=np.full(N, 0.3)))  # a limit on tasks is none on rates


@pytest.mark.parametrize("m", [1, 3])
def test_chosen_servers_are_columns_of_all(m: int) -> None:
    rng = np.random.default_rng(m)
    n, servers, chosen = 40, 12, 5
    demands, capacities = rng.uniform(size=(n, servers, m)), rng.uniform(1, 2, (servers, m))
    whole = demands_of(demands, capacities, rng.uniform(size=(n, servers)), rng.random((n, servers)) < 0.9)
    at = np.sort(rng.permuted(np.tile(np.arange(servers), (n, 1)), axis=1)[:, :chosen], axis=1)
    few, every = OnChosen(whole, at), slice(0, n)
    parts, prices, table = rng.uniform(size=(n, chosen)), rng.uniform(size=(m, servers)), np.zeros((n, servers))
    np.put_along_axis(table, at, parts, axis=1)
    np.testing.assert_allclose(few.costs(prices, every), np.take_along_axis(whole.costs(prices, every), at, axis=1))
    np.testing.assert_allclose(few.all_loads(parts), whole.all_loads(table))
    np.testing.assert_allclose(few.curvature(parts, every), whole.curvature(table, every))
    of_few, of_all = (np.eye(m * servers) for _ in range(2))
    few.subtract_products(of_few, parts, every)
    whole.subtract_products(of_all, table, every)
    np.testing.assert_allclose(np.tril(of_few), np.tril(of_all))


def test_first_prices_are_those_at_which_loads_of_the_smoothed_market_fit() -> None:
    program = Program(market("popular goods"), fo.AlphaFair(1, fo.ThroughputShare()), ())
    units = alpha_fair.LevelUnits(program)
    weights = program.instance.weights
    prices = few_servers.first_prices(units, alpha_fair.Powers(weights / weights.sum(), 1.0), together=False)
    costs = units.demands.costs(prices, slice(0, N))
    spent = (costs.min(axis=1, keepdims=True) / costs) ** 16
    spent *= (weights / spent.sum(axis=1))[:, None]
    by_good = spent.sum(axis=0) / prices[0]
    assert by_good.max() / by_good.min() < 5  # at equal prices 10^20
