"""Examples of papers, with the tasks that they print where these follow from their definitions.

Numbers of papers whose texts are not at hand are from memory: their sources say so, and name no place in the text. The
example of DRF is also in texts that are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entries import Entry, paper

import fairopt as fo

sys.path.append(str(Path(__file__).parents[1] / "papers"))
from jiang_wu_2021_demands import heavy_light_demands, jiang_wu_demands

FROM_MEMORY = "quoted from memory"
ONE_THREE = ([[1, 4], [3, 1]], [9, 18])  # the instance that most papers use
SLIDES = dict(users=["user 1", "user 2"], resources=["bandwidth", "memory", "cpu"])


def entries() -> Iterator[Entry]:
    """The examples, by paper."""
    yield from ghodsi_2011()
    yield from bhattacharya_2013()
    yield from joe_wong_2013()
    yield from others()
    yield from hamzeh()
    yield from jiang_wu()


def ghodsi_2011() -> Iterator[Entry]:
    """Ghodsi et al. 2011: DRF."""
    yield Entry(
        "ghodsi-2011-example",
        "The example of DRF: tasks of 1 CPU and 4 GB, and of 3 CPUs and 1 GB, on 9 CPUs and 18 GB",
        paper("Ghodsi et al.", 2011, "the example of DRF"),
        ("paper",),
        fo.Instance(*ONE_THREE, users=["A", "B"], resources=["cpu", "memory"]),
        expected={"drf": (3, 2), "nash": ("45/11", "18/11")},
    )
    yield Entry(
        "ghodsi-2011-asset-fairness",
        "Where fairness of assets gives a user less than half of every resource",
        paper("Ghodsi et al.", 2011, f"asset fairness and the sharing incentive, {FROM_MEMORY}"),
        ("paper",),
        fo.Instance([[1, 3], [1, 1]], [30, 30]),
    )
    for name, when, first, tasks in (
        ("truth", "before", [16, 1], ("100/31", "1500/31")),
        ("lie", "after", [16, 8], ("25/6", "100/3")),  # the lie gives user 1 more tasks
    ):
        yield Entry(
            f"ghodsi-2011-ceei-{name}",
            f"The market of CEEI, which is Nash welfare, {when} user 1 lies",
            paper("Ghodsi et al.", 2011, f"CEEI and strategy-proofness, {FROM_MEMORY}"),
            ("paper",),
            fo.Instance([first, [1, 2]], [100, 100]),
            expected={"nash": tasks},
        )


def bhattacharya_2013() -> Iterator[Entry]:
    """Bhattacharya et al. 2013: hierarchical DRF."""
    queues = {"team": ["t", "t", None, None]}
    yield Entry(
        "bhattacharya-2013-starvation",
        "A member of a team who comes late, and whose team already holds all CPUs",
        paper("Bhattacharya et al.", 2013, "in the manner of its example of starvation"),
        ("paper",),
        fo.Instance(
            [[1, 0], [0, 1], [0, 1], [0, 1]],
            [10, 10],
            teams=queues,
            guarantees=[5, 0, 0, 0],
            resources=["cpu", "memory"],
        ),
        expected={"hdrf": (10, "10/3", "10/3", "10/3")},
    )
    yield Entry(
        "bhattacharya-2013-blocked",
        "A team whose member at its limit must not hold the team down",
        paper("Bhattacharya et al.", 2013, "in the manner of its example of blocked users"),
        ("paper",),
        fo.Instance(
            [[1, 0], [0, 1], [0, 1]],
            [10, 10],
            teams={"team": ["t", "t", None]},
            task_limits=[1, None, None],
            resources=["cpu", "memory"],
        ),
        expected={"hdrf": (1, 5, 5)},
    )


def joe_wong_2013() -> Iterator[Entry]:
    """Joe-Wong et al. 2013: FDS and GFJ."""
    yield Entry(
        "joe-wong-2013-introduction",
        "Jobs of 2 GB and 3 CPUs, and of 2 GB and 1 CPU, on 6 GB and 4 CPUs",
        paper("Joe-Wong et al.", 2013, "Fig. 1"),
        ("paper",),
        fo.Instance([[2, 3], [2, 1]], [6, 4], resources=["memory", "cpu"]),
        {"gfj-1/2": "gfj:alpha=0.5", "fds-1/2": "fds:alpha=0.5", "fds-plane": "fds:beta=2,lam=-0.25"},
    )
    for ram, where in ((12, "sec. V-A, Fig. 12"), (25, "sec. V-B, Figs. 15 and 16")):
        yield Entry(
            f"joe-wong-2013-capacity-{ram}",
            f"The datacenter of the experiments with {ram} GB of RAM",
            paper("Joe-Wong et al.", 2013, where),
            ("paper",),
            fo.Instance(ONE_THREE[0], [9, ram], resources=["cpu", "memory"]),
        )
    for need in (3, 12):
        yield Entry(
            f"joe-wong-2013-need-{need}",
            f"The datacenter of the experiments, where a job of user 2 needs {need} GB",
            paper("Joe-Wong et al.", 2013, "sec. V-A, Figs. 7 to 10"),
            ("paper",),
            fo.Instance([[1, 4], [3, need]], [9, 18], resources=["cpu", "memory"]),
        )
    yield Entry(
        "joe-wong-2013-survey",
        "The instance of the survey of preferences",
        paper("Joe-Wong et al.", 2013, "sec. VI, Fig. 17"),
        ("paper",),
        fo.Instance(ONE_THREE[0], [108, 180], users=["A", "B"], resources=["cpu", "storage"]),
    )


def others() -> Iterator[Entry]:
    """Wang et al. 2014 (DRFH), Kash et al. 2014 (dynamic DRF)."""
    yield Entry(
        "wang-2014-example",
        "Two servers, each of which suits one of two users",
        paper("Wang et al.", 2014, f"the example of DRFH, {FROM_MEMORY}"),
        ("paper",),
        fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]], resources=["cpu", "memory"]),
        expected={"drf": (10, 10)},
    )
    yield Entry(
        "kash-2014-example",
        "Three agents of whom each wants another resource most",
        paper("Kash et al.", 2014, f"the example of dynamic DRF, {FROM_MEMORY}"),
        ("paper",),
        fo.Instance([[1, 1 / 2, 3 / 4], [1 / 2, 1, 3 / 4], [1 / 2, 1 / 2, 1]], [1, 1, 1], users=["a", "b", "c"]),
    )


def hamzeh() -> Iterator[Entry]:
    """Hamzeh et al. 2019 and 2021: MLF-DRS and H-FFMRA."""
    yield Entry(
        "hamzeh-2019-table-1",
        "Four users of CPU and RAM",
        paper("Hamzeh et al.", 2019, "Table I"),
        ("paper", "bundles"),
        fo.Instance([[3, 1], [5, 3], [1, 5], [2, 7]], [18, 36], resources=["cpu", "memory"]),
        {"mlf-drs": "mlf-drs"},
    )
    yield Entry(
        "hamzeh-2019-example",
        "The example of DRF again, for MLF-DRS",
        paper("Hamzeh et al.", 2019, "sec. III"),
        ("paper", "bundles"),
        fo.Instance(*ONE_THREE, resources=["cpu", "memory"]),
        {"mlf-drs": "mlf-drs", "h-ffmra": "h-ffmra"},
        only=True,
    )
    yield Entry(
        "hamzeh-2021-section-3",
        "Two users whose demands differ on two servers",
        paper("Hamzeh et al.", 2021, "sec. III"),
        ("paper", "by-server", "bundles"),
        fo.Instance([[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]], resources=["cpu", "memory"]),
        {"h-ffmra": "h-ffmra"},
    )
    yield Entry(
        "hamzeh-2021-short",
        "The example of DRF with little memory",
        paper("Hamzeh et al.", 2021, "eq. 11, on numbers of ours"),
        ("paper", "bundles"),
        fo.Instance([[1, 4], [3, 1]], [9, 4], resources=["cpu", "memory"]),
        {"h-ffmra": "h-ffmra", "mlf-drs": "mlf-drs"},
    )


def jiang_wu() -> Iterator[Entry]:
    """Jiang and Wu 2021: 2-DF."""
    yield Entry(
        "jiang-wu-2021-figure-1",
        "Tasks of (40, 8, 8) and (8, 5, 1) units on 200 units of each resource",
        paper("Jiang and Wu", 2021, "Fig. 1"),
        ("paper",),
        fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200], **SLIDES),
        {"3df": "kdf:k=3"},
        expected={"drf": ("5/2", "25/2"), "2df": ("25/13", "200/13")},
    )
    yield Entry(
        "jiang-wu-2018-lie",
        "Figure 1 of Jiang and Wu (2021) where user 2 reports (10, 9, 9)",
        paper("Jiang and Wu", 2018, "slides on strategy-proofness"),
        ("paper",),
        fo.Instance([[40, 8, 8], [10, 9, 9]], [200, 200, 200], **SLIDES),
        {"3df": "kdf:k=3"},
    )
    yield Entry(
        "jiang-wu-2021-line",
        "One resource and users with limits",
        paper("Jiang and Wu", 2021, "sec. 3"),
        ("paper",),
        fo.Instance([[1], [1], [1]], [12], task_limits=[1.5, 4.5, 6]),
    )
    demands = jiang_wu_demands(3)
    for k in (1_234, 9_876, 15_000, 19_000):
        yield Entry(
            f"jiang-wu-2021-scenario-1-{k}",
            f"Combination {k} of the first scenario: integer requests of three users, 3 units of each resource",
            paper("Jiang and Wu", 2021, "sec. 6.1"),
            ("paper", "ties"),
            fo.Instance(demands[k], [3, 3, 3]),
        )
    for combination in ("I", "II", "III"):
        pair = heavy_light_demands(combination, repeats=1)[3, 6, 0]
        yield Entry(
            f"jiang-wu-2021-scenario-2-{combination}",
            f"Combination {combination} of the second scenario: two users with heavy or light requests",
            paper("Jiang and Wu", 2021, "sec. 6.2, Tables 2 and 3"),
            ("paper",),
            fo.Instance(pair, [1000, 1000, 1000], resources=["bandwidth", "memory", "cpu"]),
        )
    types = fo.datasets.google_servers(50, types=4, cpu=16, memory=128)
    jobs: dict[str, Any] = dict(users=["job 1", "job 2", "job 3"], task_limits=[450, 150, 80])
    yield Entry(
        "jiang-wu-2021-google",
        "Three jobs on 50 servers of four types",
        paper("Jiang and Wu", 2021, "sec. 6.3"),
        ("paper",),
        fo.Instance(
            [[2.5, 3], [1, 15], [1, 10]],
            types.capacities,
            counts=types.counts,
            servers=types.servers,
            resources=types.resources,
            **jobs,
        ),
    )
