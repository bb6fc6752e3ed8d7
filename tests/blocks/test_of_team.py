"""Shares of teams, what is above a base, and bounds that are given by the name of a team."""

import cvxpy as cp
import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.guarantees import team_floors
from fairopt.blocks.model import Point
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, OutOfDomain

# dominant shares per task: 0.1, 0.1, 0.1 and 0.2
POOL = fo.Instance(
    [[1, 0], [0, 1], [1, 1], [2, 1]],
    [10, 10],
    users=["train", "serve", "parse", "translate"],
    teams={"team": ["vision", "vision", "nlp", "nlp"]},
)
SERVERS = POOL.replace(
    servers=None,
    counts=None,
    eligible=None,
    capacities=[[10, 10], [4, 7]],
    weights={"vision": 2, "parse": 3},
    task_limits={"parse": 2},
)


def by_hand(instance, objective, base=0.0, extra=()):
    """The optimum of an objective of the teams' dominant shares per weight, by CVXPY."""
    x = cp.Variable(instance.eligible.shape, nonneg=True)
    tasks = cp.sum(x, axis=1)
    conditions = [x[:, s] @ instance.demands <= instance.capacities[s] for s in range(instance.n_servers)]
    conditions += [tasks[j] <= t for j, t in enumerate(instance.task_limits) if np.isfinite(t)]
    shares = cp.multiply(instance.dominant_shares, tasks)
    member = np.array([[team == name for team in instance.teams["team"]] for name in ("vision", "nlp")], dtype=float)
    totals = member @ shares - base
    weights = np.array([instance.team_weights.get(name, 1.0) for name in ("vision", "nlp")])
    problem = cp.Problem(cp.Maximize(objective(totals, weights)), conditions + [tasks >= low for low in extra])
    return problem.solve(solver="CLARABEL", tol_gap_rel=1e-11, tol_gap_abs=1e-11)


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize(
    ("block", "value"),
    [
        (fo.Total(fo.OfTeam()), lambda z, w: cp.sum(z)),
        (fo.MaxMin(fo.OfTeam()), lambda z, w: cp.min(z / w)),
        (fo.AlphaFair(1, fo.OfTeam()), lambda z, w: w @ cp.log(z / w)),
        (fo.AlphaFair(0.5, fo.OfTeam()), lambda z, w: 2 * w @ cp.sqrt(z / w)),
        (fo.AlphaFair(3, fo.OfTeam()), lambda z, w: -(w @ cp.power(z / w, -2)) / 2),
        (fo.OrderedWeighted((2, 1, 1), fo.OfTeam()), lambda z, w: cp.min(z / w) + cp.sum(z / w)),
        (fo.FairnessEfficiency(2, -1, fo.OfTeam()), None),
        (fo.AlphaFair(1, fo.OfTeam()) + 2 * fo.MaxMin(fo.OfTeam()), lambda z, w: w @ cp.log(z / w) + 2 * cp.min(z / w)),
    ],
)
def test_objectives_of_teams_are_the_programs_written_by_hand(instance, block, value):
    answer = fo.Policy(block).allocate(instance)
    assert answer.certificate.ok
    assert answer.certificate.gap < 1e-8
    if value is not None:
        np.testing.assert_allclose(answer.objective, by_hand(instance, value), rtol=1e-6)


def test_share_of_a_team_is_the_sum_of_its_members_shares():
    answer = fo.DRF().allocate(POOL)
    shares = answer.share(fo.DominantShare())
    np.testing.assert_allclose(answer.share(fo.OfTeam()), [shares[:2].sum(), shares[2:].sum()])


def test_weights_of_the_block_replace_those_of_the_instance():
    weighted = fo.Policy(fo.MaxMin(fo.OfTeam(weights={"nlp": 3, "vision": 1}))).allocate(SERVERS)
    np.testing.assert_allclose((weighted.share(fo.OfTeam()) / [1, 3]).min(), weighted.objective, rtol=1e-6)
    assert weighted.share(fo.OfTeam())[1] > weighted.share(fo.OfTeam())[0]


def test_users_without_tasks_leave_their_team():
    idle = POOL.with_task_limits({"train": 0, "serve": 0})
    answer = fo.Policy(fo.AlphaFair(1, fo.OfTeam())).allocate(idle)
    np.testing.assert_allclose(answer.share(fo.OfTeam()), [0, 1], atol=1e-6)


def test_policies_that_compare_users_say_that_the_weight_of_a_team_is_divided():
    heavy = POOL.with_weights({"vision": 4})
    assert "weight of a team is divided" in fo.DRF().allocate(heavy).certificate.note
    assert "weight of a team is divided" in fo.NashBargaining().allocate(heavy).certificate.note
    for between in (fo.OfTeam(), fo.Surplus(fo.OfTeam())):
        assert "divided" not in fo.Policy(fo.MaxMin(between)).allocate(heavy).certificate.note
    assert "divided" not in fo.MostTasks().allocate(heavy).certificate.note


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
def test_bounds_by_the_name_of_a_team_are_bounds_on_its_sum(instance):
    least = fo.Policy(fo.Total(fo.ResourceShare(0)), [fo.MinShare({"vision": 0.6, "parse": 0.05})]).allocate(instance)
    assert least.share(fo.OfTeam())[0] >= 0.6 - 1e-9
    assert least.share(fo.DominantShare())[2] >= 0.05 - 1e-9
    same = fo.Policy(
        fo.Total(fo.ResourceShare(0)), [fo.MinShare({"vision": 0.6}, fo.OfTeam()), fo.MinShare({"parse": 0.05})]
    )
    np.testing.assert_allclose(same.allocate(instance).objective, least.objective, rtol=1e-7)
    most = fo.Policy(fo.MostTasks().objective, [fo.MaxShare({"vision": 0.3})]).allocate(instance)
    np.testing.assert_allclose(most.share(fo.OfTeam())[0], 0.3, rtol=1e-6)


def test_bounds_on_teams_hold_where_each_has_one_user():
    pair = fo.Instance([[1], [1]], [8], users=["u", "v"], teams={"team": ["a", "b"]})
    for bound in (fo.MaxShare({"a": 0.25}, fo.OfTeam()), fo.MinShare({"b": 0.75}, fo.OfTeam())):
        answer = fo.Policy(fo.Leximin(), [bound]).allocate(pair)
        np.testing.assert_allclose(answer.tasks, [2, 6], atol=1e-7)
    with pytest.raises(InvalidInstance, match="unknown team 'u'"):
        fo.Policy(fo.Leximin(), [fo.MaxShare({"u": 0.25}, fo.OfTeam())]).allocate(pair)


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
def test_bound_on_the_surplus_of_a_team_is_on_what_its_members_have_above_their_guarantees(instance, tmp_path):
    secured = instance.replace(guarantees={"train": 1, "parse": 1})
    least, most = fo.MinShare({"vision": 1.2}, fo.Surplus()), fo.MaxShare({"vision": 0.1}, fo.Surplus())
    for bound, surplus in ((least, 1.2), (most, 0.1)):
        answer = fo.Policy(fo.Leximin(), [bound]).allocate(secured)
        np.testing.assert_allclose(answer.share(fo.Surplus())[:2].sum(), surplus, rtol=1e-6)
    answer.save(tmp_path / "answer.json")
    found = fo.verify(tmp_path / "answer.json")
    assert found.ok, str(found)


def test_equal_shares_of_teams_and_lower_bounds_on_their_smallest_share():
    equal = fo.Policy(fo.Total(fo.Tasks()), [fo.EqualShares(fo.OfTeam())]).allocate(SERVERS)
    np.testing.assert_allclose(np.ptp(equal.share(fo.OfTeam()) / [2, 1]), 0, atol=1e-7)
    bounded = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxMin(fo.OfTeam()) >= 0.3]).allocate(SERVERS)
    assert (bounded.share(fo.OfTeam()) / [2, 1]).min() >= 0.3 - 1e-7


def test_guarantees_hold_under_every_objective_and_surplus_is_what_is_above_them():
    secured = POOL.replace(guarantees={"translate": 1, "vision": {"resource2": 6}})
    for block in (
        fo.Total(fo.ResourceShare(0)),
        fo.MaxMin(),
        fo.AlphaFair(2, fo.OfTeam()),
        fo.MaxMin(fo.Surplus(fo.OfTeam())),
    ):
        answer = fo.Policy(block).allocate(secured)
        assert answer.tasks[3] >= 1 - 1e-9
        assert answer.tasks[1] >= 6 - 1e-6
    np.testing.assert_allclose(
        answer.objective, by_hand(secured, lambda z, w: cp.min(z), [0.6, 0.2], [[0, 6, 0, 1]]), rtol=1e-6
    )


def test_guarantee_of_a_team_is_cut_at_what_its_tasks_can_use():
    from fairopt.blocks.guarantees import team_floors

    eight = fo.Instance(
        [[4, 8], [2, 0]], [100, 96], users=["a", "b"], resources=["cpu", "gpu"], teams={"team": ["v", "w"]}
    )
    floors = team_floors(eight.replace(guarantees={"v": {"cpu": 64, "gpu": 16}, "w": {"gpu": 4}}))
    np.testing.assert_allclose(floors["v"].units, [8, 16])
    np.testing.assert_allclose(floors["w"].units, [0, 0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: fo.OfTeam(fo.OfTeam()), InvalidBlock, "give a share of users"),
        (lambda: fo.OfTeam(by=3), InvalidBlock, "by of OfTeam is 3; give a kind of label"),
        (lambda: fo.OfTeam(weights=[1, 2]), InvalidBlock, "give a dict by team"),
        (lambda: fo.Surplus(fo.Surplus()), InvalidBlock, "give a share, or OfTeam"),
        (lambda: fo.Policy(fo.MaxMin(fo.OfTeam(by="org"))).allocate(POOL), InvalidInstance, "no label 'org'"),
        (
            lambda: fo.Policy(fo.MaxMin(fo.OfTeam())).allocate(POOL.replace(teams={"team": ["a", "a", None, "b"]})),
            InvalidInstance,
            "user 'parse' has no team, which OfTeam.* needs",
        ),
        (lambda: fo.OfTeam(weights={"nlp": 0}), InvalidBlock, "weight of 'nlp' is 0; give a positive"),
        (lambda: fo.OfTeam(weights={"nlp": np.nan}), InvalidBlock, "holds nan for 'nlp'"),
        (
            lambda: fo.Policy(fo.MaxMin(fo.OfTeam(weights={"x": 2}))).allocate(POOL),
            InvalidInstance,
            "name an unknown team 'x'",
        ),
        (
            lambda: fo.Policy(fo.Total(), [fo.MinShare({"x": 0.1})]).allocate(POOL),
            InvalidInstance,
            "unknown user or team",
        ),
        (
            lambda: fo.Policy(fo.Total(), [fo.MinShare({"x": 0.1}, fo.OfTeam())]).allocate(POOL),
            InvalidInstance,
            "unknown team 'x'",
        ),
        (
            lambda: fo.Policy(fo.Total(), [fo.MinTasks({"nlp": 1})]).allocate(POOL),
            InvalidInstance,
            "names the team 'nlp'",
        ),
        (
            lambda: fo.Policy(fo.MaxMin(fo.OfTeam(fo.ResourceShare(1)))).allocate(
                POOL.replace(teams={"team": ["a", "b", "b", "b"]})
            ),
            OutOfDomain,
            "team 'a' has a zero OfTeam",
        ),
        (
            lambda: fo.DominantShare()._numbers(POOL) and fo.OfTeam().coefficients(POOL),
            InvalidBlock,
            "not a number of tasks",
        ),
        (
            lambda: fo.Policy(fo.Total(), [fo.MinShare({"vision": 0.9, "nlp": 0.9})]).allocate(
                POOL.replace(demands=[[1, 1]] * 4)
            ),
            Infeasible,
            "cannot hold together",
        ),
    ],
)
def test_wrong_shares_of_teams_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("make", [fo.Leximin, fo.MaxMin, fo.Total, lambda share: fo.AlphaFair(1, share)])
@pytest.mark.parametrize("share", [fo.OfTeam(), fo.Surplus(), fo.Surplus(fo.OfTeam())], ids=str)
def test_prices_of_teams_and_of_surpluses_are_not_known(make, share):
    answer = fo.Policy(make(share)).allocate(POOL)
    assert answer.prices is answer.prices_left is answer.share_prices is answer.level_prices is None


def test_floor_of_a_team_of_many_members_with_limits():
    n = 30_000  # as a dense table, totals of members would take 7 GB
    limits = np.full(n, 0.5)
    given = fo.Instance(
        np.ones((n, 1)), [n], teams={"team": ["a"] * n}, task_limits=limits, guarantees={"a": {"resource1": 0.75 * n}}
    )
    assert team_floors(given)["a"].units == pytest.approx([0.5 * n])


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("last", [fo.Leximin(), fo.Total(fo.Tasks())], ids=str)
def test_tiers_that_start_with_alpha_fairness_between_teams_are_proved(instance, last, tmp_path):
    fo.Policy(fo.AlphaFair(1, fo.OfTeam()).then(last)).allocate(instance).save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok


@pytest.mark.parametrize("alpha", [0.5, 2, 10])
def test_value_of_levels_far_above_their_unit_is_right(alpha):
    """Levels are measured in 20, which ignores limits of tasks, and the powers of their ratio are tiny beside 1."""
    team = fo.Instance([[1], [0.001]], [10], task_limits=[0.2, 300], teams={"team": ["a", "a"]})
    value = fo.AlphaFair(alpha, fo.OfTeam(fo.Tasks())).value(Point(team, np.array([[0.2], [300.0]])))
    assert value == pytest.approx(300.2 ** (1 - alpha) / (1 - alpha), rel=1e-13, abs=0)
