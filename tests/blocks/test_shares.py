"""Shares: coefficients by hand and by definition, what blocks are, and a share of one's own."""

import copy
import dataclasses
import inspect
import itertools
import math
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle.exact_cluster import Cluster
from oracle.instances import exactly, needy

import fairopt as fo
from fairopt.blocks.shares import coefficients_cached
from fairopt.checker import policy as checker_policy
from fairopt.checker.instance import NUMBERS
from fairopt.checker.instance import Cluster as CheckerCluster
from fairopt.checker.numbers import in_fractions
from fairopt.instance.parts import server_window, taking_part, window
from fairopt.testing import blocks as strategies
from fairopt.testing import instances

DEMANDS = np.array([[40.0, 8.0, 8.0], [8.0, 5.0, 1.0]])
CAPACITIES = [200.0, 200.0, 200.0]
POOL = fo.Instance(DEMANDS, CAPACITIES, users=["batch", "web"], resources=["bandwidth", "memory", "cpu"])
GAPS = fo.Instance([[1, 0, 4], [2, 2, 2]], [10, 10, 10], users=["a", "b"], resources=["cpu", "gpu", "disk"])


POSITIVE = st.floats(0.01, 100.0)
MAY_BE_ZERO = st.just(0.0) | POSITIVE


@st.composite
def pools(draw, zeros=True):
    """One pool of up to 5 users and 4 resources, demands over 4 decades, some of them zero."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    demands = draw(exactly(n, needy(m, MAY_BE_ZERO if zeros else POSITIVE)))
    return fo.Instance(demands, draw(st.lists(st.floats(1.0, 1000.0), min_size=m, max_size=m)))


def k_dominant(ratios, k, short="refuse"):
    """The product of the k largest ratios, one user and one factor at a time."""
    out = []
    for row in ratios.tolist():
        largest = sorted(row, reverse=True)[:k]
        out.append(math.prod(g for g in largest if g > 0 or short == "refuse"))
    return out


# -- coefficients by hand --------------------------------------------------------------------------------------------


def test_a_task_counts_as_one_in_tasks():
    assert_array_equal(fo.Tasks().per_task(POOL), [1, 1])


def test_the_dominant_share_is_the_largest_ratio():
    assert_allclose(fo.DominantShare().per_task(POOL), [0.2, 0.04], rtol=1e-15)


@pytest.mark.parametrize(
    ("k", "expected"),
    [(1, [0.2, 0.04]), (2, [0.2 * 0.04, 0.04 * 0.025]), (3, [0.2 * 0.04 * 0.04, 0.04 * 0.025 * 0.005])],
)
def test_the_k_dominant_share_is_the_product_of_the_k_largest_ratios(k, expected):
    assert_allclose(fo.KDominantShare(k).per_task(POOL), expected, rtol=1e-14)


def test_ties_count_with_multiplicity():
    tied = fo.Instance([[3, 3, 1], [2, 2, 2]], [10, 10, 10])
    assert_allclose(fo.KDominantShare(2).per_task(tied), [0.09, 0.04], rtol=1e-14)
    assert_allclose(fo.KDominantShare(3).per_task(tied), [0.009, 0.008], rtol=1e-14)


def test_rank_weights_are_factors_by_rank_of_which_the_first_k_count():
    share = fo.KDominantShare(2, rank_weights=(3, 0.5, 100))
    assert_allclose(share.per_task(POOL), np.array([0.008, 0.001]) * 1.5, rtol=1e-14)


def test_rank_weights_differ_by_user_in_order_or_by_name():
    by_order = fo.KDominantShare(3, [[1, 2, 1], [0.5, 1, 3]])
    by_name = fo.KDominantShare(3, {"web": (0.5, 1, 3), "batch": (1, 2, 1)})
    expected = fo.KDominantShare(3).per_task(POOL) * [2, 1.5]
    assert_allclose(by_order.per_task(POOL), expected, rtol=1e-14)
    assert_allclose(by_name.per_task(POOL), expected, rtol=1e-14)


def test_users_that_a_dict_of_rank_weights_leaves_out_have_weight_1():
    assert_allclose(fo.KDominantShare(1, {"web": [5]}).per_task(POOL), [0.2, 0.2], rtol=1e-14)


def test_short_positive_takes_the_product_over_positive_ratios():
    assert_allclose(fo.KDominantShare(3, short="positive").per_task(GAPS), [0.1 * 0.4, 0.008], rtol=1e-14)
    assert_allclose(fo.KDominantShare(2, short="positive").per_task(GAPS), [0.1 * 0.4, 0.04], rtol=1e-14)


@pytest.mark.parametrize("k", [1, 2])
def test_a_user_of_at_least_k_resources_is_not_short(k):
    assert_array_equal(fo.KDominantShare(k).per_task(GAPS), fo.KDominantShare(k, short="positive").per_task(GAPS))


@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (1, [0.28, 0.07]),
        (2, [math.sqrt(0.04 + 2 * 0.0016), math.sqrt(0.0016 + 0.000625 + 0.000025)]),
        (
            0.5,
            [(math.sqrt(0.2) + 2 * math.sqrt(0.04)) ** 2, (math.sqrt(0.04) + math.sqrt(0.025) + math.sqrt(0.005)) ** 2],
        ),
        (math.inf, [0.2, 0.04]),
        (0, [1, 1]),
    ],
)
def test_the_p_norm_of_ratios(p, expected):
    assert_allclose(fo.PNormShare(p).per_task(POOL), expected, rtol=1e-13)


@pytest.mark.parametrize("p", [1e3, 1e6, 1e300])
def test_a_large_p_does_not_overflow_and_is_nearly_the_dominant_share(p):
    tiny = fo.Instance([[1e-60, 1e-60], [1e60, 1e-60]], [1e50, 1e50])
    with np.errstate(all="raise", under="ignore"):
        assert_allclose(fo.PNormShare(p).per_task(tiny), [1e-110, 1e10], rtol=1e-3)


@pytest.mark.parametrize("p", [1e-3, 1e-5, 1e-300])
def test_a_p_near_zero_gives_finite_numbers_or_says_that_it_cannot(p):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            assert np.isfinite(fo.PNormShare(p).coefficients(POOL)).all()
        except fo.FairoptError as error:
            assert "PNormShare" in str(error)


def test_a_zero_demand_adds_nothing_to_a_p_norm():
    assert_allclose(fo.PNormShare(0.5).per_task(GAPS)[0], (math.sqrt(0.1) + math.sqrt(0.4)) ** 2, rtol=1e-14)


@pytest.mark.parametrize("resource", ["memory", 1])
def test_the_share_of_one_resource_by_label_or_index(resource):
    assert_allclose(fo.ResourceShare(resource).per_task(POOL), [0.04, 0.025], rtol=1e-15)


def test_tasks_alone_of_TSF_are_counted_on_all_servers_whoever_may_run_there():
    servers = fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]], counts=[1, 3], eligible=[[1, 0], [1, 1]])
    assert_allclose(fo.StandAloneShare().per_task(servers), [1 / (10 + 3 * 2), 1 / (2 + 3 * 10)], rtol=1e-15)


GAVEL = fo.Instance([[1], [1], [1]], [[1], [1], [1]], task_limits=1, rates=[[3, 1, 1], [3, 2, 1], [3, 2, 1]])


def test_throughput_is_relative_to_an_equal_slice_of_all_servers():
    assert_allclose(fo.ThroughputShare().per_task(GAVEL), GAVEL.rates / np.array([[5 / 3], [2], [2]]), rtol=1e-15)


def test_a_slice_of_more_time_than_the_budget_is_cut_all_its_parts_alike():
    two = fo.Instance([[1], [1]], [[2], [2]], task_limits=[1, math.inf], rates=[[3, 1], [3, 1]])
    # a slice is an hour on each server, of which user 1 has half an hour each
    assert_allclose(fo.ThroughputShare().per_task(two), [[3 / 2, 1 / 2], [3 / 4, 1 / 4]], rtol=1e-15)


def test_throughput_per_weight_compares_multiples_of_own_slices():
    heavy = fo.Instance([[1], [1]], [[3], [6]], weights=[2, 1], task_limits=[3, 9], rates=[[2, 1], [5, 1]])
    slices = np.array([[1, 2], [1, 2]])  # 2 and 4 hours cut at 3, so 1 and 2; and 1 and 2
    levels = (fo.ThroughputShare().per_task(heavy) * slices).sum(axis=1) / heavy.weights
    assert_allclose(levels, levels[0], rtol=1e-15)


def test_on_a_pool_throughput_is_the_dominant_share_times_the_number_of_users():
    for instance in (POOL, POOL.replace(rates=[[5], [2]], weights=[3, 1])):
        assert_allclose(fo.ThroughputShare().coefficients(instance), fo.DominantShare().per_task(POOL) * 2, rtol=1e-15)


@given(
    instances(
        (1, 4), n_servers=(1, 3), weights=True, limits=True, placement=True, by_server=True, counts=True, rates=True
    )
)
def test_throughput_is_what_its_definition_gives_in_fractions(instance):
    exact = Cluster(**{key: value for key, value in instance.to_dict().items() if key not in ("users", "servers")})
    expected = np.array(exact.throughput(), dtype=float)
    given = np.broadcast_to(fo.ThroughputShare().per_task(instance).reshape(instance.n_users, -1), expected.shape)
    here = instance.eligible & (instance.task_limits > 0)[:, None]
    assert_allclose(given[here], expected[here], rtol=1e-13)


def test_users_whom_a_solve_leaves_out_have_their_slice_too():
    three = fo.Instance([[1], [1], [1]], [[3], [6]], weights=[1, 2, 3], task_limits=[0, 1, 2], rates=[[1, 2]] * 3)
    part = taking_part(three, [1, 2])
    assert_array_equal(fo.ThroughputShare().per_task(part), fo.ThroughputShare().per_task(three)[1:])


def test_max_min_throughput_gives_the_numbers_of_gavel():
    for objective in (fo.Leximin(fo.ThroughputShare()), fo.MaxMin(fo.ThroughputShare())):
        answer = fo.Policy(objective).allocate(GAVEL)
        assert_allclose((GAVEL.rates * answer.tasks_by_server).sum(axis=1), [30 / 17, 36 / 17, 36 / 17], rtol=1e-6)
        lie = GAVEL.replace(rates=[[3, 1.1, 1], [3, 2, 1], [3, 2, 1]])
        lied = fo.Policy(objective).allocate(lie).tasks_by_server
        assert_allclose((GAVEL.rates * lied).sum(axis=1)[0], 34 / 19, rtol=1e-6)


def test_shares_are_of_total_capacity_on_several_servers_counts_included():
    servers = fo.Instance([[1, 2]], [[4, 4], [8, 2]], counts=[2, 1])
    assert_allclose(fo.DominantShare().per_task(servers), [2 / 10], rtol=1e-15)
    assert_allclose(fo.KDominantShare(2).per_task(servers), [2 / 10 * 1 / 16], rtol=1e-15)


def test_per_server_demands_give_coefficients_by_user_and_server():
    demands = [[[1, 2], [2, 1]], [[3, 1], [1, 1]]]
    servers = fo.Instance(demands, [[10, 10], [10, 30]], resources=["cpu", "gpu"])
    assert_allclose(fo.DominantShare().per_task(servers), [[0.05, 0.1], [0.15, 0.05]], rtol=1e-15)
    assert_allclose(fo.KDominantShare(2).per_task(servers), [[0.0025, 0.0025], [0.00375, 0.00125]], rtol=1e-14)
    assert_allclose(fo.PNormShare(1).per_task(servers), [[0.1, 0.125], [0.175, 0.075]], rtol=1e-14)
    assert_allclose(fo.ResourceShare("gpu").per_task(servers), [[0.05, 0.025], [0.025, 0.025]], rtol=1e-15)
    assert_allclose(fo.KDominantShare(1, [[2], [3]]).per_task(servers), [[0.1, 0.2], [0.45, 0.15]], rtol=1e-15)


def test_a_coefficient_of_a_server_where_the_user_may_not_run_need_not_be_positive():
    demands = [[[1, 2], [0, 1]], [[3, 1], [1, 1]]]
    servers = fo.Instance(demands, [[10, 10], [10, 30]], eligible=[[1, 0], [1, 1]], resources=["cpu", "gpu"])
    assert fo.ResourceShare("cpu").coefficients(servers)[0, 0] == 0.05


# -- by definition, and invariant ------------------------------------------------------------------------------------


@given(pools(), st.integers(1, 4), st.sampled_from(["refuse", "positive"]))
def test_k_dominant_shares_follow_their_definition(instance, k, short):
    k = min(k, instance.n_resources)
    ratios = instance.demands / instance.total_capacities
    got = fo.KDominantShare(k, short=short).per_task(instance)
    assert_allclose(got, k_dominant(ratios, k, short), rtol=1e-12, atol=0)


@given(pools())
def test_one_dominant_share_is_the_dominant_share_and_so_is_the_infinite_norm(instance):
    assert_array_equal(fo.KDominantShare(1).per_task(instance), fo.DominantShare().per_task(instance))
    assert_array_equal(fo.PNormShare(math.inf).per_task(instance), fo.DominantShare().per_task(instance))


@given(pools(), st.floats(0.05, 50))
def test_p_norms_follow_their_definition(instance, p):
    ratios = instance.demands / instance.total_capacities
    expected = [sum(g**p for g in row if g > 0) ** (1 / p) for row in ratios.tolist()]
    assert_allclose(fo.PNormShare(p).per_task(instance), expected, rtol=1e-10)


@given(pools(zeros=False), st.floats(0.1, 20), st.floats(1.01, 3))
def test_a_p_norm_falls_as_p_grows(instance, p, factor):
    smaller, larger = (fo.PNormShare(q).per_task(instance) for q in (p, p * factor))
    assert (larger <= smaller * (1 + 1e-12)).all()


SHARES = [*strategies.shipped_shares(1), fo.KDominantShare(2, (1, 3), "positive"), fo.PNormShare(3)]
WITH_ELASTICITIES = [share for share in SHARES if type(share).elasticities is not fo.Share.elasticities]


@given(pools(), st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4))
def test_units_do_not_matter_to_any_share(instance, units):
    units = np.array(units[: instance.n_resources])
    other = fo.Instance(instance.demands * units, instance.capacities * units)
    for share in SHARES:
        if not (isinstance(share, fo.KDominantShare) and share.k > instance.n_resources):
            assert_allclose(share.per_task(other), share.per_task(instance), rtol=1e-11)


@given(pools(zeros=False), st.randoms(use_true_random=False))
def test_the_order_of_resources_does_not_matter(instance, random):
    order = list(range(instance.n_resources))
    random.shuffle(order)
    other = fo.Instance(instance.demands[:, order], instance.capacities[:, order])
    for share in [s for s in SHARES if not isinstance(s, fo.ResourceShare)]:
        if not (isinstance(share, fo.KDominantShare) and share.k > instance.n_resources):
            assert_allclose(share.per_task(other), share.per_task(instance), rtol=1e-12)


@pytest.mark.parametrize("share", WITH_ELASTICITIES, ids=str)
def test_elasticities_are_the_derivatives_of_the_logarithms_of_coefficients(share):
    given, by = fo.Instance([[2, 5, 3], [4, 1, 2]], [[9, 30, 8], [40, 7, 11]], counts=[1, 2]), 1e-6
    up, down = share.elasticities(given)
    assert_array_equal(up, down)  # no ties
    for s, i in np.ndindex(given.capacities.shape):
        more = given.capacities.copy()
        more[s, i] *= 1 + by
        change = np.log(share.per_task(given.with_capacities(more)) / share.per_task(given)) / by
        assert_allclose(-up[:, s, i], change, atol=1e-5)
    for i in range(given.n_resources):
        needs = given.demands * (1 + by * (np.arange(given.n_resources) == i))
        change = np.log(share.per_task(given.replace(demands=needs)) / share.per_task(given)) / by
        assert_allclose(up[:, :, i].sum(axis=1), change, atol=1e-5)


def test_at_a_tie_the_dominant_share_grows_with_each_ratio_and_shrinks_with_none():
    up, down = fo.DominantShare().elasticities(fo.Instance([[40, 8], [5, 5]], [200, 200]))
    assert up.tolist() == [[[1, 0]], [[1, 1]]] and down.tolist() == [[[1, 0]], [[0, 0]]]


# -- what is refused -------------------------------------------------------------------------------------------------


def test_a_user_without_the_resource_is_out_of_the_domain_of_its_share_where_users_are_levelled():
    with pytest.raises(fo.errors.OutOfDomain, match=r"'a'.*ResourceShare\('gpu'\).*choose another share"):
        fo.ResourceShare("gpu").coefficients(GAPS, levelled=True)
    assert fo.ResourceShare("gpu").coefficients(GAPS)[0] == 0


def test_a_user_of_fewer_than_k_resources_is_refused_with_its_name_and_the_fix():
    with pytest.raises(fo.errors.OutOfDomain, match=r"'a'.*k = 3.*short='positive'"):
        fo.KDominantShare(3).coefficients(GAPS, levelled=True)


def test_out_of_domain_shows_when_the_policy_is_solved():
    for policy in (
        fo.KDF(3),
        fo.Policy(fo.AlphaFair(2, fo.ResourceShare("gpu"))),
        fo.Policy(fo.MaxMin(fo.ResourceShare(1)) + fo.Total(fo.ResourceShare(1))),
        fo.Policy(fo.OrderedWeighted((2, 1), fo.ResourceShare(1))),
        fo.Policy(fo.FairnessEfficiency(2, -1, fo.ResourceShare(1))),
    ):
        with pytest.raises(fo.errors.OutOfDomain, match="'a'"):
            policy.allocate(GAPS)
        with pytest.raises(fo.errors.OutOfDomain, match="'a'"):
            policy.problem(GAPS)


def test_a_user_whose_limit_is_zero_may_be_outside_the_domain():
    tasks = fo.KDF(3).allocate(GAPS.with_task_limits({"a": 0})).tasks
    assert_allclose(tasks, [0, 5], rtol=1e-12)


def test_more_ranks_than_resources_are_refused_with_the_number_of_resources():
    with pytest.raises(fo.errors.OutOfDomain, match=r"KDominantShare\(4\).*k <= 3"):
        fo.KDominantShare(4).per_task(POOL)


@pytest.mark.parametrize("k", [0, -1, 1.0, 2.5, "2", None, True, math.nan])
def test_k_is_a_whole_number_from_1(k):
    with pytest.raises(fo.errors.InvalidBlock, match=r"k is .*give a whole number"):
        fo.KDominantShare(k)


@pytest.mark.parametrize(
    "weights",
    [(1,), (), (1, 0), (1, -2), (1, math.nan), (1, math.inf), "ab", 3, ((1, 2), (1,)), {"batch": (1,)}, {"batch": 3}],
)
def test_rank_weights_are_at_least_k_positive_numbers(weights):
    with pytest.raises(fo.errors.InvalidBlock, match="rank"):
        fo.KDominantShare(2, weights)


def test_rank_weights_for_another_number_of_users_are_refused_on_the_instance():
    with pytest.raises(fo.FairoptError, match=r"rank_weights.*\(3,\)"):
        fo.KDominantShare(1, [[1], [2], [3]]).per_task(POOL)


def test_rank_weights_of_an_unknown_user_are_refused_with_the_nearest():
    with pytest.raises(fo.FairoptError, match=r"rank_weights.*'wep'.*'web'"):
        fo.KDominantShare(1, {"wep": [1]}).per_task(POOL)


@pytest.mark.parametrize("short", ["", "x", None, 1])
def test_short_is_refuse_or_positive(short):
    with pytest.raises(fo.errors.InvalidBlock, match="'refuse' or 'positive'"):
        fo.KDominantShare(2, short=short)


@pytest.mark.parametrize("p", [-1, -1e-300, math.nan, -math.inf, "x", None, 1j])
def test_p_is_a_number_from_0(p):
    with pytest.raises(fo.errors.InvalidBlock, match=r"^p is .*give a number"):
        fo.PNormShare(p)


def test_an_unknown_resource_is_refused_with_the_nearest():
    with pytest.raises(fo.FairoptError, match=r"'cpuu'.*'cpu'"):
        fo.ResourceShare("cpuu").per_task(POOL)


@pytest.mark.parametrize("resource", [3, -1, 1.5, None])
def test_a_resource_that_is_no_index_is_refused(resource):
    with pytest.raises(fo.FairoptError, match="resource"):
        fo.ResourceShare(resource).per_task(POOL)


TAKE_SHARES = {
    "Total": fo.Total,
    "MaxMin": fo.MaxMin,
    "Leximin": fo.Leximin,
    "AlphaFair": lambda s: fo.AlphaFair(1, s),
    "OrderedWeighted": lambda s: fo.OrderedWeighted((1,), s),
    "EqualShares": fo.EqualShares,
    "FairnessEfficiency": lambda s: fo.FairnessEfficiency(2, -1, s),
    "MinShare": lambda s: fo.MinShare(0.1, s),
    "MaxShare": lambda s: fo.MaxShare(0.1, s),
}


@pytest.mark.parametrize("share", ["dominant", fo.Tasks], ids=["text", "class"])
@pytest.mark.parametrize("block", sorted(TAKE_SHARES))
def test_what_is_no_share_is_refused_where_a_share_belongs(block, share):
    with pytest.raises(fo.errors.InvalidBlock, match="share"):
        made = TAKE_SHARES[block](share)
        (fo.Policy(made) if isinstance(made, fo.Objective) else fo.Policy(fo.Total(), [made])).allocate(POOL)


# -- what a block is -------------------------------------------------------------------------------------------------

BLOCKS = [
    *SHARES,
    fo.KDominantShare(2),
    fo.KDominantShare(2, [[1, 2], [3, 4.5]]),
    fo.KDominantShare(1, {"a": [2], "b": [3]}),
    fo.KDominantShare(np.int64(2)),
    fo.ResourceShare("it's"),
    fo.ResourceShare(np.int64(1)),
    fo.ResourceShare(np.str_("cpu")),
    fo.PNormShare(np.float64(2.5)),
    fo.PNormShare(1 / 3),
    fo.Total(),
    fo.Total(fo.Tasks()),
    fo.MaxMin(fo.PNormShare(2)),
    fo.Leximin(),
    fo.Leximin(fo.KDominantShare(3)),
    fo.AlphaFair(1),
    fo.AlphaFair(1 / 3, fo.Tasks()),
    fo.AlphaFair(np.float32(0.5)),
    fo.AlphaFair(1e-20),
    fo.OrderedWeighted((1, 0.5, 1 / 3)),
    fo.OrderedWeighted(np.array([2.0, 1.0]), fo.Tasks()),
    fo.OrderedWeighted([1]),
    fo.FairnessEfficiency(2, -0.5),
    fo.FairnessEfficiency(0.5, 2, fo.Tasks()),
    fo.FairnessEfficiency(beta=1, lam=2),
    0.1 * fo.Total(),
    fo.Total() + fo.MaxMin(),
    fo.AlphaFair(1) + 0.1 * fo.Total(fo.Tasks()),
    1 * fo.Total(),
    0 * fo.Total(),
    2 * (fo.Total() + 1 / 3 * fo.MaxMin()),
    sum([fo.Total(), fo.MaxMin()]),
    fo.MaxMin().then(fo.Total()),
    (0.5 * fo.Total()).then(fo.Leximin()),
    fo.Total().then(fo.Total() + fo.MaxMin()),
    fo.MaxMin().then(fo.Total()).then(fo.Leximin(fo.Tasks())),
    fo.MaxMin().then(fo.Total().then(fo.Leximin())),
    fo.Total() >= 3,
    fo.Total() >= 1 / 3,
    fo.Total() >= -1e-20,
    fo.Total() + fo.MaxMin() >= 123456789.123456789,
    2 * fo.Total() >= 1,
    fo.AlphaFair(2) >= -1e15,
    fo.MinTasks(1),
    fo.MinTasks([1, 2.5]),
    fo.MinTasks({"b": 1, "a": 2 / 3}),
    fo.MinTasks({}),
    fo.MaxTasks(np.ones(2)),
    fo.MinShare(0.1),
    fo.MinShare((1,), fo.Tasks()),
    fo.MaxShare({"a": 0.5}, fo.PNormShare(1)),
    fo.SharingIncentive(),
    fo.EnvyFree(),
    fo.EqualShares(),
    fo.EqualShares(fo.Tasks()),
    fo.Reserve("cpu", 0.1),
    fo.Reserve(0, 1),
]


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_the_repr_of_a_block_can_be_pasted_back(block):
    assert eval(repr(block), {name: getattr(fo, name) for name in fo.__all__}) == block


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_a_block_compares_hashes_and_copies_by_content(block):
    for again in (copy.deepcopy(block), copy.copy(block), pickle.loads(pickle.dumps(block))):
        assert again == block
        assert hash(again) == hash(block)
        assert repr(again) == repr(block)


@pytest.mark.parametrize("block", BLOCKS, ids=repr)
def test_a_block_is_frozen(block):
    for name in [*(f.name for f in dataclasses.fields(block)), "something_new"]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(block, name, 3)


def test_blocks_of_different_content_or_kind_differ():
    names = {name: getattr(fo, name) for name in fo.__all__}
    for one, other in itertools.combinations(
        [eval(r, names) for r in sorted({repr(b) for b in SHARES} - {"PNormShare(inf)"})], 2
    ):
        assert one != other
    assert fo.AlphaFair(1) != fo.AlphaFair(2)
    assert fo.Total() != fo.MaxMin()
    assert fo.MinTasks({"a": 1}) != fo.MinTasks({"a": 2})
    assert fo.MinTasks(1) != fo.MaxTasks(1)


def test_numbers_of_any_kind_make_the_same_block():
    assert fo.AlphaFair(1) == fo.AlphaFair(1.0) == fo.AlphaFair(np.int64(1)) == fo.AlphaFair(np.float32(1))
    assert fo.KDominantShare(2) == fo.KDominantShare(np.int64(2))
    assert hash(fo.KDominantShare(2)) == hash(fo.KDominantShare(np.int64(2)))
    assert fo.MinTasks([1, 2]) == fo.MinTasks(np.array([1, 2])) == fo.MinTasks((1.0, 2.0))
    assert fo.MinTasks({"a": 1, "b": 2}) == fo.MinTasks({"b": 2.0, "a": 1.0})
    assert fo.OrderedWeighted([2, 1]) == fo.OrderedWeighted(np.array([2, 1]))


def test_a_block_holds_no_reference_to_what_it_was_given():
    levels = np.array([1.0, 2.0])
    block = fo.MinTasks(levels)
    levels[0] = 100.0
    assert block == fo.MinTasks([1, 2])


def test_a_changed_array_of_rank_weights_does_not_change_the_block():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    block = fo.KDominantShare(2, weights)
    weights[:] = 7.0
    assert block == fo.KDominantShare(2, [[1, 2], [3, 4]])


# -- a share of one's own --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    factor: float = 1.0

    def per_task(self, instance):
        return instance.ratios.mean(axis=-1) * self.factor


@pytest.mark.parametrize("solver", [None, "CLARABEL"])
def test_a_share_of_ones_own_works_in_leximin(solver):
    tasks = fo.Policy(fo.Leximin(MeanShare())).allocate(fo.Instance([[1, 0], [1, 1]], [2, 2]), solver=solver).tasks
    assert_allclose(tasks, [4 / 3, 2 / 3], rtol=1e-6)


def test_a_share_of_ones_own_works_in_alpha_fairness_and_constraints():
    instance = fo.Instance([[1, 0], [1, 1]], [2, 2])
    # one resource binds, x1 + x2 <= 2: alpha = 1 gives (1, 1) for every share
    assert_allclose(fo.Policy(fo.AlphaFair(1, MeanShare())).allocate(instance).tasks, [1, 1], rtol=1e-4)
    floor = fo.Policy(fo.Total(fo.Tasks()), [fo.MinShare([0, 0.9], MeanShare())]).allocate(instance)
    assert floor.share(MeanShare())[1] >= 0.9 * (1 - 1e-7)
    ceiling = fo.Policy(fo.Leximin(), [fo.MaxShare([0.1, 9], MeanShare())]).allocate(instance)
    assert_allclose(ceiling.tasks, [0.4, 1.6], rtol=1e-9)
    equal = fo.Policy(fo.Total(fo.Tasks()), [fo.EqualShares(MeanShare(2))]).allocate(instance)
    assert_allclose(equal.tasks, [4 / 3, 2 / 3], rtol=1e-6)


def test_a_share_of_ones_own_prints_its_parameters():
    assert repr(MeanShare()) == "MeanShare()"
    assert repr(MeanShare(2)) == "MeanShare(2)"


@dataclasses.dataclass(frozen=True, repr=False)
class Returns(fo.Share):
    what: tuple

    def per_task(self, instance):
        return np.array(self.what)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ((1.0,), r"Returns.*shape \(1,\).*\(2,\)"),
        ((1.0, math.nan), r"'web' nan.*finite"),
        ((1.0, -1.0), r"'web' -1"),
        ((math.inf, 1.0), r"'batch' inf"),
    ],
)
def test_a_share_of_ones_own_that_is_wrong_is_refused_with_place_value_and_fix(what, message):
    with pytest.raises(fo.errors.InvalidBlock, match=message):
        fo.Policy(fo.Leximin(Returns(what))).allocate(POOL)


def test_a_share_of_ones_own_with_a_zero_is_out_of_domain():
    with pytest.raises(fo.errors.OutOfDomain, match="'web'"):
        fo.Policy(fo.Leximin(Returns((1.0, 0.0)))).allocate(POOL)


def test_a_share_without_per_task_says_what_to_write():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Nothing(fo.Share):
        pass

    with pytest.raises(fo.errors.InvalidBlock, match="Nothing has no per_task"):
        fo.Policy(fo.Leximin(Nothing())).allocate(POOL)


def by_hand(self, k):
    object.__setattr__(self, "k", k)


def made(name, bases=(fo.Share,), kind=None, **held):
    """A class as written in a module, as a dataclass of this kind."""
    found = type(name, bases, {"per_task": lambda self, instance: instance.ratios.mean(axis=-1), **held})
    return found if kind is None else dataclasses.dataclass(**kind)(found)


FROZEN = {"frozen": True, "repr": False}
K = {"__annotations__": {"k": float}}
ONE = made("One", kind=FROZEN, **K)
NOT_FROZEN = [
    (
        made("Plain", __init__=by_hand),
        r"Plain is not a frozen dataclass.*above the class, `@dataclass\(frozen=True, "
        r"repr=False\)`, with its parameters as fields \(`k: float`\)",
    ),
    (made("Bare"), r"Bare is not a frozen dataclass.*add the lines `from dataclasses import dataclass` and"),
    (made("Soft", kind={}, **K), "Soft is a dataclass that is not frozen"),
    (made("Equal", kind={"frozen": True, "eq": False}, **K), "does not compare its fields"),
    (made("Hidden", kind=FROZEN, **K, k=dataclasses.field(compare=False)), "leaves its field 'k' out of comparisons"),
    (made("Unhashed", kind=FROZEN, **K, k=dataclasses.field(hash=False)), "leaves its field 'k' out of comparisons"),
    (made("Aside", kind=FROZEN, __annotations__={"m": float}, __init__=by_hand), "Aside.__init__ takes 'k', which is"),
    (made("More", (ONE,), __init__=lambda self, k, m: None), r"More is not a frozen dataclass.*`k: float`, `m: float`"),
    (made("Longer", (ONE,), __annotations__={"m": float}), "Longer is not a frozen dataclass"),
    (type("Held", (fo.BundleBase,), {}), "Held is not a frozen dataclass"),
    (type("Wanted", (fo.Objective,), {}), "Wanted is not a frozen dataclass"),
    (type("Asked", (fo.Constraint,), {"__init__": by_hand}), "Asked is not a frozen dataclass"),
]


@pytest.mark.parametrize("kind, says", NOT_FROZEN, ids=lambda case: getattr(case, "__name__", None))
def test_a_block_whose_fields_do_not_tell_it_apart_is_refused_when_it_is_made(kind, says):
    takes = 0 if kind.__init__ is object.__init__ else len(inspect.signature(kind.__init__).parameters) - 1
    with pytest.raises(fo.errors.InvalidBlock, match=says):
        kind(*[1.0] * takes)


def test_a_frozen_dataclass_and_what_only_overrides_its_methods_are_blocks():
    other = made("Other", (ONE,))
    mixed = made("Mixed", (type("Mixin", (), {"half": 0.5}), fo.Share), FROZEN, **K)
    for kind in (ONE, other, mixed):
        assert kind(2.0) == kind(2.0) != kind(3.0) and len({kind(2.0), kind(2.0), kind(3.0)}) == 2
        assert copy.deepcopy(kind(2.0)) == kind(2.0)
    assert other(2.0) != ONE(2.0) and repr(other(2.0)) == "Other(2)"
    assert fo.Policy(fo.Leximin(other(2.0))).allocate(POOL).certificate.ok


# -- asked once ------------------------------------------------------------------------------------------------------

ASKED = []


@dataclasses.dataclass(frozen=True, repr=False)
class Counted(fo.Share):
    """The dominant share, with a note of every question."""

    factor: float = 1.0

    def per_task(self, instance):
        ASKED.append(instance)
        return self.factor * instance.dominant_shares


SERVERS = fo.Instance(DEMANDS, [CAPACITIES, [100, 50, 70]])
ALIKE = fo.Instance(np.vstack([DEMANDS, DEMANDS]), [CAPACITIES, CAPACITIES, [100, 50, 70]], task_limits=[9, 0, 9, 9])


@pytest.mark.parametrize("instance", [POOL, SERVERS, ALIKE], ids=["pool", "servers", "merged, one idle"])
@pytest.mark.parametrize(
    "write",
    [
        lambda share: fo.Policy(fo.AlphaFair(1, share) + 0.1 * fo.Total(fo.Tasks()), [fo.EnvyFree()]),
        lambda share: fo.Policy(fo.AlphaFair(2, share)),
        lambda share: fo.Policy(fo.Leximin(share), [fo.MaxShare(1, share)]),
        lambda share: fo.Policy(fo.MaxMin(share), [fo.EnvyFree()]),
    ],
    ids=["own notion", "alpha", "leximin", "max-min"],
)
def test_a_share_is_asked_once_per_program(write, instance):
    ASKED.clear()
    write(Counted()).allocate(instance)
    assert len(ASKED) == 1 and ASKED[0] is instance


def test_every_allocation_asks_a_share_of_ones_own_again():
    policy = fo.Policy(fo.MaxMin(Counted()), [fo.EnvyFree()])
    ASKED.clear()
    for asked in (1, 2, 3):
        policy.allocate(SERVERS)
        assert len(ASKED) == asked


def test_tiers_ask_a_share_of_ones_own_once():
    share = Counted()
    ASKED.clear()
    fo.Policy(fo.MaxMin(share).then(fo.Total(share))).allocate(SERVERS)
    assert len(ASKED) == 1


class Numbers(list):
    """Numbers that comparing does not see."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


@dataclasses.dataclass(frozen=True, repr=False)
class Table(fo.Share):
    values: Numbers

    def per_task(self, instance):
        return np.array(self.values)


def test_shares_that_compare_equal_are_told_apart():
    one, other = Table(Numbers([1.0, 2.0])), Table(Numbers([4.0, 1.0]))
    a = fo.Policy(fo.MaxMin(one), [fo.MaxShare(3, other)]).allocate(POOL)
    assert_array_equal(a.share(one), np.array(one.values) * a.tasks)
    assert a.share(other).max() <= 3 * (1 + 1e-9)
    twice = fo.Policy(fo.MaxMin(one), [fo.MaxShare(3, Table(other.values))]).allocate(POOL)
    assert_array_equal(twice.tasks, a.tasks)


def test_what_a_share_says_may_change_between_allocations():
    share = Table(Numbers([1.0, 2.0]))
    before = fo.Policy(fo.MaxMin(share)).allocate(POOL)
    share.values[:] = 2.0, 1.0
    after = fo.Policy(fo.MaxMin(share)).allocate(POOL)
    assert_array_equal(before.share(share), np.array([2.0, 1.0]) * before.tasks)
    assert after.tasks[1] > before.tasks[1]


def test_coefficients_may_be_changed_in_place():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Relative(fo.Share):
        of: fo.Share

        def per_task(self, instance):
            c = self.of.coefficients(instance)
            c /= c.max()
            return c

    share = Relative(fo.KDominantShare(2))
    a = fo.Policy(fo.MaxMin(share), [fo.MaxShare(1.0, share.of)]).allocate(POOL)
    assert_allclose(a.share(share), a.share(share.of) / share.of.coefficients(POOL).max())


def test_instances_made_of_another_are_asked_for_themselves():
    share = fo.PNormShare(1)
    with coefficients_cached():
        share.coefficients(SERVERS)
        for other in (
            SERVERS.with_capacities([CAPACITIES, CAPACITIES]),
            server_window(SERVERS, slice(1, 2)),
            SERVERS.pooled(),
            SERVERS.select_users([1]),
            window(SERVERS, slice(1, 2)),
            taking_part(SERVERS, [1]),
            SERVERS.merged(),
        ):
            c = share.coefficients(other)
            assert_array_equal(c, share.per_task(other))
            assert_array_equal(share.coefficients(other), c)


def test_windows_are_not_held_by_what_is_asked_once():
    class ByRow(Counted):
        by_row = True

    share = ByRow()
    ASKED.clear()
    with coefficients_cached():
        for _ in range(3):
            share.coefficients(window(POOL, slice(0, 1)))
    assert len(ASKED) == 3


def test_each_thread_asks_for_itself():
    policy = fo.Policy(fo.AlphaFair(2, Counted()), [fo.EnvyFree()])
    ASKED.clear()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: policy.allocate(SERVERS).tasks, range(8)))
    assert len(ASKED) == 8 and all((tasks == found[0]).all() for tasks in found)


def test_a_product_of_ratios_outside_the_range_of_floats_is_refused() -> None:
    tiny, huge = fo.Instance([[1e-60] * 3], [1e60] * 3), fo.Instance([[1e60] * 3], [1e-60] * 3)
    with pytest.raises(
        fo.errors.OutOfDomain, match=r"user 'user1' has KDominantShare\(2\) of 1e-240 per task, outside"
    ):
        fo.KDF(2).allocate(tiny)
    with pytest.raises(
        fo.errors.OutOfDomain, match=r"a zero KDominantShare\(3\): its product of ratios is outside the"
    ):
        fo.KDF(3).allocate(tiny)
    with pytest.raises(
        fo.errors.OutOfDomain, match=r"user 'user1' has KDominantShare\(3\) of inf per task, outside the"
    ):
        fo.KDF(3).allocate(huge)
    with pytest.raises(fo.errors.OutOfDomain, match="demands fewer than k = 2 resources"):
        fo.KDF(2).allocate(fo.Instance([[1, 0]], [1, 1]))


def test_the_checker_and_the_strategies_know_every_shipped_share():
    shipped = {
        name for name in fo.__all__ if isinstance(kind := getattr(fo, name), type) and issubclass(kind, fo.Share)
    }
    shipped -= {"Share", "OfTeam", "Surplus"}  # they are made of the others
    assert {*checker_policy.SHARES} == shipped == {type(share).__name__ for share in SHARES}
    assert [share for share in SHARES if not share.states_exactly] == []


# -- exact formulas --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class GeometricMeanShare(fo.Share):
    """The geometric mean of positive ratios, of a user who knows only the documentation."""

    by_row = True

    def per_task(self, instance):
        ratios = instance.ratios
        return np.exp(np.where(ratios > 0, np.log(np.where(ratios > 0, ratios, 1.0)), 0.0).sum(axis=-1) / 2)

    def exact_per_task(self, instance, width=None):
        if width is None:
            raise fo.errors.OutOfDomain("square roots")
        digits = 10 ** (len(str(int(1 / width))) + 200)

        def root(x):
            low = math.isqrt(x.numerator * digits**2 // x.denominator)
            return Fraction(low, digits), Fraction(low + 1, digits)

        rows = instance.in_fractions.ratios
        products = [math.prod((r for r in row if r), start=Fraction(1)) for row in rows.reshape(-1, rows.shape[-1])]
        out = np.empty(len(products), dtype=object)
        out[:] = [root(product) for product in products]
        return out.reshape(rows.shape[:-1])


@given(
    instances(n_servers=(1, 2), by_server=True, weights=True, limits=True, fractions=True, rates=True, teams=True),
    st.integers(5, 60),
)
def test_floats_exact_formulas_and_the_checker_agree_on_every_share(instance, digits):
    data = instance.to_dict()
    read = {name: in_fractions(data[name], {}) for name in NUMBERS if data.get(name) is not None}
    nothing = [[0] * instance.n_servers] * instance.n_users
    file, width = CheckerCluster({"instance": data | read, "tasks_by_server": nothing}), Fraction(1, 10**digits)
    for share in [*SHARES, GeometricMeanShare()]:
        if isinstance(share, fo.KDominantShare) and share.k > instance.n_resources:
            continue
        floats, exact = share.coefficients(instance), share.enclosed(instance, width)
        ours = type(share) is not GeometricMeanShare
        theirs = file.coefficients(checker_policy.block(repr(share), exactly=True)) if ours else None
        for j, s in np.argwhere(instance.eligible).tolist():
            low, high = exact[j][s]
            assert 0 <= high - low <= width * low
            assert float(low) == pytest.approx(floats[j] if floats.ndim == 1 else floats[j, s], rel=1e-12)
            if theirs is not None:
                least, most = (Fraction(*table[j][s].as_integer_ratio()) for table in theirs)
                assert (least, most) == (low, high) if low == high else max(least, low) <= min(most, high)


def test_an_exact_formula_is_not_inherited_by_other_coefficients():
    @dataclasses.dataclass(frozen=True, repr=False)
    class Half(GeometricMeanShare):
        def per_task(self, instance):
            return super().per_task(instance) / 2

    assert not Half().states_exactly
    with pytest.raises(fo.errors.OutOfDomain, match=r"Half\(\) states no exact formula; write Half\.exact_per_task"):
        Half().enclosed(POOL)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (lambda n: [Fraction(1)] * n, "is 0.2 by per_task, and 1 by exact_per_task"),
        (lambda n: [Fraction(1)] * (n + 1), "another shape"),
        (lambda n: [0.2] * n, "holds 0.2; give a Fraction"),
        (lambda n: [(Fraction(2, 10), Fraction(1, 10))] * n, "an interval that is wrong or too long"),
        (lambda n: [(Fraction(1, 10), Fraction(9, 10))] * n, "an interval that is wrong or too long"),
        (lambda n: [-Fraction(1, 5)] * n, "an interval that is wrong"),
    ],
)
def test_wrong_exact_formulas_are_refused(found, message):
    @dataclasses.dataclass(frozen=True, repr=False)
    class Wrong(fo.Share):
        def per_task(self, instance):
            return np.full(instance.n_users, 0.2)

        def exact_per_task(self, instance, width=None):
            return found(instance.n_users)

    with pytest.raises(fo.errors.InvalidBlock, match=message):
        Wrong().enclosed(POOL, Fraction(1, 10**9))


def test_fractions_that_were_given_are_those_of_exact_formulas():
    third = Fraction(1, 3)
    instance = fo.Instance([[third, 1]], [1, 8])
    assert fo.KDominantShare(2, (Fraction(1, 7), 1)).enclosed(instance)[0][0] == (third / 56, third / 56)
    assert fo.PNormShare(2).enclosed(fo.Instance([[third, 0]], [1, 1])) == [[(third, third)]]
    with pytest.raises(fo.errors.OutOfDomain, match=r"PNormShare\(2\) has roots as coefficients"):
        fo.PNormShare(2).enclosed(instance)
