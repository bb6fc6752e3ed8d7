"""Certified max-min flows beside what other systems answer: time, total flow, and how fair each answer is.

The level of a demand is its flow per weight. Certified max-min gives every demand's level within its gap, so the ratio
of another answer's level to it is known too: the smallest, the geometric mean and the largest over all demands. Where a
paper claims that answers are within a factor alpha, the claim is held against both ends.

B4 is the network of 12 sites and 19 links of Jain et al. (SIGCOMM 2013), with the capacities of TEAVAR's data and all
132 demands. ``--graph`` adds files, such as UsCarrier.graphml or Cogentco.graphml of the Internet Topology Zoo, with
links of 1,000 each way; without it two random graphs of their sizes stand in. Volumes are log-uniform from 1% to 100%
of a link, between pairs of nodes drawn with seed 0.

Run: python benchmarks/networks.py [--graph UsCarrier.graphml Cogentco.graphml --demands 496 2480 --plot networks.png]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from common import show
from networks_baselines import AdaptiveWaterfilling, GeometricBinner, KWaterfilling, Pop

import fairopt as fo

B4 = "1-2 1-3 2-5 3-4 3-6 4-5 4-7 4-8 5-6 6-7 6-8 7-8 7-11 8-10 9-10 9-11 10-11 10-12 11-12"
SIZES = {"like UsCarrier": (158, 189, 496), "like Cogentco": (197, 243, 2480)}  # nodes, links, demands
SIDES = [GeometricBinner(2.0), GeometricBinner(1.2), AdaptiveWaterfilling(10), KWaterfilling(1), Pop(4)]


def b4() -> nx.DiGraph:
    """B4, each link with its own capacity in both directions."""
    graph = nx.Graph([link.split("-") for link in B4.split()])
    nx.set_edge_attributes(graph, 5000.0, "capacity")
    return graph.to_directed()


def like(nodes: int, links: int) -> nx.DiGraph:
    """A connected random graph of a size: a tree whose nodes are near each other, and further links at random."""
    rng = np.random.default_rng(0)
    graph = nx.Graph((k, int(rng.integers(max(0, k - 8), k))) for k in range(1, nodes))
    while graph.number_of_edges() < links:
        a = int(rng.integers(nodes))
        b = int(rng.integers(max(0, a - 20), a + 1))
        if a != b:
            graph.add_edge(a, b)
    nx.set_edge_attributes(graph, 1000.0, "capacity")
    return graph.to_directed()


def drawn(graph: nx.DiGraph, most: int | None, link: float) -> list[tuple[Any, Any, float]]:
    """Demands between different nodes that have a path, with volumes."""
    rng = np.random.default_rng(0)
    whole = max(nx.strongly_connected_components(graph), key=len)
    pairs = [(a, b) for a in graph for b in graph if a != b and {a, b} <= whole]
    chosen = rng.permutation(len(pairs))[:most]
    return [(*pairs[k], float(v)) for k, v in zip(chosen, link * 10 ** rng.uniform(-2, 0, len(chosen)), strict=True)]


def measured(name: str, graph: nx.DiGraph, most: int | None, link: float) -> list[dict[str, Any]]:
    """A row for certified max-min and one for each other side."""
    begun = time.perf_counter()
    network = fo.networks.instance(graph, drawn(graph, most, link))
    made = time.perf_counter() - begun
    rows: list[dict[str, Any]] = []
    best: Any = None
    for side in (fo.networks.MAX_MIN, *SIDES):
        begun, cpu = time.perf_counter(), time.process_time()
        answer = side.allocate(network)
        row = {"network": name, "side": side.name, "seconds": time.perf_counter() - begun}
        row["CPU seconds"] = time.process_time() - cpu
        assert answer.certificate.violation <= 1e-6, (side.name, answer.certificate)
        level = fo.networks.flows(answer, by="demand").level.to_numpy()
        best = level if best is None else best
        ratio = level / best
        row |= {"total flow": float(answer.tasks.sum()), "smallest": float(ratio.min())}
        row |= {"geometric mean": float(np.exp(np.log(np.maximum(ratio, 1e-12)).mean())), "largest": float(ratio.max())}
        alpha = getattr(side, "alpha", None)
        within = alpha is not None and ratio.min() * alpha >= 1 - 1e-6 and ratio.max() <= alpha * (1 + 1e-6)
        row["claim"] = "" if alpha is None else f"within {alpha:g}: {'held' if within else 'did not hold'}"
        row["demands"], row["paths"], row["seconds for paths"] = len(level), network.n_users, made
        row["gap"] = answer.certificate.gap
        rows.append(row)
    return rows


def drawn_picture(rows: list[dict[str, Any]], file: Path) -> None:
    """For each network, how fair each side is by its time: from the smallest ratio to the geometric mean."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["network"] for row in rows))
    fig, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3.4), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        for k, row in enumerate(row for row in rows if row["network"] == name):
            x, low, mean = row["CPU seconds"], row["smallest"], row["geometric mean"]
            ax.plot([x, x], [low, mean], color=f"C{k}", lw=1.5)
            ax.plot(x, mean, "o", color=f"C{k}", label=row["side"])
            ax.plot(x, low, "_", color=f"C{k}", ms=10)
        ax.set(xscale="log", xlabel="CPU seconds", title=f"{name}: {row['demands']:,} demands")
        ax.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())  # they overlap where times span a decade
    axes[0][0].set(ylabel="level / certified max-min level", ylim=(-0.03, None))
    handles, labels = axes[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="lower center", ncols=3, fontsize=8, frameon=False)
    fig.text(0.5, 0.155, "dots: geometric mean of the demands; dashes: the worst", ha="center", fontsize=8)
    fig.tight_layout(rect=(0, 0.17, 1, 1))
    fig.savefig(file, dpi=130)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", nargs="*", type=Path, default=[])
    parser.add_argument("--demands", nargs="*", type=int, default=[], help="of each graph; default 496, then 2480")
    parser.add_argument("--plot", type=Path)
    given = parser.parse_args()
    measured("first", b4(), 4, 5000.0)  # imports solvers
    rows = measured("B4", b4(), None, 5000.0)
    if given.graph:
        sizes = [*given.demands, *[496, 2480][len(given.demands) :]]
        for file, most in zip(given.graph, sizes, strict=False):
            graph = fo.networks.read(file, capacity=1000.0)
            for *_, data in graph.edges(data=True):
                data["capacity"] = 1000.0  # also of parallel links
            rows += measured(file.stem, graph.to_directed(), most, 1000.0)
    else:
        for name, (nodes, links, most) in SIZES.items():
            rows += measured(name, like(nodes, links), most, 1000.0)
    show("Networks", rows, "networks")
    if given.plot:
        drawn_picture(rows, given.plot)


if __name__ == "__main__":
    main()
