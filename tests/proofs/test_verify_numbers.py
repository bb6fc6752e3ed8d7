"""`verify` on objectives of teams and of what is above a base: it recomputes their numbers in fractions."""

import json

import numpy as np
import pytest

import fairopt as fo

DEMANDS = [[1, 4], [3, 1], [2, 2], [0, 1], [5, 0]]
TEAMS = {"team": ["a", "a", "b", "b", "c"], "org": ["x", "x", "x", "x", "y"]}
GIVEN = {
    "weights": {"u1": 1, "u2": 2, "u3": 1, "u4": 1, "u5": 1, "a": 3},
    "users": ["u1", "u2", "u3", "u4", "u5"],
    "task_limits": [None, 4, None, 3, None],
    "teams": TEAMS,
}
POOL = fo.Instance(DEMANDS, [30, 20], **GIVEN)
PLACES = [[1, 1], [1, 0], [1, 1], [0, 1], [1, 1]]
SERVERS = fo.Instance(DEMANDS, [[20, 4], [10, 16]], eligible=PLACES, **GIVEN)
BASE = (0.5, 0.25, 0.5, 0.0, 0.25)
POLICIES = [
    fo.Policy(fo.Leximin(fo.OfTeam())),
    fo.Policy(fo.Leximin(fo.OfTeam(fo.PNormShare(2), weights={"b": 2}))),
    fo.Policy(fo.Leximin(fo.OfTeam()), [fo.MaxShare({"a": 0.3}, fo.OfTeam()), fo.MinTasks({"u5": 1})]),
    fo.Policy(fo.Leximin(fo.OfTeam(by="org")).then(fo.Leximin(fo.OfTeam()))),
    fo.Policy(fo.Leximin(fo.Surplus(base=BASE))),
    fo.Policy(fo.Leximin(fo.Surplus(fo.OfTeam(), BASE))),
    fo.Policy(fo.AlphaFair(1, fo.OfTeam())),
    fo.Policy(fo.AlphaFair(0.5, fo.Surplus(base=BASE))),
    fo.Policy(fo.MaxMin(fo.Surplus(base=BASE))),
    fo.Policy(fo.OrderedWeighted([3, 1], fo.OfTeam())),
    fo.Policy(fo.AlphaFair(2, fo.OfTeam()) + 0.1 * fo.Total(fo.Tasks())),
]


def saved(answer, folder):
    path = folder / "answer.json"
    answer.save(path)
    return path


@pytest.mark.parametrize("instance", [POOL, SERVERS], ids=["pool", "servers"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: repr(policy.objective)[:40])
def test_answers_are_proved_in_fractions(instance, policy, tmp_path):
    answer = policy.allocate(instance)
    path = saved(answer, tmp_path)
    found = fo.verify(path)
    assert found.ok, str(found)
    assert found.gap <= max(10 * answer.certificate.gap, 1e-9)
    assert fo.Allocation.load(path).certificate.ok


def test_guarantees_of_users_are_lower_bounds(tmp_path):
    secured = SERVERS.replace(guarantees=[1, 1, 0, 0, 0.5])
    answer = fo.Policy(fo.Leximin(fo.Surplus())).allocate(secured)
    path = saved(answer, tmp_path)
    assert fo.verify(path).ok
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks_by_server"][0] = [0.5, 0.25]  # u1 is guaranteed one task
    path.write_text(json.dumps(data), encoding="utf-8")
    found = fo.verify(path)
    assert not found.ok
    assert "outside the bounds" in str(found)


@pytest.mark.parametrize("policy", POLICIES[:1] + POLICIES[4:8], ids=lambda policy: repr(policy.objective)[:40])
def test_smaller_tasks_are_not_proved(policy, tmp_path):
    path = saved(policy.allocate(SERVERS), tmp_path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["tasks_by_server"] = (0.999 * np.array(data["tasks_by_server"])).tolist()
    data["objective"] = None
    path.write_text(json.dumps(data), encoding="utf-8")
    assert not fo.verify(path).ok


def test_wrong_prices_of_numbers_prove_less(tmp_path):
    path = saved(POLICIES[0].allocate(SERVERS), tmp_path)
    right = json.loads(path.read_text(encoding="utf-8"))
    levels = right["proof"][0]["levels"]
    for factor in (0.9, 1.1):
        wrong = [
            {**one, "of_numbers": {t: factor**k * v for k, (t, v) in enumerate(one["of_numbers"].items())}}
            for one in levels
        ]
        data = right | {"proof": [{**right["proof"][0], "levels": wrong}]}
        path.write_text(json.dumps(data), encoding="utf-8")
        assert not fo.verify(path).ok
    unknown = [{**levels[0], "numbers": ["d"]}, *levels[1:]]
    path.write_text(json.dumps(right | {"proof": [{"kind": "number levels", "levels": unknown}]}), encoding="utf-8")
    assert "unknown" in str(fo.verify(path))


def test_level_without_its_last_users_is_not_proved(tmp_path):
    path = saved(POLICIES[0].allocate(SERVERS), tmp_path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["proof"][0]["levels"] = data["proof"][0]["levels"][:-1]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert not fo.verify(path).ok
