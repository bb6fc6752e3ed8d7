"""Allocations: what is derived, prices against re-solved optima, metrics by definition, files, and how they print."""

import dataclasses
import json
import math
import re
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fairopt as fo
from fairopt.allocation import feasibility
from fairopt.report.tables import price_title

TWO = fo.Instance(
    [[40, 8, 8], [8, 5, 1]], [200, 200, 200], users=["batch", "web"], resources=["bandwidth", "memory", "cpu"]
)
SERVERS = fo.Instance(
    [[1, 2, 0], [2, 1, 1], [0, 3, 1]],
    [[20, 10, 8], [9, 30, 12], [6, 6, 6]],
    weights=[1, 2, 0.5],
    counts=[1, 2, 3],
    task_limits=[None, None, 9],
    eligible=[[1, 1, 0], [1, 1, 1], [0, 1, 1]],
    users=["a", "b", "c"],
    resources=["x", "y", "z"],
    servers=["s", "t", "u"],
)
BY_SERVER = fo.Instance([[[1, 2], [2, 1]], [[3, 1], [1, 4]]], [[10, 10], [20, 15]])
INSTANCES = {
    "pool": TWO,
    "servers": SERVERS,
    "by server": BY_SERVER,
    "one idle": SERVERS.with_task_limits([None, 0, 3]),
}
POLICIES = {
    "DRF": fo.DRF(),
    "FDS(1)": fo.FDS(1),
    "FDS(2)": fo.FDS(2),
    "most": fo.MostTasks(),
    "max-min": fo.Policy(fo.MaxMin()),
    "gini": fo.Policy(fo.OrderedWeighted((3, 1, 0.5))),
    "FDS(1/2)": fo.FDS(0.5),
    "FDS(2,-2)": fo.FDS(beta=2, lam=-2),
    "sum": fo.Policy(fo.AlphaFair(2) + fo.Total()),
}


def allocated(instance="pool", policy="DRF"):
    return POLICIES[policy].allocate(INSTANCES[instance])


# -- what is derived -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["DRF", "FDS(2)", "most"])
@pytest.mark.parametrize("instance", sorted(INSTANCES))
def test_what_is_derived_follows_from_tasks_by_server(instance, policy):
    a = allocated(instance, policy)
    data, x = a.instance, a.tasks_by_server
    n, servers, m = data.n_users, data.n_servers, data.n_resources
    assert x.shape == (n, servers)
    assert_allclose(a.tasks, x.sum(axis=1), rtol=1e-15)
    bundles = np.array(
        [[[data.per_server_demands[j, s, i] * x[j, s] for i in range(m)] for s in range(servers)] for j in range(n)]
    )
    assert_allclose(a.bundles, bundles, rtol=1e-14)
    assert_allclose(a.usage, bundles.sum(axis=0), rtol=1e-12, atol=1e-300)
    capacity = data.capacities * data.counts[:, None]
    assert_allclose(a.leftover, np.maximum(capacity - bundles.sum(axis=0), 0), atol=1e-9 * capacity.max())
    assert (a.leftover >= 0).all()
    mu = (data.per_server_demands / capacity.sum(axis=0)).max(axis=2)
    assert_allclose(a.share(fo.DominantShare()), (mu * x).sum(axis=1), rtol=1e-12)
    assert_array_equal(a.share(fo.Tasks()), a.tasks)
    assert a.prices.shape == (servers, m)
    assert (a.prices >= 0).all()


def test_usage_of_the_first_example():
    a = allocated()
    assert_allclose(a.tasks, [2.5, 12.5], rtol=1e-12)
    assert_allclose(a.usage, [[200, 82.5, 32.5]], rtol=1e-12)
    assert_allclose(a.leftover, [[0, 117.5, 167.5]], rtol=1e-12, atol=1e-10)
    assert_allclose(a.bundles[:, 0], [[100, 20, 20], [100, 62.5, 12.5]], rtol=1e-12)
    assert_allclose(a.shares, [0.5, 0.5], rtol=1e-12)
    assert a.objective == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(
    ("objective", "share"),
    [
        (fo.Leximin(fo.KDominantShare(2)), fo.KDominantShare(2)),
        (fo.Total(fo.Tasks()), fo.Tasks()),
        (fo.AlphaFair(1, fo.PNormShare(2)) + fo.Total(fo.Tasks()), fo.PNormShare(2)),
        (fo.MaxMin(fo.Tasks()).then(fo.Total()), fo.Tasks()),
        (fo.Leximin(), fo.DominantShare()),
    ],
    ids=repr,
)
def test_shares_are_those_of_the_objectives_first_share(objective, share):
    a = fo.Policy(objective).allocate(TWO)
    assert_array_equal(a.shares, a.share(share))


def test_the_share_of_who_takes_no_part_is_zero_whatever_the_block_says():
    a = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1]], [2, 2], task_limits=[0, None]))
    assert_allclose(a.share(fo.ResourceShare(1)), [0, 1], rtol=1e-12)


def test_a_user_without_the_resource_has_none_of_its_share():
    answer = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1]], [2, 2]))
    assert_allclose(answer.share(fo.ResourceShare(1)), [0, 0.5])


def test_an_allocation_is_frozen():
    a = allocated()
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.objective = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.certificate.gap = 0.0


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("instance", ["pool", "servers"])
def test_the_objective_is_the_natural_value_at_the_tasks(instance, policy):
    from fairopt.blocks.model import Point

    a = allocated(instance, policy)
    assert a.objective == pytest.approx(
        POLICIES[policy].objective.value(Point(a.instance, a.tasks_by_server)), rel=1e-12
    )


# -- prices ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False)
class Fixed(fo.Share):
    """Coefficients that do not move with the capacities: prices are of capacity, not of what a share means."""

    numbers: tuple

    def per_task(self, instance):
        return np.array(self.numbers)


def fixed(objective, instance):
    """The same objective with the shares that it has on this instance."""
    if isinstance(objective, (fo.Leximin, fo.MaxMin)):
        objective = fo.MaxMin(objective.share)
    if not hasattr(objective, "share"):
        parts = [(c, fixed(t, instance)) for c, t in objective.summands()]
        return sum(c * t for c, t in parts)
    return dataclasses.replace(objective, share=Fixed(tuple(objective.share.coefficients(instance).tolist())))


def slope(policy, instance, s, i, h=1e-4):
    """Derivative of the optimum by the capacity of a whole server row, both sides: (from below, from above)."""
    held = fo.Policy(fixed(policy.objective, instance), policy.constraints)
    values = []
    for step in (-h, 0, h):
        capacities = np.array(instance.capacities)
        capacities[s, i] *= 1 + step
        values.append(held.allocate(instance.with_capacities(capacities)).objective)
    run = h * instance.capacities[s, i] * instance.counts[s]
    return (values[1] - values[0]) / run, (values[2] - values[1]) / run


PRICED = ["DRF", "FDS(1)", "FDS(2)", "most", "gini", "FDS(1/2)", "sum"]


@pytest.mark.parametrize("policy", PRICED)
@pytest.mark.parametrize("instance", ["pool", "servers"])
def test_prices_are_the_derivative_of_the_objective_by_capacity(instance, policy):
    data = INSTANCES[instance]
    a = allocated(instance, policy)
    worth = abs(a.objective) / data.total_capacities
    for s in range(data.n_servers):
        for i in range(data.n_resources):
            below, above = slope(POLICIES[policy], data, s, i)
            # concave: the price lies between the slopes on either side, which differ where the optimum has a kink
            room = 1e-3 * max(abs(below), abs(above)) + 1e-4 * worth[i]
            assert above - room <= a.prices[s, i] <= below + room, (s, i, below, above)


def test_prices_by_hand():
    assert_allclose(allocated().prices, [[0.5 / 200, 0, 0]], rtol=1e-9, atol=1e-15)
    # one resource, log s1 + log s2: each earns its income of 1, so that the pool of 4 costs 2
    assert_allclose(fo.FDS(1).allocate(fo.Instance([[2], [1]], [4])).prices, [[0.5]], rtol=1e-6)
    assert_allclose(fo.MostTasks().allocate(TWO).prices, [[1 / 8, 0, 0]], rtol=1e-6, atol=1e-9)


def test_prices_are_per_unit_of_capacity_whoever_counts_it():
    counted = fo.FDS(1).allocate(fo.Instance([[2], [1]], [[4]], counts=[5]))
    whole = fo.FDS(1).allocate(fo.Instance([[2], [1]], [20]))
    apart = fo.FDS(1).allocate(fo.Instance([[2], [1]], [[4]] * 5))
    assert_allclose(counted.prices, whole.prices, rtol=1e-6)
    assert_allclose(apart.prices, np.repeat(whole.prices, 5, axis=0), rtol=1e-6)


def test_where_limits_decide_nothing_is_scarce():
    a = fo.DRF().allocate(TWO.with_task_limits(1))
    assert_array_equal(a.prices, np.zeros((1, 3)))


# -- metrics -------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(st.sampled_from(sorted(INSTANCES)), st.sampled_from(["DRF", "FDS(2)", "most"]))
def test_metrics_by_definition(instance, policy):
    a = allocated(instance, policy)
    data, numbers = a.instance, a.metrics()
    assert set(numbers) >= {"ntt", "aur", "jain", "smallest_dominant_share", "utilisation"}
    assert numbers["ntt"] == pytest.approx(a.tasks.sum(), rel=1e-14)
    total = (data.capacities * data.counts[:, None]).sum(axis=0)
    used = a.bundles.sum(axis=(0, 1))
    assert numbers["aur"] == pytest.approx((total - used).sum(), rel=1e-9, abs=1e-9)
    more = a.tasks < data.task_limits * (1 - 1e-6)
    part = more if more.any() else data.task_limits > 0
    u = (a.share(fo.DominantShare()) / data.weights)[part]
    assert numbers["jain"] == pytest.approx(u.sum() ** 2 / (len(u) * (u**2).sum()), rel=1e-12)
    assert numbers["smallest_dominant_share"] == pytest.approx(u.min(), rel=1e-12, abs=1e-15)
    assert numbers["utilisation"] == pytest.approx(dict(zip(data.resources, used / total, strict=True)), rel=1e-12)
    assert numbers["utilisation_of_tasks"] == numbers["utilisation"]
    assert json.loads(json.dumps(numbers)) == numbers


def test_metrics_by_hand():
    numbers = allocated().metrics()
    assert numbers == {
        "ntt": 15,
        "aur": 285,
        "jain": pytest.approx(1, rel=1e-15),
        "smallest_dominant_share": 0.5,
        "wanting_more": 2,
        "utilisation": pytest.approx({"bandwidth": 1, "memory": 0.4125, "cpu": 0.1625}, rel=1e-12),
        "utilisation_of_tasks": pytest.approx({"bandwidth": 1, "memory": 0.4125, "cpu": 0.1625}, rel=1e-12),
    }
    assert allocated(policy="most").metrics()["jain"] == pytest.approx(0.5, rel=1e-6)


def test_measures_ignore_users_who_have_all_they_ask_for():
    limited = fo.Instance([[1], [1], [1]], [10], task_limits=[0.1, None, None])
    answer = fo.DRF().allocate(limited)
    numbers = answer.metrics()
    assert (numbers["smallest_dominant_share"], numbers["wanting_more"]) == (pytest.approx(0.495), 2)
    assert numbers["jain"] == pytest.approx(1)
    assert answer.wanting_more.tolist() == [False, True, True]
    all_done = fo.DRF().allocate(limited.with_task_limits([1, 2, 3])).metrics()
    assert (all_done["smallest_dominant_share"], all_done["wanting_more"]) == (pytest.approx(0.1), 0)


def test_prices_shown_are_those_of_the_lowest_level_that_capacities_determine():
    answer = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1], [0, 1]], [10, 12], task_limits=[2, None, None]))
    assert not answer.prices.any()
    level = answer.binding_level
    assert (level.level, level.users) == (pytest.approx(6 / 11), ("user2", "user3"))
    assert [p.tolist() for p in answer._shown_prices] == [level.prices.tolist(), level.prices_left.tolist()]
    unlimited = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1]], [10, 12]))
    assert unlimited._shown_prices[0] is unlimited.prices
    assert fo.DRF().allocate(fo.Instance([[1]], [10], task_limits=[2])).binding_level is None
    assert fo.MostTasks().allocate(fo.Instance([[1]], [10])).binding_level is None


def test_a_title_says_of_which_level_prices_are():
    second = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1], [0, 1]], [10, 12], task_limits=[2, None, None]))
    assert price_title(second) == "prices of the lowest level that capacities determine (0.5455, of 2 users)"
    for limits in (None, [2, 2]):  # of the first level, or of none
        first = fo.DRF().allocate(fo.Instance([[1, 0], [1, 1]], [10, 12], task_limits=limits))
        assert price_title(first) == "prices of the first level"


def test_a_resource_without_capacity_is_not_in_use():
    a = fo.DRF().allocate(fo.Instance([[1, 0]], [4, 0], resources=["cpu", "gpu"]))
    used = a.metrics()["utilisation"]
    assert used["cpu"] == 1 and np.isnan(used["gpu"])  # a part of nothing
    assert a.metrics()["aur"] == 0


def bundled(instance=SERVERS, tasks=((2, 1, 0), (1, 3, 2), (0, 1, 1)), factor=1.25):
    """An allocation of a mechanism that decides bundles: users hold more of each resource than their tasks use."""
    x = np.array(tasks, dtype=float)
    held = factor * instance.per_server_demands * x[:, :, None]
    certificate = fo.Certificate(0.0, 0.0, "closed")
    return fo.Allocation(instance, "by hand", x, certificate, 0.0, given_bundles=held)


def test_tasks_use_less_than_users_hold_where_bundles_are_decided():
    a = bundled()
    by_hand = np.zeros((3, 3))
    for j in range(3):
        for s in range(3):
            by_hand[s] += SERVERS.demands[j] * a.tasks_by_server[j, s]
    assert_allclose(a.task_usage, by_hand, rtol=1e-15)
    assert_allclose(a.usage, 1.25 * by_hand, rtol=1e-15)
    assert_allclose(a.leftover, SERVERS.capacities * SERVERS.counts[:, None] - 1.25 * by_hand, rtol=1e-14)
    numbers = a.metrics()
    total = SERVERS.total_capacities
    by_tasks = dict(zip("xyz", by_hand.sum(axis=0) / total, strict=True))
    assert numbers["utilisation_of_tasks"] == pytest.approx(by_tasks, rel=1e-14)
    assert numbers["utilisation"] == pytest.approx({r: 1.25 * u for r, u in by_tasks.items()}, rel=1e-14)


@pytest.mark.parametrize("instance", sorted(INSTANCES))
def test_tasks_use_what_users_hold_where_no_bundles_are_decided(instance):
    a = allocated(instance)
    assert a.task_usage is a.usage
    assert_allclose(a.task_usage, a.bundles.sum(axis=0), rtol=1e-12, atol=1e-300)


def test_types_of_servers_change_no_allocation():
    typed = SERVERS.replace(server_types=["T4", "A10", "T4"])
    for name in ("DRF", "FDS(2)", "most"):
        a, b = POLICIES[name].allocate(typed), allocated("servers", name)
        assert_allclose(a.tasks_by_server, b.tasks_by_server, rtol=1e-12, atol=1e-12)


def test_metrics_of_nobody():
    numbers = fo.DRF().allocate(fo.Instance([], [3, 4])).metrics()
    assert numbers["ntt"] == 0
    assert numbers["aur"] == 7
    assert np.isfinite([numbers["jain"], numbers["smallest_dominant_share"]]).all()


# -- frames ----------------------------------------------------------------------------------------------------------


def test_a_frame_has_a_row_by_user_with_labels():
    a = allocated("servers")
    frame = a.to_frame()
    assert list(frame.index) == ["a", "b", "c"]
    assert frame.index.name == "user"
    assert list(frame.columns) == [
        "weight",
        "task limit",
        "tasks",
        "share",
        "dominant share",
        "x",
        "y",
        "z",
        "share of x",
        "share of y",
        "share of z",
    ]
    assert_array_equal(frame["weight"], [1, 2, 0.5])
    assert_array_equal(frame["task limit"], [math.inf, math.inf, 9])
    assert_array_equal(frame["tasks"], a.tasks)
    assert_array_equal(frame["share"], a.shares)
    assert_allclose(frame[["x", "y", "z"]], a.bundles.sum(axis=1), rtol=1e-14)


@pytest.mark.parametrize("resource", ["tasks", "share", "weight"])
def test_a_resource_named_like_a_column_hides_none(resource):
    frame = fo.DRF().allocate(fo.Instance([[2, 1]], [4, 8], resources=[resource, "cpu"])).to_frame()
    assert len(frame.columns) == 9
    assert frame["cpu"].tolist() == [2]
    assert frame[f"{resource} (resource)"].tolist() == [4]


def test_a_frame_by_user_has_the_weights_that_were_given():
    given = {"weights": {"a": 3, "vision": 8}, "teams": {"team": ["vision", "vision"]}, "users": ["a", "b"]}
    a = fo.DRF().allocate(fo.Instance([[1, 2], [2, 1]], [8, 8], **given))
    assert a.instance.weights.tolist() == [6, 2]  # the team's, divided
    assert a.to_frame()["weight"].to_dict() == {"a": 3, "b": 1}
    assert a.to_frame("team")["weight"].to_dict() == {"vision": 8}


@pytest.mark.parametrize("label", ["user", "weight", "task limit", "guarantee", "tasks", "share", "dominant share"])
def test_a_label_named_like_a_column_hides_none(label):
    teams = {label: ["p", "q"], f"{label} (label)": ["r", None]}
    plain = fo.Instance([[2, 1], [1, 1]], [8, 8], guarantees=[1, 0])
    wanted, named = (fo.DRF().allocate(i).to_frame() for i in (plain, plain.replace(teams=teams)))
    assert named.index.equals(wanted.index) and named[list(wanted)].equals(wanted)
    assert list(named)[:2] == [f"{label} (label)", f"{label} (label) (label)"]
    assert named[f"{label} (label)"].tolist() == ["p", "q"]


@pytest.mark.parametrize("label", ["users", "weight", "dominant share"])
def test_a_frame_by_a_label_named_like_a_column_has_teams_as_rows(label):
    frame = fo.DRF().allocate(fo.Instance([[2, 1], [1, 1]], [8, 8], teams={label: ["p", "q"]})).to_frame(label)
    assert list(frame.index) == ["p", "q"] and frame["users"].tolist() == [1, 1]


def test_without_pandas_a_frame_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pandas.*pip install 'fairopt\[parquet\]'$"):
        allocated().to_frame()


@pytest.mark.parametrize("verb", ["save", "load"])
def test_without_pyarrow_parquet_says_what_to_install(monkeypatch, tmp_path, verb):
    path = allocated().save(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"pyarrow.*pip install 'fairopt\[parquet\]'$"):
        allocated().save(path) if verb == "save" else fo.Allocation.load(path)


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch):
    for name in [m for m in sys.modules if m == "matplotlib" or m.startswith("matplotlib.")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(fo.errors.MissingExtra, match=r"matplotlib.*pip install 'fairopt\[plots\]'$"):
        allocated().plot()


def test_a_plot_is_drawn_on_the_axes_given():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, ax = pyplot.subplots()
    assert allocated().plot(ax=ax) is ax
    pyplot.close(figure)


# -- files -----------------------------------------------------------------------------------------------------------

ENDINGS = pytest.mark.parametrize("ending", [".json", ".parquet"])


ROUNDED = 16 * np.finfo(float).eps  # sums over the few users and servers here


def same_metrics(a, b):
    first, second = a.metrics(), b.metrics()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert second[name] == pytest.approx(value, rel=ROUNDED, abs=ROUNDED * a.instance.capacities.max())


def same(a, b):
    assert b.instance == a.instance
    assert b.policy == a.policy
    assert b.policy.name == a.policy.name
    # gap and value are computed again from the tasks, and prices per unit of capacity: their last digits may differ
    assert b.certificate.gap == pytest.approx(a.certificate.gap, abs=1e-14)
    assert dataclasses.replace(b.certificate, gap=a.certificate.gap) == a.certificate
    assert b.objective == pytest.approx(a.objective, rel=1e-14)
    for name in ("tasks_by_server", "tasks", "prices"):
        assert_array_equal(getattr(b, name), getattr(a, name))
    for name in ("bundles", "usage", "leftover", "shares"):  # added up again
        assert_allclose(getattr(b, name), getattr(a, name), rtol=ROUNDED, atol=ROUNDED * a.instance.capacities.max())
    same_metrics(a, b)
    for shown in (repr, fo.Allocation._repr_html_):
        here, there = (re.sub(r"gap [\d.e+-]+", "gap", shown(one)) for one in (a, b))
        assert here == there


@pytest.mark.fast_methods
@pytest.mark.parametrize(
    ("instance", "policy", "ending"),
    [
        (("pool", "servers", "by server", "one idle")[(k + 2 * i) % 4], policy, (".json", ".parquet")[(k + i) % 2])
        for k, policy in enumerate(sorted(POLICIES))
        for i in (0, 1)
    ],
)
def test_what_is_saved_is_loaded_alike(tmp_path, instance, policy, ending):
    a = allocated(instance, policy)
    path = a.save(tmp_path / f"a{ending}")
    same(a, fo.Allocation.load(path))
    same(a, fo.Allocation.load(str(path)))


@ENDINGS
def test_bundles_and_types_of_servers_are_saved_and_loaded(tmp_path, ending):
    a = bundled(SERVERS.replace(server_types=["T4", "A10", "T4"]))
    b = fo.Allocation.load(a.save(tmp_path / f"a{ending}"))
    assert_array_equal(b.given_bundles, a.given_bundles)
    assert b.instance == a.instance and b.instance.server_types == ("T4", "A10", "T4")
    same_metrics(a, b)
    assert_allclose(b.task_usage, a.task_usage, rtol=ROUNDED)


@pytest.mark.parametrize("policy", [fo.MLFDRS(), fo.HFFMRA(), fo.HFFMRA(units="raw")], ids=repr)
def test_bundles_of_a_policy_are_saved_and_loaded(tmp_path, policy):
    for instance in (BY_SERVER, TWO.with_task_limits([0, 3]), TWO.select_users([False, False])):
        a = policy.allocate(instance)
        b = fo.Allocation.load(a.save(tmp_path / "a.json"))
        assert_array_equal(b.bundles, a.bundles)
        assert_array_equal(b.tasks_by_server, a.tasks_by_server)
        assert b.policy == policy
    a = policy.allocate(BY_SERVER)
    fewer = fo.Allocation(BY_SERVER, policy, a.tasks_by_server / 2, a.certificate, a.objective, given_bundles=a.bundles)
    with pytest.raises(fo.errors.InvalidInstance, match="bundles have room for more tasks"):
        fo.Allocation.load(fewer.save(tmp_path / "fewer.json"))


SMALL_AND_LARGE = fo.Instance([[1, 1], [1, 0]], [[1, 1], [1e6, 1e9]], eligible=[[1, 1], [0, 1]])


def small_and_large(change):
    held = np.array([[[1.0, 1.0], [5e5, 5e5]], [[0.0, 0.0], [5e5, 0.0]]])
    change(held)
    x = np.array([[0.5, 1.0], [0.0, 1.0]])
    return fo.Allocation(SMALL_AND_LARGE, "by hand", x, fo.Certificate(0.0, 0.0, "closed"), 0.0, given_bundles=held)


def held_at(j, s, i, units):
    return lambda held: held.__setitem__((j, s, i), units)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (held_at(0, 0, 0, 1.1), "bundles exceed a capacity.* by 0.1 of it"),  # 1e-10 of the largest capacity
        (held_at(0, 0, 1, 1 + 1e-8), "bundles exceed a capacity.* by 1e-08 of it"),
        (held_at(1, 1, 0, 6e5), "bundles exceed a capacity.* by 0.1 of it"),
        (held_at(1, 0, 1, 1e-9), "bundles exceed .*eligibility by inf"),  # it may not run there
        (held_at(0, 1, 1, -1.0), "bundles exceed .* by inf"),
        (held_at(0, 1, 1, math.nan), "bundles exceed .* by inf"),
        (held_at(0, 0, 0, 0.4), "tasks need more than their bundles"),
        (held_at(1, 1, 0, 0.0), "tasks need more than their bundles"),
    ],
)
def test_bundles_are_measured_against_each_capacity_when_loaded(tmp_path, change, words):
    fo.Allocation.load(small_and_large(lambda held: None).save(tmp_path / "a.json"))
    with pytest.raises(fo.errors.InvalidInstance, match=rf"(?s)a\.json.*{words}.*changed after it was saved"):
        fo.Allocation.load(small_and_large(change).save(tmp_path / "a.json"))


def test_bundles_of_a_resource_that_a_server_lacks_are_refused(tmp_path):
    instance = fo.Instance([[1, 0]], [[4, 0], [4, 4]])
    held = np.array([[[1.0, 1e-300], [1.0, 0.0]]])
    proof = fo.Certificate(0.0, 0.0, "closed")
    a = fo.Allocation(instance, "by hand", np.array([[1.0, 1.0]]), proof, 0.0, given_bundles=held)
    with pytest.raises(fo.errors.InvalidInstance, match="bundles exceed"):
        fo.Allocation.load(a.save(tmp_path / "a.json"))


@ENDINGS
def test_nobody_is_saved_and_loaded(tmp_path, ending):
    for instance in (fo.Instance([], [3, 4]), fo.Instance(np.zeros((0, 2)), [[3, 4], [1, 2]]), TWO.with_task_limits(0)):
        a = fo.DRF().allocate(instance)
        same(a, fo.Allocation.load(a.save(tmp_path / f"a{ending}")))


@ENDINGS
def test_labels_of_any_kind_are_saved_and_loaded(tmp_path, ending):
    odd = fo.Instance([[1], [1], [1]], [3], users=['a"b', "ü <b>\n", "3"], resources=["'"])
    a = fo.Policy(fo.Leximin(), [fo.MinTasks({'a"b': 0.5, "ü <b>\n": 0.25})], name='it\'s "mine"').allocate(odd)
    same(a, fo.Allocation.load(a.save(tmp_path / f"a{ending}")))


def test_saving_many_users_takes_less_memory_than_their_file(tmp_path):
    users = [f"department {j % 7}, user number {j}" for j in range(20_000)]
    a = fo.DRF().allocate(fo.Instance([[1 / 3, 2 / 3]] * len(users), [1e4, 1e4], users=users))
    a.save(tmp_path / "a.json")
    tracemalloc.start()
    try:
        path = a.save(tmp_path / "a.json")
        assert tracemalloc.get_traced_memory()[1] < path.stat().st_size
    finally:
        tracemalloc.stop()


def test_a_saved_file_is_strict_json(tmp_path):
    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    for instance in INSTANCES:
        for policy in ("DRF", "FDS(2)", "most"):
            path = allocated(instance, policy).save(tmp_path / "a.json")
            json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_a_policy_of_foreign_blocks_is_loaded_as_text_and_not_certified(tmp_path):
    a = fo.Policy(fo.Leximin(Fixed((1.0, 2.0)))).allocate(TWO)
    b = fo.Allocation.load(a.save(tmp_path / "a.json"))
    assert b.policy == repr(a.policy)
    assert not b.certificate.ok and "only the text of its policy" in b.certificate.note
    assert_array_equal(b.tasks, a.tasks)
    assert "Fixed" in repr(b)
    same_metrics(a, b)


def as_first_format(data):
    data["format"] = "fairopt.allocation/1"
    del data["evidence"], data["certificate"]["assumed"]


@pytest.mark.parametrize(
    ("instance", "policy"),
    [
        (("pool", "servers", "by server", "one idle")[(k + i + 1) % 4], policy)
        for k, policy in enumerate(sorted(POLICIES))
        for i in (0, 2)
    ],
)
def test_a_file_of_the_first_format_is_loaded_and_certified(tmp_path, instance, policy):
    a = allocated(instance, policy)
    b = fo.Allocation.load(changed(tmp_path, as_first_format, source=a))
    assert_array_equal(b.tasks_by_server, a.tasks_by_server)
    assert b.certificate.ok and b.certificate.method == a.certificate.method


@pytest.mark.parametrize("change", [as_first_format, lambda data: None], ids=["first format", "today's"])
def test_what_a_file_claims_of_a_wrong_answer_is_not_believed(tmp_path, change):
    """Levels (0.2933, 0.1667) under a certificate that says gap 0, where leximin is (0.2, 0.1667)."""
    instance = fo.Instance([[1, 1e-10], [2, 5]], [[6, 6], [4, 3]], weights=[3, 2], eligible=[[1, 1], [0, 1]])
    right = fo.DRF().allocate(instance)
    wrong = dataclasses.replace(right, tasks_by_server=np.array([[6.0, 2.8], [0.0, 0.6 * (1 - 1e-10)]]))
    b = fo.Allocation.load(changed(tmp_path, change, source=wrong))
    assert_array_equal(b.tasks_by_server, wrong.tasks_by_server)
    assert not b.certificate.ok and b.certificate.gap >= 0.3


def test_objectives_near_zero_are_compared_in_what_they_can_fall_by(tmp_path):
    a = fo.FDS(1).allocate(fo.Instance([[13, 29]], [32, 27]))  # the logarithm of 1, but for rounding
    assert abs(a.objective) < 1e-12
    for value in (a.objective, 0.0, -a.objective):
        assert fo.Allocation.load(changed(tmp_path, put(value, "objective"), source=a)).certificate.ok
    with pytest.raises(fo.errors.InvalidInstance, match="changed after it was saved"):
        fo.Allocation.load(changed(tmp_path, put(1e-5, "objective"), source=a))


def changed(tmp_path, change, ending=".json", source=None):
    """A saved allocation, changed as Python data, and written again."""
    path = (source or allocated("servers", "FDS(2)")).save(tmp_path / "a.json")
    data = json.loads(path.read_text(encoding="utf-8"))
    replaced = change(data)
    data = data if replaced is None else replaced
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def put(value, *keys):
    def change(data):
        for key in keys[:-1]:
            data = data[key]
        data[keys[-1]] = value

    return change


def drop(*keys):
    def change(data):
        for key in keys[:-1]:
            data = data[key]
        del data[keys[-1]]

    return change


TAMPERED = {
    "another format": put("fairopt.allocation/99", "format"),
    "no format": drop("format"),
    "no instance": drop("instance"),
    "no policy": drop("policy"),
    "no objective": drop("objective"),
    "no certificate": drop("certificate"),
    "no tasks": drop("tasks_by_server"),
    "no prices": drop("prices"),
    "no gap": drop("certificate", "gap"),
    "gap is text": put("small", "certificate", "gap"),
    "gap is null": put(None, "certificate", "gap"),
    "gap is a list": put([0], "certificate", "gap"),
    "violation is text": put("none", "certificate", "violation"),
    "method is a number": put(3, "certificate", "method"),
    "certificate is a list": put([1], "certificate"),
    "certificate has more": put(1, "certificate", "more"),
    "tried is a number": put(3, "certificate", "tried"),
    "tried holds text": put(["x"], "certificate", "tried"),
    "tasks are text": put("many", "tasks_by_server"),
    "tasks are of another shape": put([[1, 2]], "tasks_by_server"),
    "tasks are transposed": lambda d: put([[t] for row in d["tasks_by_server"] for t in row], "tasks_by_server")(d),
    "tasks are null": put(None, "tasks_by_server"),
    "a task is text": put("x", "tasks_by_server", 0, 0),
    "tasks are negative": put(-1.0, "tasks_by_server", 1, 2),
    "tasks are too many": put(1e6, "tasks_by_server", 0, 0),
    "tasks where one may not run": put(0.01, "tasks_by_server", 0, 2),
    "tasks are NaN": put(math.nan, "tasks_by_server", 0, 0),
    "a demand is larger": put(100.0, "instance", "demands", 0, 0),
    "a demand is negative": put(-1, "instance", "demands", 0, 0),
    "a capacity is smaller": put(0.5, "instance", "capacities", 0, 1),
    "a limit is smaller": put([0.1, 0.1, 0.1], "instance", "task_limits"),
    "labels are twice": put(["a", "a", "c"], "instance", "users"),
    "the instance has more": put(1, "instance", "more"),
    "the instance is a list": put([1], "instance"),
    "the instance is text": put("x", "instance"),
    "prices are text": put("x", "prices"),
    "prices are of another shape": put([[1.0]], "prices"),
    "bundles are of another shape": put([[[1.0]]], "bundles"),
    "bundles exceed the capacity": put((np.ones((3, 3, 3)) * 1e6).tolist(), "bundles"),
    "objective is text": put("x", "objective"),
    "objective is null": put(None, "objective"),
    "all is a list": lambda d: [d],
    "all is empty": lambda d: {},
    "all is a number": lambda d: 3,
    "all is text": lambda d: "x",
}


@pytest.mark.parametrize("what", sorted(TAMPERED))
def test_a_file_that_was_tampered_with_is_refused_by_name(tmp_path, what):
    path = changed(tmp_path, TAMPERED[what])
    with pytest.raises(fo.errors.InvalidInstance, match=r"a\.json"):
        fo.Allocation.load(path)


CONTRADICTIONS = {
    "half of the tasks": lambda d: put((np.array(d["tasks_by_server"]) / 2).tolist(), "tasks_by_server")(d),
    "another objective": put(-0.001, "objective"),
    "another policy": put("Policy(Total(Tasks()))", "policy"),
}


@pytest.mark.parametrize("what", sorted(CONTRADICTIONS))
def test_a_file_whose_objective_contradicts_its_tasks_is_refused(tmp_path, what):
    with pytest.raises(fo.errors.InvalidInstance, match=r"a\.json"):
        fo.Allocation.load(changed(tmp_path, CONTRADICTIONS[what]))


@ENDINGS
@pytest.mark.parametrize("part", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_by_name(tmp_path, ending, part):
    path = allocated().save(tmp_path / f"a{ending}")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(fo.errors.InvalidInstance, match=rf"a\{ending}"):
        fo.Allocation.load(path)


@ENDINGS
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"hello",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b"PAR1",
        b"[" * 100_000,
        b"1e999",
        b'{"format": 3}',
    ],
    ids=lambda content: repr(content[:12]),
)
def test_a_foreign_file_is_refused_by_name(tmp_path, content, ending):
    path = tmp_path / f"a{ending}"
    path.write_bytes(content)
    with pytest.raises(fo.errors.InvalidInstance, match=rf"a\{ending}"):
        fo.Allocation.load(path)


def test_a_foreign_parquet_table_is_refused_by_name(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for table in (
        {"a": [1, 2]},
        {"part": ["x"], "json": [None]},
        {"part": [None], "json": ["{}"]},
        {"part": [], "json": []},
    ):
        parquet.write_table(arrow.table(table), tmp_path / "a.parquet")
        with pytest.raises(fo.errors.InvalidInstance, match=r"a\.parquet"):
            fo.Allocation.load(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["missing.json", "missing.parquet", "."])
def test_a_file_that_is_not_there_is_refused_by_name(tmp_path, name):
    with pytest.raises(fo.errors.InvalidInstance, match=r"missing|cannot be read"):
        fo.Allocation.load(tmp_path / name)


def test_nothing_in_a_file_is_executed(tmp_path):
    mark = tmp_path / "mark"
    for code in (f"__import__('os').system('touch {mark}')", f"Policy(open('{mark}', 'w'))", "Total().__class__"):
        a = fo.Allocation.load(changed(tmp_path, put(code, "policy")))
        assert a.policy == code
        assert not mark.exists()


@pytest.mark.parametrize(
    "text",
    [
        "MaxMin().then()",
        "Total() + 1",
        "1 + 'a'",
        "Tasks() + 3",
        "(1,) * 10000000",
        "a" + ".a" * 900 + "()",
        "Total(" * 5000,
        "",
        "drf",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_any_text_may_stand_for_the_policy(tmp_path, text):
    a = allocated()
    b = fo.Allocation.load(changed(tmp_path, put(text, "policy"), source=a))
    assert b.policy == text
    assert_array_equal(b.tasks, a.tasks)


# -- certificates ----------------------------------------------------------------------------------------------------


def certificate(**changes):
    return fo.Certificate(**{"gap": 0.0, "violation": 0.0, "method": "cone", **changes})


@pytest.mark.parametrize(
    ("numbers", "ok"),
    [
        ({}, True),
        ({"gap": 1e-6}, True),
        ({"gap": 1.01e-6}, False),
        ({"gap": math.inf}, False),
        ({"gap": math.nan}, False),
        ({"violation": 1e-9}, True),
        ({"violation": 1.01e-9}, False),
        ({"violation": math.nan}, False),
        ({"violation": math.inf}, False),
        ({"block_violation": 1e-7}, True),
        ({"block_violation": 1.01e-7}, False),
        ({"block_violation": math.nan}, False),
        ({"gap": 1e-6, "violation": 1e-9, "block_violation": 1e-7}, True),
        ({"gap": np.float64(0)}, True),
    ],
)
def test_a_certificate_is_ok_within_the_tolerances_of_the_design(numbers, ok):
    assert certificate(**numbers).ok is ok


def test_a_certificate_prints_its_verdict_and_evidence():
    one = certificate(gap=1.5e-9, violation=2e-12, solver="SCS", seconds=0.25)
    assert str(one) == "certified: gap 1.5e-09, violation 2.0e-12, by cone (SCS) in 0.250 s"
    failed = [fo.certificate.Try(solver, "solver_error", 0.1) for solver in ("CLARABEL", "CLARABEL", "ECOS", "SCS")]
    after = certificate(solver="SCS", tried=tuple(failed))
    assert "by cone (SCS, a first-order method, after CLARABEL and ECOS) in" in str(after)
    assert "by cone (ECOS) in" in str(certificate(solver="ECOS", tried=tuple(failed)))
    assert str(certificate(gap=0.1)).startswith("NOT certified: gap 1.0e-01")
    assert "by water-filling in" in str(certificate(method="water-filling"))


def test_a_try_prints_what_happened():
    text = str(fo.certificate.Try("SCS", "optimal", 0.5, gap=1e-3, violation=1e-4, message="slow"))
    assert text == "SCS: optimal, gap 1.0e-03, violation 1.0e-04, slow (0.50 s)"
    assert str(fo.certificate.Try("ECOS", "solver_error", 1)) == "ECOS: solver_error (1.00 s)"


@pytest.mark.fast_methods
def test_a_certificate_says_which_route_and_solver_and_what_was_tried():
    c = fo.FDS(2).allocate(TWO, method="cone").certificate
    assert c.method == "cone"
    assert c.tried[-1].solver == c.solver
    assert c.seconds >= c.tried[-1].seconds > 0
    assert allocated().certificate.solver is None


def test_tiers_have_a_gap_each():
    c = fo.Policy(fo.MaxMin().then(fo.Total(fo.Tasks())).then(fo.AlphaFair(1))).allocate(TWO).certificate
    assert len(c.gaps) == 3
    assert c.gap == max(c.gaps)


@pytest.mark.parametrize(
    ("tasks", "violation"),
    [
        ([[2.5], [12.5]], 0),
        ([[5.0], [0.0]], 0),
        ([[5.5], [0.0]], 0.1),
        ([[0.0], [50.0]], 1.0),
        ([[-1.0], [0.0]], 1.0),
        ([[math.nan], [0.0]], math.inf),
        ([[math.inf], [0.0]], math.inf),
    ],
)
def test_feasibility_is_measured_on_the_data(tasks, violation):
    assert feasibility(TWO, np.array(tasks)) == pytest.approx(violation, rel=1e-9, abs=1e-12)


def test_feasibility_measures_limits_eligibility_and_counts():
    assert feasibility(TWO.with_task_limits([2, None]), np.array([[3.0], [0.0]])) == pytest.approx(0.5)
    assert feasibility(TWO.with_task_limits([0, None]), np.array([[1e-12], [0.0]])) == math.inf
    assert feasibility(SERVERS, np.array([[0, 0, 1.0], [0, 0, 0], [0, 0, 0]])) > 0.1
    assert feasibility(fo.Instance([[1]], [[4]], counts=[3]), np.array([[12.0]])) == 0


# -- for people ------------------------------------------------------------------------------------------------------


def test_the_repr_says_who_what_and_how_sure():
    text = repr(allocated())
    assert text.startswith(
        "<Allocation by DRF of Instance(2 users x 3 resources on 1 server): tasks [ 2.5 12.5]; certified:"
    )


def test_the_repr_of_many_users_is_short():
    many = fo.DRF().allocate(
        fo.Instance(np.ones((5000, 2)), [10, 10], users=[f"user {'x' * 50} {j}" for j in range(5000)])
    )
    assert len(repr(many)) < 400
    assert len(many._repr_html_()) < 6000
    assert "user (20 of 5000)" in many._repr_html_()


NASTY = "<b>&\"'<script>alert(1)</script>"


def test_labels_are_escaped_in_notebooks():
    instance = fo.Instance([[1], [1]], [2], users=[NASTY, "plain"], resources=[NASTY + "r"], servers=[NASTY + "s"])
    page = fo.Policy(fo.Leximin(), name=NASTY).allocate(instance)._repr_html_()
    assert "<script>" not in page
    assert '<b>&"' not in page
    assert page.count("&lt;script&gt;") >= 3


def test_a_policy_without_name_is_escaped_in_notebooks():
    instance = fo.Instance([[1], [1]], [2], users=["<i>", "b"])
    page = fo.Policy(fo.Leximin(), [fo.MaxTasks({"<i>": 1})]).allocate(instance)._repr_html_()
    assert "<i>" not in page
    assert "&lt;i&gt;" in page


def test_the_notebook_view_tells_tasks_shares_use_and_certificate():
    page = allocated()._repr_html_()
    for word in ("DRF", "batch", "web", "2.500", "12.500", "bandwidth", "100.0%", "41.2%", "certified"):
        assert word in page


def test_the_notebook_view_tells_what_tasks_use_of_what_is_held():
    page = bundled()._repr_html_()
    assert ">x</th>" in page and ">x, by tasks</th>" in page
    assert "by tasks" not in allocated("servers")._repr_html_()


@pytest.mark.parametrize("name", ["a.xyz", "a", "a.csv"])
def test_a_file_name_must_say_which_format_it_is(tmp_path, name):
    a = fo.DRF().allocate(fo.Instance([[1]], [1]))
    with pytest.raises(fo.errors.InvalidInstance, match=r"\.json or \.parquet"):
        a.save(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("given", [None, "cpu", fo.Tasks])
def test_a_share_that_is_none_is_refused(given):
    with pytest.raises(fo.errors.InvalidBlock, match="give a share, such as DominantShare"):
        allocated().share(given)
