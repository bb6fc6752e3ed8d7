"""What the tasks of a team can use, and the least share at which it has that: of one user in closed form."""

import numpy as np
import pytest
from scipy.optimize import linprog

import fairopt as fo
from fairopt.blocks.guarantees import least_share, team_floors


@pytest.mark.parametrize("seed", range(20))
def test_a_team_of_one_user_has_what_linear_programs_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = np.where(rng.random(3) < 0.3, 0.0, rng.uniform(0.5, 4, 3))
    demand[0] = demand[0] or 1.0
    limit = float(rng.choice([2.0, np.inf]))
    amounts = {"cpu": 6.0, "memory": float(rng.uniform(1, 20))}
    instance = fo.Instance(
        [demand, [1, 1, 1]], [20, 30, 10], resources=["cpu", "memory", "gpu"], task_limits=[limit, None],
        teams={"team": ["a", None]}, guarantees={"a": amounts},
    )  # fmt: skip
    floor = team_floors(instance)["a"]
    within = np.array([6.0, amounts["memory"], 10.0])
    most = -linprog([-1.0], A_ub=demand[:, None], b_ub=within, bounds=(0, limit)).fun
    assert floor.units[:2] == pytest.approx(demand[:2] * most)
    per_task = fo.DominantShare().per_task(instance)
    use = least_share(instance, floor, per_task)
    least = linprog(per_task[:1], A_ub=-demand[:, None], b_ub=-floor.units + 1e-12, bounds=(0, limit)).fun
    assert use.value == pytest.approx(least)
    assert use.value == pytest.approx(float(use.prices @ floor.units))  # what prices prove
