"""The linear system of a step, users first or prices first, against the whole system written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import fairopt as fo
from fairopt.solve.cluster import alpha_fair, interior_point
from fairopt.solve.cluster.interior_point import ByPrices, ByUsers, PriceSystem
from fairopt.solve.dispatch import best
from fairopt.solve.form.demands_at_prices import Demands, demands_of
from fairopt.solve.form.program import Program
from fairopt.solve.settings import Settings

SIZES = [(1, 2, 1), (3, 4, 2), (12, 3, 3), (5, 30, 3)]
OBJECTIVES = {
    "max-min": fo.MaxMin(),
    "alpha = 1/2": fo.AlphaFair(0.5),
    "proportional": fo.AlphaFair(1),
    "alpha = 3": fo.AlphaFair(3),
}


def demands_and_loads(rng: np.random.Generator, n: int, servers: int, m: int, by: bool) -> tuple[Demands, np.ndarray]:
    """Demands per unit of level, as the method keeps them and as an array (users, servers, resources)."""
    demands = rng.uniform(0.1, 2, (n, servers, m) if by else (n, m)) * (
        rng.random((n, servers, m) if by else (n, m)) > 0.2
    )
    demands[..., 0] += 0.1
    capacities, per_level = rng.uniform(1, 2, (servers, m)), rng.uniform(0.5, 1, (n, servers if by else 1))
    table = demands if by else np.broadcast_to(demands[:, None, :], (n, servers, m))
    g = table / capacities * np.broadcast_to(per_level, (n, servers))[:, :, None]
    return demands_of(demands, capacities, per_level, np.ones((n, servers), dtype=bool)), g


def written_out(
    g: np.ndarray,
    ratios: np.ndarray,
    per_price: np.ndarray,
    response: np.ndarray,
    together: bool,
    right: np.ndarray,
    own: tuple[np.ndarray, np.ndarray] | None,
    shared: tuple[np.ndarray, np.ndarray] | None,
) -> np.ndarray:
    """Prices (server by server), smoothed minima, the common level and multipliers of limits from one dense system."""
    n, servers, m = g.shape
    size = servers * m + n + together + (0 if own is None else n)
    matrix = np.zeros((size, size))
    for s in range(servers):
        block = slice(s * m, (s + 1) * m)
        matrix[block, block] = (g[:, s].T * ratios[:, s]) @ g[:, s] + np.diag(per_price[:, s])
        matrix[block, servers * m : servers * m + n] = -(g[:, s].T * ratios[:, s])
        matrix[servers * m : servers * m + n, block] = -(g[:, s].T * ratios[:, s]).T
    users = np.arange(servers * m, servers * m + n)
    responses, follows = (np.zeros(n), np.ones(n)) if shared is None else shared
    matrix[users, users] = ratios.sum(axis=1) + (responses if together else response)
    if together:
        matrix[users, users[-1] + 1] = -follows
        matrix[users[-1] + 1, users] = follows
        matrix[users[-1] + 1, users[-1] + 1] = 1.0 / response[0]
    if own is not None:
        coefficients, per_multiplier = own
        multipliers = np.arange(size - n, size)
        for s in range(servers):
            block = np.arange(s * m, (s + 1) * m)
            matrix[np.ix_(block, multipliers)] = -(g[:, s].T * ratios[:, s] * coefficients[:, s])
            matrix[np.ix_(multipliers, block)] = matrix[np.ix_(block, multipliers)].T
        matrix[users, multipliers] = matrix[multipliers, users] = (ratios * coefficients).sum(axis=1)
        matrix[multipliers, multipliers] = (ratios * coefficients**2).sum(axis=1) + per_multiplier
    return np.linalg.solve(matrix, right)


@pytest.mark.parametrize("kind", [ByPrices, ByUsers])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("by_server", [False, True])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("with_", ["nothing", "limits", "lower bounds"])
def test_both_ways_solve_the_whole_system(
    kind: type[PriceSystem], together: bool, by_server: bool, size: tuple[int, int, int], with_: str
) -> None:
    rng = np.random.default_rng(sum(size))
    n, servers, m = size
    demands, g = demands_and_loads(rng, n, servers, m, by_server)
    ratios, per_price = 10 ** rng.uniform(-3, 3, (n, servers)), 10 ** rng.uniform(-2, 2, (m, servers))
    response = rng.uniform(0.5, 2, 1 if together else n)
    of_users, of_loads, of_level = (
        rng.normal(size=n),
        rng.normal(size=(m, servers)),
        float(rng.normal()) if together else 0.0,
    )
    limits = with_ == "limits"
    own = (rng.uniform(0.5, 2, (n, servers)), 10 ** rng.uniform(-2, 2, n)) if limits else None
    shared = (rng.uniform(0, 2, n), rng.uniform(0, 1, n)) if together and with_ == "lower bounds" else None
    of_limits = rng.normal(size=n)
    right = np.concatenate([of_loads.T.ravel(), of_users, [of_level] if together else [], of_limits if limits else []])
    whole = written_out(g, ratios, per_price, response, together, right, own, shared)
    dreduced = np.empty((n, servers))
    system = kind(demands, ratios, per_price, response, together, own, shared)
    prices, smoothed, level, multipliers = system.solve(of_users, of_limits, of_loads, of_level, dreduced)
    unit = np.abs(whole).max()
    np.testing.assert_allclose(prices.T.ravel(), whole[: servers * m], atol=1e-8 * unit)
    np.testing.assert_allclose(smoothed, whole[servers * m : servers * m + n], atol=1e-8 * unit)
    assert level == pytest.approx(whole[servers * m + n] if together else 0.0, abs=1e-8 * unit)
    reduced = np.einsum("jsi,is->js", g, prices) - smoothed[:, None]
    if own is not None:
        np.testing.assert_allclose(multipliers, -whole[-n:], atol=1e-8 * unit)
        reduced += own[0] * multipliers[:, None]
    np.testing.assert_allclose(dreduced, reduced, atol=1e-8 * unit)


@pytest.mark.parametrize("kind", [ByPrices, ByUsers])
def test_what_is_no_number_is_refused(kind: type[PriceSystem]) -> None:
    demands, _ = demands_and_loads(np.random.default_rng(1), 3, 2, 2, False)
    ratios = np.ones((3, 2))
    ratios[1, 1] = np.nan
    with pytest.raises((np.linalg.LinAlgError, ValueError)):
        kind(demands, ratios, np.ones((2, 2)), np.ones(3), False)


def instance_of(n: int, servers: int, m: int, kind: str, seed: int) -> fo.Instance:
    """Random users and servers of a hard kind."""
    rng = np.random.default_rng(seed)
    shape = (n, servers, m) if kind == "by server" else (n, m)
    if kind == "ties":
        demands, capacities = rng.integers(0, 4, shape).astype(float), rng.integers(1, 4, (servers, m)).astype(float)
    else:
        demands, capacities = 10 ** rng.uniform(-1.5, 1.5, shape), 10 ** rng.uniform(0, 1, (servers, m))
        demands *= rng.random(shape) > 0.3
    demands[..., 0] = np.where(demands.sum(axis=-1) > 0, demands[..., 0], 1.0)
    eligible = rng.random((n, servers)) > 0.3
    eligible[np.arange(n), rng.integers(0, servers, n)] = True
    limits = np.where(rng.random(n) < 0.4, 10 ** rng.uniform(-1, 2, n), np.inf) if kind == "limits" else None
    weights = rng.integers(1, 4, n) if seed % 2 else None
    counts = rng.integers(1, 4, servers) if seed % 3 == 0 else None
    return fo.Instance(demands, capacities, weights=weights, task_limits=limits, eligible=eligible, counts=counts)


def best_level(instance: fo.Instance) -> float:
    """Max-min of dominant shares per weight by a linear program on the data as given."""
    n, servers, m = instance.n_users, instance.n_servers, instance.n_resources
    capacities = instance.capacities * instance.counts[:, None]
    total = capacities.sum(axis=0)
    demands = np.broadcast_to(
        instance.demands if instance.demands.ndim == 3 else instance.demands[:, None, :], (n, servers, m)
    )
    dominant = (demands / np.where(total > 0, total, 1.0)).max(axis=2)
    j, s = (a.ravel() for a in np.indices((n, servers)))
    pair = np.arange(n * servers)
    loads = [
        sp.csr_array((demands[j, s, i] / capacities[s, i], (s, pair)), shape=(servers, n * servers)) for i in range(m)
    ]
    shares = sp.csr_array((-dominant[j, s], (j, pair)), shape=(n, n * servers))
    weights = sp.csr_array(instance.weights[:, None])
    above = sp.vstack(
        [sp.hstack([load, sp.csr_array((servers, 1))]) for load in loads] + [sp.hstack([shares, weights])]
    )
    right = [np.ones(servers * m), np.zeros(n)]
    limited = np.isfinite(instance.task_limits)
    if limited.any():
        tasks = sp.csr_array((np.ones(n * servers), (j, pair)), shape=(n, n * servers + 1))
        above, right = sp.vstack([above, tasks[limited]]), [*right, instance.task_limits[limited]]
    upper = np.append(np.where(instance.eligible.ravel(), np.inf, 0.0), np.inf)
    found = linprog(
        np.append(np.zeros(n * servers), -1.0),
        above,
        np.concatenate(right),
        method="highs",
        bounds=np.column_stack([np.zeros(n * servers + 1), upper]),
    )
    assert found.status == 0
    return -float(found.fun)


@pytest.mark.parametrize("kind", ["limits", "ties", "by server", "plain"])
@settings(max_examples=8)
@given(n=st.integers(1, 12), servers=st.integers(2, 40), m=st.integers(1, 4), seed=st.integers(0, 10_000))
def test_max_min_of_few_users_on_many_servers_is_that_of_a_linear_program(
    kind: str, n: int, servers: int, m: int, seed: int
) -> None:
    instance = instance_of(n, servers, m, kind, seed)
    program = Program(instance, fo.MaxMin(), ())
    if not alpha_fair.alpha_fair_on_servers_applies(program):  # all servers alike: one row
        assert program.instance.n_servers == 1
        return
    answer = best(program, alpha_fair.solve_alpha_fair_on_servers(program, Settings()))
    assert answer.ok and answer.violation == 0.0
    shares = (program.expand(answer.tasks) * fo.DominantShare().coefficients(instance).reshape(n, -1)).sum(axis=1)
    assert (shares / instance.weights).min() == pytest.approx(best_level(instance), rel=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
@pytest.mark.parametrize("kind", ["limits", "ties", "by server", "plain"])
def test_users_first_and_prices_first_lead_to_the_same_levels(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    instance = instance_of(15, 40, 2, kind, 4)
    program = Program(instance, OBJECTIVES[name], ())
    assert alpha_fair.alpha_fair_on_servers_applies(program)
    made: list[type[PriceSystem]] = []
    answers = []
    for way in (ByUsers, ByPrices):

        def counted(*arguments: Any, way: type[PriceSystem] = way) -> PriceSystem:
            made.append(way)
            return way(*arguments)

        monkeypatch.setattr(interior_point, "ByUsers", counted)  # what fewer users than prices lead to
        answers.append(best(program, alpha_fair.solve_alpha_fair_on_servers(program, Settings())))
    assert set(made) == {ByUsers, ByPrices}
    first, second = (program.pairs.table(answer.tasks).sum(axis=1) for answer in answers)
    assert all(answer.ok for answer in answers)
    if name != "max-min":  # where the levels of other users are not unique
        np.testing.assert_allclose(first, second, rtol=1e-4)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_thousands_of_servers_are_certified_where_users_are_few(name: str) -> None:
    instance = fo.datasets.log_uniform(
        10, 3, n_servers=2000, different_servers=True, ineligible=0.3, decades=3.0, weights=True, seed=1
    )
    allocation = fo.Policy(OBJECTIVES[name]).allocate(instance)
    assert allocation.certificate.method == "prices" and allocation.certificate.gap <= 1e-7
    assert (allocation.tasks_by_server.T @ instance.demands <= instance.capacities * (1 + 1e-9)).all()


@pytest.mark.parametrize("decades", [4.0, 8.0, 12.0])
def test_capacities_over_many_decades_are_certified(decades: float) -> None:
    rng = np.random.default_rng(5)
    capacities = 10 ** rng.uniform(-decades / 2, decades / 2, (50, 2))
    allocation = fo.Policy(fo.MaxMin()).allocate(fo.Instance(rng.uniform(0.5, 2, (6, 2)), capacities))
    assert allocation.certificate.ok


def test_it_is_refused_only_where_users_and_prices_are_both_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpha_fair, "LARGEST_SYSTEM", 5)
    for n, servers, fits in [(5, 8, True), (9, 2, True), (6, 3, False)]:
        instance = fo.datasets.log_uniform(n, 2, n_servers=servers, different_servers=True, seed=1)
        assert alpha_fair.alpha_fair_on_servers_applies(Program(instance, fo.MaxMin(), ())) == fits


# -- servers alike --------------------------------------------------------------------------------------------


@st.composite
def with_few_values(draw: st.DrawFn) -> fo.Instance:
    """Servers, some with equal capacities, some identical; zeros of both signs."""
    n, servers, m = draw(st.integers(0, 3)), draw(st.integers(1, 6)), draw(st.integers(1, 2))
    values = st.sampled_from([0.0, -0.0, 1.0, 2.0])
    capacities = np.array(draw(st.lists(values, min_size=servers * m, max_size=servers * m))).reshape(servers, m)
    by_server = draw(st.booleans())
    size = n * m * (servers if by_server else 1)
    demands = np.array(draw(st.lists(values, min_size=size, max_size=size)))
    demands = demands.reshape((n, servers, m) if by_server else (n, m))
    capacities[0] = 2.0
    demands[..., 0] = np.where((demands > 0).any(axis=-1), demands[..., 0], 1.0)
    eligible = np.array(draw(st.lists(st.booleans(), min_size=n * servers, max_size=n * servers)), dtype=bool)
    eligible = eligible.reshape(n, servers)
    eligible[:, 0] = True
    return fo.Instance(demands, capacities, eligible=eligible)


@settings(max_examples=15)
@given(instance=with_few_values())
def test_servers_are_of_one_class_where_capacities_eligibility_and_demands_are_equal(instance: fo.Instance) -> None:
    classes: list[int] = []
    first: list[int] = []
    for s in range(instance.n_servers):
        for c, t in enumerate(first):
            if (
                (instance.capacities[s] == instance.capacities[t]).all()
                and (instance.eligible[:, s] == instance.eligible[:, t]).all()
                and (instance.demands.ndim == 2 or (instance.demands[:, s] == instance.demands[:, t]).all())
            ):
                classes.append(c)
                break
        else:
            classes.append(len(first))
            first.append(s)
    np.testing.assert_array_equal(instance.derived.server_classes, classes)


def test_levels_that_stray_from_their_limits_are_brought_back():
    """The second user's limit takes all of a resource, so that matrices are singular at the end."""
    places = [[1, 1], [1, 0], [1, 1], [0, 1], [1, 1]]
    limits = [None, 4, None, 3, None]
    instance = fo.Instance(
        [[1, 4], [3, 1], [2, 2], [0, 1], [5, 0]],
        [[20, 4], [10, 16]],
        weights=[1, 2, 1, 1, 1],
        task_limits=limits,
        eligible=places,
    )
    answer = fo.Policy(3 * fo.AlphaFair(3)).allocate(instance)  # a gap of 9.5e-7 with one kernel of OpenBLAS
    assert answer.certificate.method == "prices" and answer.certificate.gap < 1e-8
    assert answer.tasks[1] == pytest.approx(4, abs=1e-7)
