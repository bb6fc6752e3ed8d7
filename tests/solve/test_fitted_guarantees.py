"""`Instance.fit_guarantees`: in proportion and in an order, beside what is plain on one resource, and at the edge."""

from __future__ import annotations

import numpy as np
import pytest

import fairopt as fo
from fairopt.blocks.guarantees import team_floors
from fairopt.errors import Infeasible, InvalidBlock

TWO = fo.Instance(
    [[1], [1]], [12], resources=["gpu"], teams={"team": ["A", "B"]}, guarantees={"A": {"gpu": 8}, "B": {"gpu": 8}}
)


def fits(instance: fo.Instance) -> bool:
    """Whether some answer keeps the guarantees."""
    try:
        fo.MostTasks().allocate(instance)
    except Infeasible:
        return False
    return True


@pytest.mark.parametrize("policy", [fo.DRF(), fo.HDRF(), fo.NashWelfare(), fo.Policy(fo.Leximin(fo.OfTeam()))])
def test_of_12_gpus_quotas_of_8_and_8_are_6_and_6_in_proportion_and_8_and_4_in_order(policy, tmp_path):
    with pytest.raises(Infeasible, match=r"6 gpu and 6 gpu would fit; .* instance\.fit_guarantees\(\), or --fit-gua"):
        policy.allocate(TWO)
    for order, tasks in ((None, [6, 6]), (["A", "B"], [8, 4]), (["B"], [4, 8])):
        answer = policy.allocate(TWO.fit_guarantees(order))
        assert answer.certificate.ok and answer.tasks == pytest.approx(tasks)
        answer.save(tmp_path / "answer.json")
        assert fo.verify(tmp_path / "answer.json").ok


def test_the_note_says_which_were_reduced_from_what_to_what():
    assert TWO.fit_guarantees().notes == (
        "guarantees that did not fit together were reduced in proportion: team 'A' from 8 to 6 gpu; team 'B' from 8 "
        "to 6 gpu",
    )
    users = fo.Instance([[1], [1]], [12], users=["x", "y"], guarantees=[8, 5])
    assert users.fit_guarantees(["x"]).notes[-1].endswith("in the order x: user 'y' from 5 to 4 tasks")


def test_guarantees_that_fit_stay_and_so_do_those_in_no_conflict():
    assert TWO.with_capacities([16]).fit_guarantees() == TWO.with_capacities([16])
    apart = fo.Instance(
        [[1, 0], [1, 0], [0, 1], [0, 1]],
        [12, 12],
        resources=["gpu", "cpu"],
        teams={"team": ["A", "B", "C", "D"]},
        guarantees={"A": {"gpu": 6}, "B": {"gpu": 12}, "C": {"cpu": 5}, "D": {"cpu": 6}},
    )
    found = apart.fit_guarantees().team_guarantees
    assert found == {"A": {"gpu": 4}, "B": {"gpu": 8}, "C": {"cpu": 5}, "D": {"cpu": 6}}


def test_what_a_team_is_guaranteed_of_another_resource_is_kept_as_far_as_tasks_use_it():
    pool = fo.Instance(  # team A also has tasks without GPUs
        [[4, 1], [1, 0], [4, 1]],
        [100, 12],
        resources=["cpu", "gpu"],
        teams={"team": ["A", "A", "B"]},
        guarantees={"A": {"cpu": 48, "gpu": 8}, "B": {"cpu": 32, "gpu": 8}},
    )
    found = pool.fit_guarantees().team_guarantees
    assert found == {"A": {"cpu": 48, "gpu": 6}, "B": {"cpu": 24, "gpu": 6}}
    assert fits(pool.fit_guarantees())


def test_the_name_of_a_team_stands_for_its_members_too():
    pool = fo.Instance([[1]] * 3, [12], users=["a", "b", "c"], teams={"team": ["T", "T", "U"]}, guarantees=[4, 4, 8])
    assert pool.fit_guarantees(["T"]).guarantees.tolist() == [4, 4, 4]
    assert pool.fit_guarantees(["U", "b"]).guarantees.tolist() == [0, 4, 8]


def test_limits_of_teams_bound_what_is_kept():
    limit = {"name": "gpus of A", "resource": "gpu", "amount": 3, "of": ["A"]}
    limited = TWO.replace(limits=[limit])
    with pytest.raises(Infeasible, match=r"limits allow no more \(gpus of A\); 3 gpu would fit") as error:
        fo.DRF().allocate(limited)
    assert "gpus of A" in error.value.conflict
    assert limited.fit_guarantees().team_guarantees == {"A": {"gpu": 3}, "B": {"gpu": 8}}


def test_a_user_that_may_run_nowhere_takes_nothing_from_the_others():
    cluster = fo.Instance([[1], [1]], [[8], [8]], task_limits=[0, None], guarantees=[10, 20])
    assert cluster.fit_guarantees().guarantees.tolist() == [10, 16]  # the first is cut at its limit anyway


def test_orders_that_name_nobody_are_refused():
    with pytest.raises(InvalidBlock, match="'C', which is no user or team"):
        TWO.fit_guarantees(["C"])
    with pytest.raises(InvalidBlock, match="give a list of users and teams"):
        TWO.fit_guarantees("AB")


def test_exact_answers_take_reduced_guarantees():
    thirds = fo.Instance([[1], [1], [1]], [10], guarantees=[7, 6, 9]).fit_guarantees()
    assert fo.DRF().allocate(thirds, exact=True).certificate.ok
    assert thirds.guarantees.sum() == pytest.approx(10, abs=1e-10)


def drawn(rng: np.random.Generator) -> fo.Instance:
    """Users of four teams on three servers, some not on all of them, with guarantees that mostly do not fit."""
    n, m = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    demands = rng.integers(0, 4, (n, m)) + (np.arange(m) == rng.integers(m, size=(n, 1)))
    eligible = rng.random((n, 3)) < 0.7
    eligible[~eligible.any(axis=1)] = True
    resources, names = [f"r{i}" for i in range(m)], ["A", "B", "C", "D"]
    teams = [names[j % 4] for j in range(n)]
    given = {
        name: {resources[int(i)]: float(rng.integers(1, 20)) for i in rng.choice(m, size=rng.integers(1, m + 1))}
        for name in names[:3]
    }
    users = {f"u{j}": float(rng.integers(1, 9)) for j in range(n) if teams[j] == "D"}
    limits = np.where(rng.random(n) < 0.5, rng.integers(1, 9, n), np.inf)
    return fo.Instance(
        demands,
        rng.integers(2, 12, (3, m)),
        eligible=eligible,
        users=[f"u{j}" for j in range(n)],
        resources=resources,
        task_limits=limits,
        teams={"team": teams},
        guarantees={**given, **users},
    )


def amounts(instance: fo.Instance) -> dict[tuple[str, str | None], float]:
    """All guarantees by who has them."""
    out: dict[tuple[str, str | None], float] = {
        (user, None): float(instance.guarantees[j]) for j, user in enumerate(instance.users)
    }
    return out | {(t, r): units for t, of in instance.team_guarantees.items() for r, units in of.items()}


def secures_more(instance: fo.Instance, other: fo.Instance, team: str, resource: str) -> bool:
    """Whether the guarantee of a team secures more of a resource in one instance than in another."""
    found = [team_floors(one).get(team) for one in (instance, other)]
    units = [0.0 if one is None else one.units[instance.resource_index(resource)] for one in found]
    return bool(units[0] > units[1] * (1 + 1e-6))


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_fits_and_no_reduced_guarantee_could_be_larger(seed):
    instance = drawn(np.random.default_rng(seed))
    given = amounts(instance)
    for order in (None, ["C", "D", "A", "B"]):
        made = instance.fit_guarantees(order)
        assert fits(made)
        kept = dict.fromkeys(given, 0.0) | amounts(made)
        assert all(amount <= given[who] for who, amount in kept.items())
        for (name, resource), amount in kept.items():
            if amount < given[name, resource]:
                more = max(1.01 * amount, 0.01 * given[name, resource])
                mine = {name: more if resource is None else {resource: more}}
                raised = made.replace(guarantees=mine)
                if resource is not None and not secures_more(raised, made, name, resource):
                    continue  # the other amounts of the team leave no room for it
                if order:  # against those before it alone
                    rank = [*order].index("D" if resource is None else name)
                    later = {team: dict.fromkeys(instance.team_guarantees.get(team, ())) for team in order[rank + 1 :]}
                    later |= dict.fromkeys(instance.users, 0.0) if "D" in later else {}
                    raised = raised.replace(guarantees={k: v for k, v in later.items() if k != "D"})
                assert not fits(raised)


@pytest.mark.parametrize("seed", range(6))
def test_sums_on_a_pool_are_what_linear_programs_find(seed):
    rng = np.random.default_rng(seed)
    pool = fo.Instance(
        rng.integers(0, 5, (7, 3)) + np.eye(7, 3, dtype=int) + 1,
        rng.integers(20, 60, 3),
        task_limits=rng.integers(2, 9, 7),
        guarantees=rng.integers(0, 9, 7),
    )
    halves = fo.Instance(
        **{**pool._arguments(), "capacities": [pool.capacities[0] / 2] * 2, "eligible": None, "counts": None}
    )
    apart = halves.replace(
        servers=["s1", "s2"],
        eligible=np.ones((7, 2)),
        limits=[{"resource": pool.resources[0], "amount": 1e6, "of": list(pool.users)}],
    )
    for order in (None, ["user3", "user1"]):
        found = pool.fit_guarantees(order).guarantees
        assert found == pytest.approx(apart.fit_guarantees(order).guarantees, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("seed", [5, 6])
def test_the_tree_is_filled_where_all_guarantees_fit_just_so(seed, tmp_path):
    """Rounding guarantees down leaves parts of 1e-11 of a capacity, in which nobody waits."""
    rng = np.random.default_rng(seed)
    capacities = np.column_stack([rng.integers(32, 129, 6), rng.integers(128, 1025, 6), rng.integers(0, 9, 6)])
    total, users, guarantees = capacities.sum(axis=0), list[tuple[str, list[int]]](), {}
    for team in range(12):
        for _ in range(rng.integers(1, 3)):
            users.append((f"t{team}", [rng.integers(1, 9), rng.integers(2, 33), rng.integers(0, 2)]))
        guarantees[f"t{team}"] = {
            "cpu": total[0] / 12 * rng.uniform(0.8, 2),
            "memory": total[1] / 12 * rng.uniform(0.5, 1.5),
        }
    cluster = fo.Instance(
        [demands for _, demands in users],
        capacities,
        resources=["cpu", "memory", "gpu"],
        teams={"team": [team for team, _ in users]},
        guarantees=guarantees,
    ).fit_guarantees()
    answer = fo.HDRF().allocate(cluster)
    assert answer.certificate.ok
    answer.save(tmp_path / "answer.json")
    assert fo.verify(tmp_path / "answer.json").ok
