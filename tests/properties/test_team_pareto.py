"""Pareto efficiency of teams beside a linear program written apart."""

import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.errors import InvalidBlock

POLICIES = (
    fo.Policy(fo.Leximin(fo.OfTeam())),
    fo.Policy(fo.AlphaFair(2, fo.OfTeam())),
    fo.Policy(fo.MaxMin(fo.OfTeam(fo.Tasks()))),
    fo.DRF(),
)


def drawn(seed: int) -> fo.Instance:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    demands = rng.integers(0, 4, (n, 2)) + np.eye(2)[rng.integers(0, 2, n)]
    teams = [f"team{k}" for k in rng.integers(0, 3, n)]
    limits = np.where(rng.random(n) < 0.3, rng.integers(1, 4, n), np.inf)
    return fo.Instance(
        demands, rng.integers(2, 9, (int(rng.integers(1, 3)), 2)), task_limits=limits, teams={"team": teams}
    )


def most_of_one_team(allocation: fo.Allocation, share: fo.OfTeam) -> float:
    """The largest relative gain of one team's total while no other's falls, by a linear program for each team."""
    instance = allocation.instance
    n, s, m = instance.per_server_demands.shape
    c = np.broadcast_to(share.share.per_task(instance).reshape(n, -1), (n, s))
    names, of_user = share.labelling(instance)
    capacity = np.zeros((s * m, n * s))
    for j in range(n):
        for k in range(s):
            capacity[k * m : (k + 1) * m, j * s + k] = instance.per_server_demands[j, k]
    totals = np.zeros((len(names), n * s))
    for j in range(n):
        totals[of_user[j], j * s : (j + 1) * s] = c[j]
    limit = np.kron(np.eye(n), np.ones(s))[np.isfinite(instance.task_limits)]
    now = totals @ allocation.tasks_by_server.ravel()
    table = np.vstack([capacity, limit, -totals])
    finite = instance.task_limits[np.isfinite(instance.task_limits)]
    right = np.concatenate([instance.capacities.ravel(), finite, -now * (1 - 1e-10)])
    bounds = [(0, None if may else 0) for may in instance.eligible.ravel()]
    gains = [-linprog(-totals[t], table, right, bounds=bounds).fun / now[t] - 1 for t in range(len(names))]
    return max(gains)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("seed", range(15))
def test_a_team_can_gain_where_a_linear_program_says_so(policy: fo.Policy, seed: int) -> None:
    answer = policy.allocate(drawn(seed))
    verdict = fo.check(answer, "team-pareto")["team-pareto"]
    gain = most_of_one_team(answer, verdict.details.share)
    assert verdict.holds == (gain <= 1e-6)
    assert verdict.margin <= gain + 1e-6
    assert verdict.details.bound >= gain - 1e-6


def test_it_is_judged_within_constraints_and_names_the_team() -> None:
    cluster = fo.Instance([[1, 0], [0, 1]], [10, 10], teams={"team": ["vision", "nlp"]})
    capped = fo.Policy(fo.Leximin(fo.OfTeam()), [fo.MaxShare(0.3)]).allocate(cluster)
    assert str(fo.check(capped, "team-pareto")["team-pareto"]).startswith("within the policy's constraints, no team's")
    least = fo.Policy(fo.MaxMin(fo.OfTeam()), [fo.MaxShare({"nlp": 0.3}, fo.OfTeam())]).allocate(cluster)
    assert fo.check(least, "team-pareto")["team-pareto"].holds == (least.tasks[0] > 10 * (1 - 1e-6))


def test_without_teams_it_says_so() -> None:
    with pytest.raises(InvalidBlock, match="users have none"):
        fo.check(fo.DRF().allocate(fo.Instance([[1]], [1])), "team-pareto")
