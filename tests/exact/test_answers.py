"""Exact answers: equal to references in fractions, proved by `verify`, saved, and refused where they are irrational."""

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from fractions import Fraction as Q

import numpy as np
import pytest
from oracle import exact_cluster, exact_lp
from oracle.fractions_waterfill import dominant
from oracle.fractions_waterfill import leximin as waterfill

import fairopt as fo
from fairopt.errors import Infeasible, InvalidBlock, MissingExtra, NotCertified, OutOfDomain
from fairopt.exact import proof, rationals, tiers
from fairopt.exact.cluster import Cluster
from fairopt.exact.tiers import Goal
from fairopt.policies.parse import parse_policy

PAPER = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"])


def fractions(table):
    return [[str(x) for x in row] for row in table.tolist()]


def drawn(seed):
    """Small integers on one to three servers, with ties, limits, weights and counts."""
    r = random.Random(seed)
    n, servers, m = r.randint(2, 4), r.randint(1, 3), r.randint(1, 3)
    demands = [[r.randint(0, 3) for _ in range(m)] for _ in range(n)]
    for row in demands:
        row[0] += not any(row)
    return dict(
        demands=demands,
        capacities=[[r.randint(1, 12) for _ in range(m)] for _ in range(servers)],
        weights=[r.randint(1, 3) for _ in range(n)],
        task_limits=[r.choice([None, None, r.randint(1, 9) / 4]) for _ in range(n)],
        counts=[r.randint(1, 2) for _ in range(servers)],
    )


@pytest.mark.parametrize(
    ("policy", "tasks"),
    [
        (fo.DRF(), [["5/2"], ["25/2"]]),
        (fo.KDF(k=2), [["25/13"], ["200/13"]]),
        (fo.KDF(k=2, rank_weights=[[1, 2], [Q(1, 2), 1]]), [["25/37"], ["800/37"]]),
        (fo.MostTasks(), [["0"], ["25"]]),
        (fo.Policy(fo.OrderedWeighted([3, 1])), [["5/2"], ["25/2"]]),
        (fo.Policy(fo.Leximin(), [fo.MaxShare(Q(1, 3))]), [["5/3"], ["25/3"]]),
        (fo.Policy(fo.Total(fo.Tasks()), [fo.MaxMin() >= Q(1, 7)]), [["5/7"], ["150/7"]]),
    ],
)
def test_published_and_closed_values_come_out_as_fractions(policy, tasks):
    answer = policy.allocate(PAPER, exact=True)
    assert fractions(answer.exact_tasks) == tasks
    assert (answer.certificate.gap, answer.certificate.violation, answer.certificate.method) == (0.0, 0.0, "exact")
    assert answer.tasks_by_server.tolist() == answer.exact_tasks.astype(float).tolist()


@pytest.mark.parametrize("seed", range(6))
def test_leximin_is_that_of_the_reference_on_pools_and_servers(seed):
    given = drawn(seed)
    answer, cluster = fo.DRF().allocate(fo.Instance(**given), exact=True), exact_cluster.Cluster(**given)
    at = [answer.exact_tasks[j, s] for j, s in cluster.pairs]
    forms = cluster.forms(cluster.dominant())
    assert [exact_lp.dot(form, at) for form in forms] == exact_lp.leximin(forms, cluster.rows)
    assert all(exact_lp.dot(row, at) <= value for row, value in cluster.rows)


def test_levels_of_a_pool_are_those_of_water_filling():
    demands, room = [[Q(1), Q(0)], [Q(2), Q(3)], [Q(1), Q(1)]], [Q(7), Q(5)]
    answer = fo.DRF().allocate(fo.Instance([[1, 0], [2, 3], [1, 1]], [7, 5]), exact=True)
    found = waterfill(demands, room, dominant(demands, room), [Q(1)] * 3, [None] * 3)
    assert answer.exact_tasks[:, 0].tolist() == list(found)


@pytest.mark.parametrize("seed", range(3))
def test_total_max_min_and_ordered_weights_are_those_of_the_reference(seed):
    given = drawn(seed + 50)
    instance, cluster = fo.Instance(**given), exact_cluster.Cluster(**given)
    forms, plain = (cluster.forms(cluster.dominant(), per) for per in (True, False))
    for objective, best, value in (
        (fo.Total(), exact_lp.maximise([sum(c) for c in zip(*plain, strict=True)], cluster.rows).value, sum),
        (fo.MaxMin(), exact_lp.smallest(forms, cluster.rows), min),
        (
            fo.OrderedWeighted([3, 1]),
            exact_lp.ordered(forms, [3, 1], cluster.rows),
            lambda z: 3 * sorted(z)[0] + sorted(z)[1],
        ),
    ):
        answer = fo.Policy(objective).allocate(instance, exact=True)
        at = [answer.exact_tasks[j, s] for j, s in cluster.pairs]
        of = plain if value is sum else forms
        assert value([exact_lp.dot(form, at) for form in of]) == best


def test_floats_are_the_shortest_decimals_and_fractions_what_they_are():
    decimals = fo.DRF().allocate(fo.Instance([[0.1], [0.3]], [1]), exact=True)
    assert fractions(decimals.exact_tasks) == [["5"], ["5/3"]]
    assert decimals.certificate.note == "numbers read as the shortest decimals that print them"
    given = fo.DRF().allocate(fo.Instance([[Q(1, 3)], [1]], [Q(5, 11)], weights={"user2": Q(1, 2)}), exact=True)
    assert fractions(given.exact_tasks) == [["10/11"], ["5/33"]]
    assert given.certificate.note.startswith("numbers read as the Fractions given")


def test_float32_numbers_are_decimals_of_their_own_precision():
    answer = fo.DRF().allocate(fo.Instance(np.array([[0.1]], dtype=np.float32), [1.0]), exact=True)
    assert fractions(answer.exact_tasks) == [["10"]]


def test_floats_in_a_policy_are_the_decimals_that_print_them():
    policy = fo.Policy(fo.Total(fo.Tasks()) + 0.1 * fo.MaxMin(), [fo.MaxTasks([0.1, 0.3]), fo.Reserve(0, 0.7)])
    answer = policy.allocate(fo.Instance([[1], [1]], [1]), exact=True)
    assert fractions(answer.exact_tasks) == [["1/10"], ["1/5"]]
    pytest.importorskip("flint", reason="intervals need python-flint, the extra `exact`")
    bounds = fo.Policy(fo.Total(fo.Tasks()), [fo.MaxTasks(0.1)]).allocate(fo.Instance([[1]], [1])).exact_bounds(1e-60)
    assert bounds.lower <= Q(1, 10) <= bounds.upper


def test_fractions_stay_with_an_instance_that_is_changed():
    instance = fo.Instance([[Q(1, 3)], [1], [2]], [7], weights=[Q(1, 7), 1, 1])
    part = instance.with_task_limits([None, 1, 1]).select_users([0, 1]).with_weights({"user2": Q(2, 7)})
    answer = fo.DRF().allocate(part, exact=True)
    assert fractions(answer.exact_tasks) == [["18"], ["1"]]
    assert fractions(fo.DRF().allocate(instance, exact=True).exact_tasks) == [["7/5"], ["49/15"], ["49/30"]]


def test_two_fractions_with_one_float_are_refused_by_name():
    near = Q(1, 3) + Q(1, 10**30)
    with pytest.raises(OutOfDomain, match=r"demands hold two different Fractions that are both 0\.333"):
        fo.DRF().allocate(fo.Instance([[Q(1, 3)], [near]], [1]), exact=True)


def test_blocks_keep_fractions_in_repr_parser_and_equality():
    policy = fo.Policy(Q(1, 3) * fo.MaxMin(), [fo.MinTasks({"web": Q(1, 9)}), fo.Reserve("cpu", Q(1, 7))])
    assert "Fraction(1, 3) * MaxMin()" in repr(policy) and "{'web': Fraction(1, 9)}" in repr(policy)
    assert parse_policy(repr(policy)) == policy and repr(parse_policy(repr(policy))) == repr(policy)
    assert fo.MinTasks(Q(1, 2)) == fo.MinTasks(0.5)
    with pytest.raises(InvalidBlock, match=r"write fractions as Fraction\(1, 3\)"):
        parse_policy("Policy(MaxMin(), constraints=[MinTasks(Fraction(1.5, 3))])")


def test_tiers_teams_guarantees_and_conditions_are_proved_together(tmp_path):
    instance = fo.Instance(
        [[Q(1, 3), 8], [8, 0.1], [1, 1]],
        [[Q(7, 3), 4], [3, 3]],
        teams={"team": ["a", "a", "b"]},
        guarantees={"a": {"resource1": Q(1, 7)}, "user3": Q(1, 9)},
    )
    objective = fo.Leximin(fo.Surplus(fo.OfTeam())).then(fo.Total(fo.Tasks()))
    policy = fo.Policy(objective, [fo.MaxShare(Q(1, 2)), fo.EnvyFree()])
    answer = policy.allocate(instance, exact=True)
    assert answer.exact_tasks.sum(axis=1).tolist() == [Q(16, 49), Q(16, 49), Q(128, 49)]
    file = answer.save(tmp_path / "answer.json")
    proof = fo.verify(file, instance)
    assert proof.ok and proof.gap == 0 and proof.statement.startswith("proved: gap 0 of ")
    again = fo.Allocation.load(file)
    assert np.array_equal(again.exact_tasks, answer.exact_tasks) and again.certificate.note == answer.certificate.note
    assert fo.verify(again.save(tmp_path / "again.json"), instance).gap == 0


def test_totals_of_teams_are_split_by_leximin():
    instance = fo.Instance([[1], [2], [1]], [12], teams={"team": ["a", "a", "b"]})
    answer = fo.Policy(fo.Leximin(fo.OfTeam())).allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["3"], ["3/2"], ["6"]]
    assert "inside each team the split is the leximin" in answer.certificate.note


def test_those_who_cannot_rise_above_their_base_leave_the_objective(tmp_path):
    instance = fo.Instance([[1], [1]], [4], task_limits=[1, None], guarantees=[1, 1])
    answer = fo.Policy(fo.MaxMin(fo.Surplus(fo.Tasks()))).allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["1"], ["3"]] and answer.objective == 2
    file = answer.save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    data = json.loads(file.read_text())
    data["exact"]["proof"] = [{"mixtures": [{"user1": "1"}]}]  # the least of all, which is 0 whatever the others have
    file.write_text(json.dumps(data))
    assert "'user1' is at its base, and nothing proves that it can rise" in str(fo.verify(file))


@pytest.mark.parametrize(
    ("policy", "value"),
    [(fo.DRF(), 0), (fo.Policy(fo.Leximin(fo.Surplus())), 0), (fo.Policy(fo.MaxMin(fo.Surplus())), 0)],
)
def test_guarantees_that_fill_everything_are_the_answer(policy, value, tmp_path):
    instance = fo.Instance([[1]] * 4, [40], guarantees=[20, 18, 0, 2])
    answer = policy.allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["20"], ["18"], ["0"], ["2"]] and answer.objective == value
    assert fo.verify(answer.save(tmp_path / "answer.json"), instance).ok


def test_those_at_their_base_count_only_if_they_could_rise(tmp_path):
    instance = fo.Instance([[1], [1], [2]], [8], task_limits=[1, None, None], guarantees=[1, 1, 0])
    answer = fo.Policy(fo.OrderedWeighted([1, 1, 1], fo.Surplus(fo.Tasks()))).allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["1"], ["7"], ["0"]]
    file = answer.save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    data = json.loads(file.read_text())
    del data["exact"]["proof"][0]["rising"]
    file.write_text(json.dumps(data))
    assert "'user3' is at its base, and nothing proves that it can rise" in str(fo.verify(file))


def spoil_tasks(exact):
    exact["tasks"][0][0] = "1/3"


def spoil_prices(exact):
    exact["proof"][0]["levels"][0]["prices"][0][2] = "1/999"


def drop_level(exact):
    exact["proof"][0]["levels"].clear()


def negate_price(exact):
    exact["proof"][0]["levels"][0]["prices"][0][2] = "-1"


def spoil_text(exact):
    exact["tasks"][0][0] = "5/0"


@pytest.mark.parametrize("spoil", [spoil_tasks, spoil_prices, drop_level, negate_price, spoil_text])
def test_changed_files_are_not_proved_and_not_loaded(spoil, tmp_path):
    file = fo.DRF().allocate(PAPER, exact=True).save(tmp_path / "answer.json")
    data = json.loads(file.read_text())
    spoil(data["exact"])
    file.write_text(json.dumps(data))
    assert not fo.verify(file).ok
    with pytest.raises(fo.errors.InvalidInstance, match="its exact answer is not proved"):
        fo.Allocation.load(file)


def test_better_looking_tasks_beyond_a_capacity_are_a_fault(tmp_path):
    file = fo.DRF().allocate(PAPER, exact=True).save(tmp_path / "answer.json")
    data = json.loads(file.read_text())
    data["exact"]["tasks"] = [["2500000000001/1000000000000"], ["25/2"]]
    data["tasks_by_server"] = [[2.500000000001], [12.5]]
    file.write_text(json.dumps(data))
    assert "tasks exceed the capacity" in str(fo.verify(file))


def changed(file, **changes):
    """A saved file with some entries changed; those of its exact part by ``exact``."""
    data = json.loads(file.read_text())
    exact = data["exact"] | changes.pop("exact", {})
    file.write_text(json.dumps(data | changes | {"exact": exact}))
    return file


def test_pairs_of_users_left_out_of_a_file_are_compared_for_envy(tmp_path):
    instance = fo.Instance([[2, 1], [1, 3], [1, 1]], [10, 9])
    envious = fo.MostTasks().allocate(instance, exact=True)
    other = json.loads(envious.save(tmp_path / "other.json").read_text())
    file = fo.Policy(fo.Total(fo.Tasks()), [fo.EnvyFree()]).allocate(instance, exact=True).save(tmp_path / "a.json")
    given = {key: other[key] for key in ("objective", "tasks_by_server", "exact")}
    for more in ({"evidence": []}, {"evidence": [{"kind": "pulled", "pairs": []}]}):
        assert "row 1 of the policy's constraints is violated" in str(fo.verify(changed(file, **given, **more)))


def test_a_placement_of_whole_tasks_does_not_hide_behind_an_exact_answer(tmp_path):
    file = fo.DRF().allocate(PAPER, exact=True).save(tmp_path / "answer.json")
    assert "an exact answer has no placement" in str(fo.verify(changed(file, placement=[[9e9], [9e9]])))


def test_a_float_is_read_only_as_a_fraction_that_rounds_to_it(tmp_path):
    instance = fo.Instance([[Q(1, 3)], [1]], [1])
    file = fo.DRF().allocate(instance, exact=True).save(tmp_path / "answer.json")
    assert fo.verify(file, instance).ok
    plain = str(fo.verify(file, fo.Instance([[1 / 3], [1]], [1])))
    assert "demands: 0.3333333333333333 is 1/3 in the file, 0.333333333333 in the instance given" in plain
    wrong = changed(file, exact={"read": {"demands": {repr(1 / 3): "2/3"}}})
    assert "0.3333333333333333 is read as 2/3, which rounds to another number" in str(fo.verify(wrong))


def test_float32_numbers_are_those_of_the_file(tmp_path):
    instance = fo.Instance(np.array([[0.1], [0.7]], dtype=np.float32), [1.0])
    file = fo.DRF().allocate(instance, exact=True).save(tmp_path / "answer.json")
    assert fo.verify(file, instance).ok and fractions(fo.Allocation.load(file).exact_tasks) == [["5"], ["5/7"]]
    assert "objective is 0.4 in the file, but 0.5 at its tasks" in str(fo.verify(changed(file, objective=0.4)))


def test_bundles_are_not_proved_where_a_team_has_a_guarantee(tmp_path):
    instance = fo.Instance([[1, 4], [3, 1]], [9, 18], teams={"team": ["a", "b"]})
    file = fo.MLFDRS().allocate(instance, exact=True).save(tmp_path / "answer.json")
    assert fo.verify(file).ok
    given = json.loads(file.read_text())["instance"] | {"guarantees": {"user1": 0, "user2": 0, "b": {"resource1": 8}}}
    assert "its instance has guarantees" in str(fo.verify(changed(file, instance=given)))


def test_the_checker_runs_by_itself(tmp_path):
    file = fo.DRF().allocate(PAPER, exact=True).save(tmp_path / "answer.json")
    script = f"from fairopt.checker.answer import verify; print(verify({str(file)!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert (done.stdout.startswith("proved: gap 0 of Leximin()"), done.stderr, done.returncode) == (True, "", 0)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (fo.NashWelfare(), "logarithms"),
        (fo.FDS(2), "powers"),
        (fo.FDS(beta=2, lam=-0.25), "powers and logarithms"),
        (fo.Policy(fo.MaxMin(fo.PNormShare(2))), "roots"),
    ],
)
def test_irrational_optima_are_refused_with_the_reason(policy, why):
    with pytest.raises(OutOfDomain, match=f"no exact answer: .*{why}"):
        policy.allocate(PAPER, exact=True)


def test_shares_that_are_code_are_refused():
    @dataclass(frozen=True, repr=False)
    class Mine(fo.Share):
        def per_task(self, instance):
            return np.full(instance.n_users, 0.1)

    with pytest.raises(
        OutOfDomain, match=r"Mine\(\) states no exact formula; write Mine\.exact_per_task\(instance, width"
    ):
        fo.Policy(fo.MaxMin(Mine())).allocate(PAPER, exact=True)
    pytest.importorskip("flint", reason="intervals need python-flint, the extra `exact`")
    with pytest.raises(OutOfDomain, match=r"no exact bounds: Mine\(\) states no exact formula"):
        fo.Policy(fo.MaxMin(Mine())).allocate(PAPER).exact_bounds()


def test_conditions_that_hold_only_up_to_rounding_are_infeasible_in_fractions():
    policy = fo.Policy(fo.MaxMin(), [fo.MinTasks(Q(1, 3) + Q(1, 10**12))])
    with pytest.raises(Infeasible, match="in rational numbers nothing satisfies all"):
        policy.allocate(fo.Instance([[1], [1], [1]], [1]), exact=True)


def test_whole_tasks_are_not_exact():
    with pytest.raises(InvalidBlock, match="not both"):
        fo.DRF().allocate(PAPER, exact=True, integral=True)


def test_answers_without_python_flint_are_the_same_and_intervals_name_the_pip_line(monkeypatch, tmp_path):
    policies = [fo.DRF(), fo.MostTasks(), fo.Policy(fo.OrderedWeighted([3, 1])), fo.MLFDRS(), fo.HDRF()]
    labels = {"team": ["a", "b", "b"]}
    instance = fo.Instance([[3, 8, 0.1], [8, 5, 1], [1, 2, 3]], [[20, 11, 9], [7, 30, 8]], teams=labels)
    before = [policy.allocate(instance, exact=True) for policy in policies]
    monkeypatch.setitem(sys.modules, "flint", None)
    monkeypatch.setattr(rationals, "kind", lambda: Q)
    for policy, known in zip(policies, before, strict=True):
        answer = policy.allocate(instance, exact=True)
        if policy != fo.MostTasks():  # of which other answers are optimal too
            assert answer.exact_tasks.tolist() == known.exact_tasks.tolist()
        assert fo.verify(answer.save(tmp_path / "answer.json"), instance).ok
    assert fo.DRF().allocate(instance, exact=True).exact_bounds().width == 0
    with pytest.raises(MissingExtra, match=r"python-flint.*pip install 'fairopt\[exact\]'"):
        fo.FDS(2).allocate(PAPER).exact_bounds()


def test_the_time_limit_ends_the_exact_part_too():
    rng = np.random.default_rng(1)
    instance = fo.Instance(rng.uniform(0.1, 9, (60, 3)), rng.uniform(50, 100, (12, 3)))
    slow = fo.progress(lambda what, done, total: time.sleep(0.3 * (what == "exact levels")))
    with slow, pytest.raises(NotCertified, match="time limit"):
        fo.DRF().allocate(instance, exact=True, time_limit=0.2)


def test_steps_are_reported():
    seen = []
    with fo.progress(lambda what, done, total: seen.append((what, done, total))):
        fo.DRF().allocate(fo.Instance([[1], [1]], [4], task_limits=[1, None]), exact=True)
    assert ("exact levels", 0, 2) in seen and ("exact levels", 1, 2) in seen and seen[-1][0] == "the exact proof"


@pytest.mark.parametrize("instance", [fo.Instance(np.zeros((0, 1)), [4]), fo.Instance([[1]], [4], task_limits=0)])
def test_nobody_who_takes_part_gets_nothing_exactly(instance):
    answer = fo.DRF().allocate(instance, exact=True)
    assert answer.exact_tasks.shape == (instance.n_users, 1) and not answer.exact_tasks.any()


def test_one_user_and_strange_names(tmp_path):
    instance = fo.Instance([[3]], [Q(10, 7)], users=['<a & "b">\n5/11'], resources=["5/11"])
    answer = fo.DRF().allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["10/21"]]
    assert fo.verify(answer.save(tmp_path / "odd.json")).gap == 0


def test_fractions_with_more_digits_than_python_reads_are_saved_and_proved(tmp_path):
    room = Q(10**5000 + 1, 3 * 10**4999 + 7)
    answer = fo.DRF().allocate(fo.Instance([[1], [1]], [room]), exact=True)
    assert answer.exact_tasks[0, 0] == room / 2
    assert len(answer.to_frame()["exact tasks"].iloc[0]) > 9_000  # text, as Python does not print such Fractions
    total = fo.MostTasks().allocate(answer.instance, exact=True).exact_bounds()
    assert str(total).startswith(f"{float(room)!r} (a fraction of ")
    assert fo.verify(answer.save(tmp_path / "long.json")).gap == 0


# -- judged twice -----------------------------------------------------------------------------------------------------


def doubled(monkeypatch):
    """Double user 0's coefficients in the engine's fractions."""
    read = Cluster.between

    def wrong(engine, share):
        (first, *others), _ = read(engine, share)
        table = [[2 * c for c in first], *others]
        return table, table

    monkeypatch.setattr(Cluster, "between", wrong)


@pytest.mark.parametrize("policy", [fo.DRF(), fo.Policy(fo.MaxMin()), fo.Policy(fo.OrderedWeighted([3, 1]))], ids=str)
def test_an_engine_with_a_wrong_coefficient_gives_no_exact_answer(policy, monkeypatch):
    right = policy.allocate(PAPER, exact=True)
    doubled(monkeypatch)
    with pytest.raises(NotCertified, match=r"exact answer of .*; in floats [.\d]+, with gap") as error:
        policy.allocate(PAPER, exact=True)
    assert error.value.best.exact_tasks is None
    assert error.value.best.tasks == pytest.approx(right.tasks, rel=1e-6)


def test_an_engine_that_loses_a_constraint_gives_no_exact_answer(monkeypatch):
    monkeypatch.setattr(tiers, "impose", lambda cluster, conditions: ([], []))
    with pytest.raises(NotCertified, match="violates a constraint by 1"):
        fo.Policy(fo.MostTasks().objective, [fo.MinTasks([4, 0])]).allocate(PAPER, exact=True)


def test_an_engine_that_states_another_objective_gives_no_exact_answer(monkeypatch):
    at = Goal.at
    monkeypatch.setattr(Goal, "at", lambda goal, tasks: at(goal, tasks) + 1)
    monkeypatch.setattr(proof, "_prove_goal", lambda *given: None)
    with pytest.raises(NotCertified, match="another objective than its tasks have, 25"):
        fo.MostTasks().allocate(PAPER, exact=True)


# -- shares of one's own ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """The mean of the ratios."""

    def per_task(self, instance):
        return instance.ratios.mean(axis=-1)

    def exact_per_task(self, instance, width=None):
        return instance.in_fractions.ratios.mean(axis=-1)


def test_a_rational_share_of_ones_own_has_exact_answers(tmp_path):
    instance = fo.Instance([[0.1, 0], [1, 1]], [2, 3], teams={"team": ["a", "b"]})
    policy = fo.Policy(fo.Leximin(fo.OfTeam(MeanShare())), [fo.MaxShare(Q(3, 10), MeanShare())])
    answer = policy.allocate(instance, exact=True)
    assert fractions(answer.exact_tasks) == [["12"], ["18/25"]]  # at means of 1/40 and 5/12
    file = answer.save(tmp_path / "answer.json")
    assert "MeanShare() are not in the file" in str(fo.verify(file))
    again = fo.Allocation.load(file, policy=policy)
    assert again.exact_tasks.tolist() == answer.exact_tasks.tolist()
    pytest.importorskip("flint", reason="intervals need python-flint, the extra `exact`")
    bounds = fo.Policy(fo.Total(MeanShare())).allocate(instance).exact_bounds(1e-60)
    assert bounds.lower <= Q(5, 6) <= bounds.upper


def test_ideals_of_kalai_and_smorodinsky_are_rational_on_a_pool_and_without_bases(tmp_path):
    pool = fo.Instance([[1, 0.1], [0.3, 1]], [8, 7], task_limits=[4, None], users=["a", "b"])
    for policy in (fo.KalaiSmorodinsky(), fo.KalaiSmorodinsky({"a": 1})):
        answer = policy.allocate(pool, exact=True)
        assert answer.tasks == pytest.approx(policy.allocate(pool).tasks, rel=1e-9)
        assert fo.verify(answer.save(tmp_path / "answer.json"), pool).ok
    servers = fo.Instance([[1], [1]], [[4], [6]], task_limits=[5, None])
    assert fractions(fo.KalaiSmorodinsky().allocate(servers, exact=True).exact_tasks.sum(axis=1)[:, None]) == [
        ["10/3"],
        ["20/3"],
    ]
    with_base = fo.KalaiSmorodinsky({"user1": 1})
    with pytest.raises(OutOfDomain, match=r"linear programs in floats on several servers.*bases of 0$"):
        with_base.allocate(servers, exact=True)
    with pytest.raises(OutOfDomain, match="linear programs in floats on several servers"):
        with_base.allocate(servers).exact_bounds()
    assert with_base.allocate(servers.pooled(), exact=True).certificate.ok


def test_intervals_are_offered_for_shares_that_have_some() -> None:
    pool = fo.Instance([[1, 2], [2, 1]], [8, 7])
    with pytest.raises(OutOfDomain, match=r"has roots as coefficients.*exact_bounds\(\)"):
        fo.Policy(fo.Total(fo.PNormShare(2))).allocate(pool, exact=True)


def test_higher_levels_may_fall_where_a_trace_of_a_resource_raises_a_lower_one():
    demands = [[[6, 2, 1], [6, 3, 1], [5, 4, 3]], [[6, 0, 3e-12], [3, 4, 0], [2, 3, 3]]]
    instance = fo.Instance(demands, [[6, 8, 2], [4, 4, 1], [9, 3, 1]], weights=[1, 3], task_limits=[None, 5])
    policy = fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive")))
    answer = policy.allocate(instance, exact=True)
    assert answer.tasks[0] == pytest.approx(7 / 18, rel=1e-9)  # 1 in floats, at which the other has 5e-12 less


def test_weights_in_the_names_of_shares_are_those_that_the_checker_reads(tmp_path):
    instance = fo.Instance([[1], [1], [2]], [8], task_limits=[1, None, None], teams={"team": ["a", "b", "c"]})
    share = fo.Surplus(fo.OfTeam(fo.Tasks(), weights={"b": 3.0}), (1, 1, 0))
    answer = fo.Policy(fo.OrderedWeighted([1, 1, 1], share)).allocate(instance, exact=True)
    assert "rising" in answer.exact_proof["proof"][0]
    assert fo.verify(answer.save(tmp_path / "answer.json")).ok
