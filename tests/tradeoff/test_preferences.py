"""Preferences: the measure in 50 digits, thresholds of the published question, generated people, and wrong answers."""

import functools
import itertools
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import inside

import fairopt as fo
from fairopt.blocks.model import Point
from fairopt.blocks.powers import log_fairness, log_total
from fairopt.runtime.clock import Clock
from fairopt.tradeoff import preferences as prefer

# Question 2 of Joe-Wong et al. (2013), Fig. 17
CLUSTER = fo.Instance([[1, 4], [3, 1]], [108, 180], users=["A", "B"], resources=["CPU", "storage"])
OPTIONS = {1: (24, 28), 2: (12, 32), 3: (36, 24), 4: (45, 0), 5: (27, 27)}
CONSENSUS = [3, 5, 1, 2, 4]
BETAS = [b for b in np.linspace(-5, 5, 41).tolist() if b != 0]
LAMS = np.linspace(-2, 2, 41)
GRID: dict[str, Any] = {"betas": BETAS, "lams": LAMS}
POINTS = [(b, lam) for b in BETAS for lam in LAMS.tolist() if b != 1 or lam]  # at (1, 0) all options are tied
ABC = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}
ALONG = ["even", "more", "starved"]
FAMILIES: list[Any] = ["gfj", "fds", "pnorm:p=2"]


def log_measure(shares: Any, weights: Any, beta: float, lam: float) -> Decimal:
    """Logarithm of the measure without its sign, in 50 digits, from the definition."""
    with localcontext() as context:
        context.prec = 50
        s, w, b = [Decimal(float(x)) for x in shares], [Decimal(float(x)) for x in weights], Decimal(beta)
        total = sum(s)
        levels = [x / (y * total) for x, y in zip(s, w, strict=True)]
        if b > 1 and min(levels) == 0:
            return Decimal("Infinity")
        terms = [y * (z ** (1 - b) if z > 0 else Decimal(b == 1)) for y, z in zip(w, levels, strict=True)]
        return sum(terms).ln() / b + Decimal(float(lam)) * total.ln()


def goodness(shares: Any, weights: Any, beta: float, lam: float) -> Decimal:
    """A number that grows with the measure."""
    logarithm = log_measure(shares, weights, beta, lam)
    return logarithm if beta <= 1 else -logarithm


def by_far(a: Decimal, b: Decimal) -> bool:
    return b.is_infinite() or a > b + Decimal("1e-8") * (1 + abs(b))


share_rows = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(
            st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=n, max_size=n).filter(any), min_size=2, max_size=3
        ),
        st.lists(st.floats(0.1, 10), min_size=n, max_size=n),
    )
)
a_beta = st.sampled_from([-1e4, -5.0, -1.0, -1e-9, 1e-9, 0.5, 1.0, 1 + 1e-9, 2.0, 30.0]) | st.integers(
    -900, 900
).filter(bool).map(lambda k: k / 100)

a_lam = st.integers(-300, 300).map(lambda k: k / 100)


@given(share_rows, a_beta)
@settings(max_examples=10)
def test_logarithms_are_within_their_error_of_the_measure_in_50_digits(rows: Any, beta: float) -> None:
    shares, weights = np.array(rows[0]), np.array(rows[1])
    fairness, about = log_fairness(shares, weights, beta)
    total, about_total = log_total(shares)
    for k, row in enumerate(shares):
        exact = log_measure(row, weights, beta, 0.0)
        if exact.is_infinite():
            assert fairness[k] == np.inf
        else:
            assert abs(Decimal(fairness[k]) - exact) <= Decimal(about[k]) + Decimal("1e-15") * (beta == 1) * (
                1 + abs(exact)
            )
            assert about[k] < 1e-9 * (1 + abs(fairness[k]))
        assert abs(Decimal(total[k]) - (log_measure(row, weights, 1.0, 1.0) - log_measure(row, weights, 1.0, 0.0))) <= (
            Decimal(about_total[k])
        )


@given(share_rows, a_beta, a_lam)
@settings(max_examples=10)
def test_compatible_means_strictly_better_in_50_digits(rows: Any, beta: float, lam: float) -> None:
    options, weights = np.array(rows[0]), np.array(rows[1])
    instance = fo.Instance(np.full((len(weights), 1), 1e-9), [1], weights=weights)
    values_of = [goodness(row, weights, beta, lam) for row in options]
    for order in itertools.permutations(range(len(options))):
        found = prefer.compatible(options, order, "gfj", betas=[beta], lams=[lam], instance=instance)[0, 0]
        values = [values_of[i] for i in order]
        if found:
            assert all(a > b for a, b in itertools.pairwise(values))
        else:
            assert not all(a > b and by_far(a, b) for a, b in itertools.pairwise(values))


@given(share_rows, a_beta, a_lam)
@settings(max_examples=8)
def test_the_interval_holds_exactly_the_compatible_emphases(rows: Any, beta: float, lam: float) -> None:
    options, n = rows[0], len(rows[0])
    lower, upper = prefer.intervals(options, range(n), "gfj", betas=[beta])
    ends = [x * (1 + 1e-6 * s) for x in (lower[0], upper[0]) if np.isfinite(x) for s in (-1, 1)]
    for at in [lam, *ends]:
        found = prefer.compatible(options, range(n), "gfj", betas=[beta], lams=[at])[0, 0]
        assert found == (lower[0] < at < upper[0])


def test_inside_the_plane_the_measure_is_that_of_the_objective() -> None:
    instance = fo.Instance([[1, 4], [3, 1]], [108, 180], weights=[2, 1])
    for tasks, (beta, lam) in itertools.product(OPTIONS.values(), [(2, -0.25), (-1, 1), (0.5, 0.2), (3, -2), (1, 1)]):
        block = fo.FairnessEfficiency(beta, lam)
        value = block.value(Point(instance, np.array(tasks, dtype=float)[:, None]))
        shares = np.array([tasks]) * instance.dominant_shares
        log = log_fairness(shares, instance.weights, beta)[0][0] + lam * log_total(shares)[0][0]
        assert value == pytest.approx(np.exp(log) if beta <= 1 else -np.exp(log), rel=1e-12)


def test_near_beta_zero_fairness_is_the_entropy() -> None:
    shares = np.array([[3.0, 1.0, 0.0]])
    entropy = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    for beta in (1e-14, -1e-14, 1e-300):
        assert log_fairness(shares, np.ones(3), beta)[0] == pytest.approx(entropy, rel=1e-12)


# -- the published question -----------------------------------------------------------------------------------------


def threshold(ranking: list[int], family: Any, beta: float) -> list[float]:
    lower, upper = prefer.intervals(OPTIONS, ranking, family, betas=[beta], instance=CLUSTER)
    return [round(float(lower[0]), 4), round(float(upper[0]), 4)]


def test_the_published_options_fit_and_add_up() -> None:
    found = prefer.Survey(OPTIONS, {"ann": CONSENSUS}, "gfj", instance=CLUSTER, **GRID)
    assert found.tasks.sum(axis=1).tolist() == [52, 44, 60, 45, 54]
    assert found.users == ("A", "B")


def test_thresholds_of_the_consensus_under_gfj() -> None:
    assert threshold(CONSENSUS, "gfj", 2) == [-np.inf, -0.1937]
    assert threshold([5, 3, 1, 2, 4], "gfj", 2) == [-0.1937, -0.1219]
    assert threshold(CONSENSUS, "gfj", -1) == [0.3723, 22.4863]
    at_one = prefer.intervals(OPTIONS, CONSENSUS, "gfj", betas=[1])  # 45 tasks are more than 44
    assert np.isnan(at_one).all()


def test_fds_with_a_nonnegative_emphasis_gives_the_consensus_and_nothing_else() -> None:
    found = prefer.compatible(OPTIONS, CONSENSUS, "fds", instance=CLUSTER, **GRID)
    beta, lam = np.meshgrid(BETAS, LAMS, indexing="ij")
    emphasis = np.where(beta <= 1, lam, -lam)
    assert found[(emphasis >= 0) & (beta != 1)].all()
    assert (found[beta == 1] == (lam[beta == 1] > 0)).all()


def test_fds_does_put_option_5_above_3_where_the_emphasis_is_negative() -> None:
    assert threshold(CONSENSUS, "fds", 2) == [-np.inf, 0.0249]
    assert threshold([5, 3, 1, 2, 4], "fds", 2) == [0.0249, 0.1208]
    found = prefer.compatible(OPTIONS, CONSENSUS, "fds", instance=CLUSTER, **GRID)
    assert 0 < found.mean() < 1  # so not all points of the grid are compatible with the consensus
    assert not prefer.compatible(OPTIONS, CONSENSUS, "fds", betas=[2], lams=[2], instance=CLUSTER).any()


@pytest.mark.parametrize("family", [fo.FDS, functools.partial(fo.PNormFairness, np.inf), fo.FairnessEfficiency, "FDS"])
def test_a_family_may_be_any_function_of_beta_and_lam(family: Any) -> None:
    assert threshold([5, 3, 1, 2, 4], family, 2) == [0.0249, 0.1208]


# -- ties, weights, scale -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "betas", "lams"),
    [
        ([(24, 28), (28, 24)], BETAS, LAMS),
        ([(1 / 3, 0.1), (1.0, 0.3)], BETAS, [0.0]),
        ([(4, 0), (9, 0)], [1.5, 2, 50], LAMS),
        ([(4, 2), (9, 5)], [1.0], [0.0]),
    ],
)
def test_ties_are_compatible_with_no_strict_ranking(options: Any, betas: Any, lams: Any) -> None:
    for ranking in ([0, 1], [1, 0]):
        assert not prefer.compatible(options, ranking, "gfj", betas=betas, lams=lams).any()


def test_without_ties_each_point_is_compatible_with_one_ranking() -> None:
    people = {str(order): order for order in itertools.permutations(OPTIONS)}
    found = prefer.Survey(OPTIONS, people, "fds", instance=CLUSTER, betas=[-2, 0.5, 3], lams=[-0.7, 0.3])
    assert (found.counts == 1).all()
    assert len(found.rankings) == 120


@given(share_rows, a_beta, st.floats(1e-3, 1e3))
@settings(max_examples=10)
def test_options_of_another_scale_have_the_same_intervals(rows: Any, beta: float, factor: float) -> None:
    one, other = (
        np.nan_to_num(prefer.intervals(np.array(rows[0]) * f, range(len(rows[0])), "gfj", betas=[beta]), nan=7.0)
        for f in (1, factor)
    )
    held = np.isfinite(one) & (np.abs(one) < 1e4)
    assert np.allclose(one[held], other[held], rtol=1e-6, atol=1e-9)


def test_weights_count_and_users_who_may_not_run_do_not() -> None:
    options = [(6, 3, 0), (3, 6, 0)]
    cluster = fo.Instance([[1], [1], [1]], [9], weights=[2, 1, 5], task_limits=[9, 9, 0])
    found = prefer.compatible(options, [0, 1], "gfj", betas=BETAS, lams=[0], instance=cluster)[:, 0]
    assert found.tolist() == [b != 1 for b in BETAS]  # in proportion to the weights


def test_options_are_arrays_or_dicts_and_users_are_joined_by_label() -> None:
    expected = prefer.compatible(OPTIONS, CONSENSUS, "fds", instance=CLUSTER, **GRID)
    by_user = {f"option {k}": {"B": b, "A": a} for k, (a, b) in OPTIONS.items()}
    words = [f"option {k}" for k in CONSENSUS]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(by_user).T
    forms: list[tuple[Any, list[Any]]] = [
        (np.array([*OPTIONS.values()]), [2, 4, 0, 1, 3]),
        (pandas.DataFrame([*OPTIONS.values()]), [2, 4, 0, 1, 3]),
        ([*by_user.values()], [2, 4, 0, 1, 3]),
        ([frame.loc[f"option {k}"] for k in OPTIONS], [2, 4, 0, 1, 3]),
        (by_user, words),
        (dict(frame.iterrows()), words),
    ]
    for options, ranking in forms:
        assert (prefer.compatible(options, ranking, "fds", instance=CLUSTER, **GRID) == expected).all()
    with pytest.raises(fo.errors.InvalidInstance, match="options is a DataFrame with labels"):
        prefer.compatible(frame, words, "fds", instance=CLUSTER, **GRID)
    backwards = {"x": {"A": 1, "B": 2}, "y": {"B": 1, "A": 3}}
    assert prefer.Survey(backwards, {"ann": ["x", "y"]}, "gfj", **GRID).tasks.tolist() == [[1, 2], [3, 1]]


def test_on_several_servers_options_must_fit_behind_the_walls() -> None:
    walls = fo.Instance([[2, 1], [1, 2]], [[4, 0.5], [0.5, 4]], users=["a", "b"])
    with pytest.raises(fo.errors.InvalidInstance, match="option '1' does not fit on the servers"):
        prefer.compatible([(0.5, 0.1), (1, 1)], [0, 1], "gfj", betas=[2], lams=[0], instance=walls)
    one = prefer.compatible([(0.2, 0.2), (0.4, 0.1)], [0, 1], "fds", betas=[2], lams=[0], instance=walls)
    assert one.all()


# -- many people ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_parameters_of_generated_people_are_recovered(family: str) -> None:
    parameters = np.random.default_rng(0).choice(POINTS, 100)
    rankings = prefer.respondents(OPTIONS, family, parameters, instance=CLUSTER)
    found = prefer.Survey(OPTIONS, rankings, family, instance=CLUSTER, **GRID)
    assert found.explained.all()
    for p, (beta, lam) in enumerate(parameters.tolist()):
        wrong = found.wrong[p]
        assert wrong[BETAS.index(beta), np.flatnonzero(np.equal(LAMS, lam))[0]] == 0
        if p < 5:
            again = prefer.compatible(OPTIONS, rankings[f"person{p + 1}"], family, instance=CLUSTER, **GRID)
            assert ((wrong == 0) == again).all()
    assert found.counts.sum() == (found.wrong == 0).sum()


def test_six_questions_leave_less_of_the_grid_than_one_unless_they_differ_in_scale_only() -> None:
    people = np.random.default_rng(0).choice(POINTS, 100)
    rng, cluster = np.random.default_rng(1), CLUSTER.demands / CLUSTER.total_capacities
    scaled: dict[str, Any] = {}
    different: dict[str, Any] = {}
    for q, factor in enumerate((1, 0.5, 1 / 3, 2, 0.25, 1.5)):
        options = rng.uniform(0, 1, (5, 2))
        options /= (options @ cluster).max(axis=1)[:, None]  # each fills a resource
        by_factor = {k: (a * factor, b * factor) for k, (a, b) in OPTIONS.items()}
        for kept, shown in ((scaled, by_factor), (different, options)):
            kept[str(q)] = prefer.Survey(shown, prefer.respondents(shown, "gfj", people), "gfj", **GRID)
    left = {}
    for name, surveys in (("scaled", scaled), ("different", different)):
        found = prefer.consistency(surveys)
        left[name] = np.mean([points for _, points in found.values()]) / (len(BETAS) * len(LAMS))
        assert all(points >= 1 for _, points in found.values())  # the person's own
    assert {tau for tau, _ in prefer.consistency(scaled).values()} == {1.0}
    assert left == pytest.approx({"scaled": 0.199, "different": 0.0224}, rel=0.01)  # as the guide says


def test_best_points_have_the_fewest_pairs_in_the_wrong_order() -> None:
    people = {"ann": ["starved", "even", "more"], "bob": ["even", "more", "starved"]}
    found = prefer.Survey(ABC, people, "gfj", betas=[-1, 0.5, 2, 1], lams=[-0.5, 0, 0.5, 2])
    wrong = np.zeros((2, 4, 4), dtype=int)
    for (p, ranking), (b, beta), (q, lam) in itertools.product(
        enumerate(people.values()), enumerate(found.betas), enumerate(found.lams)
    ):
        values = [goodness(ABC[x], (1, 1), beta, lam) for x in ranking]
        wrong[p, b, q] = sum(not a > c + Decimal("1e-20") for a, c in itertools.combinations(values, 2))
    assert (found.wrong == wrong).all()
    for person, expected in (("ann", wrong[0]), ("bob", wrong[1]), (None, wrong.sum(axis=0))):
        least, points = found.best(person)
        assert least == expected.min()
        assert points == [(found.betas[b], found.lams[q]) for b, q in np.argwhere(expected == expected.min())]
        assert found.best_point in found.best()[1]
    assert not found.explained[0] and found.explained[1]  # no point prefers starved, then even
    assert (found.select(np.array([False, True])).counts == (wrong[1] == 0)).all()


def test_the_best_point_is_in_the_midst_of_those_that_most_people_are_compatible_with() -> None:
    """With one person: of the compatible points of the grid in any order, the farthest from all others."""
    grid = {"betas": [3, 2, 2.5, 4, 3.5], "lams": [0.4, 0, 0.2, 0.6, 0.8]}
    found = prefer.Survey(ABC, {"ann": ["even", "more", "starved"]}, "gfj", **grid)
    assert found.counts.all() and found.best_point == (3, 0.4)
    two = {"ann": ["even", "more", "starved"], "bob": ["starved", "more", "even"]}  # each point: 3 wrong pairs or more
    both = prefer.Survey(ABC, two, "gfj", betas=[0.5], lams=[-1, 0.5, 10])
    least, points = both.best()
    held = {point: both.counts[0, both.lams.tolist().index(point[1])] for point in points}
    assert held[both.best_point] == max(held.values()) == 1 and least == 3


def test_the_grid_is_without_what_ranges_leave_by_rounding() -> None:
    found = prefer.Survey(ABC, {"ann": ALONG}, "gfj", betas=[2], lams=np.linspace(-2, 2, 41))
    assert np.linspace(-2, 2, 41)[39] != 1.9 and found.lams[39] == 1.9
    assert repr(found) == "<Survey: people 1, options 3, 1 x 41 points of gfj>"


def test_tastes_ranks_and_clusters_by_hand() -> None:
    people = {"a": ["even", "more", "starved"], "b": ["starved", "more", "even"], "c": ["starved", "even", "more"]}
    found = prefer.Survey(ABC, people, "gfj", betas=[2], lams=[0])
    assert found.tastes[0] == pytest.approx([(3 * 0 - 2 * 3 - 8) / 6, (3 * 6 + 2 * 7 + 8) / 6])
    cluster, centres = found.clusters()
    assert cluster.tolist() == [1, 0, 0]
    assert centres == pytest.approx(np.array([found.tastes[1:].mean(axis=0), found.tastes[0]]))
    backwards = prefer.Survey(ABC, dict(reversed(people.items())), "gfj", betas=[2], lams=[0])
    assert backwards.clusters()[0].tolist() == [0, 0, 1]
    assert found.clusters(9)[1].shape == (3, 2)
    alike = prefer.Survey(ABC, {p: ["even", "more", "starved"] for p in "xy"}, "gfj", betas=[2], lams=[0])
    assert alike.clusters()[0].tolist() == [0, 0]
    three = prefer.Survey([(1, 2, 6)], {"a": [0]}, "gfj", betas=[2], lams=[0])
    assert three.tastes.tolist() == [[-(1 + 5 + 4) / 3, 9]]
    many = prefer.Survey(np.ones((2, 5000)) * [[1], [2]], {"a": [1, 0]}, "gfj", betas=[2], lams=[1])  # 12 million pairs
    assert many.tastes == pytest.approx(np.array([[0, 25000 / 3]]), abs=1e-9)
    alone = prefer.Survey([(1,), (2,)], {"a": [1, 0]}, "gfj", betas=[2], lams=[-1])
    assert alone.tastes[0] == pytest.approx([0, 5 / 3]) and alone.counts.tolist() == [[1]]


def test_answers_to_questions_of_another_scale_are_compared_option_by_option() -> None:
    grid: dict[str, Any] = {"betas": [0.5, 2], "lams": [-2, -0.5, 0, 1]}
    double = {"x": (16, 0), "y": (6, 6), "z": (10, 4)}
    first = prefer.Survey(ABC, {"ann": ALONG, "bob": ALONG}, "gfj", **grid)
    second = prefer.Survey(
        double, {"bob": ["x", "z", "y"], "ann": ["y", "z", "x"], "eve": ["z", "y", "x"]}, "gfj", **grid
    )
    other = prefer.Survey([(1, 2), (9, 9)], {"ann": [1, 0]}, "gfj", **grid)
    found = prefer.consistency({"1": first, "2": second, "3": other})
    assert {p: tau for p, (tau, _) in found.items() if p != "eve"} == {"ann": 1, "bob": -1}
    assert np.isnan(found["eve"][0])
    both = (first.wrong[0] == 0) & (other.wrong[0] == 0)
    assert found["ann"][1] == both.sum() > 0
    assert found["bob"][1] == 0
    with pytest.raises(fo.errors.InvalidInstance, match="question '2' has another grid"):
        prefer.consistency({"1": first, "2": prefer.Survey(ABC, {"a": ALONG}, "gfj", betas=[2], lams=[0])})
    assert prefer.consistency({}) == {}


# -- wrong input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"betas": [1, 0]}, fo.errors.InvalidBlock, "betas hold 0"),
        ({"lams": [np.nan]}, fo.errors.InvalidBlock, "lams hold nan"),
        ({"betas": [np.inf]}, fo.errors.InvalidBlock, "betas hold inf"),
        ({"lams": []}, fo.errors.InvalidBlock, "at least one number"),
        ({"betas": [[1, 2]]}, fo.errors.InvalidBlock, "shape"),
        ({"family": "fsd"}, fo.errors.InvalidBlock, "fds"),
        ({"family": "drf"}, fo.errors.InvalidBlock, "family 'drf' takes no beta and lam"),
        ({"family": "pnorm"}, fo.errors.InvalidBlock, "family 'pnorm' needs p, as pnorm:p=2"),
        ({"family": 3}, fo.errors.InvalidBlock, "family 3 takes no beta and lam"),
        ({"family": lambda beta, lam: fo.FairnessEfficiency(2, -0.5)}, fo.errors.InvalidBlock, "give one that makes"),
        ({"family": fo.DRF}, fo.errors.InvalidBlock, "takes no beta and lam"),
        ({"family": lambda beta, lam: fo.DRF()}, fo.errors.InvalidBlock, "give one that makes FairnessEfficiency"),
        (
            {"family": lambda beta, lam: fo.PNormFairness(beta + 1, beta=beta, lam=lam)},
            fo.errors.InvalidBlock,
            "one share",
        ),
        ({"family": "fds", "instance": None}, fo.errors.InvalidBlock, "instance is None, and DominantShare"),
        ({"instance": "cluster/"}, fo.errors.InvalidBlock, "instance is 'cluster/'"),
        ({"ranking": ["even", ["more", "starved"]]}, fo.errors.InvalidInstance, "'more' and 'starved' alike"),
        ({"ranking": ["even", "more"]}, fo.errors.InvalidInstance, "leaves out option 'starved'"),
        ({"ranking": ["even", "more", "even"]}, fo.errors.InvalidInstance, "'even' twice"),
        (
            {"ranking": ["even", "moore", "starved"]},
            fo.errors.InvalidInstance,
            "unknown option 'moore'; did you mean 'more'",
        ),
        ({"ranking": [0, 1, 2]}, fo.errors.InvalidInstance, "unknown option '0'"),
        ({"ranking": "even"}, fo.errors.InvalidInstance, "is not a ranking"),
        ({"ranking": 3}, fo.errors.InvalidInstance, "is not a ranking"),
        (
            {"options": {**ABC, "most": (12, 6)}},
            fo.errors.InvalidInstance,
            "option 'most' needs 30 of 'CPU', 6 more than the cap",
        ),
        ({"options": {**ABC, "none": (0, 0)}}, fo.errors.InvalidInstance, "the shares of option 'none' add up to 0"),
        ({"options": {**ABC, "odd": (np.nan, 1)}}, fo.errors.InvalidInstance, "option 'odd' gives user 'A' nan tasks"),
        ({"options": {**ABC, "odd": (1, -1)}}, fo.errors.InvalidInstance, "option 'odd' gives user 'B' -1.0 tasks"),
        ({"options": {"even": (1, 2, 3)}}, fo.errors.InvalidInstance, "option 'even' has shape"),
        (
            {"options": {"even": {"A": 1, "C": 2}}},
            fo.errors.InvalidInstance,
            "'even' names an unknown user 'C'; known: A, B",
        ),
        (
            {"options": {"even": {"A": 1, "B": 2}, "odd": {"A": 1}}},
            fo.errors.InvalidInstance,
            "'odd' has no value for user 'B'",
        ),
        ({"options": {}}, fo.errors.InvalidInstance, "options are empty"),
        ({"options": []}, fo.errors.InvalidInstance, "options are empty"),
        ({"options": 3}, fo.errors.InvalidInstance, "unknown option 'even'"),
        ({"options": [[[1]]]}, fo.errors.InvalidInstance, "option '0' has shape"),
        ({"options": [(1, 2), (3,)]}, fo.errors.InvalidInstance, "option '1' has shape"),
        ({"options": {"even": "no"}}, fo.errors.InvalidInstance, "option 'even' cannot be read"),
        ({"options": "no"}, fo.errors.InvalidInstance, "options cannot be read"),
        ({"options": {1: (1, 1), "1": (2, 2)}}, fo.errors.InvalidInstance, "the option label '1' is given twice"),
        ({"options": {"even": (), "odd": ()}, "instance": None}, fo.errors.InvalidInstance, "add up to 0"),
        ({"options": {"even": 1e308}, "instance": None}, fo.errors.InvalidInstance, "option 'even' needs 1e\\+308"),
    ],
)
def test_wrong_input_is_told_apart(changes: dict[str, Any], error: type[Exception], words: str) -> None:
    cluster = fo.Instance([[1, 4], [3, 1]], [24, 60], users=["A", "B"], resources=["CPU", "storage"])
    arguments: dict[str, Any] = {
        "options": ABC,
        "ranking": ["even", "more", "starved"],
        "family": "gfj",
        "betas": [2],
        "lams": [0],
        "instance": cluster,
        **changes,
    }
    with pytest.raises(error, match=words):
        prefer.compatible(**arguments)


def test_errors_of_a_survey_name_the_person() -> None:
    for people, words in (
        ({"ann": ALONG, "bob": ALONG[:2]}, "person 'bob' leaves out"),
        ({}, "rankings are empty"),
        ([], "rankings are empty"),
    ):
        with pytest.raises(fo.errors.InvalidInstance, match=words):
            prefer.Survey(ABC, people, "gfj", betas=[2], lams=[0])  # type: ignore[arg-type]
    found = prefer.Survey(ABC, {"ann": ALONG}, "gfj", betas=[2], lams=[0])
    with pytest.raises(fo.errors.InvalidInstance, match="no person 'anne'; did you mean 'ann'"):
        found.best("anne")
    for chosen in ([], [False], [0], [True, True]):
        with pytest.raises(fo.errors.InvalidInstance, match="give True or False for each"):
            found.select(chosen)
    with pytest.raises(fo.errors.InvalidBlock, match="number of clusters is 0"):
        found.clusters(0)
    limited = fo.Instance([[1], [1]], [100], users=["a", "b"], task_limits=[4, 9])
    with pytest.raises(fo.errors.InvalidInstance, match="option 'more' gives user 'a' 5 tasks, beyond its limit of 4"):
        prefer.Survey(ABC, {"ann": ALONG}, "gfj", betas=[2], lams=[0], instance=limited)
    by_server = fo.Instance([[[1], [2]], [[2], [1]]], [[9], [9]])
    with pytest.raises(fo.errors.InvalidInstance, match="differs by server"):
        prefer.Survey([(1, 1)], {"ann": [0]}, "fds", betas=[2], lams=[0], instance=by_server)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        (3, fo.errors.InvalidBlock, "shape"),
        ([], fo.errors.InvalidBlock, "shape"),
        ([1, 2], fo.errors.InvalidBlock, "shape"),
        ([(1, 0)], fo.errors.InvalidInstance, "tied at .* = \\(1, 0\\)"),
        ([(0, 1)], fo.errors.InvalidBlock, "betas hold 0"),
        ([(2, np.nan)], fo.errors.InvalidBlock, "lams hold nan"),
    ],
)
def test_impossible_people_are_refused(parameters: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        prefer.respondents(ABC, "gfj", parameters)


# -- files ----------------------------------------------------------------------------------------------------------

GOOD = "question,option,a,b\n1,even,3,3\n1,more,5,2\n", "person,question,option,rank\nann,1,more,1\nann,1,even,2\n"


@pytest.mark.parametrize(
    ("options", "rankings", "words"),
    [
        ("", None, "options.csv is empty"),
        ("\x00", None, "not text"),
        ("option,a\nx,1\n", None, "no column 'question'"),
        ("question,option\n1,x\n", None, "has no users"),
        ("question,option,a\n", None, "has no options"),
        ("question,option,a\n1,x,many\n", None, "line 2, column 'a': 'many' is not a number"),
        ("question,option,a\n1,x,-1\n", None, "the value is -1"),
        ("question,option,a\n1,x,1\n1,x,2\n", None, "line 3, column 'option': question '1' has option 'x' twice"),
        (None, "person,question,option,rank\n", "no answer to question '1'"),
        (None, "person,question,option\nann,1,even\n", "no column 'rank'"),
        (None, "person,question,option,rank\nann,2,even,1\n", "line 2, column 'question': no question '2' in"),
        (
            None,
            "person,question,option,rank\nann,1,evn,1\n",
            "question '1': person 'ann' ranks an unknown option 'evn'",
        ),
        (None, "person,question,option,rank\nann,1,even,1\nann,1,more,1\n", "ranks options 'even' and 'more' alike"),
        (
            None,
            "person,question,option,rank\nann,1,even,1\nann,1,even,2\n",
            "'1': person 'ann' ranks option 'even' twice",
        ),
        (None, "person,question,option,rank\nann,1,even,1\n", "question '1': person 'ann' leaves out option 'more'"),
        (
            None,
            "person,question,option,rank\nann,1,even,1\nann,1,more,3\n",
            "has the ranks \\[1.0, 3.0\\]; give 1 to 2",
        ),
        (None, "person,question,option,rank\nann,1,even,0\n", "give 1 for the best"),
        (None, "person,question,option,rank\nann,1,even,first\n", "'first' is not a number"),
    ],
)
def test_files_are_read_with_errors_that_name_the_line(
    options: str | None, rankings: str | None, words: str, tmp_path: Path
) -> None:
    (tmp_path / "options.csv").write_text(GOOD[0] if options is None else options)
    (tmp_path / "rankings.csv").write_text(GOOD[1] if rankings is None else rankings)
    with pytest.raises(fo.errors.InvalidInstance, match=words):
        prefer.read(tmp_path / "options.csv", tmp_path / "rankings.csv")


def test_people_who_are_not_reached_in_time_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Steps(Clock):
        """A clock that is late after 4 steps: two values of beta, and two people."""

        left_over = 4

        @property
        def late(self) -> bool:
            self.left_over -= 1
            return self.left_over < 0

    people = {name: list(OPTIONS) for name in ("ann", "bob", "cy")}
    whole = prefer.Survey(OPTIONS, people, "gfj", betas=[0.5, 2], lams=[-1, 0])
    monkeypatch.setattr("fairopt.tradeoff.preferences.Clock", Steps)
    part = prefer.Survey(OPTIONS, people, "gfj", betas=[0.5, 2], lams=[-1, 0], time_limit=1)
    assert (part.people, part.late, whole.late) == (("ann", "bob"), True, False)
    assert (part.wrong == whole.wrong[:2]).all() and "others were not reached" in repr(part)


def test_a_survey_that_compares_nobody_in_time_says_how_far_it_came() -> None:
    with pytest.raises(fo.errors.OutOfTime, match="0 of 2 values of beta were compared before the time limit"):
        prefer.Survey(OPTIONS, {"ann": list(OPTIONS)}, "gfj", betas=[0.5, 2], lams=[-1], time_limit=1e-9)
    with pytest.raises(fo.errors.InvalidBlock, match="time_limit is -1"):
        prefer.Survey(OPTIONS, {"ann": list(OPTIONS)}, "gfj", betas=[0.5, 2], lams=[-1], time_limit=-1)


# -- pictures -------------------------------------------------------------------------------------------------------


def test_pictures_show_counts_and_can_be_read() -> None:
    plots = pytest.importorskip("fairopt.plots")
    pytest.importorskip("matplotlib")
    rankings = prefer.respondents(OPTIONS, "gfj", np.random.default_rng(0).choice(POINTS, 40))
    found = prefer.Survey(OPTIONS, rankings, "gfj", **GRID)
    named = {f"option {k} with a name that is far too long for its place": tasks for k, tasks in OPTIONS.items()}
    small = prefer.Survey(named, {"ann": list(named)}, "gfj", betas=[-2], lams=[0])
    ax = found.plot()
    assert (ax.collections[0].get_array() == found.counts.T).all()
    assert ax.get_title() == "gfj, 40 people"
    assert [line.get_label() for line in ax.lines] == ["edge of Pareto efficiency", "fewest pairs in the wrong order"]
    assert tuple(ax.lines[1].get_xydata()[0]) == found.best_point
    assert len(small.plot().lines) == 1  # the edge is one of beta > 0
    labels = [text.get_text() for text in found.plot(kind="clusters").get_legend().get_texts()]
    assert sum(int(text.split(": ")[1]) for text in labels) == 40
    assert inside(plots.questions({"2": found, "a $question$": small}))
    with pytest.raises(fo.errors.InvalidBlock, match="did you mean 'heat'"):
        found.plot(kind="heart")


def test_an_error_inside_a_family_is_not_taken_for_missing_parameters() -> None:
    def family(beta: float, lam: float) -> fo.Policy:
        raise TypeError("of the family itself")

    with pytest.raises(TypeError, match="of the family itself"):
        fo.tradeoff.preferences.compatible([(1, 2), (2, 1)], [0, 1], family, betas=[2], lams=[-1])
