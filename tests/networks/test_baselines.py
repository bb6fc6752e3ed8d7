"""Mechanisms of `benchmarks/networks_baselines.py` on small networks whose answers are known."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairopt as fo

nx = pytest.importorskip("networkx", reason="networkx is in the extra networks")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

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
    assert flows(KWaterfilling(20).allocate(network)).to_dict() == pytest.approx(expected)
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


def test_bins_let_a_demand_fall_far_below_its_level() -> None:
    """No factor bounds the distance: within a bin the most flow counts, and what it takes is missing elsewhere.

    Each of twenty demands s->d shares a link of 3 with a demand s->u, which shares another with a demand t->u: all have
    1.5. The twenty also share a link of 40 with g->d, which has the 10 that are left. In the bin from 1 to 2 the most
    flow is that of 2 for s->d and t->u and of 1 for s->u, which leaves little to g->d.
    """
    graph, rows = nx.DiGraph(), []
    graph.add_edge("g", "d", capacity=40.0)
    for k in range(20):
        graph.add_edge(f"s{k}", f"t{k}", capacity=3.0)
        graph.add_edge(f"t{k}", f"u{k}", capacity=3.0)
        graph.add_edge(f"t{k}", "g", capacity=100.0)
        rows += [(f"s{k}", "d"), (f"s{k}", f"u{k}"), (f"t{k}", f"u{k}")]
    graph.add_edge("x", "y", capacity=1.0)  # where bins begin
    network = fo.networks.instance(graph, [("g", "d"), ("x", "y"), *rows])
    exact = flows(fo.networks.MAX_MIN.allocate(network))
    special = {"g->d": 10.0, "x->y": 1.0}
    assert exact.to_dict() == pytest.approx({name: special.get(name, 1.5) for name in exact.index})
    binned = flows(GeometricBinner(2.0, 1e-9).allocate(network))
    assert binned["g->d"] <= exact["g->d"] / 4


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
