"""Instances that are hard in floats: ties, near ties, numbers over many decades, cancellation, degeneracy, edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from entries import Entry, script

import fairopt as fo

TINY = 1e-10


def entries() -> Iterator[Entry]:
    """The instances, by what makes them hard."""
    yield from ties()
    yield from near_ties()
    yield from scales()
    yield from degenerate()
    yield from regressions()
    yield from edges()
    yield from infeasible()


def _case(name: str, title: str, why: str, tags: tuple[str, ...], instance: fo.Instance, **more: object) -> Entry:
    return Entry(f"hard-{name}", title, script(why), ("hard", *tags), instance, **more)  # type: ignore[arg-type]


def ties() -> Iterator[Entry]:
    """Exact ties of levels, bottlenecks and prices."""
    made = "made here: exact ties"
    yield _case("identical-users", "Twelve identical users", made, ("ties",), fo.Instance([[1, 2]] * 12, [12, 12]))
    yield _case(
        "all-resources-full",
        "All resources fill at the same moment, so that prices are not unique",
        made,
        ("ties", "degenerate"),
        fo.Instance([[1, 2, 3], [3, 2, 1], [2, 2, 2]], [12, 12, 12]),
    )
    yield _case(
        "identical-resources",
        "Two identical columns: only the sum of their prices is determined",
        made,
        ("ties", "degenerate"),
        fo.Instance([[2, 2, 1], [1, 1, 3]], [10, 10, 12]),
    )
    yield _case(
        "limits-at-levels",
        "Task limits equal to the levels that capacities would give",
        made,
        ("ties",),
        fo.Instance([[1, 4], [3, 1], [1, 1]], [9, 18], task_limits=[2, 1, 3]),
    )
    yield _case(
        "tied-servers",
        "Identical servers in separate rows, and users who tie on each",
        made,
        ("ties",),
        fo.Instance([[1, 2], [2, 1], [1, 1]], [[6, 6], [6, 6], [6, 6]]),
    )
    rng = np.random.default_rng(3)
    yield _case(
        "small-integers",
        "Ten users with demands from 0 to 3: most levels tie",
        "random integers, seed 3",
        ("ties",),
        fo.Instance(rng.integers(0, 4, (10, 3)) + np.eye(10, 3), [12, 15, 18]),
    )
    rng = np.random.default_rng(4)
    yield _case(
        "small-integers-servers",
        "Eight users with demands from 1 to 3 on four servers, placed at random",
        "random integers, seed 4",
        ("ties", "degenerate"),
        fo.Instance(
            rng.integers(1, 4, (8, 2)).astype(float),
            rng.integers(4, 9, (4, 2)).astype(float),
            eligible=(rng.random((8, 4)) < 0.6) | np.eye(8, 4, dtype=bool) | np.eye(8, 4, k=-4, dtype=bool),
        ),
    )


def near_ties() -> Iterator[Entry]:
    """Levels, demands and capacities that differ by 1e-10."""
    made = "made here: numbers that differ by 1e-10"
    yield _case(
        "near-demands",
        "Three users whose demands differ by 1e-10",
        made,
        ("near-ties",),
        fo.Instance([[1, 2], [1 + TINY, 2], [1, 2 - TINY]], [3, 6]),
    )
    yield _case(
        "near-capacities",
        "Two resources that fill within 1e-10 of each other",
        made,
        ("near-ties",),
        fo.Instance([[1, 1], [1, 1]], [1, 1 + TINY]),
    )
    yield _case(
        "near-levels",
        "A second level 1e-10 above the first",
        made,
        ("near-ties",),
        fo.Instance([[1, 0], [1, 0], [0, 1]], [2, 1 + TINY]),
    )
    yield _case(
        "near-limits",
        "A task limit 1e-10 below what capacities give",
        made,
        ("near-ties",),
        fo.Instance([[1], [1]], [2], task_limits=[1 - TINY, None]),
    )
    yield _case(
        "near-weights",
        "Weights that differ by 1e-10",
        made,
        ("near-ties",),
        fo.Instance([[1, 3], [3, 1]], [10, 10], weights=[1, 1 + TINY]),
    )
    yield _case(
        "trace",
        "A trace of 1e-10 of a full resource: giving up 1e-10 of a level would let the next rise by half",
        "tests of certificates: what slack of one level buys in the next",
        ("near-ties",),
        fo.Instance([[1, TINY], [2, 5]], [[6, 6], [4, 3]], weights=[3, 2], eligible=[[1, 1], [0, 1]]),
    )
    rng = np.random.default_rng(0)
    yield _case(
        "nearly-identical-users",
        "Twenty users whose demands differ by 1e-9",
        "random, seed 0",
        ("near-ties",),
        fo.Instance(np.round(np.array([1.0, 2.0, 3.0]) * (1 + 1e-9 * rng.uniform(-1, 1, (20, 3))), 12), [10, 20, 30]),
    )


def scales() -> Iterator[Entry]:
    """Coefficients from 1e-9 to 1e9 and beyond."""
    made = "made here: numbers over many decades"
    yield _case(
        "decades-18",
        "Demands from 1e-9 to 1e9",
        made,
        ("scale",),
        fo.Instance([[1e-9, 1e9], [1, 1], [1e9, 1e-9]], [1, 1]),
    )
    yield _case(
        "capacities-24",
        "Capacities of 1e-9 and 1e15 in one instance",
        "tests of water-filling",
        ("scale",),
        fo.Instance([[1e-9, 1e15], [2e-9, 1e13], [1e-12, 3e14]], [1e-9, 1e15]),
    )
    yield _case(
        "large-and-small-user",
        "A user whose task takes all, beside one whose task takes a billionth",
        made,
        ("scale",),
        fo.Instance([[1e9, 1], [1, 1]], [1e9, 1e9]),
    )
    yield _case(
        "small-total",
        "All numbers near 1e-9",
        made,
        ("scale",),
        fo.Instance([[1e-9, 3e-9], [2e-9, 1e-9]], [9e-9, 8e-9]),
    )
    yield _case(
        "weights-12",
        "Weights from 1e-6 to 1e6",
        made,
        ("scale",),
        fo.Instance([[1, 2], [2, 1], [1, 1]], [10, 10], weights=[1e-6, 1, 1e6]),
    )
    yield _case(
        "far-limits",
        "Task limits of 1e9 that never bind",
        made,
        ("scale",),
        fo.Instance([[1, 1], [1, 2]], [[6, 4], [4, 6]], task_limits=[1e9, 1e9]),
    )
    yield _case(
        "servers-decades",
        "Two servers a million times as large as the third",
        made,
        ("scale",),
        fo.Instance([[1, 1], [2, 1], [1, 3]], [[1e6, 2e6], [2e6, 1e6], [1, 2]]),
    )
    yield Entry(
        "hard-log-uniform",
        "Thirty users over four decades, with zeros, weights and limits",
        script("fo.datasets.log_uniform, seed 5"),
        ("hard", "scale"),
        fo.datasets.log_uniform(30, 4, min_positive=2, weights=True, limits=True, seed=5),
    )
    yield Entry(
        "hard-log-uniform-servers",
        "Twelve users over two decades on six servers",
        script("fo.datasets.log_uniform, seed 6"),
        ("hard", "scale"),
        fo.datasets.log_uniform(
            12, 3, decades=2, min_positive=2, limits=True, n_servers=6, different_servers=True, ineligible=0.3, seed=6
        ),
    )
    yield Entry(
        "hard-log-uniform-by-server",
        "Eight users whose demands differ by server",
        script("fo.datasets.log_uniform, seed 7"),
        ("hard", "scale", "by-server"),
        fo.datasets.log_uniform(
            8, 2, decades=2, min_positive=2, n_servers=3, different_servers=True, different_demands=True, seed=7
        ),
    )


def degenerate() -> Iterator[Entry]:
    """Cancellation, redundant rows, and optima that are not unique."""
    made = "made here: cancellation and degeneracy"
    yield _case(
        "cancellation",
        "What earlier levels leave of a resource is 1e-8 of it",
        made,
        ("cancellation",),
        fo.Instance([[1, 0], [1, 1], [0, 1]], [1, 1e8], task_limits=[None, None, 1e8 - 1]),
    )
    yield _case(
        "nearly-parallel",
        "Two nearly parallel capacities",
        made,
        ("cancellation", "near-ties"),
        fo.Instance([[1, 1 + 1e-7], [1, 1]], [1, 1]),
    )
    yield _case(
        "flat-total",
        "Every allocation that uses all has the same number of tasks",
        made,
        ("degenerate",),
        fo.Instance([[1], [1], [1]], [[2], [3]]),
    )
    yield _case(
        "redundant-capacity",
        "A capacity that no allocation reaches",
        made,
        ("degenerate",),
        fo.Instance([[2, 1], [3, 1]], [12, 1000]),
    )
    yield _case(
        "one-server-each",
        "Users who can run on one server each: as many levels as users",
        made,
        ("degenerate", "leximin"),
        fo.Instance([[1]] * 5, [[1], [2], [3], [4], [5]], eligible=np.eye(5, dtype=bool)),
    )
    yield _case(
        "chain",
        "A chain of servers: each user may run on two, and levels follow one another",
        made,
        ("degenerate", "leximin"),
        fo.datasets.library().family("chain", n_users=8, seed=1).instance,
    )
    yield _case(
        "cycle",
        "A cycle of servers, along which tasks can be moved without any change",
        made,
        ("degenerate", "leximin"),
        fo.Instance(
            [[1]] * 4, [[1], [2], [1], [2]], eligible=np.eye(4, dtype=bool) | np.roll(np.eye(4, dtype=bool), 1, 1)
        ),
    )


def regressions() -> Iterator[Entry]:
    """Instances on which some method or solver once failed, kept by the tests."""
    leximin, pools = "tests of leximin on servers", "tests of methods on one pool"
    yield _case(
        "little",
        "A user who needs 1e-7 of what two others share",
        leximin,
        ("scale", "leximin"),
        fo.Instance([[0, 1], [0, 1], [1, 1e-7]], [[10, 10], [7, 9]]),
    )
    yield _case(
        "later-level-falls",
        "More of one capacity lowers the second level",
        leximin,
        ("leximin",),
        fo.Instance([[1, 0], [1, 1]], [[10, 10], [5, 20]]),
    )
    yield _case(
        "apart",
        "One user alone on a small server, two on a large one",
        leximin,
        ("leximin",),
        fo.Instance([[1], [1], [1]], [[1], [10]], eligible=[[1, 0], [0, 1], [0, 1]]),
    )
    yield _case(
        "spread-limits",
        "Thirty users with limits from 1 to 2 that all fit",
        leximin,
        ("degenerate", "leximin"),
        fo.Instance(np.ones((30, 2)), [[500, 500], [400, 600]], task_limits=np.round(np.linspace(1, 2, 30), 6)),
    )
    yield _case(
        "swapped-demands",
        "Demands that swap resources between two servers",
        leximin,
        ("by-server",),
        fo.Instance([[[3, 0], [0, 3]], [[0, 1], [1, 0]]], [[4, 3], [1, 6]]),
    )
    yield _case(
        "thirds",
        "Seven identical users whose tasks have no finite decimals",
        pools,
        ("ties",),
        fo.Instance([[3, 1, 2]] * 7, [10, 11, 12]),
    )
    yield _case(
        "staircase",
        "Resources that fill one after another",
        pools,
        ("degenerate", "leximin"),
        fo.Instance([[1, 1, 1], [1, 1, 1], [0, 1, 1], [0, 0, 1]], [2, 3, 4]),
    )
    yield _case(
        "odd-weights",
        "Two users of one resource each, with weights 5 and 5.64",
        pools,
        ("scale",),
        fo.Instance([[0, 9], [1, 0]], [1, 5], weights=[5, 5.64]),
    )
    yield _case(
        "large-user",
        "A user whose tasks are fifty times as large as those of the others",
        "tests of totals on servers",
        ("scale",),
        fo.Instance([[1, 1], [1, 2], [50, 40]], [[2, 3], [3, 2]]),
    )
    yield _case(
        "wild-units",
        "Resources counted in units of 1e-50 and of 1e52",
        "tests of certificates: wild units",
        ("scale",),
        fo.Instance(
            [[1.5e-50, 2e52], [1.8e-50, 2e52], [6e-51, 4e52]],
            [9e-50, 1.2e53],
        ),
    )


def edges() -> Iterator[Entry]:
    """No users, one user, users who take no part."""
    made = "made here: an edge case"
    yield _case("no-users", "No users", made, ("edge",), fo.Instance([], [4, 4]))
    yield _case("one-user", "One user alone", made, ("edge",), fo.Instance([[2, 3]], [6, 6]))
    yield _case(
        "limit-zero",
        "A user with a limit of 0",
        made,
        ("edge",),
        fo.Instance([[1, 2], [2, 1]], [6, 6], task_limits=[0, None]),
    )
    yield _case(
        "all-limited",
        "Limits that capacities exceed",
        made,
        ("edge",),
        fo.Instance([[1, 2], [2, 1]], [60, 60], task_limits=[3, 5]),
    )
    yield _case(
        "one-resource", "One resource, where 2-DF is undefined", made, ("edge",), fo.Instance([[1], [2], [3]], [12])
    )
    yield _case("disjoint", "Users who share no resource", made, ("edge",), fo.Instance(np.eye(3), [1, 2, 3]))
    yield _case(
        "missing-resource",
        "A server that lacks a resource which one user needs",
        made,
        ("edge",),
        fo.Instance([[1, 0], [1, 2]], [[4, 0], [4, 4]]),
    )
    yield _case(
        "names",
        "Names with <, & and quotes",
        made,
        ("edge",),
        fo.Instance([[1, 2], [2, 1]], [6, 6], users=["a<b>&c", 'say "hi"'], resources=["x|y", "z$"]),
    )
    yield _case(
        "counts",
        "Rows that stand for many identical servers",
        made,
        ("edge",),
        fo.Instance([[1, 2], [3, 1], [2, 2]], [[4, 6], [8, 4]], counts=[1000, 250]),
    )


def infeasible() -> Iterator[Entry]:
    """Conditions that conflict."""
    made = "made here: conditions that conflict"
    pool = fo.Instance([[1, 4], [3, 1]], [9, 18], users=["a", "b"])
    yield _case(
        "guarantees-conflict",
        "Guarantees that exceed the capacity by one unit in a billion",
        made,
        ("infeasible",),
        fo.Instance([[1], [1]], [1], guarantees=[0.5, 0.500000001]),
    )
    yield _case(
        "minima-conflict",
        "Lower bounds that fit alone but not together",
        made,
        ("infeasible",),
        pool,
        notions={
            "minima": "Policy(Leximin(), constraints=[MinTasks({'a': 4, 'b': 3})])",
            "minima-total": "Policy(Total(Tasks()), constraints=[MinTasks({'a': 4, 'b': 3})])",
            "envy-free": "Policy(Total(Tasks()), constraints=[EnvyFree()])",
            "sharing-incentive": "Policy(Total(Tasks()), constraints=[SharingIncentive()])",
        },
    )
    yield _case(
        "just-feasible",
        "Lower bounds that leave exactly one point",
        made,
        ("degenerate",),
        pool,
        notions={
            "minima": "Policy(Leximin(), constraints=[MinTasks({'a': 3, 'b': 2})])",
            "minima-total": "Policy(Total(Tasks()), constraints=[MinTasks({'a': 3, 'b': 2})])",
            "minima-nash": "Policy(AlphaFair(1, Tasks()), constraints=[MinTasks({'a': 3, 'b': 2})])",
        },
    )
