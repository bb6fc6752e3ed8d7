"""Quotas of teams: whole tasks, rounding, formats, and their difference from present quotas."""

import sys
from fractions import Fraction
from functools import partial
from math import ceil, floor
from pathlib import Path

import fairopt_clusters as fc
import numpy as np
import pytest
from fairopt_clusters.quotas import Quota
from fairopt_clusters.quotas.amounts import rounded_within
from fairopt_clusters.quotas.cluster_queues import InputQueues
from hypothesis import given
from hypothesis import strategies as st

import fairopt as fo
from fairopt.errors import InvalidBlock, InvalidInstance
from fairopt.solve.whole.integer import IntegerSearch

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))

import quotas as benchmark

caps = partial(fc.quotas, caps=True)  # of a moment


def two_types(**others):
    given = dict(
        users=["train", "tune", "parse"],
        servers=["a100-1", "a100-2", "t4-1"],
        server_types=["a100", "a100", "t4"],
        teams={"team": ["vision", "nlp", "nlp"]},
        eligible={"train": ["a100-1", "a100-2"], "tune": ["t4-1"], "parse": ["t4-1"]},
        task_limits=[3, 2, 4],
        resources=["cpu", "gpu"],
        units={"cpu": "core"},
    )
    return fo.Instance([[8, 2], [4, 1], [1.5, 0]], [[32, 4], [32, 4], [16, 4]], **{**given, **others})


def amounts(quotas):
    return {row.key: row.amount for row in quotas.rows}


# -- read back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "seeds"), [("hdrf", range(12)), ("most-tasks", range(2)), ("nash", range(2))])
def test_what_is_read_back_is_within_the_rounding_of_the_certified_answer(policy, seeds, tmp_path):
    for seed in seeds:
        wrong, _ = benchmark.judged(benchmark.cluster(seed), benchmark.POLICIES[policy], tmp_path)
        assert not wrong, seed


def test_a_wrong_quota_is_found():
    instance = benchmark.cluster(3)
    answer = fo.HDRF().allocate(instance)
    quotas = caps(answer)
    expected = benchmark.units(instance, quotas._source.whole.placement.sum(axis=1))
    rows = list(quotas.rows)
    assert not benchmark.problems(instance, rows, "csv", "csv", expected)
    for k, more in ((0, 0.0005), (0, 1.0), (len(rows) - 1, 1000.0)):
        row = rows[k]
        changed = [*rows[:k], Quota(*row.key, row.amount + more, row.unit), *rows[k + 1 :]]
        assert benchmark.problems(instance, changed, "csv", "csv", expected)
    assert benchmark.problems(instance, rows[1:], "csv", "csv", expected)


# -- rounding -------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 4000), st.sampled_from("ab")), min_size=1, max_size=6), st.integers(0, 3))
def test_amounts_are_rounded_to_a_neighbour_and_never_add_up_to_more_than_there_is(drawn, spare):
    values, flavors = [Fraction(v, 1000) for v, _ in drawn], [f for _, f in drawn]
    room = {f: ceil(sum(v for v, g in zip(values, flavors, strict=True) if g == f)) for f in flavors}
    total = floor(sum(room.values()) - Fraction(1, 2) + spare)
    total = max(total, ceil(sum(values)))
    counts = rounded_within([float(v) for v in values], flavors, room, total, Fraction(1))
    for value, count in zip(values, counts, strict=True):
        assert floor(value) <= count <= ceil(value)
    for name, most in room.items():
        assert sum(c for c, f in zip(counts, flavors, strict=True) if f == name) <= most
    assert sum(counts) <= total
    down = [
        k
        for k, (v, c) in enumerate(zip(values, counts, strict=True))
        if c < v and sum(d for d, f in zip(counts, flavors, strict=True) if f == flavors[k]) < room[flavors[k]]
    ]
    assert not down or sum(counts) == total  # rounded down only where there is no room


def test_floats_that_differ_from_a_multiple_by_rounding_are_that_multiple():
    assert rounded_within([0.1 * 3, 0.7], ["", ""], {"": 1.0}, 1.0, Fraction(1, 1000)) == [300, 700]
    assert rounded_within([1 / 3] * 3, [""] * 3, {"": 1.0}, 1.0, Fraction(1)) == [1, 0, 0]


def test_cpu_is_in_millicores_memory_in_mib_and_in_slurm_cpu_in_cores():
    pool = fo.Instance(
        [[1.2344, 0.3, 1]],
        [8, 8, 1],
        resources=["cpu", "memory", "gpu"],
        units={"cpu": "core", "memory": "GiB"},
        teams={"team": ["vision"]},
    )
    quotas = caps(fo.DRF().allocate(pool))
    assert [row.amount for row in quotas.rows] == [1.235, 308 / 1024, 1.0]
    assert quotas.text("slurm").splitlines()[-1].endswith("set GrpTRES=cpu=8,mem=8192M,gres/gpu=1")
    full = caps(fo.DRF().allocate(pool.with_capacities([1.2344, 8, 1])))
    assert full.rows[0].amount == 1.234  # rounded down: there is no more


# -- whole tasks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "whole"), [({}, [3, 2, 5]), ({"a": 2}, [3, 2, 5]), ({"b": 2}, [2, 3, 5]), ({"y": 1.5}, [2, 2, 6])]
)
def test_mechanisms_are_rounded_by_largest_remainder_within_each_team(weights, whole):
    pool = fo.Instance(
        [[1]] * 3, [10], users=["a", "b", "c"], resources=["gpu"], teams={"team": ["x", "x", "y"]}, weights=weights
    )
    answer = fo.HDRF().allocate(pool)
    share = {"a": weights.get("a", 1), "b": weights.get("b", 1)}
    of_x = 10 / (1 + weights.get("y", 1))
    fair = [of_x * share[name] / sum(share.values()) for name in "ab"]
    assert answer.tasks == pytest.approx([*fair, 10 - of_x])
    assert [row.amount for row in caps(answer).rows] == [whole[0] + whole[1], whole[2]]
    assert caps(answer)._source.whole.placement.sum(axis=1).tolist() == whole


def test_a_policy_is_solved_again_in_whole_tasks_and_the_loss_is_said():
    pool = fo.Instance([[2], [3]], [9], users=["a", "b"], resources=["gpu"], teams={"team": ["x", "y"]})
    answer = fo.DRF().allocate(pool)
    for how, text in (
        (True, "optimality in whole tasks rests on HiGHS"),
        ("rounded", "a better whole answer may exist"),
    ):
        quotas = caps(answer, integral=how)
        whole = fo.DRF().allocate(pool, integral=how)
        assert [row.amount for row in quotas.rows] == (whole.tasks * [2, 3]).tolist()
        assert quotas.notes[0].startswith(f"DRF: {whole.tasks.sum():g} whole tasks (3.75 in the certified divisible")
        assert f"at most {100 * whole.certificate.gap:.3g}% of the objective is lost" in quotas.notes[0]
        assert quotas.notes[0].endswith(text)
        assert caps(whole).rows == quotas.rows  # an answer in whole tasks is taken as it is
    assert caps(answer).notes == quotas.notes  # rounded, unless integral is given


def test_integer_programs_by_level_are_solved_only_where_asked_or_where_rounding_breaks_constraints(monkeypatch):
    ran = []
    run = IntegerSearch.run
    monkeypatch.setattr(IntegerSearch, "run", lambda self: ran.append(self) or run(self))
    caps(fo.DRF().allocate(fo.datasets.demo()))
    assert not ran
    pool = fo.Instance([[1], [1]], [5], users=["a", "b"], resources=["gpu"])
    caps(fo.DRF().allocate(pool), integral=True)
    assert len(ran) == 1
    equal = fo.Policy(fo.Leximin(), [fo.EqualShares()]).allocate(pool)
    assert [row.amount for row in caps(equal).rows] == [2, 2]  # rounded 3 and 2
    assert len(ran) == 2


def test_what_cannot_be_placed_whole_is_said():
    cluster = fo.Instance(
        [[3], [1]], [[4], [4]], users=["large", "small"], resources=["gpu"], teams={"team": ["x", "y"]}
    ).with_task_limits([3, 8])
    one = fo.HDRF().allocate(cluster.select_users([0]).with_task_limits([5]))
    assert one.tasks.round(6).tolist() == [2.666667]
    assert caps(one).rows[0].amount == 6  # two tasks of three GPUs; the third fits nowhere
    three = fo.Instance([[3]], [[4], [4], [4]], users=["large"], resources=["gpu"], teams={"team": ["x"]})
    quotas = caps(fo.HDRF().allocate(three))
    assert quotas.rows[0].amount == 9
    assert "could not be placed whole: 1 of large" in quotas.notes
    assert "x loses most by it: its dominant share falls from 100% to 75%" in quotas.notes


def test_large_tasks_are_placed_first_where_the_usual_order_leaves_some_out():
    cluster = fo.Instance(
        [[2], [1]], [[4]] * 3 + [[3]] * 2, users=["large", "small"], resources=["gpu"], teams={"team": ["x", "y"]}
    )
    answer = fo.HDRF().allocate(cluster)
    quotas = caps(answer)
    assert answer.tasks.round(6).tolist() == [4.5, 9]
    assert quotas._source.whole.placement.sum(axis=1).tolist() == [4, 10]  # the GPU that half a large task leaves
    assert not any("could not be placed" in note for note in quotas.notes)


@pytest.mark.parametrize("seed", [65, 172])
def test_an_integer_program_places_tasks_that_best_fit_leaves_out(seed, monkeypatch):
    answer = fo.HDRF().allocate(benchmark.cluster(seed).replace(held=None))
    whole = caps(answer)._source.whole.placement
    assert (whole.sum(axis=1) >= np.floor(answer.tasks)).all()
    assert fo.allocation.feasibility(answer.instance.individual(), whole) <= 1e-9
    monkeypatch.setattr("fairopt.solve.whole.rounding.MOST_UNKNOWNS", 0)
    monkeypatch.setattr("fairopt.solve.whole.rounding.EVEN", ())
    assert any("could not be placed whole" in note for note in caps(answer).notes)


def test_tasks_that_run_now_keep_their_servers():
    held = [[2, 1, 0], [0, 0, 1], [0, 0, 0]]
    cluster = two_types(eligible=None, held=held)
    for policy in (fo.HDRF(), fo.MostTasks()):
        source = caps(policy.allocate(cluster.merged()))._source.whole
        order = [source.servers.servers.index(name) for name in cluster.servers]
        kept = np.minimum(source.placement[:, order], held)
        totals = source.placement.sum(axis=1)
        assert kept.sum(axis=1).tolist() == np.minimum(totals, np.sum(held, axis=1)).tolist()


def test_tasks_that_run_on_unknown_servers_of_a_row_keep_the_row():
    rows = fo.Instance(
        [[8], [1], [1]],
        [[8], [4]],
        counts=[4, 3],
        users=["large", "small", "tiny"],
        resources=["gpu"],
        servers=["a", "b"],
        server_types=["a", "b"],
        teams={"team": ["x", "y", "z"]},
        task_limits=[1, 7, 12],
        held=[[3, 0], [4, 0], [0, 12]],  # 3 tasks on 4 servers: which ones is not known
    )
    quotas = caps(fo.HDRF().allocate(rows))
    assert amounts(quotas) == {
        ("x", "gpu", "a"): 8,
        ("x", "gpu", "b"): 0,
        ("y", "gpu", "a"): 7,
        ("y", "gpu", "b"): 0,
        ("z", "gpu", "a"): 0,
        ("z", "gpu", "b"): 12,
    }


@pytest.mark.parametrize("held", [[0, 0, 0], [0, 4, 0]])
def test_tasks_without_gpus_keep_their_servers_though_others_are_placed_anew(held):
    cluster = fo.Instance(
        [[1, 1], [1, 1], [4, 0]],
        [[40, 8], [8, 4], [16, 0]],
        users=["any", "small", "parse"],
        resources=["cpu", "gpu"],
        servers=["large-1", "small-1", "cpu-1"],
        server_types=["large", "small", "cpu"],
        teams={"team": ["x", "y", "z"]},
        eligible={"small": ["small-1"]},  # if all of `any` stays on small-1, or goes there, `small` has no server
        task_limits=[8, 4, 5],
        held=[held, [0, 0, 0], [0, 0, 4]],
    )
    placement = caps(fo.HDRF().allocate(cluster))._source.whole.placement
    assert placement.sum(axis=1).tolist() == [8, 4, 5]
    assert placement[2].tolist() == [1, 0, 4]
    assert fo.allocation.feasibility(cluster, placement) <= 1e-9


def test_notes_say_what_is_in_no_quota():
    answer = fo.DRF().allocate(two_types())
    note = "in no quota: 42 of 80 cpu, 4 of 12 gpu"  # 24 + 14 and 6 + 2 are
    assert note in caps(answer).notes
    assert "in no quota: 4 of 12 gpu" in caps(answer, resources=["gpu"]).notes
    assert not any("in no quota" in line for line in caps(answer, teams=["nlp"]).notes)
    full = fo.Instance([[1]], [4], resources=["gpu"], teams={"team": ["vision"]})
    assert not any("in no quota" in line for line in caps(fo.DRF().allocate(full)).notes)


def test_policies_that_decide_bundles_have_quotas_of_the_tasks_that_run_in_them():
    answer = fo.HFFMRA().allocate(two_types(teams=None, eligible=None, server_types=None).with_task_limits(None))
    quotas = caps(answer)
    assert quotas.by == "user" and "users have no teams, so each user has quotas" in quotas.notes
    for row in quotas.rows:
        assert row.amount <= answer.tasks[answer.instance.users.index(row.team)] * 8 + 8


# -- formats --------------------------------------------------------------------------------------------------


def test_quotas_are_by_type_of_server_where_the_format_has_them():
    quotas = caps(fo.DRF().allocate(two_types()))
    assert amounts(quotas) == {
        ("vision", "cpu", "a100"): 24,
        ("vision", "cpu", "t4"): 0,
        ("vision", "gpu", "a100"): 6,
        ("vision", "gpu", "t4"): 0,
        ("nlp", "cpu", "a100"): 0,
        ("nlp", "cpu", "t4"): 14,
        ("nlp", "gpu", "a100"): 0,
        ("nlp", "gpu", "t4"): 2,
    }
    # with what is left over: of 80 cores 24 and 14 are used, and of 12 GPUs 6 and 2
    assert "requests.cpu: '29474m'\n      requests.nvidia.com/gpu: '3'" in quotas.text("kubernetes")
    assert quotas.text("slurm").splitlines()[-2:] == [
        "sacctmgr -i modify account where name=vision set GrpTRES=cpu=51,gres/gpu=8,gres/gpu:a100=8,gres/gpu:t4=0",
        "sacctmgr -i modify account where name=nlp set GrpTRES=cpu=29,gres/gpu=4,gres/gpu:a100=0,gres/gpu:t4=4",
    ]
    assert caps(fo.DRF().allocate(two_types()), "csv").text() == quotas.text()


def queues(*flavors):
    entries = [
        {"name": f, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 9}, {"name": "cpu", "nominalQuota": 9}]}
        for f in flavors
    ]
    spec = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu", "cpu"], "flavors": entries}]}
    return {"metadata": {"name": "nlp"}, "apiVersion": "kueue.x-k8s.io/v1beta2", "spec": spec}


def test_quotas_of_cluster_queues_are_by_the_flavors_that_have_the_servers():
    servers = {
        "small": frozenset(["t4-1"]),
        "any": frozenset(["a100-1", "a100-2", "t4-1"]),
        "big": frozenset(["a100-1"]),
    }
    answer = fo.DRF().allocate(two_types(task_limits=[3, 2, 40]))
    made = caps(answer, "kueue", queues=InputQueues({"nlp": queues("any", "small")}, servers))
    assert (
        amounts(made)["nlp", "gpu", "any"] == 1 and amounts(made)["nlp", "gpu", "small"] == 0
    )  # the first that has them
    assert {row.team for row in made.rows} == {"nlp"}
    assert "in no ClusterQueue of the input, and so without a quota: vision" in made.notes
    with pytest.raises(InvalidInstance, match="'vision' is no ClusterQueue of the input"):
        caps(answer, "kueue", teams=["vision"], queues=InputQueues({"nlp": queues("any")}, servers)).text()
    made = caps(answer, "kueue", queues=InputQueues({"nlp": queues("big")}, servers))
    assert ("nlp", "gpu", "big") not in amounts(made)  # where no task of it may run
    assert "1 gpu of nlp are on servers of no flavor of its ClusterQueue, and have no quota" in made.notes
    by_name = caps(answer, "kueue", queues=InputQueues({"nlp": queues("t4", "x")}))
    assert amounts(by_name)["nlp", "gpu", "t4"] == 1


def test_cohorts_of_new_cluster_queues_are_the_teams_outside():
    nested = two_types(teams={"team": ["vision", "nlp", "nlp"], "org": ["ml", "ml", "ml"]})
    text = caps(fo.DRF().allocate(nested), "kueue", by="team").text()
    assert text.count("cohortName: ml") == 2


# -- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "yaml"}, "quotas are not written as 'yaml'"),
        ({"by": "tem"}, "users have no label 'tem'; did you mean 'team'"),
        ({"teams": ["visoin"]}, "there is no team 'visoin'; did you mean 'vision'"),
        ({"resources": ["gpus"]}, "there is no resource 'gpus'; did you mean 'gpu'"),
        ({"format": "csv", "api_version": "v1beta1"}, "api_version is of ClusterQueues, and not of csv"),
    ],
)
def test_unknown_names_are_refused(options, message):
    with pytest.raises(InvalidBlock, match=message):
        caps(fo.DRF().allocate(two_types()), **options)


def test_several_labels_without_team_must_be_chosen_from():
    labels = two_types(teams={"org": ["a", "b", "b"], "lab": ["c", "d", "e"]})
    with pytest.raises(InvalidBlock, match="users have the labels lab, org; name that of the teams"):
        caps(fo.DRF().allocate(labels))
    assert {row.team for row in caps(fo.DRF().allocate(labels), by="org").rows} == {"a", "b"}
    with pytest.raises(InvalidBlock, match="users have no labels, so there are no quotas by 'org'"):
        caps(fo.DRF().allocate(fo.Instance([[1]], [4])), by="org")


def test_users_without_a_team_are_named():
    some = two_types(teams={"team": ["vision", None, None]})
    quotas = caps(fo.DRF().allocate(some))
    assert {row.team for row in quotas.rows} == {"vision"}
    assert "without a team, and so without a quota: tune and 1 more" in quotas.notes


def test_some_teams_and_resources_can_be_chosen():
    quotas = caps(fo.DRF().allocate(two_types()), teams=["nlp"], resources=["gpu"])
    assert {row.key[:2] for row in quotas.rows} == {("nlp", "gpu")}


def test_an_answer_that_is_not_certified_has_no_quotas():
    answer = fo.DRF().allocate(two_types())
    wrong = type(answer)(
        answer.instance, answer.policy, answer.tasks_by_server, type(answer.certificate)(1.0, 0.0, "none"), np.nan
    )
    with pytest.raises(InvalidBlock, match="the answer is not certified"):
        caps(wrong)


# -- present quotas -------------------------------------------------------------------------------------------


def test_teams_that_hold_more_than_the_new_quota_are_named():
    answer = fo.DRF().allocate(two_types(held=[[2, 2, 0], [0, 0, 1], [0, 0, 0]]))
    changes = caps(answer).diff([Quota("vision", "gpu", "a100", 7.0)])
    row = next(row for row in changes.rows if (row.team, row.resource, row.flavor) == ("vision", "gpu", "a100"))
    assert (row.present, row.new, row.change, row.held, row.is_over) == (7.0, 6.0, -1.0, 8.0, True)
    assert "vision holds 8 gpu of a100, more than its new quota of 6" in changes.notes
    assert not any(note.startswith("nlp holds") for note in changes.notes)
    unknown = caps(fo.DRF().allocate(two_types())).diff([])
    assert unknown.notes == ("what teams hold now is not known: the input does not say where tasks run",)
    in_all = caps(fo.DRF().allocate(two_types(held=[5, 1, 0])))
    assert all(row.held is None for row in in_all.diff([]).rows)  # by type, which is not known
    totals = in_all._source.quotas("kubernetes").diff([])
    assert "vision holds 10 gpu, more than its new quota of 9" in totals.notes


def test_a_team_that_holds_more_than_there_is_is_named():
    answer = fo.DRF().allocate(two_types(held=[[3, 4, 0], [0, 0, 1], [0, 0, 0]]))
    assert "vision holds 14 gpu, but there is 12: check the input" in caps(answer).diff([]).notes


def test_present_quotas_are_matched_by_the_last_part_of_resources_and_summed_over_flavors():
    quotas = caps(fo.DRF().allocate(two_types()))._source.quotas("kubernetes")
    present = [Quota("vision", "nvidia.com/gpu", "a100", 3.0), Quota("vision", "nvidia.com/gpu", "t4", 2.0)]
    others = [Quota("vision", "pods", "", 9.0), Quota("gone", "cpu", "", 1.0, "core")]
    changes = quotas.diff([*present, *others])
    assert {row.present for row in changes.rows} == {None, 5.0}
    assert changes.notes[-2:] == (
        "quotas of others than these teams stay as they are: gone",
        "present quotas without new ones stay as they are: pods",
    )
    again = quotas.diff(quotas)
    assert {row.change for row in again.rows} == {0.0}
    assert list(again.to_frame().columns) == [
        "team",
        "resource",
        "flavor",
        "unit",
        "present",
        "new",
        "change",
        "held",
    ]


def test_present_quotas_of_slurm_have_a_total_beside_types():
    quotas = caps(fo.DRF().allocate(two_types()))._source.quotas("slurm")
    changes = quotas.diff([Quota("vision", "gpu", "", 5.0), Quota("vision", "gpu", "a100", 4.0)])
    found = {(row.team, row.flavor): row.present for row in changes.rows if row.resource == "gpu"}
    assert found["vision", ""] == 5.0 and found["vision", "a100"] == 4.0 and found["vision", "t4"] is None


def test_units_of_present_quotas_are_converted_or_refused():
    pool = fo.Instance([[2.0]], [8.0], resources=["memory"], units={"memory": "GiB"}, teams={"team": ["a"]})
    quotas = caps(fo.DRF().allocate(pool))
    assert quotas.diff([Quota("a", "memory", "", 512.0, "MiB")]).rows[0].present == 0.5
    with pytest.raises(InvalidInstance, match="the present quota of 'memory' of 'a' is in GB, the new one in GiB"):
        quotas.diff([Quota("a", "memory", "", 512.0, "GB")])


def test_without_time_for_integer_programs_the_answer_is_rounded() -> None:
    made = caps(fo.DRF().allocate(fo.datasets.demo()), integral=True, time_limit=1e-9)
    assert "rounded by largest remainder" in made.notes[0] and sum(row.amount for row in made.rows) > 0
