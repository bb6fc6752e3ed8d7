"""Questions drawn from a seed, by category; for fuzz.py. A category is a function of a generator in `CATEGORIES`."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cvxpy as cp
import fuzz_blocks as ours
import numpy as np
from fuzz_blocks import Draw
from fuzz_constants import constants
from fuzz_verdicts import Question, concave_of
from oracle import concave, exact_lp
from oracle.exact_cluster import Cluster

import fairopt as fo

Rng = np.random.Generator


def plain(values: Any) -> Any:
    """Numbers as people write them, so that code is short: whole ones as integers."""
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, (list, tuple)):
        return type(values)(plain(v) for v in values)
    if isinstance(values, float):
        return int(values) if values.is_integer() and abs(values) < 1e15 else float(values)
    return values


def tuples(table: Any) -> Any:
    """Nested lists as nested tuples."""
    return tuple(tuples(row) if isinstance(row, list) else row for row in table)


def drawn(
    rng: Rng,
    n: int,
    servers: int,
    m: int,
    *,
    by_server: bool = False,
    alike: bool = False,
    most: int = 6,
    room: int = 20,
    often: float = 0.3,
) -> dict[str, Any]:
    """Small whole numbers, zeros, and with a chance of ``often`` each: weights, limits, counts and eligibility."""
    demands = rng.integers(0, most + 1, (n, servers, m) if by_server else (n, m))
    demands[..., 0] += ~demands.any(axis=-1)
    capacities = np.repeat(rng.integers(1, room, (1, m)), servers, 0) if alike else rng.integers(1, room, (servers, m))
    given: dict[str, Any] = {"demands": plain(demands), "capacities": plain(capacities)}
    if rng.random() < often:
        given["weights"] = plain(rng.integers(1, 4, n))
    if rng.random() < often:
        given["task_limits"] = [None if rng.random() < 0.5 else plain(k / 4) for k in rng.integers(1, 24, n)]
    if servers > 1 and rng.random() < often:
        given["counts"] = plain(rng.integers(1, 4, servers))
    if servers > 1 and not alike and rng.random() < often:
        eligible = rng.random((n, servers)) < 0.7
        eligible[np.arange(n), rng.integers(0, servers, n)] = True
        given["eligible"] = plain(eligible.astype(int))
    return given


def one_of(rng: Rng, *choices: Any) -> Any:
    """Any of them."""
    return choices[rng.integers(len(choices))]


def at_hand(solver: str | None) -> str | None:
    """The solver, or CLARABEL where it is not installed: all else is drawn the same under every Python."""
    return solver if solver in (None, *cp.installed_solvers()) else "CLARABEL"


def digits(value: float, k: int = 3) -> float:
    """A number of few digits."""
    return float(f"{value:.{k}g}")


def shares(rng: Rng) -> Draw:
    n, servers, m = int(rng.integers(2, 7)), int(rng.integers(2, 6)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, alike=rng.random() < 0.8, most=4, room=65)
    given.pop("eligible", None)
    if rng.random() < 0.15:  # who takes no part is a user all the same
        limits = given.setdefault("task_limits", [None] * n)
        limits[rng.integers(n)] = 0
    table = rng.integers(1, 5, (n, servers)).astype(float)
    kind = one_of(rng, "held", "sliced", "position", "type", "label")
    by_server = [tuple(plain(column)) for column in table.T]
    if kind == "position":
        steps = rng.integers(0, 4, n)
        steps[rng.integers(n)] += 1
        table = 1.0 + np.outer(steps, np.arange(servers))
        share: fo.Share = ours.ByPosition(tuple(plain(steps)))
    elif kind == "type":
        given["server_types"] = [f"type{s + 1}" for s in range(servers)]
        share = ours.ByType(tuple(zip(given["server_types"], by_server, strict=True)))
    elif kind == "label":
        share = ours.ByLabel(tuple((f"server{s + 1}", rates) for s, rates in enumerate(by_server)))
    else:
        share = (ours.Held if kind == "held" else ours.Sliced)(tuples(plain(table)))
    cluster = Cluster(**given)
    constraints: list[fo.Constraint] = []
    used = share
    if rng.random() < 0.4:
        own = [[Fraction(v) for v in row] for row in table.tolist()]
        level = exact_lp.smallest(cluster.forms(own, per_weight=False), cluster.rows)
        block = one_of(rng, "MaxShare", "EqualShares", *["MinShare"] * (len(cluster.users) == n))  # 0 for the idle
        if block == "MinShare":
            constraints.append(fo.MinShare(digits(float(level) * rng.uniform(0.2, 0.9)), share))
        elif block == "MaxShare":
            constraints.append(fo.MaxShare(digits(float(level) * rng.uniform(0.5, 2.0)), share))
        else:
            constraints.append(fo.EqualShares(share))
        if rng.random() < 0.5:
            used = one_of(rng, fo.Tasks(), fo.DominantShare())
    name = one_of(rng, "least", "least", "total", "leximin", "ordered", "alpha", "alpha")
    if name == "alpha" and constraints == [fo.EqualShares(share)] and used is not share:
        name = "least"
    objective: fo.Objective
    if name == "least":
        objective = fo.MaxMin(used)
    elif name == "total":
        objective = fo.Total(used)
    elif name == "leximin":
        objective = fo.Leximin(used)
    elif name == "ordered":
        parameter = tuple(sorted(plain(rng.integers(0, 4, n)), reverse=True))
        objective = fo.OrderedWeighted(parameter if parameter[0] else (1,), used)
    else:
        objective = fo.AlphaFair(one_of(rng, 0.5, 1, 2, 3, 5, 10), used)
    options = {} if rng.random() < 0.8 else {"solver": at_hand(one_of(rng, "CLARABEL", "ECOS"))}
    return Draw(given, fo.Policy(objective, constraints), options)


def alpha(rng: Rng) -> Draw:
    n, servers, m = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, by_server=True, room=13)
    number = one_of(rng, 2, 2.5, 3, 4, 5, 7, 10, 15, 20)
    share = one_of(rng, fo.DominantShare(), fo.DominantShare(), fo.PNormShare(1), fo.Tasks())
    options = {} if rng.random() < 0.7 else {"solver": at_hand(one_of(rng, "CLARABEL", "ECOS"))}
    return Draw(given, fo.Policy(fo.AlphaFair(number, share)), options)


def wide(rng: Rng) -> Draw:
    n, servers, m = int(rng.integers(2, 7)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, often=0.15)
    decades = one_of(rng, 8, 12, 16, 18, 20, 24)
    start = -decades * one_of(rng, 0, 0.5, 1)
    demands = 10.0 ** rng.uniform(start, start + decades, (n, m))
    demands *= (rng.random((n, m)) < 0.9) | (np.arange(m) == rng.integers(0, m, (n, 1)))
    given["demands"] = [[plain(digits(d)) for d in row] for row in demands.tolist()]
    if rng.random() < 0.7:
        capacities = 10.0 ** rng.uniform(-12, 12, (servers, m))
        given["capacities"] = [[plain(digits(c)) for c in row] for row in capacities.tolist()]
    given.pop("task_limits", None)
    if rng.random() < 0.3:
        per_task = demands / np.array(given["capacities"]).sum(axis=0)
        limits = rng.uniform(0.1, 2.0, n) / per_task.max(axis=1)
        given["task_limits"] = [None if rng.random() < 0.5 else digits(t) for t in limits]
    policy = one_of(
        rng,
        *[fo.MostTasks()] * 8,
        fo.Policy(fo.Total()),
        *[fo.Policy(fo.MaxMin())] * 2,
        fo.Policy(fo.MaxMin(fo.Tasks())),
        fo.Policy(fo.OrderedWeighted((3, 2, 1))),
        fo.DRF(),
    )
    names = ["CLARABEL", at_hand("ECOS"), "HIGHS"] * 2 + ["SCS"]
    options: dict[str, Any] = one_of(rng, *[{}] * 5, *[{"method": "cone"}] * 3, *({"solver": name} for name in names))
    if options.get("solver") == "SCS":
        options["time_limit"] = 2  # it runs on where others give up
    return Draw(given, policy, options)


def traces(rng: Rng) -> Draw:
    n, servers, m = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, by_server=rng.random() < 0.2, room=10, often=0.5)
    kind = rng.random()
    demands = np.array(given["demands"], dtype=float)
    if kind < 0.7:
        for _ in range(rng.integers(1, 4)):
            where = tuple(rng.integers(0, demands.shape))
            if demands[where] >= 1:
                demands[where] = digits(demands[where] * 10.0 ** -rng.integers(4, 13))
    if kind > 0.6:
        near = 1 + rng.integers(0, 4, (servers, m)) * 2.0 ** -rng.integers(27, 44)  # so that products are exact
        if demands.ndim == 3:
            demands = demands[:, :1] * near
        else:
            given["capacities"] = plain(np.array(given["capacities"], dtype=float)[:1] * near)
    given["demands"] = plain(demands)
    policy = one_of(
        rng,
        *[fo.DRF()] * 4,
        fo.TSF(),
        fo.Policy(fo.Leximin(fo.Tasks())),
        fo.Policy(fo.Leximin(fo.PNormShare(1))),
        *([fo.KDF(2, short="positive")] * (m > 1)),
    )
    options: dict[str, Any] = one_of(rng, {}, {}, {}, {}, {"method": "cone"}, {"solver": "HIGHS"})
    return Draw(given, policy, options)


def own(rng: Rng) -> Draw:
    n, servers, m = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    given = drawn(rng, n, servers, m, most=3, room=one_of(rng, 5, 20, 101), often=0.2)
    kind = one_of(
        rng, ours.Saturating, ours.Saturating, ours.Logarithms, ours.Roots, ours.Near, ours.Bent, ours.BentByVariable
    )
    exponent = rng.uniform(-2, 1)
    rates = np.array([digits(10.0 ** (exponent + rng.uniform(0, 1))) for _ in range(n)])
    if rng.random() < 0.3:
        rates[:] = rng.integers(1, 6)
    if kind is ours.Near:
        rates = np.array([digits(rng.uniform(0, 2) * given["capacities"][0][0] / 3) for _ in range(n)])
    objective: fo.Objective = kind(tuple(plain(rates)))
    more = rng.random()
    if more < 0.15:
        objective = objective + 0.1 * fo.Total(fo.Tasks())
    elif more < 0.3:
        objective = objective + 0.5 * ours.Logarithms(tuple(plain(rates)))
    options = {} if rng.random() < 0.8 else {"solver": at_hand(one_of(rng, "CLARABEL", "ECOS", "SCS"))}
    return Draw(given, fo.Policy(objective), options)


def rows(rng: Rng) -> Draw:
    while True:  # until there is room
        n, servers, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 3))
        given = drawn(rng, n, servers, m, often=0.2)
        cluster = Cluster(**given)
        k = int(rng.integers(2, 5))
        matrix = rng.integers(-1, 4, (k, n)).astype(float)
        matrix[np.arange(k), rng.integers(0, n, k)] += 1
        sizes = 10.0 ** rng.uniform(-8, 8, k)
        values = rng.uniform(-1, 3, k) * np.abs(matrix).sum(axis=1) * sizes
        matrix = np.array([[digits(v * size) for v in row] for row, size in zip(matrix.tolist(), sizes, strict=True)])
        values = np.array([digits(v) for v in values.tolist()])
        held, most = tuples(plain(matrix)), tuple(plain(values))
        exact = Question.of(given, [ours.AtMost(held, most)]).all_rows
        try:
            if exact_lp.smallest(cluster.forms(cluster.dominant()), exact) > Fraction(1, 100):
                break
        except exact_lp.NoPoint:
            continue
    block = one_of(rng, ours.AtMost, ours.RequiredAtMost, ours.WithRoom, ours.RequiringTotal, ours.Smallest)
    if block is ours.RequiringTotal:
        policy = fo.Policy(ours.RequiringTotal(held, most))
    elif block is ours.Smallest:
        policy = fo.Policy(ours.Smallest(tuple(plain([digits(v) for v in 10.0 ** rng.uniform(-8, 8, n)]))))
    else:
        objective = one_of(rng, fo.Total(fo.Tasks()), fo.Total(), fo.MaxMin(), fo.Leximin(), fo.AlphaFair(2))
        policy = fo.Policy(objective, [block(held, most)])
    options = {} if rng.random() < 0.7 else {"solver": at_hand(one_of(rng, "CLARABEL", "ECOS"))}
    return Draw(given, policy, options)


def language(rng: Rng) -> Draw:
    """Ways to write what is known otherwise: terms, functions, `Rows` and variables of one's own."""
    given = any_instance(rng, least=2, room=40)
    n, _ = sizes(given)
    kind = one_of(rng, "terms", "variables", "function")
    if kind == "terms":
        alpha, bonus = one_of(rng, 0.5, 1, 2, 5), one_of(rng, 0.05, 0.5)
        objective: fo.Objective = fo.AlphaFair(alpha) + bonus * fo.Total(fo.Tasks())
        text = f"WithBonus({alpha}, {bonus})"
    elif kind == "variables":
        given.pop("weights", None)
        k = int(rng.integers(1, n + 1))
        objective, text = fo.OrderedWeighted((1,) * k), f"SumOfSmallest({k})"
    else:
        curve, block = one_of(rng, ("sqrt", ours.Roots), ("log1p", ours.Logarithms))
        objective, text = block((1,) * n), f"lambda model: cp.sum(cp.{curve}(model.tasks))"
    if rng.random() < 0.3:
        return Draw(given, fo.Policy(objective), text=f"Policy({text})")
    tasks = np.array(Question.of(given, ()).shares(), dtype=float) @ _split(Question.of(given, ()))
    matrix = rng.integers(-1, 4, (int(rng.integers(1, 4)), n)).astype(float)
    if rng.random() < 0.5:  # a number of tasks of others, for each ordered pair
        above, below = np.nonzero(~np.eye(n, dtype=bool))
        matrix = np.zeros((len(above), n))
        matrix[np.arange(len(above)), above] = 1
        matrix[np.arange(len(above)), below] = -one_of(rng, 1, 2, 10)
        matrix = matrix[matrix @ tasks <= 0] if (matrix @ tasks <= 0).any() else matrix[:1].clip(0)
    used = matrix @ tasks
    values = np.where(used > 0, used * rng.uniform(0.5, 2, len(used)), np.minimum(0.5 * used, 0.0))
    if (matrix < 0).any() and rng.random() < 0.5:
        values = np.maximum(values, 0.0)
    held, most = tuples(plain(matrix)), tuple(plain([digits(v) for v in values.tolist()]))
    row = f"lambda model: np.array({held}) @ model.tasks <= np.array({most})"
    words = one_of(rng, row, f"ByRows({held}, {most})", f"WithSlack({held}, {most})")
    return Draw(given, fo.Policy(objective, [ours.AtMost(held, most)]), text=f"Policy({text}, [{words}])")


def read(rng: Rng) -> Draw:
    while True:  # until what is asked for can be had
        n, servers, m = int(rng.integers(2, 5)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        given = drawn(rng, n, servers, m, often=0.25)
        draw = _read(rng, given)
        if draw is not None:
            return draw


def _read(rng: Rng, given: dict[str, Any]) -> Draw | None:
    n = len(given["demands"])
    made = {repr(block): block for block in (_block(rng, given) for _ in range(rng.integers(1, 4)))}
    objective = one_of(rng, fo.Total(fo.Tasks()), fo.Total(), fo.MaxMin(), fo.Leximin())
    linear, changes = True, []
    left = dict(made)
    for change in rng.choice(["out", "limits", "added", "objective"], 2, replace=False, p=[0.4, 0.1, 0.25, 0.25]):
        if change == "out":
            gone = one_of(rng, *made)
            changes.append(("out", gone))
            left.pop(gone, None)
        elif change == "limits" and "task_limits" in given:  # they hold all the same
            changes.append(("limits",))
        elif change == "added":
            j, k = map(int, rng.choice(n, 2, replace=False))
            factor, most = plain(float(rng.integers(1, 9)) / 4), plain(float(rng.integers(1, 12)) / 2)
            changes.append(("ratio", j, k, factor) if rng.random() < 0.5 else ("most", j, most))
        elif change == "objective":
            kind = one_of(rng, "linear", "least", "roots", "logarithms")
            v = rng.integers(-1, 6, n)
            v[rng.integers(n)] = 3
            if kind in ("linear", "least"):
                changes.append((kind, plain(v)) if kind == "linear" else (kind,))
            elif not any(isinstance(block, fo.EqualShares) for block in left.values()):
                changes.append((kind,))
                linear = False
    draw = Draw(given, fo.Policy(objective, list(made.values())), {}, ("read", "", tuple(changes), False))
    question = Question.of(given, ours.asked_of(draw)[1].constraints)
    if not linear and question.equal:
        return None
    try:  # with the policy's own rows and with those of the problem, so that the policy makes sense
        worth = [Fraction(1)] * len(question.cluster.pairs)
        if exact_lp.maximise(worth, question.all_rows, question.equal).value <= 0:
            return None
        rows, values = (np.array(part, dtype=float) for part in zip(*question.all_rows, strict=True))
        if not linear and not concave.has_room(rows, values, question.top):
            return None
    except exact_lp.NoPoint:
        return None
    solver = at_hand(one_of(rng, "CLARABEL", "ECOS", "SCS", *(["HIGHS"] * 3 if linear else [])))
    return Draw(given, draw.policy, {}, ("read", solver, tuple(changes), bool(rng.random() < 0.1)))


def _block(rng: Rng, given: dict[str, Any]) -> fo.Constraint:
    """Any block of a linear condition."""
    n, m = len(given["demands"]), len(given["capacities"][0])
    kind = rng.integers(8)
    j = int(rng.integers(n))
    if kind == 0:
        return fo.Reserve(int(rng.integers(m)), one_of(rng, 0.25, 0.5, 0.75))
    if kind in (1, 2):
        tasks = plain(float(rng.integers(1, 8)) / (8 if kind == 1 else 2))
        return (fo.MinTasks if kind == 1 else fo.MaxTasks)({f"user{j + 1}": tasks})
    if kind in (3, 4):
        level = plain(float(rng.integers(1, 8)) / (64 if kind == 3 else 16))
        return (fo.MinShare if kind == 3 else fo.MaxShare)(level)
    return (fo.EqualShares(fo.Tasks()), fo.SharingIncentive(), fo.EnvyFree())[kind - 5]


NEAR_ZERO = (
    "fds:alpha=1",
    "nash",
    "pnorm:p=1,alpha=1",
    "AlphaFair(1, PNormShare(2))",
    "AlphaFair(1) + AlphaFair(1, Tasks())",
    "AlphaFair(1).then(Total())",
)
NOTIONS = (
    "drf",
    "drfh",
    "kdf:k=2,short=positive",
    "tsf",
    "fds:alpha=0.5",
    "fds:alpha=2",
    "fds:alpha=5",
    "fds:beta=2,lam=-1",
    "gfj:alpha=1",
    "gfj:alpha=2",
    "most-tasks",
    "mlf-drs",
    "ffmra",
    "h-ffmra",
    "ps-dsf",
    "per-server",
    "bottleneck",
    "AlphaFair(1) + 0.1 * Total(Tasks())",
    "MaxMin().then(Total(Tasks()))",
    "OrderedWeighted((3, 2, 1))",
    "MaxMin(Tasks())",
    "Leximin(PNormShare(1))",
)


def load(rng: Rng) -> Draw:
    return _saved(rng, edit=False)


def edited(rng: Rng) -> Draw:
    return _saved(rng, edit=True)


def _saved(rng: Rng, edit: bool) -> Draw:
    """What a notion answers, through a file."""
    name = one_of(rng, *(NOTIONS if rng.random() < 0.5 else NEAR_ZERO))
    n, servers = int(one_of(rng, 1, 1, 2, 3)), 1 if name == "bottleneck" else int(one_of(rng, 1, 1, 2, 3))
    m = int(rng.integers(2 if name.startswith("kdf") else 1, 4))
    given = drawn(rng, n, servers, m, most=30, room=40, often=0.2)
    if n == 1 and rng.random() < 0.3:  # one task, so that the logarithm of tasks is near 0 as well
        given["capacities"] = [plain(np.array(given["demands"][0]) + (np.array(given["demands"][0]) == 0))] * servers
    if name in ("mlf-drs", "ffmra", "h-ffmra"):  # not defined for these
        given.pop("weights", None)

    return Draw(given, fo.policies.named_policy(name), {}, ("saved", edit), f"named_policy({name!r})")


# -- routes and blocks ---------------------------------------------------------------------------------------------

CONCAVE = ((0.5, 1), (0.5, 3), (0.8, 0.25), (0.8, 1), (1, 0.5), (2, -0.5), (2, -1), (3, -1), (3, -0.7))
NOT_CONCAVE = (
    (2, -0.2),
    (3, -0.1),
    (0.5, 0.3),
    (0.8, 0.1),
    (-1, 1),
    (-2, 0.5),
    (0.3, 1),
    (-0.5, 2),
    (2, 0),
    (0.5, 0),
    (-1, 0),
)
ALPHAS = (0, 0.1, 0.3, 0.5, 0.9, 1, 1, 1.1, 1.5, 2, 2, 3, 5, 10, 20)


def a_share(rng: Rng, n: int, m: int) -> fo.Share:
    """Any of fairopt's shares; of those that some users may lack, rarely."""
    k = int(rng.integers(1, m + 1))
    by_user = tuple((float(v),) * k for v in rng.integers(1, 4, n))
    ranks = one_of(rng, None, None, tuple(range(1, k + 1)), by_user)
    return one_of(
        rng,
        *[fo.DominantShare()] * 4,
        *[fo.Tasks()] * 2,
        fo.ThroughputShare(),
        *[fo.KDominantShare(k, ranks, "positive")] * 2,
        fo.KDominantShare(k),
        fo.PNormShare(one_of(rng, 0, 0.5, 1, 2, 3, 8)),
        fo.PNormShare(1),
        fo.StandAloneShare(),
        fo.ResourceShare(int(rng.integers(m))),
    )


def a_number(rng: Rng, n: int, m: int) -> fo.Objective:
    """Any of fairopt's objectives that is a number."""
    of = a_share(rng, n, m)
    v = sorted(rng.integers(0, 5, n).tolist(), reverse=True)
    return one_of(
        rng,
        fo.MaxMin(of),
        fo.Total(of),
        *[fo.AlphaFair(one_of(rng, *ALPHAS), of)] * 4,
        fo.FairnessEfficiency(*one_of(rng, *CONCAVE), of),
        fo.OrderedWeighted((v[0] + 1, *v[1:]), of),
        fo.AlphaFair(one_of(rng, 0.5, 1, 2), of) + 0.25 * fo.Total(fo.Tasks()),
        2 * fo.MaxMin(of) + fo.Total(),
    )


def an_objective(rng: Rng, n: int, m: int) -> fo.Objective:
    """A number, or a leximin."""
    return fo.Leximin(a_share(rng, n, m)) if rng.random() < 0.25 else a_number(rng, n, m)


def a_policy(rng: Rng, n: int, m: int) -> fo.Policy:
    """A named notion, or any objective."""
    if rng.random() < 0.6:
        return fo.Policy(an_objective(rng, n, m))
    alpha, k = one_of(rng, *ALPHAS), int(rng.integers(1, m + 1))
    return one_of(
        rng,
        fo.DRF(),
        fo.DRF(),
        fo.TSF(),
        fo.KDF(k, short="positive"),
        fo.FDS(alpha),
        fo.GFJ(alpha),
        fo.PNormFairness(2, alpha),
        fo.FDS(beta=2, lam=-1),
        fo.GFJ(beta=0.5, lam=1),
        fo.NashWelfare(),
        fo.MostTasks(),
    )


def idle(rng: Rng, given: dict[str, Any]) -> dict[str, Any]:
    """Now and then a user whose limit is 0."""
    n = len(given["demands"])
    if n > 1 and rng.random() < 0.1:
        given.setdefault("task_limits", [None] * n)[rng.integers(n)] = 0
    return given


def a_pool(rng: Rng, most_users: int = 8, least: int = 1, **options: Any) -> dict[str, Any]:
    """One server."""
    return drawn(rng, int(rng.integers(least, most_users + 1)), 1, int(rng.integers(1, 5)), **options)


def a_cluster(rng: Rng, most_users: int = 5, least: int = 1, **options: Any) -> dict[str, Any]:
    """Several servers."""
    kind = rng.random()
    options = {"alike": kind < 0.15, "by_server": kind > 0.75} | options
    n, servers, m = int(rng.integers(least, most_users + 1)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    return drawn(rng, n, servers, m, **options)


def any_instance(rng: Rng, least: int = 1, **options: Any) -> dict[str, Any]:
    """A pool, or several servers of few users."""
    return a_pool(rng, 6, least, **options) if rng.random() < 0.6 else a_cluster(rng, 4, least, **options)


def sizes(given: dict[str, Any]) -> tuple[int, int]:
    """Users and resources."""
    return len(given["demands"]), len(given["capacities"][0])


def pools(rng: Rng) -> Draw:
    given = idle(rng, a_pool(rng))
    return Draw(given, a_policy(rng, *sizes(given)))


def servers(rng: Rng) -> Draw:
    given = idle(rng, a_cluster(rng))
    return Draw(given, a_policy(rng, *sizes(given)))


def guarantees(rng: Rng) -> Draw:
    given = any_instance(rng, room=40)
    held = np.array(Question.of(given, ()).shares(), dtype=float) @ _split(Question.of(given, ()))
    least = [0.0 if rng.random() < 0.3 else digits(rng.uniform(0.1, 0.95) * float(x)) for x in held]
    users = Question.of(given, ()).cluster.users
    given["guarantees"] = {f"user{j + 1}": x for j, x in zip(users, least, strict=True)}
    return Draw(given, a_policy(rng, *sizes(given)))


def teams(rng: Rng) -> Draw:
    given = idle(rng, any_instance(rng, least=2, room=40))
    n = len(given["demands"])
    labels = [one_of(rng, "a", "b", "c") for _ in range(n)]
    given["teams"] = {"team": labels}
    users = one_of(rng, *[fo.DominantShare()] * 3, fo.Tasks(), fo.PNormShare(1))
    weights = {team: plain(float(rng.integers(1, 7)) / 2) for team in sorted({*labels}) if rng.random() < 0.5}
    share: fo.Share = fo.OfTeam(users, weights=weights or None)
    constraints: list[fo.Constraint] = []
    if rng.random() < 0.5:
        question = Question.of(given, ())
        part = (
            np.array(question.shares(), dtype=float) @ _split(question) * rng.uniform(0.1, 0.9, len(question.shares()))
        )
        least = dict(zip(question.cluster.users, (digits(x) for x in part.tolist()), strict=True))
        share = one_of(rng, share, share, users)
        if rng.random() < 0.4:
            share = fo.Surplus(share, tuple(least.get(j, 0.0) for j in range(n)))
        else:
            given["guarantees"] = {f"user{j + 1}": x for j, x in least.items() if rng.random() < 0.7}
            share = fo.Surplus(share)
    elif rng.random() < 0.3:
        level = digits(10.0 ** rng.uniform(-2, -0.3))
        constraints = [fo.MaxShare(level, fo.OfTeam(fo.DominantShare()))]
    objective = one_of(
        rng,
        *[fo.Leximin(share)] * 3,
        fo.MaxMin(share),
        fo.Total(share),
        *[fo.AlphaFair(alpha, share) for alpha in (0.5, 1, 2, 5)],
        fo.OrderedWeighted((3, 2, 1), share),
        fo.MaxMin(share).then(fo.Total(fo.Tasks())),
    )
    return Draw(given, fo.Policy(objective, constraints))


def plane(rng: Rng) -> Draw:
    given = drawn(rng, int(rng.integers(2, 4)), 1, int(rng.integers(1, 5)))
    given.pop("weights", None)
    share = one_of(rng, fo.DominantShare(), fo.Tasks(), fo.PNormShare(1))
    return Draw(given, fo.Policy(fo.FairnessEfficiency(*one_of(rng, *NOT_CONCAVE), share)))


def weights(rng: Rng) -> Draw:
    given = any_instance(rng, least=2)
    given["weights"] = rounded(10.0 ** rng.uniform(-4.5, 4.5, len(given["demands"])))
    return Draw(given, a_policy(rng, *sizes(given)))


def scales(rng: Rng) -> Draw:
    given = any_instance(rng, least=2)
    demands, capacities = np.array(given["demands"], dtype=float), np.array(given["capacities"], dtype=float)
    units = 10.0 ** rng.uniform(-12, 12, capacities.shape[1])
    users = 10.0 ** rng.uniform(-6, 6, len(demands)) if rng.random() < 0.5 else np.ones(len(demands))
    rows = 10.0 ** rng.uniform(-3, 3, len(capacities)) if rng.random() < 0.3 else np.ones(len(capacities))
    given["demands"] = rounded(demands * units * users.reshape(-1, *[1] * (demands.ndim - 1)))
    given["capacities"] = rounded(capacities * units * rows[:, None])
    if "task_limits" in given:
        limits = zip(given["task_limits"], users.tolist(), strict=True)
        given["task_limits"] = [None if limit is None else digits(limit / user) for limit, user in limits]
    return Draw(given, a_policy(rng, *sizes(given)))


EXPONENTS = (0, 0, 0, 1, -1, 43, -43, 66, -66, 100, -100, 150, -150, 194, -194)  # of 2


def wild(rng: Rng) -> Draw:
    return _wild(rng, "wild")


def lies(rng: Rng) -> Draw:
    what = one_of(rng, "read", "tasks", "tasks", "evidence", "evidence")
    parts = (0.0, 0.5, 2.0, 1e13, 1e-13, 1e200) if what == "evidence" else (0.0, 0.5, 0.999, 1e-200)
    return _wild(rng, "lie", what, one_of(rng, *parts), bool(rng.random() < 0.5))


def _wild(rng: Rng, *how: Any) -> Draw:
    """An instance of small numbers in other units of weights, resources and tasks, which change no share."""
    given = any_instance(rng)
    n, m = sizes(given)
    policy: Any = a_policy(rng, n, m)
    if rng.random() < 0.4:
        blocks = [b for b in (_block(rng, given),) if not isinstance(b, (fo.MinTasks, fo.MaxTasks))]
        policy = fo.Policy(an_objective(rng, n, m), blocks)
    elif rng.random() < 0.1 and how == ("wild",):
        policy = one_of(rng, fo.PSDSF(), fo.NaivePerServer(fo.DRF()))
    objective = getattr(policy, "objective", None)
    if how[1:2] == ("read",) and type(objective).__name__ == "Tiers":
        policy = fo.Policy(objective := fo.MaxMin())
    if isinstance(policy, fo.NaivePerServer):
        given.pop("task_limits", None)
    given.setdefault("weights", [1] * n)
    if isinstance(objective, (fo.Leximin, fo.MaxMin, fo.OrderedWeighted)) and rng.random() < 0.3:
        given["weights"] = in_units(given["weights"], [int(one_of(rng, *EXPONENTS[:7])) * 3 for _ in range(n)])
    while True:
        weight, task = int(one_of(rng, *EXPONENTS)), int(one_of(rng, *EXPONENTS))
        if type(objective).__name__ == "Sum":  # its parts grow at different rates
            weight = task = 0
        if "KDominantShare" in repr(policy):  # and so do shares of one ratio and of two
            task = 0
        units = [int(one_of(rng, *EXPONENTS)) for _ in range(m)]
        scaled = given | {
            "demands": in_units(given["demands"], [unit + task for unit in units]),
            "capacities": in_units(given["capacities"], units),
            "weights": in_units(given["weights"], weight),
        }
        if "task_limits" in given:
            scaled["task_limits"] = in_units(given["task_limits"], -task)
        if all(map(held, scaled.values())):
            return Draw(scaled, policy, {}, (how[0], given, task, *how[1:]))


def in_units(values: Any, exponent: Any) -> Any:
    """Numbers times powers of two, by resource where there are several."""
    if isinstance(values, list):
        each = isinstance(exponent, list) and not isinstance(values[0], list)
        by_entry = exponent if each else [exponent] * len(values)
        return [in_units(v, e) for v, e in zip(values, by_entry, strict=True)]
    if values is None:
        return None
    try:
        return math.ldexp(values, exponent) or (values and math.inf)
    except OverflowError:
        return math.inf


def held(values: Any) -> bool:
    """Whether an instance takes numbers, and their sums over 1,000 servers."""
    if isinstance(values, list):
        return all(map(held, values))
    return values is None or values == 0 or 1e-60 <= values <= 1e57


def rounded(values: Any) -> Any:
    """Numbers of few digits."""
    return [rounded(v) for v in values] if np.ndim(values) else digits(values)


def ties(rng: Rng) -> Draw:
    given = any_instance(rng, least=2, most=2, room=one_of(rng, 3, 9))
    n, m = sizes(given)
    twins = rng.integers(0, max(n // 2, 1), n)  # several users alike
    for key in {"demands", "eligible"} & given.keys():
        given[key] = [given[key][k] for k in twins]
    if rng.random() < 0.5:
        given["capacities"] = [given["capacities"][0]] * len(given["capacities"])
    if rng.random() < 0.5:
        given["task_limits"] = [plain(float(rng.integers(1, 9)) / 4)] * n
    return Draw(given, a_policy(rng, n, m))


def _blocks(rng: Rng, given: dict[str, Any]) -> list[fo.Constraint]:
    """Blocks of all kinds, with other shares and by user too, and levels of objectives."""
    n, m = sizes(given)
    found = [_block(rng, given) for _ in range(rng.integers(1, 3))]
    if rng.random() < 0.5:
        share, level = a_share(rng, n, m), digits(10.0 ** rng.uniform(-3, -0.5))
        by_user = one_of(rng, {f"user{rng.integers(n) + 1}": level}, (level,) * n, level)
        tasks = plain(tuple((rng.integers(0, 5, n) / 4).tolist()))
        most = tuple(t + 0.5 for t in tasks)
        found.append(
            one_of(
                rng,
                fo.MinShare(by_user, share),
                fo.MaxShare(by_user, share),
                fo.MaxShare(by_user, share),
                fo.EqualShares(share),
                fo.MinTasks(tasks),
                fo.MaxTasks(most),
            )
        )
    if rng.random() < 0.25:
        found.append(_level(rng, given))
    return found


def _level(rng: Rng, given: dict[str, Any]) -> fo.Constraint:
    """An objective that is at least a part of what it is at equal parts of the servers."""
    n, _ = sizes(given)
    objective = one_of(
        rng,
        fo.MaxMin(),
        fo.Total(),
        fo.Total(fo.Tasks()),
        fo.AlphaFair(one_of(rng, 0.5, 1, 2)),
        fo.OrderedWeighted(tuple(range(n, 0, -1))),
    )
    question = Question.of(given, ())
    x = _split(question)
    value = concave_of(objective, question, np.array(question.forms_of(objective), dtype=float) @ x).value(x)
    return objective >= digits(value - rng.uniform(0.02, 0.9) * abs(value))


def _split(question: Question) -> np.ndarray:
    """Tasks by pair if each server were split into equal parts: all fit, and all users run some."""
    cluster = question.cluster
    x = question.top / len(cluster.pairs)
    tasks = np.array(question.shares(), dtype=float)
    for row, j in zip(tasks, cluster.users, strict=True):
        if cluster.limits[j] is not None:
            x[row > 0] *= min(1.0, float(cluster.limits[j]) / float(row @ x))
    return x


def blocks(rng: Rng) -> Draw:
    given = any_instance(rng, room=40)
    return Draw(given, fo.Policy(an_objective(rng, *sizes(given)), _blocks(rng, given)))


def zeros(rng: Rng) -> Draw:
    given = any_instance(rng, least=2)
    n, m = sizes(given)
    i = int(rng.integers(m))
    share, own = fo.ResourceShare(i), Question.of(given, ())
    held = (np.array(own.shares(share), dtype=float) @ _split(own)).tolist()
    needs = [j for j in range(n) if held[j] > 0]
    least = {f"user{j + 1}": digits(0.5 * held[j]) for j in needs}
    most = {f"user{j + 1}": digits(rng.uniform(0.3, 3) * held[j]) for j in needs}
    block = one_of(
        rng,
        fo.MinShare(least, share),
        fo.MaxShare(most, share),
        fo.MaxShare(digits(rng.uniform(0.02, 0.9)), share),
    )
    if rng.random() < 0.3:
        return Draw(given, fo.Policy(fo.Total(share), [] if rng.random() < 0.3 else [block]))
    return Draw(given, fo.Policy(an_objective(rng, n, m), [block]))


def _curved(rng: Rng, given: dict[str, Any]) -> list[fo.Constraint]:
    """Conic conditions of one's own, of which each is satisfied somewhere, most of them not by much."""
    question = Question.of(given, ())
    rows, forms = question.all_rows, np.array(question.shares(), dtype=float)
    corner = exact_lp.maximise(rng.integers(1, 4, len(question.top)).tolist(), rows).point
    even = exact_lp.leximin_point(question.shares(fo.DominantShare()), rows)[1]
    points = [_split(question), *(np.array(x, dtype=float) for x in (corner, even))]
    points += [(points[0] + points[1]) / 2, (points[1] + points[2]) / 2]
    tasks = forms @ one_of(rng, *points)
    rates = np.array(rounded(rng.uniform(0.2, 2, len(tasks))))
    by_user, held = tuple(rates.tolist()), rates * tasks
    less = one_of(rng, rng.uniform(0.3, 0.97), rng.uniform(0.97, 0.999))
    most = [float(exact_lp.smallest(question.shares(share), rows)) for share in (None, fo.DominantShare())]
    mean = max(np.prod(forms @ x) ** (1 / len(tasks)) for x in points)
    logarithms = max(np.log1p(rates * (forms @ x)).sum() for x in points)
    choices = [
        ours.LeastTasks(digits(less * most[0])),
        ours.LeastShare(digits(less * most[1])),
        ours.Jain(digits(rng.uniform(0.6, 0.999))),
        ours.NormAtMost(by_user, digits(np.sqrt(held @ held) / less)),
        ours.QuadOverLin(by_user, digits((held @ held) / (1 + tasks.sum()) / less)),
        ours.GeoMean(digits(less * mean)),
        ours.LogSum(by_user, digits(less * logarithms)),
        _level(rng, given),
    ]
    return [choices[k] for k in rng.choice(len(choices), 1 if rng.random() < 0.7 else 2, replace=False)]


def conic(rng: Rng) -> Draw:
    given = any_instance(rng, least=2)
    n, m = sizes(given)
    number = a_number(rng, n, m)
    objective = one_of(rng, number, number, ours.Roots((1,) * n), ours.Logarithms((2,) * n))
    return Draw(given, fo.Policy(objective, _curved(rng, given)))


def conic_leximin(rng: Rng) -> Draw:
    given = a_pool(rng, 8, 2) if rng.random() < 0.7 else a_cluster(rng, 4, 2)
    return Draw(given, fo.Policy(fo.Leximin(a_share(rng, *sizes(given))), _curved(rng, given)))


def flat(rng: Rng) -> Draw:
    """Sets without interior: equations, floors that meet limits, and levels as large as can be."""
    given = any_instance(rng, least=2)
    n, m = sizes(given)
    question = Question.of(given, ())
    rows, tasks = question.all_rows, (np.array(question.shares(), dtype=float) @ _split(question)).tolist()
    objective, kind = an_objective(rng, n, m), rng.integers(7)
    if kind == 0:
        j = int(rng.integers(n))
        pinned = {f"user{j + 1}": digits(rng.uniform(0.1, 1.2) * tasks[j])}
        found: list[fo.Constraint] = [fo.MinTasks(pinned), fo.MaxTasks(pinned)]
    elif kind == 1:
        limits = given["task_limits"] = [digits(0.9 * t) for t in tasks]
        found = [fo.MinTasks({f"user{k + 1}": limits[k] for k in rng.permutation(n)[: n - 1]})]
    elif kind == 2:
        found = [fo.EqualShares(one_of(rng, fo.Tasks(), fo.DominantShare()))]
    elif kind == 3:
        found = [ours.Proportion(digits(tasks[0] / tasks[1]))]
    elif kind == 4:
        found = [fo.MaxMin() >= _below(exact_lp.smallest(question.shares(fo.DominantShare(), True), rows))]
    elif kind == 5:
        found = [fo.MinShare(_below(exact_lp.smallest(question.shares(fo.DominantShare()), rows)))]
    else:  # which may leave users without tasks
        best = exact_lp.maximise([1] * len(question.cluster.pairs), rows).value
        found = [fo.Total(fo.Tasks()) >= _below(best)]
        objective = one_of(rng, fo.Total(), fo.MaxMin(), fo.Leximin(), fo.AlphaFair(0.5))
    return Draw(given, fo.Policy(objective, found))


def _below(value: Fraction) -> float:
    """The largest float that is not above a fraction."""
    near = float(value)
    return near if Fraction(near) <= value else float(np.nextafter(near, 0.0))


def tiers(rng: Rng) -> Draw:
    given = any_instance(rng, least=2)
    n, m = sizes(given)
    objective = a_number(rng, n, m)
    for _ in range(rng.integers(0, 2)):
        objective = objective.then(a_number(rng, n, m))
    objective = objective.then(fo.Leximin(a_share(rng, n, m)) if rng.random() < 0.4 else a_number(rng, n, m))
    return Draw(given, fo.Policy(objective, [_block(rng, given)] if rng.random() < 0.2 else []))


# -- ways to ask ----------------------------------------------------------------------------------------------------


def solvers(rng: Rng) -> Draw:
    draw = one_of(rng, pools, servers, blocks)(rng)
    name = at_hand(one_of(rng, "CLARABEL", "CLARABEL", "ECOS", "SCS", None))
    options: dict[str, Any] = {"method": "cone"} if name is None else {"solver": name}
    kinds = (fo.Leximin, fo.MaxMin, fo.Total, fo.OrderedWeighted)
    if isinstance(draw.policy.objective, kinds) and rng.random() < 0.5 and not draw.policy.constraints:
        options = {"solver": "HIGHS"}
    elif name == "SCS":
        options["time_limit"] = 2
    return Draw(draw.given, draw.policy, options)


def prepared(rng: Rng) -> Draw:
    given = any_instance(rng)
    n, m = sizes(given)
    constraints = [fo.MinShare(0.01)] if rng.random() < 0.2 else []
    objective = fo.Leximin() if rng.random() < 0.2 else a_number(rng, n, m)
    capacities = np.array(given["capacities"]) * rng.integers(1, 5, np.shape(given["capacities"])) / 2
    changes = {
        "capacities": plain(capacities),
        "weights": plain(rng.integers(1, 9, n) / 2),
        "task_limits": [None if rng.random() < 0.5 else plain(k / 4) for k in rng.integers(1, 24, n)],
    }
    some = {key: value for key, value in changes.items() if rng.random() < 0.6}
    options = {"solver": at_hand(one_of(rng, "CLARABEL", "ECOS"))} if rng.random() < 0.2 else {}
    return Draw(given, fo.Policy(objective, constraints), options, ("prepared", some))


def bundles(rng: Rng) -> Draw:
    given = idle(rng, any_instance(rng))
    given.pop("weights", None)
    policy = one_of(
        rng,
        fo.MLFDRS(),
        fo.MLFDRS("equal"),
        fo.FFMRA(),
        fo.FFMRA("raw"),
        fo.HFFMRA(),
        fo.HFFMRA("raw"),
        fo.Policy(fo.WeightedLog(), [fo.GlobalAggregateResource("raw"), fo.AtMostRequested()]),
    )
    return Draw(given, policy, {} if rng.random() < 0.8 else {"method": "cone"})


def by_server(rng: Rng) -> Draw:
    given = a_cluster(rng)
    given.pop("task_limits", None)
    policy = one_of(rng, fo.DRF(), fo.KDF(1), fo.FDS(one_of(rng, 0.5, 1, 2, 5)), fo.NashWelfare(), fo.MostTasks())
    return Draw(given, fo.NaivePerServer(policy))


def speeds(rng: Rng) -> Draw:
    given = a_cluster(rng, 4)
    n, servers = len(given["demands"]), len(given["capacities"])
    rates = rng.integers(0, 6, (n, servers))
    nowhere = (rates * np.asarray(given.get("eligible", np.ones((n, servers))))).max(axis=1) == 0
    rates[nowhere] += 1
    share = fo.ThroughputShare()
    powers = [fo.AlphaFair(alpha, share) for alpha in (0.5, 1, 2, 5)]
    numbers = [*powers, fo.MaxMin(share), fo.Total(share), fo.OrderedWeighted((3, 2, 1), share)]
    objective = one_of(rng, *[fo.Leximin(share)] * 3, *numbers, one_of(rng, *numbers) + one_of(rng, *numbers))
    return Draw(given | {"rates": plain(rates)}, fo.Policy(objective))


def sums(rng: Rng) -> Draw:
    """Several curved terms, of users whose demands and limits differ by decades, and by server."""
    n, servers, m = int(rng.integers(3, 13)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    decades = one_of(rng, 0.5, 1.0, 1.5)
    given = drawn(rng, n, servers, m, by_server=True)
    given["demands"] = [
        [[digits(np.exp(rng.normal(0, decades))) for _ in row] for row in rows] for rows in given["demands"]
    ]
    given["task_limits"] = [digits(np.exp(rng.normal(-1, decades))) if rng.random() < 0.5 else None for _ in range(n)]
    power = fo.AlphaFair(one_of(rng, 2, 3, 5), a_share(rng, n, m))
    other = one_of(rng, fo.Total, fo.MaxMin, lambda of: fo.AlphaFair(one_of(rng, 0.5, 1, 2, 5), of))(a_share(rng, n, m))
    return Draw(given, fo.Policy(power + digits(np.exp(rng.normal(0, 3))) * other))


def psdsf(rng: Rng) -> Draw:
    return Draw(any_instance(rng), fo.PSDSF())


def bottleneck(rng: Rng) -> Draw:
    return Draw(a_pool(rng), fo.BottleneckFairness())


def whole(rng: Rng) -> Draw:
    n, rows, m = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    given = idle(rng, drawn(rng, n, rows, m, by_server=rng.random() < 0.2, most=4, room=7))
    return Draw(given, one_of(rng, fo.MostTasks(), fo.Policy(fo.MaxMin()), fo.DRF()), {}, ("whole",))


def batches(rng: Rng) -> Draw:
    n, m = int(rng.integers(1, 7)), int(rng.integers(1, 5))
    many = [drawn(rng, n, 1, m, often=0.0) for _ in range(6)]
    weighted, limited = rng.random(2) < 0.4
    for given in many:
        given["capacities"] = given["capacities"][0]
        if weighted:
            given["weights"] = plain(rng.integers(1, 4, n))
        if limited:
            given["task_limits"] = [None if rng.random() < 0.5 else plain(k / 4) for k in rng.integers(0, 24, n)]
    alpha = one_of(rng, 0.3, 0.5, 1, 1.5, 2, 5, 20)
    policy = one_of(
        rng,
        fo.DRF(),
        fo.KDF(1),
        fo.KDF(m, short="positive"),
        fo.FDS(alpha),
        fo.GFJ(alpha),
        fo.NashWelfare(),
        fo.MostTasks(),
        fo.Policy(fo.MaxMin()),
        fo.PNormFairness(2, alpha),
    )
    return Draw(many[0], policy, {}, ("many", tuple(many[1:])))


CATEGORIES: dict[str, Callable[[Rng], Draw]] = {
    "pools": pools,
    "servers": servers,
    "guarantees": guarantees,
    "teams": teams,
    "plane": plane,
    "weights": weights,
    "scales": scales,
    "ties": ties,
    "zeros": zeros,
    "blocks": blocks,
    "conic": conic,
    "conic-leximin": conic_leximin,
    "flat": flat,
    "tiers": tiers,
    "solvers": solvers,
    "prepared": prepared,
    "bundles": bundles,
    "by-server": by_server,
    "speeds": speeds,
    "sums": sums,
    "ps-dsf": psdsf,
    "bottleneck": bottleneck,
    "whole": whole,
    "batches": batches,
    "shares": shares,
    "alpha": alpha,
    "wide": wide,
    "read": read,
    "traces": traces,
    "own": own,
    "constants": constants,
    "rows": rows,
    "language": language,
    "load": load,
    "edited": edited,
    "wild": wild,
    "lies": lies,
}


def draw_of(category: str, seed: int, k: int) -> Draw:
    """The k-th draw of a category, independent of all others."""
    return CATEGORIES[category](np.random.default_rng([seed, *category.encode(), k]))
