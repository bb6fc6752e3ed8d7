"""What papers claim of their answers on networks, tried on small random networks; what breaks a claim is made smaller.

The claims, in the words of this file:

* *Geometric binner* (Namyar et al. 2024): every demand has its max-min level within a factor alpha. Bins are filled one
  after the other, so that no weight of a bin is too large, and a claim is broken only if all optimal answers break it.
* *Adaptive water-filling* (Namyar et al. 2024): where it settles, every path has a full link, or its demand its volume,
  on which no demand with flow has a larger level. Tried with exact water-filling in each pass, as in the theorem, and
  with one look at each link. That such an answer need not be max-min is the paper's own remark, which is tried as well.
* *k-water-filling* (Jose et al. 2019): max-min levels, if every demand has one path. Nothing is claimed of several.
* *POP* (Narayanan et al. 2021): near the best for granular problems. It is no theorem. What follows by scaling is that
  the smallest level is at least that of max-min over the number of parts; that the same holds of every demand is tried.
  How near the best granular problems come is measured on B4, with demands in more and more pieces.

A network that breaks a claim loses demands, links, paths, volumes and units of capacity while it still does. The
levels of what is left are computed again by the linear programs of `tests/oracle`. Then `fo.check` counts
answers in which a demand could have more and no other less.

Run: python benchmarks/networks_claims.py [--draws 1500] [--seed 0]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
from common import show
from networks import b4, drawn
from networks_baselines import AdaptiveWaterfilling, Baseline, Flows, GeometricBinner, KWaterfilling, Pop
from scipy import sparse as sp
from scipy.optimize import linprog

import fairopt as fo
from fairopt.allocation import ChangedByHand

CLEAR = 1e-3  # by which a claim must be broken
SETTLED = 0.05  # adaptive water-filling comes near its limit only slowly
PASSES = 300
MOST_FLOW = fo.Policy(fo.Total(fo.Tasks()), name="most flow")


@dataclass(frozen=True)
class Small:
    """A network with whole capacities and volumes (0 for none), and demands."""

    links: tuple[tuple[str, str, int], ...]
    demands: tuple[tuple[str, str, int], ...]
    paths: int

    @property
    def graph(self) -> nx.DiGraph:
        graph = nx.DiGraph()
        graph.add_weighted_edges_from(self.links, weight="capacity")
        return graph

    @property
    def instance(self) -> fo.Instance:
        rows = [(a, b, volume or None) for a, b, volume in self.demands]
        return fo.networks.instance(self.graph, rows, paths=self.paths)

    @property
    def size(self) -> tuple[int, ...]:
        """What is made smaller, the most important first."""
        room = sum(c for *_, c in self.links)
        return len(self.demands), len(self.links), self.paths, sum(v > 0 for *_, v in self.demands), room

    def __str__(self) -> str:
        links = ", ".join(f"{a}->{b} {c}" for a, b, c in self.links)
        demands = ", ".join(f"{a}->{b}{f' (at most {v})' if v else ''}" for a, b, v in self.demands)
        return f"links {links}; demands {demands}; {self.paths} path{'s' * (self.paths > 1)}"

    def smaller(self) -> Iterator[Small]:
        """Networks with one thing less."""
        for t in range(len(self.demands)):
            yield replace(self, demands=self.demands[:t] + self.demands[t + 1 :])
        for k in range(len(self.links)):
            yield replace(self, links=self.links[:k] + self.links[k + 1 :])
        if self.paths > 1:
            yield replace(self, paths=self.paths - 1)
        for t, (a, b, volume) in enumerate(self.demands):
            if volume:
                yield replace(self, demands=(*self.demands[:t], (a, b, 0), *self.demands[t + 1 :]))
        for k, (a, b, room) in enumerate(self.links):
            for less in sorted({1, room // 2, room - 1} - {0, room}):
                yield replace(self, links=(*self.links[:k], (a, b, less), *self.links[k + 1 :]))


def draw(rng: np.random.Generator, paths: int | None) -> Small:
    """A random network of a few nodes."""
    nodes = "abcdef"[: int(rng.integers(3, 7))]
    pairs = [(a, b) for a in nodes for b in nodes if a != b]
    some = rng.permutation(len(pairs))[: int(rng.integers(3, 13))]
    links = tuple((*pairs[k], int(rng.choice([1, 2, 3, 4, 6, 8, 12, 20]))) for k in some)
    reached = nx.DiGraph([link[:2] for link in links])
    joined = [(a, b) for a, b in pairs if a in reached and b in reached and nx.has_path(reached, a, b)]
    chosen = rng.permutation(len(joined))[: int(rng.integers(2, 10))]
    volumes = np.where(rng.random(len(chosen)) < 0.2, rng.integers(1, 9, len(chosen)), 0)
    demands = tuple((*joined[k], int(v)) for k, v in zip(chosen, volumes, strict=True))
    return Small(links, demands, paths or int(rng.integers(1, 4)))


def levels(instance: fo.Instance, side: Any = fo.networks.MAX_MIN) -> Any:
    """Levels of demands; by default certified max-min."""
    return Flows(instance).of @ side.allocate(instance).tasks


def by_hand(shared: int) -> Small:
    """A network that breaks the claim of the geometric binner at alpha 2.

    Demands ``a0->d``, ``a1->d``, ... each share a link of 3 with a long demand: all have 1.5. They also share a link
    with ``h->d``, which has what they leave. In the bin from 1 to 2 the most flow is 2 for each of them and 1 for the
    long one, so that too little is left. Bins start at the level of ``x->y``.
    """
    many = range(shared)
    links = [(f"a{i}", f"b{i}", 3) for i in many] + [(f"b{i}", f"a{i + 1}", 9) for i in many[:-1]]
    links += [*((f"b{i}", "h", 9) for i in many), ("h", "d", 2 * shared + 2), ("x", "y", 1)]
    demands = [("a0", f"b{shared - 1}", 0), *((f"a{i}", "d", 0) for i in many), ("h", "d", 0), ("x", "y", 0)]
    return Small(tuple(links), tuple(demands), 1)


# How far each claim is broken: a number that is positive if it is.


def binner(alpha: float, every: bool) -> Callable[[fo.Instance], float]:
    """Whether some demand is out of bounds in ``every`` answer that fills bin after bin, or in one of them."""

    def broken(instance: fo.Instance) -> float:
        best, spans = levels(instance), np.array([*_spans(Flows(instance), alpha)])
        low, high = spans.T[:: -1 if every else 1]
        return float((np.maximum(best / alpha - low, high - best * alpha) / best).max())

    return broken


def _spans(network: Flows, alpha: float) -> Iterator[tuple[float, float]]:
    """The least and the most that each demand has in answers that fill bin after bin."""
    bins = max(1, int(np.ceil(np.log(network.most / network.least) / np.log(alpha))))
    widths = np.diff(network.least * alpha ** np.arange(bins + 1), prepend=0.0)
    n, paths = network.n, network.of.shape[1]
    split = sp.hstack([network.of, -sp.hstack([sp.eye_array(n)] * (bins + 1))]).tocsr()
    links = sp.hstack([network.uses, sp.csr_array((len(network.room), n * (bins + 1)))])
    upper = np.concatenate([np.full(paths, np.inf), np.repeat(widths, n)])
    rows, right = [links], [network.room]

    def most(goal: Any) -> float:
        found = linprog(-goal, sp.vstack(rows), np.concatenate(right), split, np.zeros(n), [(0, u) for u in upper])
        if found.status != 0:
            raise RuntimeError(f"HiGHS: {found.message}")
        return float(-found.fun)

    for k in range(bins + 1):
        goal = np.zeros(len(upper))
        goal[paths + k * n : paths + (k + 1) * n] = 1.0
        total = most(goal)
        rows.append(sp.csr_array(-goal[None]))
        right.append(np.array([1e-6 - total * (1 - 1e-6)]))
    for t in range(n):
        flow = np.concatenate([network.of[[t]].toarray()[0], np.zeros(n * (bins + 1))])
        yield -most(-flow), most(flow)


def settles_unbottlenecked(exact: bool) -> Callable[[fo.Instance], float]:
    def broken(instance: fo.Instance) -> float:
        network = Flows(instance)
        flow, later = (AdaptiveWaterfilling(k, exact).flows(network) for k in (PASSES, PASSES + 20))
        if np.abs(later - flow).max() > 0.1 * SETTLED * flow.max():
            return 0.0
        level = network.of @ later
        has = later > 1e-3 * level[network.demand]
        full = network.uses @ later >= network.room * (1 - 0.1 * SETTLED)
        uses = network.uses.toarray() > 0
        largest = np.array([np.max(level[network.demand[row & has]], initial=0.0) for row in uses])
        first = uses & full[:, None] & (level[network.demand] >= largest[:, None] * (1 - SETTLED))
        return float(has[~first.any(axis=0)].sum())

    return broken


def below(side: Baseline, factor: float = 1.0) -> Callable[[fo.Instance], float]:
    """Whether some demand has less than its max-min level over a factor."""

    def broken(instance: fo.Instance) -> float:
        return float((1 / factor - levels(instance, side) / levels(instance)).max())

    return broken


def far(side: Baseline) -> Callable[[fo.Instance], float]:
    """Whether some demand is not at its max-min level."""

    def broken(instance: fo.Instance) -> float:
        return float(np.abs(levels(instance, side) / levels(instance) - 1).max())

    return broken


def smallest_below(side: Pop) -> Callable[[fo.Instance], float]:
    def broken(instance: fo.Instance) -> float:
        return float(1 / side.parts - levels(instance, side).min() / levels(instance).min())

    return broken


@dataclass(frozen=True)
class Claim:
    """A claim, how far an instance breaks it, how many paths demands have, and one in how many draws is tried."""

    text: str
    broken: Callable[[fo.Instance], float]
    paths: int | None = None
    every: int = 1
    clear: float = CLEAR
    start: Small | None = None  # tried last


CLAIMS = [
    Claim("geometric binner, alpha 2: levels within 2", binner(2.0, every=True), start=by_hand(5)),
    Claim("adaptive water-filling, exact passes: settles at bottlenecks", settles_unbottlenecked(True), every=10),
    Claim("adaptive water-filling, one look: settles at bottlenecks", settles_unbottlenecked(False), every=10),
    Claim("adaptive water-filling, exact passes: max-min", far(AdaptiveWaterfilling(PASSES, True)), None, 10, SETTLED),
    Claim("1-water-filling: max-min with one path", far(KWaterfilling(1)), 1),
    Claim("2-water-filling: max-min with one path", far(KWaterfilling(2)), 1),
    Claim("1-water-filling of paths: max-min", far(KWaterfilling(1))),
    Claim("1-water-filling of paths: half of every level", below(KWaterfilling(1), 2.0)),
    Claim("POP, 2 parts: half of the smallest level", smallest_below(Pop(2))),
    Claim("POP, 2 parts: half of every level", below(Pop(2), 2.0)),
]


def breaks(claim: Claim, network: Small) -> bool:
    """Whether a network breaks a claim; one that is none does not."""
    try:
        instance = network.instance
    except fo.errors.InvalidInstance:
        return False
    return claim.broken(instance) > claim.clear


def smallest(claim: Claim, network: Small) -> Small:
    """The network, made smaller while it breaks the claim."""
    while (less := next((one for one in network.smaller() if breaks(claim, one)), None)) is not None:
        network = less
    return network


def tried(claim: Claim, draws: int, seed: int, shrunk: int = 5) -> dict[str, Any]:
    """A claim on random networks: how often it was broken, and the smallest network of a few that were made smaller."""
    rng = np.random.default_rng(seed)
    networks = [draw(rng, claim.paths) for _ in range(draws // claim.every)] + [claim.start] * (claim.start is not None)
    broken = [network for network in networks if breaks(claim, network)]
    row: dict[str, Any] = {"claim": claim.text, "networks": len(networks), "broken": len(broken)}
    if not broken:
        return row | {"by": "", "smallest": ""}
    least = min(
        (smallest(claim, one) for one in sorted(broken, key=lambda one: one.size)[:shrunk]), key=lambda s: s.size
    )
    verify(least)
    return row | {"by": claim.broken(least.instance), "smallest": str(least)}


def verify(network: Small) -> None:
    """Compare the levels with those of the programs of `tests/oracle`, which share nothing with the package."""
    from oracle.flows import levels_by_programs

    rows = [(a, b, float(v) if v else np.inf, 1.0) for a, b, v in network.demands]
    expected = [*levels_by_programs(network.graph, rows, network.paths).values()]
    assert np.allclose(levels(network.instance), expected, rtol=1e-6), network


def efficient(draws: int, seed: int) -> list[dict[str, Any]]:
    """How often a demand could have more and no other less, by `fo.check` of the sides' answers."""
    rng = np.random.default_rng(seed)
    networks = [draw(rng, None).instance for _ in range(draws)]
    sides = [GeometricBinner(2.0), AdaptiveWaterfilling(10), AdaptiveWaterfilling(30, True), KWaterfilling(1), Pop(2)]
    rows = []
    for side in sides:
        answers = [replace(side.allocate(one), policy=ChangedByHand(fo.networks.MAX_MIN)) for one in networks]
        verdicts = [fo.check(answer, "team-pareto", tol=CLEAR)["team-pareto"] for answer in answers]
        wasteful = [verdict for verdict in verdicts if verdict.holds is False]
        gain = max((verdict.margin for verdict in wasteful), default=0.0)
        rows.append({"side": side.name, "networks": draws, "not efficient": len(wasteful), "largest gain": gain})
    return rows


def granular(depth: int) -> list[dict[str, Any]]:
    """POP on B4, demands in more and more pieces: the most flow relative to the best, and ratios to max-min levels."""
    graph = b4()
    network = fo.networks.instance(graph, drawn(graph, None, 5000.0))
    best, rows = levels(network), []
    total = levels(network, MOST_FLOW).sum()
    for pieces in 4 ** np.arange(depth + 1):
        level = levels(network, Pop(4, 0, int(pieces)))
        ratio = level / best
        most = levels(network, Pop(4, 0, int(pieces), MOST_FLOW)).sum() / total
        row = {"pieces": int(pieces), "most flow": float(most), "smallest": float(ratio.min())}
        rows.append(row | {"geometric mean": float(np.exp(np.log(ratio).mean())), "largest": float(ratio.max())})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    show("Claims of papers on random networks", [tried(c, given.draws, given.seed) for c in CLAIMS], "networks-claims")
    show("Pareto efficiency of demands", efficient(min(given.draws, 300), given.seed), "networks-pareto")
    show("POP on B4, demands in pieces", granular(4), "networks-pop")


if __name__ == "__main__":
    main()
