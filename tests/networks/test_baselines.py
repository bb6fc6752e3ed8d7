"""Mechanisms of `benchmarks/networks_baselines.py` on small networks whose answers are known."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo

nx = pytest.importorskip("networkx", reason="networkx is in the extra networks")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import networks_claims  # noqa: E402
from networks_baselines import AdaptiveWaterfilling, GeometricBinner, KWaterfilling, Pop  # noqa: E402

ALL = [GeometricBinner(), AdaptiveWaterfilling(), KWaterfilling(), Pop(2)]


def drawn(seed: int, paths: int) -> fo.Instance:
    rng = np.random.default_rng(seed)
    graph = nx.connected_watts_strogatz_graph(8, 3, 0.4, seed=seed).to_directed()
    for ends in graph.edges:
        graph.edges[ends]["capacity"] = float(rng.choice([1, 2, 5]))
    pairs = [(a, b) for a in graph for b in graph if a != b]
    chosen = rng.choice(len(pairs), 8, replace=False)
    rows = [(*pairs[k], float(rng.choice([0.25, np.inf])), float(rng.choice([1, 2]))) for k in chosen]
    return fo.networks.instance(graph, rows, paths=paths)


def flows(answer: fo.Allocation) -> Any:
    return fo.networks.flows(answer, by="demand").flow


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("side", ALL, ids=lambda side: side.name)
def test_answers_are_feasible_and_use_the_network(side: Any, seed: int) -> None:
    answer = side.allocate(drawn(seed, 3))
    assert answer.certificate.violation <= 1e-9
    assert not answer.certificate.ok  # nothing is proved of their fairness
    assert answer.tasks.sum() > 0.5 * fo.networks.MAX_MIN.allocate(answer.instance).tasks.sum()


@pytest.mark.parametrize("seed", range(5))
def test_on_single_paths_water_filling_is_exact(seed: int) -> None:
    network = drawn(seed, 1)
    expected = flows(fo.networks.MAX_MIN.allocate(network)).to_dict()
    for hops in (1, 2, 20):
        assert flows(KWaterfilling(hops).allocate(network)).to_dict() == pytest.approx(expected)
    assert flows(Pop(1).allocate(network)).to_dict() == pytest.approx(expected)


def test_a_pass_of_adaptive_water_filling() -> None:
    """The link from b to c is first: both paths over it have half; the second path of a has its link alone."""
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("a", "b", 4), ("b", "c", 1), ("a", "c", 1)], weight="capacity")
    network = fo.networks.instance(graph, [("a", "c"), ("b", "c")])
    once = AdaptiveWaterfilling(1).allocate(network)  # paths of a have half of its weight each
    assert dict(zip(network.users, once.tasks, strict=True)) == pytest.approx(
        {"a->c/1": 1, "a->c/2": 1 / 3, "b->c/1": 2 / 3}
    )
    often = AdaptiveWaterfilling(60).allocate(network)
    assert flows(often).to_dict() == pytest.approx({"a->c": 1, "b->c": 1}, abs=0.05)


def test_bins_let_a_demand_fall_below_its_level_over_alpha() -> None:
    """Five demands have 1.5 and leave 4.5 of 12 to h->d; in the bin from 1 to 2 they have 2, which leaves it 2."""
    network = networks_claims.by_hand(5).instance
    exact = flows(fo.networks.MAX_MIN.allocate(network))
    special = {"h->d": 4.5, "x->y": 1.0}
    assert exact.to_dict() == pytest.approx({name: special.get(name, 1.5) for name in exact.index})
    assert flows(GeometricBinner(2.0, 1e-9).allocate(network))["h->d"] == pytest.approx(2.0)
    assert networks_claims.binner(2.0, every=True)(network) == pytest.approx(1 / 2 - 2 / 4.5, abs=1e-4)
    assert networks_claims.binner(2.0, every=True)(networks_claims.by_hand(4).instance) < 1e-4  # 2 of 4


def test_water_filling_of_paths_counts_paths() -> None:
    """Both demands could have 1: one has a link of its own beside the path of the other."""
    graph = nx.DiGraph([("c", "b"), ("b", "d"), ("c", "d")])
    network = fo.networks.instance(graph, [("b", "d"), ("c", "d")], capacity=1)
    assert flows(fo.networks.MAX_MIN.allocate(network)).tolist() == pytest.approx([1, 1])
    assert flows(KWaterfilling(1).allocate(network)).tolist() == pytest.approx([0.5, 1.5])


def test_passes_settle_at_a_bottleneck_that_is_not_max_min() -> None:
    """One demand has three paths, and the longest is in the way of the others: each has a half, and weights stay."""
    graph = nx.DiGraph([("d", "b"), ("b", "c"), ("d", "a"), ("a", "c"), ("a", "b")])
    network = fo.networks.instance(graph, [("d", "c")], capacity=1)
    assert flows(fo.networks.MAX_MIN.allocate(network)).tolist() == pytest.approx([2])
    for passes in (1, 30):
        assert AdaptiveWaterfilling(passes, exact=True).allocate(network).tasks == pytest.approx([0.5, 0.5, 0.5])
    assert networks_claims.settles_unbottlenecked(exact=True)(network) == 0


def test_one_look_at_each_link_can_settle_away_from_bottlenecks() -> None:
    graph = nx.DiGraph()
    links = [("b", "a", 1), ("b", "d", 3), ("d", "b", 1), ("e", "b", 4), ("a", "d", 7)]
    graph.add_weighted_edges_from(links, weight="capacity")
    network = fo.networks.instance(graph, [("a", "b"), ("e", "d"), ("a", "d")], paths=2)
    assert networks_claims.settles_unbottlenecked(exact=False)(network) == 1  # path
    assert networks_claims.settles_unbottlenecked(exact=True)(network) == 0


def test_a_part_of_pop_can_leave_a_demand_a_third_of_its_level() -> None:
    graph = nx.DiGraph()
    graph.add_weighted_edges_from([("c", "a", 1), ("a", "b", 2)], weight="capacity")
    network = fo.networks.instance(graph, [("c", "b"), ("a", "b"), ("c", "a")])
    assert flows(fo.networks.MAX_MIN.allocate(network)).tolist() == pytest.approx([0.5, 1.5, 0.5])
    assert min(flows(Pop(2, seed).allocate(network))["a->b"] for seed in range(9)) == pytest.approx(0.5)


def test_pieces_of_demands_are_those_of_the_whole() -> None:
    network = drawn(0, 2)
    expected = flows(fo.networks.MAX_MIN.allocate(network)).to_dict()
    assert flows(Pop(1, pieces=3).allocate(network)).to_dict() == pytest.approx(expected)
    assert Pop(3, pieces=5).allocate(network).certificate.violation <= 1e-9


def test_what_breaks_a_claim_is_made_smaller_while_it_does() -> None:
    claim = next(one for one in networks_claims.CLAIMS if one.text.startswith("1-water-filling of paths: max-min"))
    row = networks_claims.tried(claim, 20, 0, shrunk=1)
    assert row["networks"] == 20
    assert 0 < row["broken"] < 20
    assert "demands" in row["smallest"]
    exact = next(one for one in networks_claims.CLAIMS if one.text.startswith("1-water-filling: max-min"))
    assert networks_claims.tried(exact, 20, 0)["broken"] == 0


def test_the_networks_that_are_measured() -> None:
    import networks

    b4 = networks.b4()
    assert (len(b4), b4.number_of_edges(), len(networks.drawn(b4, None, 5000.0))) == (12, 38, 132)
    for nodes, links, demands in networks.SIZES.values():
        graph = networks.like(nodes, links)
        assert (len(graph), graph.number_of_edges()) == (nodes, 2 * links)
        assert nx.is_strongly_connected(graph)
        assert len({row[:2] for row in networks.drawn(graph, demands, 1000.0)}) == demands
    rows = networks.measured("B4", b4, 6, 5000.0)
    assert [row["side"] for row in rows] == ["max-min flow", *(side.name for side in networks.SIDES)]
    assert (rows[0]["smallest"], rows[0]["largest"]) == (1, 1)
    assert all(row["smallest"] <= 1 + 1e-9 for row in rows)
