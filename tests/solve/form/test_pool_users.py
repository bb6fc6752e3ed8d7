"""Passes over users: little memory, and the same results for all chunks and samples."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from oracle.instances import log_uniform

import fairopt as fo
from fairopt.errors import OutOfDomain
from fairopt.solve.form import pool_users
from fairopt.solve.form.pool_users import Chunk, Pool, common
from fairopt.solve.form.program import Program

POLICIES = {
    "DRF": fo.DRF(),
    "2-DF": fo.Policy(fo.Leximin(fo.KDominantShare(2, short="positive"))),
    "max-min of tasks": fo.Policy(fo.MaxMin(fo.Tasks())),
    "alpha 0.5": fo.FDS(0.5),
    "alpha 1": fo.FDS(1),
    "alpha 2": fo.FDS(2),
    "alpha 5 of tasks": fo.GFJ(5),
}


def many(n: int, m: int, limits: float = 0.0, seed: int = 0) -> fo.Instance:
    return log_uniform(np.random.default_rng(seed), n, m, limits=limits, decades=2)


def simple(n: int, m: int, dtype: type = np.float64) -> fo.Instance:
    """Without weights and limits, and demands that nothing else holds on to."""
    demands = np.random.default_rng(0).random((n, m)).astype(dtype) + dtype(0.01)
    return fo.Instance(demands, np.full(m, float(n)))


def pool_of(instance: fo.Instance, share: fo.Share | None = None, every: int = 1) -> Pool:
    share = share or fo.DominantShare()
    return Pool(Program(instance, fo.Leximin(share), ()), share, every)


def peak(work: Callable[[], object]) -> int:
    """Bytes held at once, beyond those held before."""
    work()  # imports, and what is made once
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# -- memory ---------------------------------------------------------------------------------------------------


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", ("DRF", "2-DF", "alpha 0.5", "alpha 1", "alpha 2"))
def test_beside_the_demands_it_takes_less_than_half_as_much(name: str) -> None:
    instance = simple(400_000, 4)
    assert peak(lambda: POLICIES[name].allocate(instance)) < 0.5 * instance.demands.nbytes


@pytest.mark.fast_methods
def test_a_pass_takes_a_few_chunks_beside_the_tasks() -> None:
    instance = simple(400_000, 4)
    assert peak(lambda: fo.FDS(2).allocate(instance)) < 8 * instance.n_users + 4 * 8 * pool_users.CHUNK


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", ("DRF", "alpha 2"))
def test_single_precision_is_not_copied_to_double(name: str) -> None:
    instance = simple(400_000, 8, np.float32)
    assert instance.demands.dtype == np.float32
    # in double precision the demands would be twice what they are; tasks are a quarter of them
    assert peak(lambda: POLICIES[name].allocate(instance)) < 0.6 * instance.demands.nbytes


def test_what_comes_back_shares_nothing_with_the_passes() -> None:
    instance = simple(5_000, 2)
    a = fo.FDS(2).allocate(instance)
    before = a.tasks.copy()
    fo.FDS(0.5).allocate(instance)
    np.testing.assert_array_equal(a.tasks, before)


# -- the same, however it is cut ------------------------------------------------------------------------------


@pytest.mark.fast_methods
@pytest.mark.parametrize("limits", (0.0, 0.3))
@pytest.mark.parametrize("name", POLICIES)
def test_samples_change_the_way_and_not_the_answer(name: str, limits: float, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = many(140_000, 3, limits)  # two samples: of 8,750 users and of half of these
    sample = pool_of(instance).sample()
    assert sample is not None and sample.sample() is not None
    sampled = POLICIES[name].allocate(instance)
    monkeypatch.setattr(pool_users, "SAMPLE", 10**9)
    assert pool_of(instance).sample() is None
    whole = POLICIES[name].allocate(instance)
    assert sampled.certificate.ok and sampled.certificate.method == whole.certificate.method
    np.testing.assert_allclose(sampled.tasks, whole.tasks, rtol=1e-9)  # 3e-11 at most when written
    assert sampled.objective == pytest.approx(whole.objective, rel=1e-12)


@pytest.mark.parametrize("size", (1, 700, 10**9))
@pytest.mark.parametrize("name", POLICIES)
def test_the_size_of_chunks_changes_rounding_only(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = many(1_000, 3, 0.3)
    right = POLICIES[name].allocate(instance)
    monkeypatch.setattr(pool_users, "CHUNK", size)
    np.testing.assert_allclose(POLICIES[name].allocate(instance).tasks, right.tasks, rtol=1e-10)


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", ("DRF", "alpha 2"))
def test_demands_may_lie_in_any_order(name: str) -> None:
    instance = many(3_000, 4, 0.3)
    right = POLICIES[name].allocate(instance).tasks
    wide = np.zeros((3_000, 9))
    wide[:, 1::2] = instance.demands
    for demands in (np.asfortranarray(instance.demands), wide[:, 1::2], instance.demands[::-1][::-1]):
        np.testing.assert_allclose(POLICIES[name].allocate(instance.with_demands(demands)).tasks, right, rtol=1e-12)


# -- one pass -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", (1, 16))
def test_a_pass_sees_every_user_once_and_in_order(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_users, "CHUNK", 300)
    instance = many(1_000, 3, 0.5)
    pool = pool_of(instance, every=every)
    seen = pool.each(lambda chunk: (chunk.rows, chunk.ratios.T.copy(), chunk.coefficients.copy(), chunk.of(pool.high)))
    rows = np.concatenate([np.arange(1_000)[::every][r] for r, *_ in seen])
    np.testing.assert_array_equal(rows, np.arange(0, 1_000, every))
    np.testing.assert_allclose(np.concatenate([g for _, g, *_ in seen]), instance.ratios[::every], rtol=4e-16)
    np.testing.assert_allclose(
        np.concatenate([c for _, _, c, _ in seen]), instance.dominant_shares[::every], rtol=4e-16
    )
    np.testing.assert_array_equal(np.concatenate([h for *_, h in seen]), instance.task_limits[::every])


@pytest.mark.parametrize(("n", "every"), [(7_999, None), (8_000, 2), (63_999, 15), (70_000, 17), (200_000, 16)])
def test_a_sample_has_one_user_in_so_many_and_as_much_of_the_capacity(n: int, every: int | None) -> None:
    sample = pool_of(simple(n, 2)).sample()
    if every is None:
        assert sample is None
    else:
        assert sample is not None
        assert sample.n == -(-n // every) >= pool_users.SAMPLE
        np.testing.assert_allclose(sample.usable, sample.n / n)


def test_one_number_for_all_stays_one_number() -> None:
    assert common(np.broadcast_to(np.float64(2.5), (7,))) == 2.5
    assert isinstance(common(np.broadcast_to(np.float64(2.5), (7,))), float)
    assert common(np.full(3, 2.5)).shape == (3,)
    pool = pool_of(simple(10, 2))
    assert (pool.low, pool.high, pool.weights) == (0.0, np.inf, 1.0)
    assert not pool.bounded
    assert pool_of(simple(10, 2).with_task_limits(5)).bounded


def test_an_error_in_one_chunk_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_users, "CHUNK", 200)
    demands = np.ones((500, 2))
    demands[403, 1] = 0.0

    def look(chunk: Chunk) -> None:
        assert chunk.coefficients is not None

    with pytest.raises(OutOfDomain, match="user404"):
        pool_of(fo.Instance(demands, [1, 1]), fo.KDominantShare(2)).each(look)


@pytest.mark.fast_methods
@pytest.mark.parametrize("name", ("DRF", "alpha 2"))
def test_a_share_that_must_see_all_users_at_once_is_asked_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = {"user3": (5.0, 1.0)}
    share = fo.KDominantShare(2, rank_weights=ranks, short="positive")
    assert not share.by_row
    instance = many(5_000, 2)
    objective = fo.Leximin(share) if name == "DRF" else fo.AlphaFair(2, share)
    tasks = fo.Policy(objective).allocate(instance).tasks
    plain = fo.KDominantShare(2, short="positive")
    usual = fo.Policy(fo.Leximin(plain) if name == "DRF" else fo.AlphaFair(2, plain)).allocate(instance).tasks
    ratio = tasks / usual
    others = np.delete(ratio, 2)
    assert ratio[2] / others.mean() == pytest.approx(5.0 ** (-1 if name == "DRF" else -0.5), rel=1e-2)
    assert np.ptp(others) < 0.01
