"""SequentialMinMax: the rule of the paper in fractions, what is proved of it, and its certificate."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo
from fairopt.proof import gate
from fairopt.proof.whole_tasks import measured


@st.composite
def instances(draw, weighted=True, most_servers=1):
    n, m = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    demands = draw(st.lists(rows, min_size=n, max_size=n))
    s = draw(st.integers(1, most_servers))
    room = st.lists(st.integers(4, 12), min_size=m, max_size=m)
    capacities = draw(st.lists(room, min_size=s, max_size=s))
    weights = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)) if weighted else None
    limits = draw(st.lists(st.sampled_from([None, None, 0, 2.5]), min_size=n, max_size=n))
    counts = draw(st.lists(st.integers(1, 2), min_size=s, max_size=s)) if most_servers > 1 else None
    eligible = np.ones((n, s), dtype=bool)
    if most_servers > 1:
        eligible = np.array(draw(st.lists(st.booleans(), min_size=n * s, max_size=n * s))).reshape(n, s)
        eligible[:, 0] |= ~eligible.any(axis=1)
    return fo.Instance(demands, capacities, weights=weights, task_limits=limits, counts=counts, eligible=eligible)


def by_the_paper(instance):
    """Each task to the user, of those for whom one fits, with the smallest largest share after it; tasks by row."""
    rows = [s for s, q in enumerate(instance.counts) for _ in range(q)]
    free = [[Fraction(int(c)) for c in instance.capacities[s]] for s in rows]
    total = [Fraction(int(c)) for c in instance.total_capacities]
    demands = [[Fraction(int(d)) for d in row] for row in instance.demands]
    each = [
        max(d / c for d, c in zip(row, total, strict=True)) / int(w)
        for row, w in zip(demands, instance.weights, strict=True)
    ]
    tasks = np.zeros((instance.n_users, instance.n_servers), dtype=int)
    while True:
        has, choices = tasks.sum(axis=1), []
        for j, row in enumerate(demands):
            fit = [
                p
                for p, s in enumerate(rows)
                if instance.eligible[j, s] and all(d <= f for d, f in zip(row, free[p], strict=True))
            ]
            if fit and has[j] + 1 <= instance.task_limits[j]:
                after = max(c * int(x + (k == j)) for k, (c, x) in enumerate(zip(each, has, strict=True)))
                choices.append((after, j, fit[0]))
        if not choices:
            return tasks
        _, j, p = min(choices)
        tasks[j, rows[p]] += 1
        free[p] = [f - d for f, d in zip(free[p], demands[j], strict=True)]


@given(st.one_of(instances(), instances(most_servers=3)))
@settings(max_examples=10)
def test_it_is_the_rule_of_the_paper_under_first_fit(instance):
    a = fo.SequentialMinMax().allocate(instance)
    assert a.tasks_by_server.tolist() == by_the_paper(instance).tolist()
    assert a.certificate.ok and a.certificate.whole and a.certificate.violation == 0


@given(instances())
@settings(max_examples=10)
def test_on_one_pool_no_user_has_less_than_its_slice_runs_whole_and_no_whole_answer_dominates(instance):
    a = fo.SequentialMinMax().allocate(instance)
    assert (a.tasks >= np.floor(instance.own_slices * (1 + 1e-12))).all()
    left = instance.capacities[0] - a.tasks @ instance.demands
    more = (left >= instance.demands).all(axis=1) & (a.tasks + 1 <= instance.task_limits)
    assert not more.any()


@given(instances(weighted=False))
@settings(max_examples=10)
def test_with_equal_weights_no_user_could_run_two_tasks_more_on_what_another_holds(instance):
    a = fo.SequentialMinMax().allocate(instance)
    assert fo.check(a, "ef1-own").holds


def test_it_is_not_leximin_and_may_break_envy_freeness_up_to_one_task():
    instance = fo.Instance([[1], [4]], [5], users=["small", "large"])
    a = fo.SequentialMinMax().allocate(instance)
    assert a.tasks.tolist() == [5, 0] and a.certificate.gap == a.objective + 1 == 1
    assert fo.SequentialMinMax().allocate(instance.select_users([1, 0])).tasks.tolist() == [
        0,
        5,
    ]  # not a matter of ties
    report = fo.check(a, ["ef1", "ef1-own"])
    assert not report["ef1"].holds and report["ef1-own"].holds
    assert str(report["ef1"]) == "user 'large' could run 1 whole task on what 'small' holds less one task, but runs 0"


def test_ties_go_to_the_first_user_in_spite_of_rounding():
    # three tasks of 0.1 against one of 0.3: 3 * 0.1 is 0.30000000000000004
    assert fo.SequentialMinMax().allocate(fo.Instance([[1], [3]], [10], task_limits=[3, 3])).tasks.tolist() == [3, 2]
    steps = [fo.SequentialMinMax().allocate(fo.Instance([[0.1], [0.3]], [c])).tasks.tolist() for c in (0.3, 0.5, 0.6)]
    assert steps == [[3, 0], [5, 0], [3, 1]]


def test_ten_times_a_tenth_fills_one():
    a = fo.SequentialMinMax().allocate(fo.Instance([[0.1]], [1]))
    assert a.tasks.tolist() == [10] and a.certificate.ok


def test_shares_and_placements_decide():
    pool = fo.Instance([[1, 4], [3, 1]], [9, 18])
    assert fo.SequentialMinMax(fo.Tasks()).allocate(pool).tasks.tolist() == [3, 2]
    assert fo.SequentialMinMax(fo.Tasks()).allocate(fo.Instance([[1], [4]], [5])).tasks.tolist() == [1, 1]
    two = fo.Instance([[2]], [[9], [3]])
    assert fo.SequentialMinMax(placement="best-fit").allocate(two).tasks_by_server.tolist() == [[4, 1]]
    limited = two.with_task_limits([1])
    rows = {
        p: fo.SequentialMinMax(placement=p).allocate(limited).tasks_by_server.tolist()
        for p in ("first-fit", "best-fit", lambda units, free, rows: rows[-1])
    }
    assert list(rows.values()) == [[[1, 0]], [[0, 1]], [[0, 1]]]


def test_first_fit_on_servers_may_leave_a_user_without_what_best_fit_gives_it():
    two = fo.Instance([[1], [2]], [[2], [1]], task_limits=[1, None])
    assert fo.SequentialMinMax().allocate(two).tasks.tolist() == [1, 0]
    assert fo.SequentialMinMax(placement="best-fit").allocate(two).tasks.tolist() == [1, 1]


def test_on_servers_a_user_may_have_less_than_its_slices_run_whole():
    two = fo.Instance([[2], [3]], [[6]], counts=[2])  # half of each server runs one task of either
    assert fo.SequentialMinMax().allocate(two).tasks.tolist() == [4, 1]


def test_on_each_server_by_itself_tasks_are_whole_too():
    several = fo.Instance([[1, 1], [2, 1]], [[4, 4], [6, 3]], counts=[3, 1])
    a = fo.NaivePerServer(fo.SequentialMinMax()).allocate(several)
    assert a.tasks_by_server.tolist() == [[6, 2], [3, 1]] and a.certificate.whole and a.certificate.ok
    assert not fo.NaivePerServer(fo.DRF()).allocate(several.with_task_limits([0, 0])).certificate.whole


# -- the certificate -------------------------------------------------------------------------------------------------


def judged(instance, user, server):
    placed = measured(instance, np.array(user, dtype=int), np.array(server, dtype=int))
    return gate.of_steps(None, instance, placed, fo.DominantShare(), 0.0)


def test_one_more_task_that_fits_is_not_certified():
    pool = fo.Instance([[1], [4]], [5])
    assert judged(pool, [0] * 5, [0] * 5).certificate.ok
    short = judged(pool, [0] * 4, [0] * 4).certificate
    assert not short.ok and short.violation == 0 and short.block_violation == np.inf
    assert judged(pool.with_task_limits([4, 9]), [0] * 4, [0] * 4).certificate.ok


def test_a_row_of_two_servers_is_measured_server_by_server():
    row = fo.Instance([[3]], [[4]], counts=[2])
    assert judged(row, [0, 0], [0, 1]).certificate.ok
    assert judged(row, [0, 0], [1, 1]).certificate.violation == 0.5
    split = fo.Instance([[3], [1]], [[4]], counts=[2], eligible=[[True], [True]])
    assert judged(split, [0, 0, 1, 1], [0, 1, 0, 1]).certificate.ok


def test_tasks_where_a_user_may_not_run_are_violations():
    several = fo.Instance([[1]], [[1], [1]], eligible=[[True, False]])
    assert judged(several, [0], [0]).certificate.ok and not judged(several, [0], [1]).certificate.ok


@given(instances(most_servers=2))
@settings(max_examples=10)
def test_the_gap_bounds_every_divisible_answer(instance):
    if not (instance.task_limits > 0).any():
        return
    a = fo.SequentialMinMax().allocate(instance)
    divisible = fo.Policy(fo.MaxMin()).allocate(instance).objective
    assert a.objective >= divisible * (1 - a.certificate.gap) * (1 - 1e-5)


# -- arguments, files, progress --------------------------------------------------------------------------------------


def test_errors_name_the_user_and_the_fix():
    with pytest.raises(fo.errors.InvalidBlock, match="give a share, such as DominantShare"):
        fo.SequentialMinMax("cpu")
    with pytest.raises(fo.errors.InvalidBlock, match="placement is 'worst'"):
        fo.SequentialMinMax(placement="worst")
    with pytest.raises(fo.errors.InvalidBlock, match="gives whole tasks only"):
        fo.SequentialMinMax().allocate(fo.Instance([[1]], [1]), integral=False)
    with pytest.raises(fo.errors.InvalidBlock, match=r"placement is 'pooled'; known: first-fit"):
        fo.SequentialMinMax(placement="pooled")
    with pytest.raises(fo.errors.InvalidBlock, match=r"give a fairopt\.Instance"):
        fo.SequentialMinMax().allocate([[1]])
    apart = fo.Instance([[[1], [2]]], [[4], [4]], users=["web"])
    with pytest.raises(fo.errors.OutOfDomain, match="of user 'web' differ"):
        fo.SequentialMinMax(fo.Tasks()).allocate(apart)
    with pytest.raises(fo.errors.OutOfDomain, match="of one task of user 'web' differs"):
        fo.SequentialMinMax().allocate(apart)
    with pytest.raises(fo.errors.OutOfDomain, match="has a zero"):
        fo.SequentialMinMax(fo.ResourceShare(1)).allocate(fo.Instance([[1, 0]], [1, 1]))


def test_no_users_no_tasks_and_a_limit_of_zero():
    empty = fo.SequentialMinMax().allocate(fo.Instance(np.zeros((0, 1)), [1]))
    assert empty.certificate.ok and empty.tasks.shape == (0,)
    large = fo.SequentialMinMax().allocate(fo.Instance([[2], [1]], [1], task_limits=[None, 0]))
    assert large.tasks.tolist() == [0, 0] and large.certificate.ok


def test_a_saved_answer_is_judged_again_and_progress_can_stop_it(tmp_path):
    policy = fo.policies.named_policy("sequential-minmax:placement=best-fit")
    assert policy == fo.SequentialMinMax(placement="best-fit")
    a = policy.allocate(fo.Instance([[1, 4], [3, 1]], [9, 18]))
    loaded = fo.Allocation.load(a.save(tmp_path / "a.json"))
    assert loaded.policy == policy and loaded.certificate.whole and loaded.certificate.ok

    def stop(what, done, total):
        raise KeyboardInterrupt(what)

    with pytest.raises(KeyboardInterrupt, match="tasks placed"), fo.progress(stop):
        policy.allocate(fo.Instance([[1]], [20_000]))


def test_brute_force_of_a_pool_finds_nothing_better_for_all():
    instance = fo.Instance([[2, 1], [1, 3], [2, 2]], [9, 10])
    a = fo.SequentialMinMax().allocate(instance)
    for tasks in itertools.product(range(6), repeat=3):
        fits = (np.array(tasks) @ instance.demands <= instance.capacities[0]).all()
        assert not fits or (np.array(tasks) < a.tasks).any() or list(tasks) == a.tasks.tolist()


def test_it_is_compared_with_whole_tasks_of_others_and_the_legend_says_what_the_gap_is() -> None:
    instance = fo.Instance([[1, 4], [3, 1]], [9, 18])
    both = fo.compare([fo.DRF(), fo.SequentialMinMax()], instance, integral=True)
    assert [row["whole"] for row in both.rows()] == [True, True]
    said = [" ".join(str(c).split()) for c in (both, fo.compare("drf", instance))]
    assert ["gap of whole tasks: distance to the divisible optimum" in text for text in said] == [True, False]


def test_more_tasks_than_can_be_placed_one_by_one_are_refused():
    with pytest.raises(
        fo.errors.OutOfDomain, match=r"user 'user1' could run 1e\+13 tasks, and up to 1e\+09 are placed"
    ):
        fo.SequentialMinMax().allocate(fo.Instance([[1]], [1e13]))
    assert fo.SequentialMinMax().allocate(fo.Instance([[1]], [1e13], task_limits=[3])).tasks.tolist() == [3]
