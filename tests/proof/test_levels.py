"""Bounds of the levels of leximin by prices alone, against levels known by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracle import exact_lp
from oracle.exact_cluster import Cluster

import fairopt as fo
from fairopt.proof.dual import Dual
from fairopt.proof.level_bounds import judge_levels, largest_rise
from fairopt.solve.form.program import Program

CLUSTER = fo.Instance([[[1.0], [2.0]], [[2.0], [1.0]]], [[1.0], [1.0]])  # each user runs a task where it needs 1
BOTH = Dual(np.full(2, 0.5), fixed=np.array([0, 1]))


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_users_who_hold_a_part_of_each_server_may_rise_by_what_they_lose_on_the_worse(part: float) -> None:
    program = Program(CLUSTER, fo.Leximin(fo.Tasks()), ())
    tasks = np.array([1 - part, part / 2, part / 2, 1 - part])
    assert largest_rise(program, None, tasks, BOTH) == pytest.approx(1 / (1 - part / 2) - 1, abs=1e-15)


def test_tasks_on_a_server_worse_by_less_than_a_tie_are_a_gap_of_no_less() -> None:
    worse = 5e-8
    demands = np.array([[[1.0], [1 + worse]], [[1 + worse], [1.0]]])
    program = Program(fo.Instance(demands, [[1.0], [1.0]]), fo.Leximin(fo.Tasks()), ())
    tasks = np.array([0, 1, 1, 0]) / (1 + worse)
    with np.errstate(all="ignore"):  # as in a solve: prices of zero are expected
        gap = judge_levels(program, [BOTH], None, tasks)[0]
    assert worse <= gap <= 2.001 * worse  # if one of them rises alone


def beside_limited_users(trace: float, limit: float, many: int = 1) -> dict[str, Any]:
    """``many`` servers with room for a limited user each and a ``trace`` of the first user, who also shares one."""
    n, servers = many + 3, many + 2
    demands, eligible = np.ones((n, servers, 1)), np.zeros((n, servers), dtype=bool)
    demands[0, :many] = trace
    eligible[0, :many] = eligible[0, many] = eligible[1, many] = eligible[2, many + 1] = True
    eligible[np.arange(3, n), np.arange(many)] = True
    return {
        "demands": demands.tolist(),
        "capacities": [[1.0]] * many + [[1.0], [1.0]],
        "weights": [many, 1 / 8, 1 / 4] + [2.0] * many,
        "task_limits": [float(many), None, None] + [limit] * many,
        "eligible": eligible.tolist(),
    }


def gap_of_tasks(
    given: dict[str, Any], first: tuple[float, float], second: float, limited: float, price: float = 0.0
) -> float:
    """The gap of tasks; the first user's on each server of a limited user, which has a price, and beside the second."""
    program = Program(fo.Instance(**given), fo.Leximin(fo.Tasks()), (), merge=False)
    many = len(given["weights"]) - 3
    tasks = np.array([*[first[0]] * many, first[1], second, 1.0, *[limited] * many])
    assert (program.usable_rows >= program.pairs.loads @ tasks).all()
    prices = np.eye(many + 2)[[many + 1, many]]
    prices[1, :many] = price
    duals = [Dual(price, fixed=np.array([user])) for user, price in zip((2, 1), prices, strict=True)]
    with np.errstate(all="ignore"):  # as in a solve: prices of zero are expected
        return judge_levels(program, duals, None, tasks)[0]


def test_what_a_user_lacks_on_many_servers_adds_up_on_the_one_where_it_runs_instead() -> None:
    """On each of 100 servers rounding hides that a task of the first user has 5e-8 of its room too little."""
    trace, many = 1.001e-9, 100
    limit = 1 - trace
    assert limit + trace == 1.0
    lost = float(many * (1 - (1 - Fraction(limit)) / Fraction(trace)))  # of the only task of the second user
    assert 5e-6 < lost < 6e-6
    assert gap_of_tasks(beside_limited_users(trace, limit, many), (1.0, 0.0), 1.0, limit) > lost


@pytest.mark.parametrize("below", [0.0, 5e-10, 5e-8], ids=str)
def test_users_nearly_at_their_limits_take_from_later_ones_what_they_lack(below: float) -> None:
    """Below its limit by 5e-10, the limited user leaves the first one room for another 6e-5 of a task."""
    trace, limit = 2.0**-18, 0.5
    given = beside_limited_users(trace, limit)
    alone = (1 - limit) / trace
    given |= {"task_limits": [alone + 0.5, None, None, limit], "weights": [2 * alone, 1 / 8, 1 / 4, 2.0]}
    exact = Cluster(**given)
    right = exact_lp.leximin(exact.forms(exact.tasks()), exact.rows)
    assert right[1] / 8 == Fraction(1, 2)
    limited = limit * (1 - below)
    more = (1 - limited) / trace - alone
    gap = gap_of_tasks(given, (alone + more, 0.5 - more), 0.5 + more, limited, 1 / trace)
    assert gap >= 2 * more if below else gap <= 1e-6


@pytest.mark.parametrize("trace", [1e-9, 1e-11, 1e-12], ids=str)
def test_what_a_limit_leaves_of_a_capacity_is_right_in_its_last_digits(trace: float) -> None:
    """Of 1 - 1e-12 and a trace of 1e-12 floats make 1, but the first user lacks 2e-5 of a task; the second has 3."""
    given = beside_limited_users(trace, 1 - trace)
    given["capacities"][1], given["weights"][2] = [3.0], 1 / 64  # the third user has the highest level
    exact = Cluster(**given)
    right = [float(v) for v in exact_lp.leximin(exact.forms(exact.tasks()), exact.rows)]
    answer = fo.Policy(fo.Leximin(fo.Tasks())).allocate(fo.Instance(**given))
    np.testing.assert_allclose(answer.tasks / answer.instance.weights, right, rtol=1e-6)
