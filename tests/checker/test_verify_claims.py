"""What `verify` claims: for which policy and cluster, by which evidence, and never more than exact fractions say."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.fractions_waterfill import leximin

import fairopt as fo
from fairopt.checker import numbers, tiers
from fairopt.checker.instance import Cluster, differences, digest
from fairopt.checker.numbers import number
from fairopt.checker.outcome import Clock, Late
from fairopt.checker.policy import block
from fairopt.checker.pool import gap_by_bottlenecks

POOL = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])
KINDS: dict[str, dict[str, Any]] = {
    "bottlenecks": {"kind": "bottlenecks"},
    "pulled": {"kind": "pulled"},
    "levels": {"kind": "levels", "levels": [{"users": [0, 1], "prices": [[1.0]]}]},
    "prices": {"kind": "prices", "prices": [[0.1]], "mixtures": [[0.5, 0.5]]},
    "lines": {"kind": "lines", "lines": [{"levels": [1, 1], "slope": 1, "prices": [[0]]}]},
}


def changed(file: Path, **entries: Any) -> Path:
    """A file with other entries, which says of its objective and prices nothing else than these."""
    file.write_text(json.dumps(json.loads(file.read_text()) | {"objective": None, "prices": None} | entries))
    return file


def test_pairs_of_users_prove_nothing_where_the_policy_has_no_envy_freeness(tmp_path: Path) -> None:
    limited = fo.Instance([[1], [1]], [10], task_limits=[1, None])
    file = fo.DRF().allocate(limited).save(tmp_path / "a.json")  # (1, 9)
    assert fo.verify(file).ok
    changed(file, tasks_by_server=[[1.0], [1.0]], evidence=[{"kind": "pulled", "pairs": [["user1", "user2"]]}])
    assert "needs the constraint EnvyFree" in str(fo.verify(file))


@pytest.mark.parametrize(
    ("objective", "times", "instance"),
    [
        (fo.AlphaFair(0.5, fo.Tasks()), 2, fo.Instance([[1, 6, 2, 0], [3, 4, 2, 3]], [10, 19, 22, 34])),
        (
            fo.MaxMin().then(fo.AlphaFair(1)).then(fo.Total(fo.Tasks())),
            1,
            fo.Instance([[4, 2, 6], [2, 2, 2], [4, 1, 5]], [16, 19, 1]),
        ),
    ],
    ids=["twice", "bottlenecks"],
)
def test_what_holds_without_envy_freeness_is_proved_with_it_however_often_it_is_required(
    objective: fo.Policy, times: int, instance: fo.Instance, tmp_path: Path
) -> None:
    policy = fo.Policy(objective, constraints=[fo.EnvyFree()] * times)
    found = fo.verify(policy.allocate(instance).save(tmp_path / "a.json"))
    assert found.ok, str(found)


@pytest.mark.parametrize(
    "policy",
    [
        "Leximin(Tasks())",
        "MaxMin(Tasks())",
        "Total(Tasks())",
        "AlphaFair(1, Tasks())",
        "FairnessEfficiency(2, -0.1)",
        "OrderedWeighted((2, 1), Tasks())",
        "MaxMin(Tasks()) + Total(Tasks())",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_evidence_of_a_kind_proves_only_policies_that_it_belongs_to(kind: str, policy: str, tmp_path: Path) -> None:
    file = fo.DRF().allocate(fo.Instance([[1], [1]], [10])).save(tmp_path / "a.json")
    for tasks, text in (([[1.0], [1.0]], f"Policy({policy})"), ([[3.0], [7.0]], f"Policy({policy}, [EnvyFree()])")):
        changed(file, tasks_by_server=tasks, policy=text, evidence=[KINDS[kind]])
        assert not fo.verify(file).ok
    changed(file, tasks_by_server=[[5.0], [5.0]], policy=f"Policy({policy})")
    objectives = tiers.KINDS[kind].objectives
    if not any(name in policy for name in objectives):
        assert "does not apply to" in str(fo.verify(file))


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (("extra",), "the file has an unknown key 'extra'"),
        (("instance", "extra"), "the instance has an unknown key 'extra'"),
        (("evidence", 0, "rows"), "entry 0 of the evidence has an unknown key 'rows'"),
        (("evidence", 0, "tasks"), "entry 0 of the evidence has an unknown key 'tasks'"),
        (("given", "Mine()"), "coefficients are given for Mine()"),
    ],
)
def test_unknown_keys_are_refused(where: tuple[Any, ...], said: str, tmp_path: Path) -> None:
    file = fo.DRF().allocate(POOL).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    held = data | {"given": {}}
    for key in where[:-1]:
        held = held[key]
    held[where[-1]] = [[1.0]]
    file.write_text(json.dumps(held if len(where) == 1 else data | {"given": held if "given" in where else {}}))
    found = fo.verify(file)
    assert not found.ok and said in str(found)


def test_a_repeated_key_is_refused(tmp_path: Path) -> None:
    file = fo.DRF().allocate(POOL).save(tmp_path / "a.json")
    file.write_text(file.read_text().replace('"weights"', '"weights": [1.0, 2.0], "weights"'))
    assert "a key occurs twice" in str(fo.verify(file))


def test_a_repeated_key_is_refused_before_a_file_of_an_earlier_version_is_upgraded(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "data" / "pool-drf.json").read_text(encoding="utf-8")
    file = tmp_path / "a.json"
    file.write_text(text.replace('"instance": ', '"instance": null, "instance": ', 1), encoding="utf-8")
    found = fo.verify(file)
    assert not found.ok and "the key 'instance' is given twice" in str(found)


def test_users_within_rounding_of_a_level_do_not_hide_the_errors_that_they_make_above_it(tmp_path: Path) -> None:
    e, t = 2.0**-40, 2.0**-42
    trace = fo.Instance([[1, 0], [2.0**-20, 1], [0, t]], [1 - e + 2.0**-20, 1 + 1.5 * t])
    file = fo.Policy(fo.Leximin(fo.Tasks())).allocate(trace).save(tmp_path / "a.json")
    assert fo.verify(file).ok  # (1, 1, 5.5)
    found = fo.verify(changed(file, tasks_by_server=[[1 - e], [1.0], [1.5]]))
    assert not found.ok and found.gap == pytest.approx(5.5 / 1.5 - 1)


@dataclass(frozen=True, repr=False)
class Twice(fo.Share):
    """A share of one's own, whose coefficients a file holds."""

    def per_task(self, instance: fo.Instance) -> Any:
        return 2 * fo.DominantShare().per_task(instance)


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        (fo.Total(fo.Tasks()), {}),
        (fo.AlphaFair(0.5), {}),
        (fo.AlphaFair(1), {}),
        (fo.AlphaFair(2, fo.PNormShare(2)), {}),
        (fo.AlphaFair(0, fo.Tasks()), {}),
        (fo.FairnessEfficiency(2, -0.5), {}),
        (fo.FairnessEfficiency(0.5, 3), {}),
        (fo.FairnessEfficiency(1, 0.5), {}),
        (fo.FairnessEfficiency(-1, 0.5), {}),
        (fo.MaxMin(), {}),
        (fo.Leximin(), {}),
        (fo.OrderedWeighted((2, 1, 1)), {}),
        (fo.AlphaFair(2) + 3 * fo.Total(), {}),
        (fo.AlphaFair(1, Twice()), {}),
        (fo.AlphaFair(1).then(fo.Total()), {}),
        (fo.Leximin().then(fo.Total(fo.Tasks())), {}),
        (fo.HFFMRA().objective, {}),
        (fo.AlphaFair(1), {"integral": True}),
        (fo.Leximin(), {"integral": True}),
    ],
    ids=repr,
)
def test_the_objective_of_a_file_is_the_value_at_its_tasks(
    objective: fo.Objective, options: dict[str, Any], tmp_path: Path
) -> None:
    weights = None if "WeightedLog" in repr(objective) else [1, 3]
    pool = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], weights=weights)
    answer = fo.Policy(objective).allocate(pool, **options)
    file = answer.save(tmp_path / "a.json")
    found = fo.verify(file)
    assert found.ok and "objective" not in found.not_proved
    assert fo.verify(changed(file, objective=answer.objective * (1 + 1e-14))).ok
    value = answer.objective
    for wrong in (value + 1e-7 * max(abs(value), 1), -value, 0.0, float("inf"), float("-inf")):
        assert "objective is " in str(fo.verify(changed(file, objective=wrong)))
    for wrong in (float("nan"), "5", True):
        assert "not a number" in str(fo.verify(changed(file, objective=wrong)))
    assert fo.verify(changed(file, objective=None)).ok


@pytest.mark.parametrize("alpha", [30, 500])
def test_an_objective_beyond_floats_is_infinite(alpha: float, tmp_path: Path) -> None:
    answer = fo.Policy(fo.AlphaFair(alpha, fo.Tasks())).allocate(fo.Instance([[1e20], [1e20]], [1]))
    assert answer.objective == -np.inf
    file = answer.save(tmp_path / "a.json")
    assert fo.verify(file).ok
    for wrong in (np.inf, -1e308):
        assert "objective is " in str(fo.verify(changed(file, objective=wrong)))


@pytest.mark.parametrize(
    "policy",
    [
        fo.FDS(2),
        fo.MostTasks(),
        fo.Policy(fo.OrderedWeighted((2, 1))),
        fo.Policy(fo.AlphaFair(3).then(fo.Total())),
        fo.Policy(fo.AlphaFair(1) + 0.25 * fo.Total(fo.Tasks())),
        fo.Policy(fo.MaxMin(), [fo.Total() >= 0.1]),
    ],
    ids=repr,
)
def test_prices_of_a_file_are_those_of_its_evidence(policy: fo.Policy, tmp_path: Path) -> None:
    same = fo.Instance([[1, 1, 2], [3, 3, 1]], [9, 9, 30])  # any part of the price of the first may be the second's
    file = policy.allocate(same).save(tmp_path / "a.json")
    found, said = fo.verify(file), json.loads(file.read_text())["prices"]
    assert found.ok and "prices" not in found.not_proved
    assert fo.verify(changed(file, prices=[[p * (1 + 1e-14) for p in said[0]]])).ok
    for wrong in ([[1.00001 * p for p in said[0]]], [[*said[0][:2], 1.0]], [[0.0] * 3]):
        assert "the price of 'resource" in str(fo.verify(changed(file, prices=wrong)))
    assert fo.verify(changed(file, prices=None)).ok


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (fo.DRF(), "evidence of kind 'bottlenecks'"),
        (fo.HFFMRA(), "evidence of kind 'bundles'"),
        (fo.Policy(fo.FairnessEfficiency(2, -0.5)), "an alpha-fair objective"),
    ],
    ids=repr,
)
def test_prices_that_are_not_compared_are_no_part_of_the_claim(policy: fo.Policy, reason: str, tmp_path: Path) -> None:
    found = fo.verify(policy.allocate(POOL).save(tmp_path / "a.json"))
    assert found.ok and reason in found.not_proved["prices"]
    assert {*found.not_proved} == {"prices", "certificate"}


HIERARCHY = fo.Instance([[1, 2], [3, 1], [1, 1]], [12, 12], teams={"team": ["x", "y", "y"]})


def test_whole_tasks_are_no_filling(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(HIERARCHY).save(tmp_path / "a.json")  # (3.6, 1.2, 3.6)
    whole = [[3], [1], [2]]
    assert "no whole tasks" in str(fo.verify(changed(file, tasks_by_server=whole, placement=whole)))


def test_a_filling_has_one_entry_of_evidence(tmp_path: Path) -> None:
    file = fo.HDRF().allocate(HIERARCHY).save(tmp_path / "a.json")
    evidence = json.loads(file.read_text())["evidence"]
    assert not fo.verify(changed(file, evidence=evidence * 2)).ok
    assert fo.verify(changed(file, evidence=evidence)).ok


@pytest.mark.parametrize("options", [{}, {"exact": True}], ids=str)
@pytest.mark.parametrize("policy", [fo.DRF(), fo.HDRF()], ids=repr)
def test_prices_that_nothing_compares_are_numbers(policy: Any, options: dict[str, Any], tmp_path: Path) -> None:
    file = policy.allocate(HIERARCHY, **options).save(tmp_path / "a.json")
    objective = json.loads(file.read_text())["objective"]
    assert fo.verify(changed(file, objective=objective, prices=[[9.0, 9.0]])).ok
    for wrong in ([[True, 9.0]], [[9.0]], [["9", 9.0]], 3):
        assert not fo.verify(changed(file, objective=objective, prices=wrong)).ok


def test_an_exact_proof_has_one_part_per_tier(tmp_path: Path) -> None:
    file = fo.DRF().allocate(HIERARCHY, exact=True).save(tmp_path / "a.json")
    exact = json.loads(file.read_text())["exact"]
    assert "one part per tier" in str(fo.verify(changed(file, exact=exact | {"proof": exact["proof"] * 2})))


@pytest.mark.parametrize("policy", [fo.DRF(), fo.HDRF()], ids=repr)
def test_what_nothing_compares_is_no_part_of_the_claim(policy: Any, tmp_path: Path) -> None:
    file = policy.allocate(HIERARCHY).save(tmp_path / "a.json")
    said = {"prices": [[9.0, 9.0]], "variables": {"Block()": {"t": 1.0}}, "multipliers": {"Block()": {"t": 1.0}}}
    for key, value in said.items():
        found = fo.verify(changed(file, **{key: value}))
        assert found.ok and {*found.not_proved} >= {key, "certificate"}
        changed(file, **{key: None})
        assert key not in fo.verify(file).not_proved


def near_ties(rng: np.random.Generator) -> tuple[Any, ...]:
    """A tiny pool with numbers that are equal up to 2^-2 to 2^-50, and traces of resources."""
    n, m = int(rng.integers(2, 5)), int(rng.integers(1, 4))

    def near() -> float:
        return float(rng.integers(1, 4)) * (1 + float(rng.integers(-1, 2)) * 2.0 ** -int(rng.integers(2, 51)))

    if rng.random() < 0.3:  # errors of the first user move the second, and those of the second the third, by far more
        part, trace = (2.0 ** -int(rng.integers(*between)) for between in ((1, 25), (15, 45)))
        return [[1, 0], [part, 1], [0, trace]], [1 + part, 1 + 1.5 * trace], [1] * 3, [None] * 3, [0] * 3
    demands = [
        [near() * 2.0 ** -int(rng.integers(0, 51) * (rng.random() < 0.4)) * (rng.random() < 0.7) for _ in range(m)]
        for _ in range(n)
    ]
    for row in demands:
        row[0] = row[0] if any(row) else near()
    weights, limits = [near() for _ in range(n)], [near() if rng.random() < 0.3 else None for _ in range(n)]
    low = [near() / 16 * (rng.random() < 0.2) for _ in range(n)]
    return demands, [2 * near() for _ in range(m)], weights, limits, low


def test_no_gap_on_a_pool_is_below_the_exact_distance_from_leximin() -> None:
    rng, tried, far = np.random.default_rng(3), 0, 0
    for _ in range(400):
        demands, capacities, weights, limits, low = near_ties(rng)
        n = len(demands)
        exact = leximin(demands, capacities, [1] * n, weights, limits, low)
        if exact is None:
            continue
        other = [w * (1 + float(rng.integers(-1, 2)) * 2.0 ** -int(rng.integers(20, 51))) for w in weights]
        answer = leximin(demands, capacities, [1] * n, other, limits, low) if rng.random() < 0.7 else exact
        assert answer is not None
        tasks = [float(x) for x in answer]
        data = {
            "tasks_by_server": [[x] for x in tasks],
            "instance": {
                "users": list(map(str, range(n))),
                "resources": list(map(str, range(len(capacities)))),
                "servers": ["pool"],
                "demands": demands,
                "capacities": [capacities],
                "weights": weights,
                "task_limits": limits,
                "counts": [1],
                "eligible": None,
            },
        }
        cluster = Cluster(data)
        cluster.low = [numbers.Fraction(v) for v in low]
        true = max(max(e / Fraction(x) - 1, 1 - e / Fraction(x)) for x, e in zip(tasks, exact, strict=True))
        found = gap_by_bottlenecks(cluster, block("Leximin(Tasks())"), [], {})
        gap = Fraction(*found.as_integer_ratio())
        assert true <= gap <= true + Fraction(1, 10**20)
        best, mine = (min(Fraction(x) / Fraction(w) for x, w in zip(xs, weights, strict=True)) for xs in (exact, tasks))
        lowest = gap_by_bottlenecks(cluster, block("MaxMin(Tasks())"), [], {})
        assert Fraction(*lowest.as_integer_ratio()) >= 1 - mine / best
        tried, far = tried + 1, far + (true > 1e-6)
    assert tried > 300 and far > 10


def test_the_sentence_says_the_policy_with_its_conditions_and_the_cluster(tmp_path: Path) -> None:
    limited = fo.Policy(fo.Leximin(fo.Tasks()), [fo.MaxTasks(3), fo.MinTasks({"web": 1.5})])
    found = fo.verify(limited.allocate(POOL).save(tmp_path / "a.json"))
    assert " of Leximin(Tasks()) under MaxTasks(3), MinTasks({'web': 1.5}), for 2 users, 1 server, 3" in str(found)
    assert f"(SHA-256 {found.digest[:16]})" in str(found) and found.digest == digest(POOL.to_dict())
    shared = fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]], counts=[2, 1])
    found = fo.verify(fo.HFFMRA().allocate(shared).save(tmp_path / "b.json"))
    assert " under GlobalAggregateResource(), AtMostRequested(), for 2 users, 3 servers" in str(found)
    many = fo.Policy(fo.Leximin(), [fo.MaxTasks({f"user{j}": j for j in range(1, 100)})])
    found = fo.verify(many.allocate(fo.Instance(np.ones((99, 1)), [99])).save(tmp_path / "c.json"))
    assert len(str(found)) < 500 and "user50" in found.policy


def test_the_digest_is_of_what_decides_answers() -> None:
    first = fo.Instance(
        [[1, 2], [3, 0.0]],
        [[4, 8], [5, 0]],
        users=["a", "b"],
        servers=["s", "t"],
        resources=["cpu", "gpu"],
        weights=[1, 2],
    )
    held = digest(first.to_dict())
    swapped = fo.Instance(
        [[-0.0, 3], [2, 1]],
        [[0, 5], [8, 4]],
        users=["b", "a"],
        servers=["t", "s"],
        resources=["gpu", "cpu"],
        weights={"a": 1, "b": 2},
        units={"cpu": "core"},
        eligible={"a": ["s"]},
        notes=["read"],
    )
    by_server = first.replace(demands=first.per_server_demands)  # a cannot run on t, which has no GPU
    assert digest(swapped.to_dict()) == digest(by_server.to_dict()) == held
    assert not differences(first.to_dict(), swapped.to_dict())
    changes: list[dict[str, Any]] = [
        {"weights": [1, 2 + 1e-15]},
        {"task_limits": [None, 3]},
        {"counts": [1, 2]},
        {"capacities": [[4, 8], [6, 0]]},
        {"demands": [[1, 2], [3, 1]]},
        {"users": ["a", "c"]},
        {"eligible": {"b": ["t"]}},
        {"teams": {"team": ["s", "t"], "org": ["x", "y"]}},
        {"teams": {"org": ["x", "y"], "team": ["s", "t"]}},  # team is around org
    ]
    assert len({held, *(digest(first.replace(**change).to_dict()) for change in changes)}) == len(changes) + 1


def test_another_cluster_than_the_readers_is_named_by_user_and_field(tmp_path: Path) -> None:
    file = fo.DRF().allocate(POOL).save(tmp_path / "a.json")
    assert fo.verify(file, POOL).ok
    other = POOL.replace(weights=[1, 3], capacities=[200, 190, 200])
    found = fo.verify(file, other)
    assert not found.ok and found.faults == (
        "server 'pool': capacity of 'resource2' 200.0 in the file, 190.0 in the instance given",
        "user 'web': weight 1.0 in the file, 3.0 in the instance given",
    )
    alone = fo.verify(file, POOL.select_users([1]))
    assert alone.faults == ("user 'batch' is only in the file",)


@pytest.mark.parametrize(
    "policy",
    [
        fo.DRF(),
        fo.NashWelfare(),
        fo.HFFMRA(),
        fo.Policy(fo.AlphaFair(2).then(fo.Total(fo.Tasks())), [fo.EnvyFree()]),
    ],
    ids=repr,
)
def test_a_time_limit_ends_with_what_was_proved(
    policy: fo.Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = policy.allocate(POOL).save(tmp_path / "a.json")
    asked, said = [0], set()
    whole = fo.verify(file, time_limit=100)
    assert whole.ok
    for steps in range(0, 60, 3):

        def check(_: Any, steps: int = steps) -> None:
            asked[0] += 1
            if asked[0] > steps:
                raise Late

        asked[0] = 0
        monkeypatch.setattr(Clock, "check", check)
        found = fo.verify(file, time_limit=100)
        assert found.ok or found.statement.startswith("not proved in 100 s: ")
        said.add(found.statement)
    assert "not proved in 100 s: nothing is proved yet" in said
    if policy.constraints and not policy.name:
        assert any("constraints hold; AlphaFair(2) has a gap of at most" in one for one in said)
    for wrong in (0, "5"):
        with pytest.raises(ValueError, match=f"time_limit is {wrong!r}"):
            fo.verify(file, time_limit=wrong)


def test_servers_of_one_label_are_refused(tmp_path: Path) -> None:
    two, one = (
        fo.Instance([[1], [1]], [[c] for c in rooms], servers=names)
        for rooms, names in (((100, 10), ("b", "a")), ((10,), ("a",)))
    )
    file = fo.DRF().allocate(two).save(tmp_path / "two.json")
    data = json.loads(file.read_text())
    data["instance"]["servers"] = ["a", "a"]
    file.write_text(json.dumps(data))
    assert not fo.verify(file, one).ok


def test_fractions_are_read_as_they_are() -> None:
    assert number(numbers.Fraction(1, 3), "a third") == numbers.Fraction(1, 3)
    assert number(0.1, "a float") == numbers.Fraction(0.1)


def test_fractions_that_take_minutes_to_read_are_refused() -> None:
    third = "3" * numbers.MOST_DIGITS
    assert numbers.fraction(f"-{third}/{third}") == -1
    for text in (third + "3", f"1/{third}3"):
        with pytest.raises(numbers.Fault, match="has more than 100,000 digits, which takes too long to check"):
            numbers.fraction(text)


@pytest.mark.parametrize("first", [fo.AlphaFair(1, fo.Tasks()), fo.MaxMin(fo.Tasks()), fo.Leximin(fo.Tasks())])
def test_an_earlier_tier_keeps_what_its_own_tasks_reach_and_the_answer_too(first: fo.Objective, tmp_path: Path) -> None:
    """Else later tiers would be compared with too few tasks, or with none."""
    file = fo.Policy(first.then(fo.Total(fo.Tasks()))).allocate(POOL).save(tmp_path / "tiers.json")
    assert fo.verify(file).ok
    data = json.loads(file.read_text())
    (earlier, last), tasks = data["evidence"], data["tasks_by_server"]
    beyond = earlier | {"tasks": [[1.00000001 * x for x in row] for row in earlier["tasks"]]}
    assert "exceed the capacity" in str(fo.verify(changed(file, evidence=[beyond, last])))
    if "level" in earlier:
        higher = earlier | {"level": earlier["level"] + 2e-7 * abs(earlier["level"])}
        assert "do not reach its level" in str(fo.verify(changed(file, evidence=[higher, last])))
    fewer = [[0.999999 * x for x in row] for row in tasks]
    assert "below its level" in str(fo.verify(changed(file, evidence=[earlier, last], tasks_by_server=fewer)))


ABOVE = fo.Instance([[1], [2]], [10], users=["a", "b"])
SURPLUS = fo.Surplus(fo.Tasks(), base={"a": 0, "b": 2})  # of b it may be -2


def forged(policy: fo.Policy, folder: Path, entry: dict[str, Any]) -> fo.checker.Verification:
    """What is said of (6, 2), where (10, 0) is better, by a file with other evidence."""
    file = policy.allocate(ABOVE).save(folder / "a.json")
    assert json.loads(file.read_text())["tasks_by_server"][0][0] == pytest.approx(10)
    return fo.verify(changed(file, tasks_by_server=[[6.0], [2.0]], evidence=[{"kind": "prices", "unit": 1.0} | entry]))


def test_weights_of_sorted_numbers_below_0_have_to_sum_to_the_same(tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.OrderedWeighted((1, 0.5), SURPLUS) >= -2])
    found = forged(policy, tmp_path, {"prices": [[1.0]], "kept": [[0, 1e-9]], "mixtures": [[0.5, 1e9]]})
    assert not found.ok and found.gap == pytest.approx(0.2)
    answer = policy.allocate(ABOVE, exact=True)
    data = json.loads(answer.save(tmp_path / "b.json").read_text())
    proof = [{"prices": [[0, 0, "1"]], "kept": ["0"], "mixtures": [{"b": "1"}]}]
    data |= {"tasks_by_server": [[6.0], [2.0]], "objective": 8.0}
    data["exact"] |= {"tasks": [["6"], ["2"]], "proof": proof}
    file = tmp_path / "c.json"
    file.write_text(json.dumps(data))
    assert "prove at most 10, and the tasks reach 8" in str(fo.verify(file))
    with pytest.raises(fo.errors.InvalidInstance, match="prove at most 10, and the tasks reach 8"):
        fo.Allocation.load(file)


@pytest.mark.parametrize("objective", [fo.MaxMin(SURPLUS), fo.OrderedWeighted((1,), SURPLUS)], ids=repr)
def test_levels_of_what_may_be_below_a_base_may_be_negative(objective: fo.Objective, tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [objective >= -2])
    assert fo.verify(policy.allocate(ABOVE).save(tmp_path / "b.json")).ok
    assert policy.allocate(ABOVE, exact=True).exact_tasks.tolist() == [[10], [0]]
    found = forged(policy, tmp_path, {"prices": [[1.0]], "rows": [[0, "b", 1.0]]})
    assert not found.ok and found.gap == pytest.approx(0.2)


def test_a_power_of_what_is_below_its_base_is_minus_infinity(tmp_path: Path) -> None:
    policy = fo.Policy(fo.Total(fo.Tasks()), [fo.AlphaFair(0.5, SURPLUS) >= 1])
    file = policy.allocate(ABOVE).save(tmp_path / "a.json")
    assert fo.verify(file).ok and json.loads(file.read_text())["tasks_by_server"][1][0] == pytest.approx(2)
    entry = {"kind": "prices", "unit": 1.0, "prices": [[1.0]]}
    found = fo.verify(changed(file, tasks_by_server=[[10.0], [0.0]], evidence=[entry]))
    assert "'b' is below its base, so the objective is minus infinity" in str(found)


def test_who_could_rise_by_what_rounding_leaves_of_a_capacity_is_not_left_at_its_base() -> None:
    """The user who needs 1e-12 of a resource of which guarantees leave 5e-10 was: (1, 999.999999) was certified."""
    instance = fo.Instance([[1, 0], [1e-12, 1]], [1, 1000], guarantees=[1 - 5e-10, 0])
    right = [[1 - Fraction(1, 10**12) * Fraction(5, 10**10)], [Fraction(5, 10**10)]]
    for share in (fo.DominantShare(), fo.Tasks()):
        policy = fo.Policy(fo.Leximin(fo.Surplus(share)))
        try:
            tasks = policy.allocate(instance).tasks
        except fo.errors.NotCertified:
            tasks = policy.allocate(instance, exact=True).tasks
        assert tasks[0] == pytest.approx(float(right[0][0]), rel=1e-9) and tasks[1] < 1e-6


@pytest.mark.parametrize(
    "text",
    [
        "Policy(Leximin(0))",
        "Policy(Leximin(share=None))",
        "Policy(Leximin(Leximin()))",
        "Policy(Leximin(), constraints={})",
        "Policy(Leximin(), name=Foo())",
        "Policy(Leximin(OfTeam(Surplus(Tasks()))))",
    ],
)
def test_what_is_no_policy_is_not_proved(text: str, tmp_path: Path) -> None:
    instance = fo.Instance([[1], [1]], [10], teams={"team": ["t", "u"]})
    file = fo.DRF().allocate(instance).save(tmp_path / "a.json")
    assert fo.verify(file).ok and "cannot be checked" in str(fo.verify(changed(file, policy=text)))


def test_a_label_is_a_word_and_not_its_letters(tmp_path: Path) -> None:
    file = fo.HDRF("ab").allocate(fo.Instance([[1], [1]], [10], teams={"ab": ["t", "u"]})).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    data["policy"], data["instance"]["teams"] = "HDRF(by='ab')", {"a": ["t", "u"], "b": ["x", "x2"]}
    file.write_text(json.dumps(data))
    assert "no label 'ab'" in str(fo.verify(file))


def test_numbers_that_are_read_in_32_bits_are_counted(tmp_path: Path) -> None:
    file = fo.DRF().allocate(fo.Instance([[1], [1]], [10], users=["a", "b"]), exact=True).save(tmp_path / "a.json")
    data, half = json.loads(file.read_text()), Fraction(50000002, 10**7)
    data["exact"] |= {"read": {"capacities": {"10.0": "25000001/2500000"}}, "tasks": [[str(half)], [str(half)]]}
    data["exact"]["proof"] = [
        {"levels": [{"of_numbers": {"a": "1/2", "b": "1/2"}, "prices": [[0, 0, str(1 / half / 4)]]}]}
    ]
    data["tasks_by_server"] = [[float(half)], [float(half)]]
    file.write_text(json.dumps(data))
    assert "as the Fractions given (1 of them is equal in 32 bits only)" in str(fo.verify(file))


def test_a_resource_named_twice_in_a_guarantee_is_refused() -> None:
    with pytest.raises(fo.errors.InvalidInstance, match=r"name resource .* twice"):
        fo.Instance(
            [[1]],
            [10],
            resources=["nvidia.com/gpu"],
            teams={"team": ["t"]},
            guarantees={"t": {"nvidia.com/gpu": 8, "gpu": 3}},
        )


@pytest.mark.parametrize("text", ["Policy(Total(Mine()))", "HDRF(by='nolabel')"])
def test_where_nobody_takes_part_an_unknown_policy_is_not_proved(text: str, tmp_path: Path) -> None:
    nobody = fo.Instance([[1], [1]], [10], task_limits=0, teams={"team": ["t", "u"]})
    for policy in (fo.DRF(), fo.HDRF()):
        file = policy.allocate(nobody).save(tmp_path / "a.json")
        assert fo.verify(file).ok and not fo.verify(changed(file, policy=text, objective=0.0)).ok


@pytest.mark.parametrize("objective", [fo.MaxMin(), fo.Leximin(), fo.Total()], ids=str)
def test_tiers_where_nobody_takes_part_are_certified_when_loaded(objective: fo.Objective, tmp_path: Path) -> None:
    answer = fo.Policy(objective.then(fo.Total())).allocate(fo.Instance([[1], [1]], [10], task_limits=0))
    file = answer.save(tmp_path / "a.json")
    assert fo.Allocation.load(file).certificate.ok and fo.verify(file).ok


@pytest.mark.parametrize("place", [[True, 0], [-1, 0], [0, False], ["0", 0]])
def test_places_of_prices_are_positions(place: list[Any], tmp_path: Path) -> None:
    pair = fo.Instance([[1], [1]], [[3], [3]], users=["a", "b"])
    file = fo.DRF().allocate(pair, exact=True).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    prices = data["exact"]["proof"][0]["levels"][0]["prices"]
    assert [one[:2] for one in prices] == [[0, 0], [1, 0]] and fo.verify(file).ok
    prices[1 if place[0] != 0 else 0][:2] = place
    file.write_text(json.dumps(data))
    assert "is no position" in str(fo.verify(file))


def test_a_gap_beyond_the_range_of_floats_is_said(tmp_path: Path) -> None:
    pair = fo.Instance([[1], [1]], [[3], [3]])
    policy = fo.Policy(2 * fo.MaxMin(fo.StandAloneShare()) + fo.Total())
    file = policy.allocate(pair).save(tmp_path / "a.json")
    data = json.loads(file.read_text())
    data["instance"]["capacities"][0][0] = 1e60
    data["evidence"][0]["prices"] = [[1e300], [1e300]]
    found = fo.verify(changed(file, **{key: data[key] for key in ("instance", "evidence")}))
    assert found.gap == float("inf") and "proves only a gap of inf" in str(found)
