"""Hamzeh et al. (2021): H-FFMRA, by bundles (what users hold) and by tasks (what the tasks in bundles use).

See `published` for what a row is. Run: python benchmarks/papers/hamzeh_2021.py [--quick]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import hamzeh_2021_pictures as pictures
import numpy as np
from hamzeh_2021_requests import RequestRounds
from numpy.typing import NDArray
from published import Paper, Row, Run, cannot, claim, main, number

import fairopt as fo
from fairopt import metrics

Float = NDArray[np.floating[Any]]
H, DRF, OF = "H-FFMRA", "DRF per server", ("bundles", "tasks")
POLICIES = {H: fo.HFFMRA(), DRF: fo.NaivePerServer(fo.DRF())}
GROUPS, RESOURCES = ("dominant", "non-dominant"), ("CPU", "RAM")
DEMANDS, CAPACITIES = [[[1, 4], [2, 5]], [[3, 1], [4, 3]]], [[9, 18], [10, 20]]  # sec. III: CPU and memory
sampled = partial(claim, sampled=True)


def section_3(_: Run) -> Iterator[Row]:
    """Two users on two servers."""
    example, place = fo.Instance(DEMANDS, CAPACITIES), "Sec. III"
    for j, s, printed, why in (
        (0, 0, "4/9 > 1/18", "Demands are divided by the other resource's capacity."),
        (0, 1, "4/9, 3/18", "Demands are 5 and 2, capacities 20 and 10."),
        (1, 0, "3/9, 1/18", ""),
        (1, 1, "4/10 > 3/20", ""),
    ):
        ratios = [Fraction(d, c) for d, c in zip(DEMANDS[j][s], CAPACITIES[s], strict=True)]
        yield number(place, f"ratios of user {j + 1} on server {s + 1}", printed, sorted(ratios)[::-1], why=why)
    found = example.per_server_demands / example.capacities
    yield claim(
        place,
        "memory is dominant for user 1 on both servers, CPU for user 2",
        found.argmax(axis=2).tolist() == [[1, 1], [0, 0]],
        f"CPU and memory: user 1 {_text(found[0])}, user 2 {_text(found[1])}",
    )
    drf = POLICIES[DRF].allocate(example)
    groups = metrics.group_shares(drf)
    level = f"Equal dominant shares are {groups.dominant[1, 0]:.4f}, not"
    for j, s, printed, why in (
        (0, 0, "3, 12", ""),
        (0, 1, "4.48, 1.2", f"{level} 0.56; 1.2 GB hold 0.24 tasks."),
        (1, 0, "6, 2", ""),
        (1, 1, "5.52, 4.4", f"{level} 0.552."),
    ):
        yield number(place, f"under DRF, user {j + 1} on server {s + 1}", printed, drf.bundles[j, s], why=why)
    left = drf.leftover
    yield number(
        place,
        "wasted under DRF",
        "nearly 23%",
        100 * left[:, 1].sum() / example.total_capacities[1],
        reading="Memory of both servers.",
    )
    yield claim(
        place,
        "under DRF neither dominant nor non-dominant shares are equal",
        min(np.ptp(groups.dominant), np.ptp(groups.non_dominant)) > 0.01,
        f"dominant {_text(groups.dominant)}, others {_text(groups.non_dominant)}",
    )
    place, raw, share = "Sec. III, Fig. 3", *(fo.HFFMRA(units=units).allocate(example) for units in ("raw", "share"))
    held = [(g.dominant, g.non_dominant) for g in map(metrics.group_shares, (raw, share))]
    yield number(
        place,
        "dominant and non-dominant shares",
        "69%, 31%",
        [100 * g[0, 0] for g in held[0]],
        reading=f"Demands added in raw units; `units='share'` gives {100 * held[1][0][0, 0]:.4g}% and "
        f"{100 * held[1][1][0, 0]:.4g}%.",
        why="16/23 is cut to 69%.",
    )
    yield claim(
        place,
        "under H-FFMRA dominant and non-dominant shares are the same for all resources on all servers",
        max(np.ptp(g) for both in held for g in both) < 1e-9,
        f"in 23rds: user 1 {_text(23 * raw.bundles[0])}, user 2 {_text(23 * raw.bundles[1])}",
    )
    yield claim(
        "Sec. VI.B",
        "all users run significantly more tasks",
        (raw.tasks > drf.tasks).all(),
        f"{_text(raw.tasks)} (`units='share'`: {_text(share.tasks)}), under DRF {_text(drf.tasks)}",
        why="Bundles are not proportional to demands.",
    )


def equations(_: Run) -> Iterator[Row]:
    """Definition 5 and eqs. 12 to 16, as they are printed."""
    short = fo.Instance([[1, 4], [3, 1]], [9, 4])
    got = fo.HFFMRA(units="raw").allocate(short).bundles[:, 0, 1]
    yield claim(
        "Eq. 11",
        "in a shortage each user gets what it requests",
        np.allclose(got, short.demands[:, 1]),
        f"of 4 units, requests of 4 and 1 get {_text(got)}",
        reading="Read as in Def. 5: no group gets more than it requests.",
        why="In a shortage requests exceed the capacity.",
    )
    servers = [fo.Instance([[1, 4], [3, 1]], [[9, 18]] * n) for n in (2, 3, 90)]
    even = [metrics.group_shares(fo.HFFMRA().allocate(cluster)).dominant[:, 0] for cluster in servers]
    beta = [abs(shares[0] - shares[1:].sum()) for shares in even]
    yield claim(
        "Eqs. 12, 13",
        "beta is in (0, 1), and 0 for a fully fair allocation",
        max(beta) < 1e-9,
        f"{_text(np.round(beta, 9))} on 2, 3 and 90 equal servers",
        reading="Read as the largest share minus the smallest.",
        why="As printed it is 0 for equal shares on two servers only.",
    )
    u = np.array([2.0, 2.0, 2.0])
    printed, index = u.sum() ** 2 / (len(u) * u.sum()), metrics.jain(u)
    yield claim(
        "Eqs. 14, 15",
        "Jain's index",
        printed == index,
        f"{printed:g} for (2, 2, 2); the index is {index:g}",
        why="The square is missing.",
    )
    h = fo.HFFMRA().allocate(fo.Instance(DEMANDS, CAPACITIES))
    printed, use = h.usage.sum(axis=0) / 2, [*metrics.utilisation(h).mean.values()]
    yield claim(
        "Eq. 16",
        "average utilisation",
        np.allclose(printed, use),
        f"{_text(printed)} for sec. III; as fractions {_text(use)}",
        why="It is not divided by capacities.",
    )


def _text(values: Any) -> str:
    return ", ".join(f"({_text(v)})" if np.ndim(v) else f"{v:.4g}" for v in values)


def _span(values: Float) -> str:
    return " to ".join(dict.fromkeys((f"{values.min():.3f}", f"{values.max():.3f}")))


# -- workloads --------------------------------------------------------------------------------------------------------

WORKLOADS = (
    "The paper gives neither servers nor requests. Those of Figs. 4 to 11 and of the abstract are generated "
    "(`benchmarks/papers/hamzeh_2021_requests.py`); verdicts hold for these. Dominant requests are about 0.6 fair "
    "shares, others 0.2 to 1 times those. In Figs. 4 and 5 RAM shrinks from round 700 on and CPU requests grow from "
    "800 on. In Figs. 6 to 11, 70% of requests are dominant in CPU, and a wave of CPU requests is followed by one of "
    "RAM. DRF is solved on each server, and comparisons are with DRF. *Bundles* are what users hold, *tasks* what "
    "their tasks use."
)
# Figs. 4 and 5: all dominant requests are below the fair share (at most 0.6 * 1.3 * 1.2 = 0.94 of it) until round 800.
LATE_TROUBLE: dict[str, Any] = {
    "load": (((0, 0.6), (0.8, 0.6), (1, 1.5)), 0.6),
    "provisioned": (1.0, ((0, 1), (0.7, 1), (1, 0.3))),
}
# Figs. 6 to 11. Most requests are dominant in CPU, since the paper says that DRF leaves RAM unused and nearly fills
# CPU; half of each would nearly fill both.
WAVES: dict[str, Any] = {
    "dominant": (0.7, 0.3),
    "load": (
        ((0, 0.6), (0.15, 0.6), (0.3, 1.0), (0.45, 0.6), (1, 0.6)),
        ((0, 0.6), (0.5, 0.6), (0.75, 3.0), (0.85, 3.0), (0.95, 0.6), (1, 0.6)),
    ),
}
# What might matter for the claims of the abstract, one thing at a time.
VARIANTS: dict[str, dict[str, Any]] = {
    "half of the requests dominant in CPU": {},
    "95% dominant in CPU": {"dominant": (0.95, 0.05)},
    "users alike": {"user_spread": 0.0, "noise": 0.0},
    "users' requests from 0.1 to 1.9": {"user_spread": 0.9},
    "the same request on all servers": {"by_server": False},
    "other requests 0.05 to 0.2": {"other": (0.05, 0.2)},
    "4 users": {"n_users": 4},
    "1.2 fair shares": {"load": 1.2},
    "2.5 fair shares": {"load": 2.5},
}


class Rounds(NamedTuple):
    """What was measured in some rounds: by policy and measure, with the rounds along the first axis."""

    rounds: NDArray[np.int64]
    below: NDArray[np.bool_]  # whether all requests were at most the fair share
    short: NDArray[np.bool_]  # whether requests exceeded some server
    series: dict[str, dict[str, Float]]

    def both(self, measure: str) -> tuple[Float, Float]:
        """A measure under H-FFMRA and under DRF."""
        return self.series[H][measure], self.series[DRF][measure]


def measured(a: fo.Allocation) -> dict[str, Float]:
    """All measures of one allocation; groups come in the order dominant, non-dominant."""
    out = {"number of tasks": a.tasks}
    for of in OF:
        held = a.bundles if of == "bundles" else a.instance.per_server_demands * a.tasks_by_server[:, :, None]
        beta = metrics.beta_fairness(a, of)
        out[f"units of {of}"] = held.sum(axis=1)
        out[f"utilisation of {of}"] = _array(metrics.utilisation(a, of).mean)
        out[f"group shares of {of}"] = _array(beta.shares.mean())
        out[f"beta over servers of {of}"] = np.array([max(beta.dominant.values()), max(beta.non_dominant.values())])
        out[f"beta between resources of {of}"] = _array(beta.between_resources)
        out[f"Jain of {of}"] = _array(metrics.group_jain(a, of).mean())
    return out


def _array(values: Mapping[str, Any]) -> Float:
    return np.array([_array(v) if isinstance(v, dict) else v for v in values.values()])


def followed(many: int, n_rounds: int, **options: Any) -> Rounds:
    """Allocations of evenly spaced rounds, measured."""
    workload = RequestRounds(n_rounds=n_rounds, seed=1, **options)
    chosen = np.linspace(0, n_rounds - 1, many).astype(np.int64)
    below, short, found = [], [], {name: [] for name in POLICIES}
    for k in chosen:
        instance = workload.instance(int(k))
        requests = instance.per_server_demands
        below.append(bool((requests <= instance.capacities / instance.n_users).all()))
        short.append(bool((requests.sum(axis=0) > instance.capacities).any()))
        for name, policy in POLICIES.items():
            found[name].append(measured(policy.allocate(instance)))
    series = {name: {key: np.array([m[key] for m in all_]) for key in all_[0]} for name, all_ in found.items()}
    return Rounds(chosen, np.array(below), np.array(short), series)


# -- the figures ------------------------------------------------------------------------------------------------------

FULL = 0.999  # "full utilization of resources": all but what rounding takes
ABOUT_0 = 0.02  # on Fig. 9: "0.02 which is a very small value"
NEAR_1 = 0.95  # on Fig. 11: "in a certain range [...] approximately 0.95"
EQUAL = 5  # percent: "approximately get a total equal": users' means at most so far apart
MORE = 1.05  # "schedule significantly more tasks than DRF"
ALL = 0.99  # "all users get more": in so many of the users and rounds
TIE = 1e-9  # "better" is by more than rounding
ABOUT_20 = 15  # percent: "approximately %20 improvements on fairness", from here on
UNUSED = "Tasks do not use whole bundles."
BY_REQUEST = "Non-dominant resources are split in proportion to requests."


def figs_4_5(run: Run) -> Iterator[Row]:
    """4 users on 90 servers over 1,000 rounds."""
    size = {"many": 250 if run.full else 31, "n_rounds": 1000, "n_classes": None if run.full else 15}
    few = followed(**size, **LATE_TROUBLE, user_spread=0.3)
    if run.draws:
        run.save(
            pictures.allocations(few),
            "figs-4-5",
            "Figs. 4 and 5: units of four users, running means.",
        )
    for i, resource in enumerate(RESOURCES):
        for of in OF:
            ours, theirs = (units[..., i] for units in few.both(f"units of {of}"))
            each = ours.sum(axis=0) / theirs.sum(axis=0)
            yield sampled(
                f"Fig. {4 + i}",
                f"all users get more {resource} ({of})",
                (ours > theirs).mean() >= ALL,
                f"in {100 * (ours > theirs).mean():.0f}% of cases; per user {each.min():.2f} to {each.max():.2f} times",
                why=UNUSED if of == "tasks" else "In most rounds, not in all.",
            )
    late, early = few.rounds >= 800, few.rounds < 700
    falls = [ram[late, :, 1].mean() / ram[early, :, 1].mean() for ram in few.both("units of bundles")]
    yield sampled(
        "Fig. 5",
        "after round 700 RAM falls under both policies",
        max(falls) < 1,
        f"from 800 on {falls[0]:.2f} (DRF {falls[1]:.2f}) times that before 700",
    )
    for of in OF:
        each, after = (_apart(few, of, when) for when in (few.below, late))
        yield sampled(
            "Sec. VI.A",
            f"equal for all users below the fair share ({of})",
            max(each) <= EQUAL,
            f"means differ by {each[0]:.0f}% (CPU) and {each[1]:.0f}% (RAM), from round 800 on by {after[0]:.0f}% and "
            f"{after[1]:.0f}%",
            why=BY_REQUEST,
        )
    yield _more_tasks(few)


def _apart(rounds: Rounds, of: str, when: NDArray[np.bool_]) -> Float:
    """Percent between users' means over some rounds under H-FFMRA, by resource."""
    means = rounds.series[H][f"units of {of}"][when].mean(axis=0)
    return 100 * np.ptp(means, axis=0) / means.mean(axis=0)


def _more_tasks(rounds: Rounds) -> Row:
    ours, theirs = (tasks.sum(axis=0) for tasks in rounds.both("number of tasks"))
    ratio = ours / theirs
    return sampled(
        "Sec. VI.B",
        f"all users run significantly more tasks ({len(ratio)} users)",
        ratio.min() >= MORE,
        f"per user {ratio.min():.2f} to {ratio.max():.2f} times, in total {ours.sum() / theirs.sum():.2f}",
        why=UNUSED,
    )


def figs_6_to_9(run: Run) -> Iterator[Row]:
    """200 users on 2,000 servers over 2,000 rounds."""
    size = {"n_rounds": 2000, "n_users": 200, "n_servers": 2000, **WAVES}
    many = followed(80 if run.full else 17, n_classes=None if run.full else 15, **size)
    if run.draws:
        panels = [(resource, "utilisation", (i,)) for i, resource in enumerate(RESOURCES)]
        run.save(
            pictures.curves(many, "mean utilisation", panels),
            "fig-6",
            "Fig. 6: bundles use the servers fully; tasks use more RAM than under DRF, and less CPU.",
        )
        run.save(
            pictures.curves(many, "share of capacity", _panels("group shares", 7)),
            "figs-7-8",
            "Figs. 7 and 8: shares of groups; equal for CPU and RAM in bundles without shortage.",
        )
        panels = [(group, "beta between resources", (g,)) for g, group in enumerate(GROUPS)]
        run.save(
            pictures.curves(many, "beta (0 is even)", panels, (-0.01, 0.6)),
            "fig-9",
            "Fig. 9: distance between shares of CPU and RAM.",
        )
    yield _more_tasks(many)
    for of in OF:
        (cpu, ram), (drf_cpu, drf_ram) = (use.T for use in many.both(f"utilisation of {of}"))
        yield sampled(
            "Fig. 6",
            f"full utilisation under H-FFMRA ({of})",
            min(cpu.min(), ram.min()) >= FULL,
            f"CPU {_span(cpu)}, RAM {_span(ram)}",
            why=UNUSED if of == "tasks" else "",
        )
        yield sampled(
            "Fig. 6",
            f"better utilisation ({of})",
            (cpu >= drf_cpu - TIE).all() and (ram > drf_ram + TIE).all(),
            f"means: CPU {cpu.mean():.3f} and {drf_cpu.mean():.3f}, RAM {ram.mean():.3f} and {drf_ram.mean():.3f}",
            why="" if of == "bundles" else "More RAM, less CPU.",
        )
    yield sampled(
        "Fig. 6",
        "under DRF CPU is nearly full, and RAM is not",
        drf_cpu.min() >= FULL > drf_ram.max(),
        f"CPU at least {drf_cpu.min():.3f}, RAM at most {drf_ram.max():.3f}",
        reading="Requests were chosen so.",
    )
    merged = RequestRounds(n_classes=40 if run.full else 10, seed=1, **size)
    pooled = [fo.DRF().allocate(merged.instance(k)) for k in range(0, 2000, 250 if run.full else 1000)]
    least = min(min(metrics.utilisation(a).mean.values()) for a in pooled)
    yield sampled(
        "Fig. 6",
        "DRF on several servers cannot use all resources",
        least < FULL,
        f"at least {least:.3f}",
        reading="Read as DRFH, on all servers.",
        why="DRFH runs tasks where they fit.",
    )
    enough = ~many.short
    for g, group in enumerate(GROUPS):
        for of in OF:
            apart = np.array(
                [
                    [b[enough, g].max() for b in many.both(f"beta {where} of {of}")]
                    for where in ("between resources", "over servers")
                ]
            )
            yield sampled(
                f"Fig. {7 + g}",
                f"{group} groups have equal CPU and RAM on all servers ({of})",
                apart[:, 0].max() <= ABOUT_0,
                f"at most {apart[0, 0]:.3f} apart, servers {apart[1, 0]:.3f}; DRF {apart[0, 1]:.3f}, {apart[1, 1]:.3f}",
                why=UNUSED if of == "tasks" else "",
                reading="Without shortage.",
            )
    far = [many.series[H][f"beta between resources of {of}"] for of in OF]
    yield sampled(
        "Fig. 9",
        "CPU and RAM are at most 0.02 apart in all rounds",
        min(b.max() for b in far) <= ABOUT_0,
        f"at most {far[0].max():.3f} (bundles), {far[1].max():.3f} (tasks); without shortage "
        f"{far[0][enough].max():.3f}, {far[1][enough].max():.3f}",
        why="In a shortage, requests bound the shares.",
    )
    yield cannot(
        "Figs. 7 to 11",
        "single values",
        "shares of 0.59, 0.62 and 0.64, Jain's index of 0.95 and 0.96",
        "Requests are not given.",
    )


def _panels(measure: str, fig: int) -> list[tuple[str, str, tuple[int, int]]]:
    return [
        (f"{group}, {resource} (Fig. {fig + g})", measure, (g, i))
        for g, group in enumerate(GROUPS)
        for i, resource in enumerate(RESOURCES)
    ]


def figs_10_11(run: Run) -> Iterator[Row]:
    """400 users on 3,000 servers over 1,000 rounds."""
    size = {"n_rounds": 1000, "n_users": 400, "n_servers": 3000, "n_classes": None if run.full else 10}
    most = followed(60 if run.full else 17, **size, **WAVES)
    if run.draws:
        run.save(
            pictures.curves(most, "Jain's index", _panels("Jain", 10), (0.8, 1.01)),
            "figs-10-11",
            "Figs. 10 and 11: Jain's index of groups. H-FFMRA exceeds DRF in the RAM wave only.",
        )
    top = max(index.max() for index in most.both("Jain of bundles"))
    yield sampled(
        "Fig. 10",
        "the index of CPU goes beyond 1",
        top > 1 + TIE,
        f"at most {top:.3f}",
        why="Jain's index cannot; eq. 14 as printed can.",
    )
    for g, group in enumerate(GROUPS):
        for of in OF:
            ours, theirs = (index[:, g] for index in most.both(f"Jain of {of}"))
            (cpu, ram), better = ours.T, (ours > theirs + TIE).mean()
            yield sampled(
                f"Fig. {10 + g}",
                f"Jain's index of {group} groups about 0.95 or more ({of})",
                ours.min() >= NEAR_1,
                f"CPU {_span(cpu)}, RAM {_span(ram)}; DRF {_span(theirs)}",
                why=BY_REQUEST if g else UNUSED if of == "tasks" else "",
            )
            if g:
                measures = f"in {100 * better:.0f}% of cases; mean {_gain(ours, theirs):+.1f}%"
                yield sampled("Fig. 11", f"remarkably fairer ({of})", better >= ALL, measures, why=BY_REQUEST)
    index = [
        metrics.group_jain(fo.HFFMRA().allocate(RequestRounds(seed=1, load=load, n_users=400).instance(0))).mean()
        for load in (0.6, 0.06)
    ]
    before, after = (np.array([min(group.values()) for group in by.values()]) for by in index)
    yield claim(
        "Fig. 11",
        "larger capacities make a fully fair allocation likely",
        after.min() > before.min() + TIE,
        f"index {_text(before)} (dominant, others), with tenfold capacity {_text(after)}",
        why=BY_REQUEST,
    )


def _gain(mine: Float, other: Float) -> float:
    return 100 * float(np.nanmean(mine / other) - 1)


def abstract(run: Run) -> Iterator[Row]:
    """What the abstract promises, on workloads that differ in one thing."""
    found = []
    for variant in VARIANTS.values():
        size = {"n_users": 100, "n_servers": 300 if run.full else 60, **variant}
        rounds = followed(5 if run.full else 2, 1000, **size)
        ours, theirs = rounds.both("number of tasks")
        index = [np.array([metrics.jain(t) for t in tasks]) for tasks in (ours, theirs)]
        found.append(
            [
                *(_gain(*rounds.both(f"Jain of {of}")) for of in OF),
                _gain(*index),
                (ours.sum(axis=0) / theirs.sum(axis=0)).min(),
                ours.sum() / theirs.sum(),
            ]
        )
    (*gains, least, together), names = np.array(found).T, [*VARIANTS]
    for what, gain in zip(("groups, bundles", "groups, tasks", "users' numbers of tasks"), gains, strict=True):
        reached = gain.max() >= ABOUT_20
        yield sampled(
            "Abstract",
            f"about 20% fairer on some workload (Jain's index: {what})",
            reached,
            f"{gain.min():+.1f}% ({names[gain.argmin()]}) to {gain.max():+.1f}% ({names[gain.argmax()]})",
            reading="DRF equalises shares, not tasks." if reached else "",
            why="" if reached else "Under DRF dominant groups have index 1.",
        )
    yield sampled(
        "Abstract",
        "all users run significantly more tasks on some workload",
        least.max() >= MORE,
        f"{least.min():.2f} to {least.max():.2f} times for some user, in total {together.min():.2f} to "
        f"{together.max():.2f} times",
        why="Some user runs fewer.",
    )


PAPER = Paper(
    "hamzeh-2021",
    "Hamzeh et al. (2021)",
    "H-FFMRA",
    (section_3, equations, figs_4_5, figs_6_to_9, figs_10_11, abstract),
    WORKLOADS,
)

if __name__ == "__main__":
    main(PAPER)
