"""Dynamic DRF: its levels in fractions, and what Kash, Procaccia and Shah ask of every step."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairopt as fo

PAPER = fo.Instance([[1, 1 / 2, 3 / 4], [1 / 2, 1, 3 / 4], [1 / 2, 1 / 2, 1]], [1, 1, 1], users=["a", "b", "c"])
NONE = fo.Instance(np.zeros((0, 1)), [1])


@st.composite
def arrivals(draw):
    """Small pools of whole numbers, with zeros, weights and limits."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, 4), min_size=m, max_size=m).filter(any)
    demands = draw(st.lists(rows, min_size=n, max_size=n))
    capacities = draw(st.lists(st.integers(1, 12), min_size=m, max_size=m))
    weights = draw(st.lists(st.integers(1, 4), min_size=n, max_size=n))
    limits = draw(st.lists(st.sampled_from([None, None, 0, 1, 2]), min_size=n, max_size=n))
    return fo.Instance(demands, capacities, weights=weights, task_limits=limits)


def in_fractions(instance):
    """Tasks after each arrival: levels rise from what users have, until a resource or a limit stops them."""
    n, m = instance.n_users, instance.n_resources
    demands = [[Fraction(int(d)) for d in row] for row in instance.demands]
    room = [Fraction(int(c)) for c in instance.capacities[0]]
    weights = [Fraction(int(w)) for w in instance.weights]
    limits = [None if np.isinf(t) else Fraction(int(t)) for t in instance.task_limits]
    per_level = [
        w / max(d / c for d, c in zip(row, room, strict=True)) for w, row in zip(weights, demands, strict=True)
    ]
    had, out = [Fraction(0)] * n, []
    for k in range(n):
        part = sum(weights[: k + 1]) / sum(weights)
        tasks, rising, level = had[:], set(range(k + 1)), Fraction(0)
        while rising:
            rising = {j for j in rising if limits[j] is None or tasks[j] < limits[j]}
            used = [sum(tasks[j] * demands[j][i] for j in range(n)) for i in range(m)]
            full = [i for i in range(m) if used[i] == part * room[i]]
            rising = {j for j in rising if not any(demands[j][i] for i in full)}
            if not rising:
                break
            moves = {j for j in rising if tasks[j] <= level * per_level[j]}
            stops = [tasks[j] / per_level[j] for j in rising - moves]
            stops += [limits[j] / per_level[j] for j in moves if limits[j] is not None]
            for i in range(m):
                rate = sum(per_level[j] * demands[j][i] for j in moves)
                stops += [level + (part * room[i] - used[i]) / rate] if rate else []
            level = min(stops)
            tasks = [max(tasks[j], level * per_level[j]) if j in moves else tasks[j] for j in range(n)]
        had = tasks
        out.append(tasks)
    return out


def test_the_example_of_the_paper():
    steps = list(fo.DynamicDRF().steps(PAPER))
    np.testing.assert_allclose(
        [s.tasks for s in steps], [[1 / 3, 0, 0], [4 / 9, 4 / 9, 0], [4 / 9, 4 / 9, 1 / 3]], rtol=1e-14
    )
    assert steps[1].instance.task_limits.tolist() == [np.inf, np.inf, 0]
    assert steps[-1].instance == PAPER and steps[-1].to_frame()["tasks"]["c"] == pytest.approx(1 / 3)
    assert all(s.certificate.ok and s.certificate.gap < 1e-12 for s in steps)
    assert fo.DynamicDRF().allocate(PAPER).tasks.tolist() == steps[-1].tasks.tolist()
    np.testing.assert_allclose(fo.DRF().allocate(PAPER).tasks, [0.4, 0.4, 0.4])  # the order of arrival costs the last


@given(arrivals())
@settings(max_examples=10)
def test_every_step_is_as_in_fractions(instance):
    found = [s.tasks for s in fo.DynamicDRF().steps(instance)]
    np.testing.assert_allclose(found, np.array(in_fractions(instance), dtype=float), rtol=1e-9, atol=1e-12)


@given(arrivals())
@settings(max_examples=10)
def test_steps_take_nothing_back_and_are_fair_to_all_present(instance):
    n, slices = instance.n_users, instance.own_slices
    steps = [s.tasks for s in fo.DynamicDRF().steps(instance)]
    part = np.cumsum(instance.weights) / instance.weights.sum()
    demands, room = instance.demands, instance.capacities[0]
    for k, tasks in enumerate(steps):
        before = steps[k - 1] if k else np.zeros(n)
        assert (tasks >= before * (1 - 1e-12)).all() and not tasks[k + 1 :].any()
        assert (tasks[: k + 1] >= slices[: k + 1] * (1 - 1e-9)).all()  # sharing incentive
        used = tasks @ demands
        assert (used <= part[k] * room * (1 + 1e-9)).all()
        full = used >= part[k] * room * (1 - 1e-9)
        for j in range(k + 1):  # dynamic Pareto efficiency
            assert tasks[j] >= instance.task_limits[j] * (1 - 1e-9) or demands[j][full].any()
        for j, other in ((j, o) for j in range(k + 1) for o in range(k + 1) if o != j):
            needs = demands[j] > 0
            runs = (demands[other][needs] / demands[j][needs]).min() * tasks[other]
            wanted = min(instance.task_limits[j], runs * instance.weights[j] / instance.weights[other])
            if wanted > tasks[j] * (1 + 1e-9) + 1e-12:  # only of users who came before, and have got nothing since
                assert other < j and tasks[other] == pytest.approx(steps[j - 1][other], rel=1e-9)


def test_identical_servers_are_one_pool_and_others_are_refused():
    row = PAPER.replace(capacities=[[1 / 4] * 3], counts=[4])
    np.testing.assert_allclose(fo.DynamicDRF().allocate(row).tasks, [4 / 9, 4 / 9, 1 / 3])
    several = fo.Instance([[1, 1]], [[1, 2], [2, 1]])
    with pytest.raises(fo.errors.OutOfDomain, match=r"one pool.*use instance.pooled\(\)"):
        fo.DynamicDRF().allocate(several)
    assert fo.DynamicDRF().allocate(several.pooled()).tasks == pytest.approx(3)


def test_no_users_and_other_objects():
    assert fo.DynamicDRF().allocate(NONE).certificate.ok
    assert list(fo.DynamicDRF().steps(NONE)) == []
    with pytest.raises(fo.errors.InvalidBlock, match=r"give a fairopt\.Instance"):
        fo.DynamicDRF().allocate([[1, 2]])


def test_steps_made_before_an_interrupt_are_kept_and_a_saved_answer_is_judged_again(tmp_path):
    kept, told = [], []

    def stop(what, done, total):
        told.append((what, done, total))
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), fo.progress(stop):
        kept.extend(fo.DynamicDRF().steps(PAPER))
    assert told == [("users arrived", k, 3) for k in range(3)]
    a = fo.policies.named_policy("dynamic-drf").allocate(PAPER)
    loaded = fo.Allocation.load(a.save(tmp_path / "a.json"))
    assert loaded.policy == fo.DynamicDRF() and loaded.certificate.ok and loaded.certificate.note == ""
