"""Random instances and policies whose explanations are checked by answers to changed instances.

The changes are made here, from the documented meaning of a sentence: coefficients of shares are constants of a
user-defined share, and hierarchical DRF is filled by recursion in fractions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

import fairopt as fo
from fairopt.errors import Infeasible, NotCertified
from fairopt.questions.explain import Explainer
from fairopt.questions.explanation import Binding, Explanation
from oracle.hierarchy import Problem, drawn, filled

GAINS, STAYS = 1e-5, 3e-5  # relative changes of a level that are a gain, and that are none
JOINT = ("together", "undecided")  # kinds of sentences that no single raise decides


@dataclass(frozen=True, repr=False)
class Given(fo.Share):
    """Coefficients as they are given, by user or by user and server."""

    numbers: tuple[Any, ...]

    def per_task(self, instance: fo.Instance) -> Any:
        return np.array(self.numbers)


class Case(NamedTuple):
    """An instance, a mechanism, and who is explained; ``solve`` gives tasks (n_users, n_servers) of changed numbers.

    ``solve`` takes an instance, a constraint to leave out or relax by a part (its index, and the part), further
    constraints, weights of teams to change, and whether coefficients follow the instance.
    """

    kind: str
    instance: fo.Instance
    mechanism: Any
    name: str
    solve: Callable[..., Any]
    per_task: Any


KINDS: dict[str, Callable[[Any], Any]] = {
    "leximin": fo.Leximin,
    "max-min": fo.MaxMin,
    "alpha 0.5": lambda s: fo.AlphaFair(0.5, s),
    "alpha 1": lambda s: fo.AlphaFair(1, s),
    "alpha 2": lambda s: fo.AlphaFair(2, s),
    "total": fo.Total,
    "tiers": lambda s: fo.MaxMin(s).then(fo.Total(fo.Tasks())),
    "sum": lambda s: fo.AlphaFair(2, s) + 0.1 * fo.Total(fo.Tasks()),
}
BLOCKS = ("none", "none", "none", "max share", "min tasks", "slices", "no envy", "reserve")


def case(seed: int) -> Case:
    """The instance and policy of a seed; every eighth is of `HDRF`, every eighth of `OfTeam`."""
    r = random.Random(seed)
    if seed % 8 == 7:
        return _tree(seed, r)
    servers = r.choice([1, 1, 1, 2, 3])
    n, m = r.randint(1, 6), r.choice([1, 2, 2, 3, 3, 4])
    demands = np.array([[r.choice([0.0, r.uniform(0.1, 4), r.uniform(0.1, 4)]) for _ in range(m)] for _ in range(n)])
    twice = m > 1 and r.random() < 0.02
    if twice:  # two resources that bind together
        demands[:, -1] = demands[:, 0]
    demands[~demands.any(axis=1)] = 1.0
    capacities = np.array([[r.uniform(5, 20) for _ in range(m)] for _ in range(servers)])
    if twice:
        capacities[:, -1] = capacities[:, 0]
    limits = [r.choice([None, None, r.uniform(0.2, 4)]) for _ in range(n)]
    given: dict[str, Any] = {"weights": [r.choice([1, r.uniform(0.5, 3)]) for _ in range(n)], "task_limits": limits}
    given["eligible"] = [[r.random() < 0.8 for _ in range(servers)] for _ in range(n)]
    for row in given["eligible"]:
        row[r.randrange(servers)] = True
    if servers > 1 and r.random() < 0.2:
        given["counts"] = [r.randint(1, 3) for _ in range(servers)]
    of_teams = seed % 8 == 6
    if of_teams or r.random() < 0.3:
        given["teams"] = {"team": [f"t{r.randint(1, max(1, n // 2))}" for _ in range(n)]}
    by_server = servers > 1 and not of_teams and r.random() < 0.15
    if by_server:
        demands = demands[:, None, :] * np.array([[[r.uniform(0.7, 1.4)] for _ in range(servers)] for _ in range(n)])
    base = fo.Instance(demands, capacities, **given)
    if r.random() < 0.25 and not of_teams:
        part = [r.choice([0, r.uniform(0, 0.9 / n)]) for _ in range(n)]
        base = base.replace(guarantees=base.own_slices * np.minimum(np.array(part) * n, 1.0))
    kind = r.choice([*KINDS, "leximin", "leximin"]) if not of_teams else "leximin"
    share = r.choice([fo.DominantShare(), fo.DominantShare(), fo.Tasks(), fo.PNormShare(2)])
    if by_server:
        share = fo.DominantShare()
    if kind == "total" and r.random() < 0.75:  # sums of dominant shares have many optima
        share = fo.Tasks()
    block = r.choice(BLOCKS) if not of_teams else "none"
    c = share.coefficients(base)
    held = Given(tuple(map(tuple, c.tolist())) if c.ndim == 2 else tuple(c.tolist()))
    level = float(np.min(base.derived.common_level(c))) if c.ndim == 1 else 0.2
    most, least, slices, part = r.uniform(0.6, 1.2) * level, r.uniform(0.3, 0.9), base.own_slices, r.uniform(0.05, 0.3)
    low = {base.users[0]: least * float(min(slices[0], base.task_limits[0]))}

    def blocks(s: Any, real: bool, relax: float = 0.0) -> list[Any]:
        return {
            "none": [],
            "max share": [fo.MaxShare(most * (1 + relax), s)],
            "min tasks": [fo.MinTasks({k: v * (1 - relax) for k, v in low.items()})],
            "slices": [fo.SharingIncentive() if real else fo.MinTasks(tuple(slices * (1 - relax)))],
            "no envy": [fo.EnvyFree()],
            "reserve": [fo.Reserve(0, part * (1 - relax))],
        }[block]

    def objective(s: Any, weights: Any = None) -> Any:
        return KINDS[kind](fo.OfTeam(s, weights=weights) if of_teams else s)

    def solve(
        changed: fo.Instance, relax: Any = 0.0, more: Any = (), team_weights: Any = None, real: bool = False
    ) -> Any:
        s = share if real else held
        some = [] if relax is None else blocks(s, real, relax)
        return fo.Policy(objective(s, team_weights), [*some, *more]).allocate(changed).tasks_by_server

    names = [*base.users, *(base.teams.names if base.teams else ())]
    name = r.choice(names)
    policy = fo.Policy(objective(share), blocks(share, True))
    return Case(f"OfTeam {kind}" if of_teams else kind, base, policy, name, solve, c)


class Roomy(Problem):
    """A problem with other capacities than those of which shares are taken."""

    room: list[Fraction]

    def saturated(self, x: list[Any]) -> set[int]:
        used = [sum(g[i] * v for g, v in zip(self.ratios, x, strict=True)) for i in range(self.m)]
        return {i for i in range(self.m) if used[i] >= self.room[i]}

    def most(self, x: list[Any], dx: list[Any]) -> Fraction:
        if len(self.capacities) > 1:
            return super().most(x, dx)
        used = [sum(g[i] * v for g, v in zip(self.ratios, x, strict=True)) for i in range(self.m)]
        rate = [sum(g[i] * v for g, v in zip(self.ratios, dx, strict=True)) for i in range(self.m)]
        return min((a - u) / q for a, u, q in zip(self.room, used, rate, strict=True) if q > 0)


def _tree(seed: int, r: random.Random) -> Case:
    """A tree of hierarchical DRF; mostly of numbers that do not tie."""
    chosen = seed if r.random() < 0.1 else 2 * seed + 1
    instance, problem, mechanism = drawn(chosen, r.choice([1, 1, 1, 2]))

    def solve(
        changed: fo.Instance, relax: Any = 0.0, more: Any = (), team_weights: Any = None, real: bool = False
    ) -> Any:
        if real:
            return mechanism.allocate(changed).tasks_by_server
        weights, tree = problem.weights, problem.tree
        if team_weights or (changed.weights != instance.weights).any():
            raise NotImplementedError
        limits = [None if np.isinf(t) else float(t) for t in changed.task_limits]
        starts = np.minimum(changed.guarantees, changed.task_limits).tolist()
        new = Roomy(problem.demands, problem.capacities, tree, weights, limits, problem.eligible, starts)
        new.capacities = [[Fraction(v) for v in row] for row in changed.capacities.tolist()]
        new.room = [sum(row[i] for row in new.capacities) / new.total[i] for i in range(new.m)]
        return np.array([[float(v)] for v in filled(new)])

    names = [*instance.users, *instance.teams.names]
    return Case("HDRF", instance, mechanism, r.choice(names), solve, instance.dominant_shares)


class Found(NamedTuple):
    """What was found of a sentence: its policy, its kinds, its faults, and whether no single raise decides it."""

    kind: str
    sorts: tuple[str, ...]
    faults: tuple[str, ...]
    joint: bool
    text: str


def check(seed: int, by: float = 0.01) -> Found | None:
    """The sentence of a seed, checked; None if the policy has no answer there."""
    made = case(seed)
    try:
        answer = made.mechanism.allocate(made.instance)
    except (Infeasible, NotCertified):
        return None
    found = answer.explain(made.name)
    faults = tuple(_faults(made, found, answer, by))
    sorts = tuple(sorted({b.kind for b in (*found.binding, *found.also)})) or ("asks for nothing",)
    return Found(made.kind, sorts, faults, any(b.kind in JOINT for b in found.binding), str(found))


def _faults(made: Case, found: Explanation, answer: fo.Allocation, by: float) -> list[str]:
    """The statements of an explanation that are not so."""
    instance, faults = made.instance, list[str]()
    about = Explainer(answer)
    rows = about.subject(found.name).members
    if not found.binding:
        silent = instance.task_limits[rows].any() and not found.sentences[-1].find("compares teams") > 0
        return ["nothing said"] if silent else []
    c = made.per_task[:, None] if made.per_task.ndim == 1 else made.per_task
    base = made.solve(instance)

    def value(table: Any) -> float:
        return (
            float((np.where(instance.eligible, c, 0.0)[rows] * table[rows]).sum())
            if c.shape[1] > 1
            else float((c[rows, 0] * table[rows].sum(axis=1)).sum())
        )

    before = value(base)
    alone = np.minimum(instance.tasks_alone.sum(axis=1), instance.task_limits)
    scale = max(before, 1e-3 * float((c.max(axis=1) * alone)[rows].sum()))

    def change_to(table: Any) -> float:
        return (value(table) - before) / scale

    def moved(changed: fo.Instance, **given: Any) -> float:
        return change_to(made.solve(changed, **given)) / (by / 0.01)

    def capacity(*which: tuple[int, int]) -> fo.Instance:
        raised = np.array(instance.capacities)
        for s, i in which:
            raised[s, i] *= 1 + by
        return instance.with_capacities(raised)

    if any(b.kind == "fact" for b in found.binding) or (found.sentences[-1].find("compares teams") > 0):
        return []
    kinds = [b.kind for b in found.binding]
    if "undecided" in kinds:
        return _undecided(made, found, rows, base, by)
    stays = STAYS * 0.01 / by  # what solvers leave does not depend on the change
    # capacities, one by one
    named = {_rows(instance, b): b for b in (*found.binding, *found.also) if b.kind == "resource"}
    joint = [b for b in found.binding if b.kind == "together"]
    for s in range(instance.n_servers):
        for i in range(instance.n_resources):
            one = next((b for at, b in named.items() if (s, i) in at), None)
            where = {at for at in named if (s, i) in at}
            change = moved(capacity(*(next(iter(where)) if where else [(s, i)])))
            what = f"{instance.resources[i]} on {instance.servers[s]} moves it by {change:.3g}"
            if one is not None and by < 0.01 and not one.steady:
                continue
            if one is None:
                faults += [f"{what}, not named"] if abs(change) > stays else []
            elif one in found.binding:
                faults += [f"{what}, named as binding"] if change <= GAINS else []
            elif np.sign(change) != np.sign(one.percent) or (abs(change) < GAINS and by == 0.01):
                faults.append(f"{what}, named with {one.percent:.3g}%")
    # limits
    for j in rows.tolist():
        if not np.isfinite(instance.task_limits[j]) or instance.task_limits[j] == 0 or len(rows) > 8:
            continue
        limits = np.array(instance.task_limits)
        limits[j] *= 1 + by
        change = moved(instance.replace(task_limits=limits))
        is_named = any(b.kind == "limit" and b.name == instance.users[j] for b in found.binding)
        if any(b.kind == "limit" and b.name == instance.users[j] for b in found.also):
            faults += [] if abs(change) > GAINS or by < 0.01 else [f"the limit of {instance.users[j]} does not move it"]
            continue
        if is_named and change <= GAINS:
            faults.append(f"the limit of {instance.users[j]} is named, but a higher one gives {change:.3g}")
        if not is_named and abs(change) > stays:
            faults.append(f"the limit of {instance.users[j]} is not named, but a higher one gives {change:.3g}")
    # what binds together
    if joint:
        faults += _together(made, found, joint, rows, moved, by)
    # constraints and weights
    for b in found.binding:
        if b.kind == "block":
            relax = by if b.relaxed else (None if "EnvyFree" in b.name else by)
            if moved(instance, relax=relax) <= GAINS:
                faults.append(f"{b.name} is named, but relaxed it gives nothing")
        if b.kind == "weight" and (b.steady or by == 0.01) and not _weight(made, found, moved, change_to, by) > GAINS:
            faults.append("its weight is named, but does not matter")
        if b.kind == "guarantee" and not _guaranteed(made, found, b, rows, moved, by) > GAINS:
            faults.append(f"a guarantee is named ({b.name}), but does not matter")
    if made.kind != "HDRF" and made.per_task.ndim == 1:  # else placements with the same shares differ in tasks
        faults += _totals(made, found, change_to, by)
    return faults


def _rows(instance: fo.Instance, b: Binding) -> tuple[tuple[int, int], ...]:
    """The capacities of a record."""
    i = instance.resource_index(b.name)
    classes, merged = instance.derived.server_classes, instance.merged()
    kept = [merged.server_index(name) for name in b.servers] if b.servers else range(merged.n_servers)
    return tuple((s, i) for s in range(instance.n_servers) if classes[s] in kept)


def _together(made: Case, found: Explanation, joint: list[Binding], rows: Any, moved: Any, by: float) -> list[str]:
    """Faults of a statement that only all of some things help."""
    instance = made.instance

    def raised(some: list[Binding]) -> float:
        capacities, limits = np.array(instance.capacities), np.array(instance.task_limits)
        relax = 0.0
        for b in some:
            if b.name in instance.resources:
                for s, i in _rows(instance, b):
                    capacities[s, i] *= 1 + by
            elif b.name in instance.users:
                limits[instance.user_index(b.name)] *= 1 + by
            elif "of its users" in b.name:
                limits[rows] *= 1 + by
            else:
                relax = by if "EnvyFree" not in b.name else None
        return float(moved(instance.replace(capacities=capacities, task_limits=limits), relax=relax))

    faults = [] if raised(joint) > GAINS else ["all of them together give nothing"]
    for b in joint:
        fewer = [other for other in joint if other is not b]
        if fewer and raised(fewer) > STAYS:
            faults.append(f"without {b.name} the others help as well")
    return faults


def _undecided(made: Case, found: Explanation, rows: Any, base: Any, by: float) -> list[str]:
    """Faults of a statement that the objective does not decide: it has the same value at other tasks of a user."""
    c = made.per_task[:, None] if made.per_task.ndim == 1 else made.per_task
    level, name = float((c[rows] * base[rows]).sum()), found.name
    share = Given(
        tuple(map(tuple, made.per_task.tolist())) if made.per_task.ndim == 2 else tuple(made.per_task.tolist())
    )
    objective = made.mechanism.objective
    from fairopt.blocks.algebra import tiers_of
    from fairopt.blocks.model import Point

    def values(table: Any) -> list[float]:
        return [tier.value(Point(made.instance, table)) for tier in tiers_of(objective)]

    best = values(base)
    for bound in (fo.MaxShare({name: level * (1 - by)}, share), fo.MinShare({name: level * (1 + by) + 1e-4}, share)):
        try:
            other = values(made.solve(made.instance, more=[bound]))
        except Infeasible:
            continue
        if all(b - v <= 1e-6 * abs(b) for b, v in zip(best, other, strict=True)):
            return []
    return ["the objective does decide it"]


def _guaranteed(made: Case, found: Explanation, b: Binding, rows: Any, moved: Any, by: float) -> float:
    """What more guaranteed to it gives, or less to others; infinite if no more can be guaranteed."""
    instance = made.instance
    tasks = np.array(instance.guarantees)
    if b.name == found.name:
        tasks[rows] *= 1 + by
    elif b.amount is None:
        tasks[np.setdiff1d(np.arange(len(tasks)), rows)] *= 1 - by
    try:
        if b.amount is not None and b.name != found.name:  # a bound of the policy
            return float(moved(instance, more=[fo.MinTasks({found.name: b.amount * (1 + by)})]))
        return float(moved(instance.replace(guarantees=tasks)))
    except Infeasible:
        return np.inf


def _weight(made: Case, found: Explanation, moved: Any, change_to: Any, by: float) -> float:
    """What a larger weight gives."""
    instance = made.instance
    if made.kind == "HDRF":
        own = dict(made.mechanism.weights or {})
        before = own.get(found.name)
        if before is None:
            before = float(instance.own_weights[instance.user_index(found.name)])
        other = fo.HDRF(made.mechanism.by, own | {found.name: before * (1 + by)})
        return float(change_to(other.allocate(instance).tasks_by_server)) / (by / 0.01)
    if made.kind.startswith("OfTeam") and found.name not in instance.users:
        return float(moved(instance, team_weights={found.name: 1 + by}))
    members = (
        [found.name] if found.name in instance.users else [instance.users[j] for j in instance.teams.names[found.name]]
    )
    weights = {user: float(instance.own_weights[instance.user_index(user)]) * (1 + by) for user in members}
    return float(moved(instance.with_weights(weights)))


def _totals(made: Case, found: Explanation, change_to: Any, by: float) -> list[str]:
    """Faults of what moves it only because a total grows."""
    instance, faults = made.instance, list[str]()
    named = {b.name: b for b in found.also if b.kind == "total"}
    others = {b.name for b in (*found.binding, *found.also) if b.kind != "total"}
    for i, resource in enumerate(instance.resources):
        if resource in others:
            continue
        raised = np.array(instance.capacities)
        raised[:, i] *= 1 + by
        table = made.solve(instance.with_capacities(raised), real=True)
        change = change_to(table) / (by / 0.01)
        if resource in named and not (abs(change) > GAINS and np.sign(change) == np.sign(named[resource].percent)):
            faults.append(f"the total of {resource} is named, but moves it by {change:.3g}")
        if resource not in named and abs(change) > STAYS:
            faults.append(f"the total of {resource} moves it by {change:.3g}, and is not named")
    return faults
