"""The experiments of Hamzeh et al. (2021, "H-FFMRA", section VI, Figs. 4 to 11), beside naive DRF and DRFH.

Every number is taken of bundles (what users hold) and of tasks (what the tasks in those bundles use), which are the
same under DRF and DRFH. The paper gives no distributions, so the workloads are ours (`fairopt.datasets.RequestRounds`
and the constants below), and a table at the end shows how much depends on them. Which claims hold is decided by the
numbers of the run.

Run: python benchmarks/papers/hffmra.py [--rounds-allocation 1000 --rounds-utilisation 2000 --rounds-jain 1000 --seed 2]
Pictures, tables (JSON) and the text about the claims go to benchmarks/out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fairopt as fo
from fairopt import metrics
from fairopt.datasets import RequestRounds
from fairopt.policies.per_server import NaivePerServer

sys.path.insert(0, str(Path(__file__).parents[1]))  # this script is run by its path
import hamzeh_2021_pictures as pictures
from common import OUT, arguments, show
from published import Paper

Float = NDArray[np.floating[Any]]
H, NAIVE, DRFH = "H-FFMRA", "DRF per server", "DRFH"
OF = ("bundles", "tasks")
BETWEEN = "beta between resources"

# Figs. 4 and 5: all dominant requests are below the fair share (at most 0.6 * 1.3 * 1.2 = 0.94 of it) until CPU
# requests grow from round 800 on, and until RAM is taken away from round 700 on.
LATE_TROUBLE: dict[str, Any] = {
    "load": (((0, 0.6), (0.8, 0.6), (1, 1.5)), 0.6),
    "provisioned": (1.0, ((0, 1), (0.7, 1), (1, 0.3))),
}
# Figs. 6 to 11: requests rise and fall, CPU first, then RAM so far that it runs short. Most of them are dominant in
# CPU, since the paper says that DRF leaves RAM unused and nearly fills CPU; half of each would nearly fill both.
WAVES: dict[str, Any] = {
    "dominant": (0.7, 0.3),
    "load": (
        ((0, 0.6), (0.15, 0.6), (0.3, 1.0), (0.45, 0.6), (1, 0.6)),
        ((0, 0.6), (0.5, 0.6), (0.75, 3.0), (0.85, 3.0), (0.95, 0.6), (1, 0.6)),
    ),
}


# What might matter, one thing at a time, beside `BASE`.
BASE: dict[str, Any] = {"n_users": 100, "n_servers": 300}
VARIANTS: dict[str, dict[str, Any]] = {
    "0.6 fair shares, half CPU": {},
    "4 users": {"n_users": 4},
    "users alike, no noise": {"user_spread": 0.0, "noise": 0.0},
    "users from 0.1 to 1.9 times": {"user_spread": 0.9},
    "servers alike": {"spread": 1.0},
    "one request for all servers": {"by_server": False},
    "70% dominant in CPU": {"dominant": (0.7, 0.3)},
    "95% dominant in CPU": {"dominant": (0.95, 0.05)},
    "others 0.05 to 0.2 of it": {"other": (0.05, 0.2)},
    "others 0 to 1 of it": {"other": (0.0, 1.0)},
    "1.2 fair shares": {"load": 1.2},
    "2.5 fair shares": {"load": 2.5},
}


@dataclass(frozen=True)
class Run:
    """What was measured in some of the rounds.

    Attributes
    ----------
    rounds : ndarray of int of shape (n,)
        Which.
    below : ndarray of bool of shape (n,)
        Whether all dominant requests were at most the fair share.
    short : ndarray of shape (n, n_resources)
        Part of the servers that requests exceed.
    series : dict of dict of ndarray
        By policy and by measure, with the rounds along the first axis.
    """

    rounds: NDArray[np.int64]
    below: NDArray[np.bool_]
    short: Float
    series: dict[str, dict[str, Float]]


def measured(a: fo.Allocation) -> dict[str, Float]:
    """All measures of one allocation; groups come in the order dominant, non-dominant."""
    out = {"number of tasks": a.tasks}
    for of in OF:
        held = a.bundles if of == "bundles" else a.instance.per_server_demands * a.tasks_by_server[:, :, None]
        beta = metrics.beta_fairness(a, of)
        out[f"units of {of}"] = held.sum(axis=1)
        out[f"utilisation of {of}"] = _row(metrics.utilisation(a, of).mean)
        out[f"group shares of {of}"] = _table(beta.shares.mean())
        out[f"beta of {of}"] = np.array([_row(beta.dominant), _row(beta.non_dominant)])
        out[f"{BETWEEN} of {of}"] = _row(beta.between_resources)
        out[f"Jain of {of}"] = _table(metrics.group_jain(a, of).mean())
    return out


def _row(values: Mapping[str, float]) -> Float:
    return np.array(list(values.values()))


def _table(groups: Mapping[str, Mapping[str, float]]) -> Float:
    return np.array([_row(group) for group in groups.values()])


def followed(workload: RequestRounds, policies: Mapping[str, Any], number: int) -> Run:
    """Allocations of evenly spaced rounds, measured."""
    chosen = np.unique(np.linspace(0, workload.n_rounds - 1, min(number, workload.n_rounds)).astype(np.int64))
    below, short, found = [], [], {name: [] for name in policies}
    for k in chosen:
        instance = workload.instance(int(k))
        fair = instance.capacities / instance.n_users
        below.append(bool((instance.per_server_demands <= fair).all()))
        exceeded = instance.per_server_demands.sum(axis=0) > instance.capacities
        short.append(np.average(exceeded, axis=0, weights=instance.counts))
        for name, policy in policies.items():
            found[name].append(measured(policy.allocate(instance)))
    series = {name: {key: np.array([m[key] for m in all_]) for key in all_[0]} for name, all_ in found.items()}
    return Run(chosen, np.array(below), np.array(short), series)


# -- tables ---------------------------------------------------------------------------------------------------------


def summary(run: Run) -> list[dict[str, Any]]:
    """Means over the rounds of one experiment.

    Utilisation of CPU and RAM, tasks of all users, shares of dominant groups, beta over servers (the larger of CPU and
    RAM) and Jain in dominant and non-dominant groups, and Jain of users over the whole cluster: of the resource that
    each holds most of, and of their numbers of tasks.
    """
    rows = []
    for name, s in run.series.items():
        for of in OF if name == H else OF[:1]:
            shares, index = s[f"group shares of {of}"].mean(axis=0), s[f"Jain of {of}"].mean(axis=0)
            use, beta = s[f"utilisation of {of}"].mean(axis=0), s[f"beta of {of}"].mean(axis=0)
            held = s[f"units of {of}"]
            rows.append({
                "policy": f"{name}, {of}" if name == H else name, "CPU": use[0], "RAM": use[1],
                "tasks": s["number of tasks"].sum(axis=1).mean(), "dom CPU": shares[0, 0], "dom RAM": shares[0, 1],
                "beta dom": beta[0].max(), "beta non": beta[1].max(),
                "Jain dom": index[0].mean(), "Jain non": index[1].mean(),
                "Jain units": np.mean([metrics.jain((u / u.sum(axis=0)).max(axis=1)) for u in held]),
                "Jain tasks": np.mean([metrics.jain(t) for t in s["number of tasks"]]),
            })  # fmt: skip
    return [_plain(row) for row in rows]


def sensitivity(policies: Mapping[str, Any], number: int, seed: int) -> list[dict[str, Any]]:
    """What matters and what does not: H-FFMRA against naive DRF on workloads that differ in one thing.

    Mean utilisation under DRF, of bundles (the smaller of CPU and RAM) and of tasks; the largest beta of bundles;
    tasks as multiples of DRF's, of all users, of the least and of the most; and the gain in Jain of all groups.
    """
    rows = []
    for name, variant in VARIANTS.items():
        run = followed(RequestRounds(**{**BASE, **variant, "seed": seed}), policies, number)
        ours, theirs = run.series[H], run.series[NAIVE]
        use = {of: ours[f"utilisation of {of}"].mean(axis=0) for of in OF}
        other = theirs["utilisation of tasks"].mean(axis=0)
        by_user = [s["number of tasks"].sum(axis=0) for s in (ours, theirs)]
        gains = {of: _gain(ours[f"Jain of {of}"], theirs[f"Jain of {of}"]) for of in OF}
        rows.append(_plain({
            "workload": name, "DRF CPU": other[0], "DRF RAM": other[1], "bundles": use["bundles"].min(),
            "tasks CPU": use["tasks"][0], "tasks RAM": use["tasks"][1], "beta": ours["beta of bundles"].max(),
            "tasks": by_user[0].sum() / by_user[1].sum(), "least": (by_user[0] / by_user[1]).min(),
            "most": (by_user[0] / by_user[1]).max(),
            "Jain bundles": gains["bundles"], "Jain tasks": gains["tasks"],
        }))  # fmt: skip
    return rows


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v if isinstance(v, str) else float(v) for k, v in row.items()}


def _gain(mine: Float, other: Float) -> float:
    return float(np.nanmean(mine / other) - 1)


# -- claims ---------------------------------------------------------------------------------------------------------

FULL = 0.999  # "full utilization of resources": all but what rounding takes
ABOUT_0 = 0.02  # on Fig. 9: "0.02 which is a very small value"
NEAR_1 = 0.95  # on Fig. 11: "in a certain range [...] approximately 0.95"
EQUAL = 0.05  # "approximately get a total equal": users' means at most so far apart
MORE = 1.05  # "schedule significantly more tasks than DRF"
TIE = 1e-9  # "better" is by more than rounding
ABOUT_20 = (0.15, 0.25)  # "approximately %20 improvements on fairness"


def claims(few: Run, many: Run, most: Run) -> Iterator[dict[str, Any]]:
    """Each claim of the paper, what was measured, and whether it holds."""
    for of in OF:
        yield from _about_allocation(few, of)
    for run in (few, many):
        ours, theirs = (run.series[name]["number of tasks"].sum(axis=0) for name in (H, NAIVE))
        ratio = ours / theirs
        yield _claim(
            f"all users schedule significantly more tasks than under DRF ({len(ratio)} users)", "tasks",
            bool(ratio.min() >= MORE), f"each {ratio.min():.2f} to {ratio.max():.2f} times DRF's, all together "
            f"{ours.sum() / theirs.sum():.2f} times",
        )  # fmt: skip
    for of in OF:
        yield from _about_use(many, of)
    for of in OF:
        yield from _about_jain(most, of)


def _claim(claim: str, of: str, holds: bool, numbers: str) -> dict[str, Any]:
    return {"claim": claim, "of": of, "holds": "yes" if holds else "NO", "measured": numbers}


def _about_allocation(run: Run, of: str) -> Iterator[dict[str, Any]]:
    ours, theirs = (run.series[name][f"units of {of}"] for name in (H, NAIVE))
    for i, (resource, figure) in enumerate((("CPU", 4), ("RAM", 5))):
        more = (ours[..., i] > theirs[..., i]).mean()
        times = ours[..., i].sum() / theirs[..., i].sum()
        yield _claim(
            f"all users get more {resource} than under DRF (Fig. {figure})", of, bool(more > 0.99),
            f"in {100 * more:.0f}% of users and rounds; {times:.2f} times DRF's in all",
        )  # fmt: skip
    if not run.below.any():
        return
    quiet = ours[run.below]
    apart, mean = (np.ptp(u, axis=-2) / u.mean(axis=-2) for u in (quiet, quiet.mean(axis=0)))
    inside = run.series[H][f"Jain of {of}"][run.below].min(axis=(0, 2))
    yield _claim(
        "equal allocation for all users while requests are below the fair share", of, bool(mean.max() <= EQUAL),
        f"users' means {100 * mean[0]:.1f}% (CPU) and {100 * mean[1]:.1f}% (RAM) apart, in one round "
        f"{100 * apart.mean():.0f}%; Jain of dominant groups at least {inside[0]:.3f}, of the others {inside[1]:.3f}",
    )  # fmt: skip


def _about_use(run: Run, of: str) -> Iterator[dict[str, Any]]:
    ours, theirs = run.series[H], run.series[NAIVE]
    use, other = ours[f"utilisation of {of}"], theirs[f"utilisation of {of}"]
    yield _claim(
        "full utilisation (Fig. 6)", of, bool(use.min() >= FULL),
        f"CPU {use[:, 0].min():.3f} to {use[:, 0].max():.3f}, RAM {use[:, 1].min():.3f} to {use[:, 1].max():.3f}",
    )  # fmt: skip
    yield _claim(
        "better utilisation than DRF, of CPU and of RAM (Fig. 6)", of,
        bool((use >= other - TIE).all() and (use.mean(axis=0) > other.mean(axis=0) + TIE).any()),
        f"mean CPU {use[:, 0].mean():.3f} against {other[:, 0].mean():.3f}, "
        f"RAM {use[:, 1].mean():.3f} against {other[:, 1].mean():.3f}",
    )  # fmt: skip
    enough = ~(run.short > 0).any(axis=1)
    for name, chosen in (("without shortage", enough), ("all rounds", np.ones_like(enough))):
        if not chosen.any():
            continue
        for where, key in (("over servers (eqs. 12, 13)", "beta"), ("between CPU and RAM (Fig. 9)", BETWEEN)):
            mine, base = (s[f"{key} of {of}"][chosen] for s in (ours, theirs))
            yield _claim(
                f"beta is about 0 {where}, {name}", of, bool(mine.max() <= ABOUT_0),
                f"dominant at most {mine[:, 0].max():.3f}, non-dominant {mine[:, 1].max():.3f}; DRF {base.max():.3f}",
            )  # fmt: skip


def _about_jain(run: Run, of: str) -> Iterator[dict[str, Any]]:
    ours, theirs = (run.series[name][f"Jain of {of}"] for name in (H, NAIVE))
    for g, (group, figure) in enumerate((("dominant", 10), ("non-dominant", 11))):
        mine, other = ours[:, g], theirs[:, g]
        yield _claim(
            f"Jain of {group} groups near 1 (Fig. {figure})", of, bool(mine.min() >= NEAR_1),
            f"CPU {mine[:, 0].min():.3f} to {mine[:, 0].max():.3f}, RAM {mine[:, 1].min():.3f} to "
            f"{mine[:, 1].max():.3f}; DRF {other.min():.3f} to {other.max():.3f}",
        )  # fmt: skip
        yield _claim(
            f"{group} groups fairer than under DRF (Fig. {figure})", of, bool((mine > other + TIE).mean() > 0.99),
            f"in {100 * (mine > other + TIE).mean():.0f}% of rounds and resources; {_percent(mine, other)} in the mean",
        )  # fmt: skip
    gain = _gain(ours, theirs)
    yield _claim(
        "fairer than DRF by about 20%", of, ABOUT_20[0] <= gain <= ABOUT_20[1],
        f"Jain of all groups {_percent(ours, theirs)} in the mean",
    )  # fmt: skip


def _percent(mine: Float, other: Float) -> str:
    return f"{100 * _gain(mine, other):+.1f}%"


def told(verdicts: list[dict[str, Any]]) -> str:
    """The verdicts as a short text."""
    lines = ["What Hamzeh et al. (2021, H-FFMRA) claim, by the numbers of this run.", ""]
    for of in OF:
        for word, holds in (("hold", "yes"), ("do not hold", "NO")):
            lines += [f"These {word} for {of}:", ""]
            chosen = [v for v in verdicts if (v["of"], v["holds"]) == (of, holds)]
            lines += [f"* {v['claim']}: {v['measured']}." for v in chosen] or ["* none"]
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    """All experiments, their tables and pictures, and what they say about the claims."""
    options = arguments(
        str(__doc__), rounds_allocation=250, rounds_utilisation=60, rounds_jain=40, rounds_drfh=8, rounds_variants=5,
        classes=40, seed=1,
    )  # fmt: skip
    policies = {H: fo.HFFMRA(), NAIVE: NaivePerServer(fo.DRF())}
    with_drfh = {**policies, DRFH: fo.DRFH()}
    experiments = {
        "few": (RequestRounds(4, 90, 1000, seed=options.seed, **LATE_TROUBLE), with_drfh, options.rounds_allocation),
        "many": (RequestRounds(200, 2000, 2000, seed=options.seed, **WAVES), policies, options.rounds_utilisation),
        "most": (RequestRounds(400, 3000, 1000, seed=options.seed, **WAVES), policies, options.rounds_jain),
        "classes": (
            RequestRounds(200, 2000, 2000, n_classes=options.classes, seed=options.seed, **WAVES), with_drfh,
            options.rounds_drfh,
        ),
    }  # fmt: skip
    runs = {}
    for name, (workload, chosen, number) in experiments.items():
        start = time.perf_counter()
        run = runs[name] = followed(workload, chosen, number)
        classes = f" in {workload.n_classes} classes" if workload.n_classes else ""
        title = f"{workload.n_users} users, {workload.n_servers} servers{classes}: means over {len(run.rounds)} rounds "
        show(f"{title}({time.perf_counter() - start:.0f} s)", summary(run), f"hffmra-{name}")
    verdicts = list(claims(runs["few"], runs["many"], runs["most"]))
    show("What Hamzeh et al. (2021) claim, by the numbers of this run", verdicts, "hffmra-claims")
    (OUT / "hffmra-claims.txt").write_text(told(verdicts), encoding="utf-8")
    rows = sensitivity(policies, options.rounds_variants, options.seed)
    show("What depends on the workload: H-FFMRA against DRF per server", rows,
         "hffmra-workloads")  # fmt: skip
    pictures.allocations(runs["few"], OUT / "hffmra-figs-4-5.png")
    pictures.utilisation(runs["many"], OUT / "hffmra-fig-6.png")
    pictures.beta(runs["many"], OUT / "hffmra-figs-7-9.png")
    pictures.jain(runs["most"], OUT / "hffmra-figs-10-11.png")


PAPER = Paper("hamzeh-2021", "Hamzeh et al. (2021)", "H-FFMRA", ())


if __name__ == "__main__":
    main()
