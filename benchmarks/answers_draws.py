"""What answers.py asks, drawn by part from a seed: code that leaves an ``answer``, beside the instance it is about.

Seven categories of fuzz.py come as they are, but for draws that would have a time limit. All others are instances with
policies as their repr prints them, so that nothing but public names is needed to ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from fuzz_draws import CATEGORIES, NEAR_ZERO, NOTIONS, digits, drawn, one_of, plain

import fairopt as fo

Rng = np.random.Generator
SEED = 1
BUNDLES = ("mlf-drs", "mlf-drs:growth=equal", "ffmra", "ffmra:units=raw", "h-ffmra", "h-ffmra:units=raw")
MONOTONE = ("population", "resource")
MECHANISMS = ("ps-dsf", "per-server", "per-server:policy=2df", "per-server:policy=nash", "per-server:policy=most-tasks")


class Draw(NamedTuple):
    """Code, and the instance it calls ``instance``, if any."""

    code: str
    instance: fo.Instance | None = None


def pool(rng: Rng, **options: Any) -> fo.Instance:
    """One server, with weights, limits (0 too) or none; now and then of demands over decades."""
    if rng.random() < 0.15:
        return fo.datasets.log_uniform(
            int(rng.integers(1, 40)),
            int(rng.integers(1, 5)),
            weights=bool(rng.random() < 0.5),
            limits=bool(rng.random() < 0.5),
            seed=int(rng.integers(1000)),
        )
    return _limited(rng, drawn(rng, int(rng.integers(1, 9)), 1, int(rng.integers(1, 5)), **options))


def cluster(rng: Rng, **options: Any) -> fo.Instance:
    """Several servers, some alike, merged or pooled again; demands by server, counts, eligibility, limits."""
    n, servers, m = int(rng.integers(1, 6)), int(rng.integers(2, 5)), int(rng.integers(1, 4))
    turn = rng.random()
    given = drawn(rng, n, servers, m, alike=turn < 0.2, **({"by_server": 0.2 < turn < 0.4} | options))
    instance = _limited(rng, given)
    if turn < 0.1:
        return instance.merged()
    return instance.pooled() if turn > 0.95 else instance


def _limited(rng: Rng, given: dict[str, Any]) -> fo.Instance:
    """The instance, sometimes with a user who takes no part."""
    if rng.random() < 0.1:
        n = len(given["demands"])
        given.setdefault("task_limits", [None] * n)[rng.integers(n)] = 0
    return fo.Instance(**given)


def share(rng: Rng, instance: fo.Instance) -> fo.Share:
    """Any of fairopt's shares."""
    return one_of(
        rng,
        fo.Tasks(),
        fo.DominantShare(),
        fo.DominantShare(),
        fo.KDominantShare(2, short="positive"),
        fo.PNormShare(plain(float(rng.integers(1, 5)))),
        fo.StandAloneShare(),
        fo.ResourceShare(instance.resources[rng.integers(instance.n_resources)]),
    )


def objective(rng: Rng, instance: fo.Instance) -> fo.Objective:
    """Any of fairopt's objectives that is one number, or a leximin."""
    of = share(rng, instance)
    falling = sorted(rng.integers(0, 5, instance.n_users).tolist(), reverse=True)
    alpha = one_of(rng, 0, 0.3, 0.5, 1, 1, 1.5, 2, 3, 5, 10, 20)
    beta, lam = one_of(rng, (0.5, 1), (0.5, 3), (0.8, 0.1), (1, 0.5), (2, -0.5), (2, -1), (2, -0.2), (3, -1))
    return one_of(
        rng,
        fo.Leximin(of),
        fo.MaxMin(of),
        fo.Total(of),
        fo.AlphaFair(alpha, of),
        fo.AlphaFair(alpha, of),
        fo.FairnessEfficiency(beta, lam, of),
        fo.OrderedWeighted((falling[0] + 1, *falling[1:]), of),
        fo.AlphaFair(max(alpha, 0.3), of) + 0.1 * fo.Total(fo.Tasks()),
        2 * fo.MaxMin(of) + fo.Total(share(rng, instance)),
    )


def constraint(rng: Rng, instance: fo.Instance) -> Any:
    """Any of fairopt's constraints, tight, loose or impossible."""
    small, user = digits(rng.uniform(0, 0.3)), instance.users[rng.integers(instance.n_users)]
    return one_of(
        rng,
        fo.SharingIncentive(),
        fo.EnvyFree(),
        fo.EqualShares(share(rng, instance)),
        fo.MinTasks({user: plain(float(rng.integers(1, 8)) / 4)}),
        fo.MinTasks(small),
        fo.MaxTasks({user: plain(float(rng.integers(1, 8)) / 2)}),
        fo.MaxTasks(plain(float(rng.integers(1, 9)))),
        fo.MinShare(small / 2, share(rng, instance)),
        fo.MaxShare(small * 4 + 0.01, share(rng, instance)),
        fo.Reserve(int(rng.integers(instance.n_resources)), one_of(rng, 0.1, 0.25, 0.5)),
        fo.MaxMin(share(rng, instance)) >= small / 4,
        fo.Total() >= small,
    )


def policy(rng: Rng, instance: fo.Instance) -> str:
    """A notion by name, or an objective alone."""
    if rng.random() < 0.4:
        return f"named_policy({one_of(rng, *NOTIONS, *NEAR_ZERO)!r})"
    return repr(fo.Policy(objective(rng, instance)))


def _where(rng: Rng) -> fo.Instance:
    return pool(rng) if rng.random() < 0.5 else cluster(rng)


def pools(rng: Rng) -> Draw:
    instance = pool(rng)
    return Draw(f"answer = {policy(rng, instance)}.allocate(instance)", instance)


def clusters(rng: Rng) -> Draw:
    instance = cluster(rng)
    return Draw(f"answer = {policy(rng, instance)}.allocate(instance)", instance)


def constraints(rng: Rng) -> Draw:
    instance = _where(rng)
    blocks = [constraint(rng, instance) for _ in range(rng.integers(1, 4))]
    return Draw(f"answer = {fo.Policy(objective(rng, instance), blocks)!r}.allocate(instance)", instance)


def tiers(rng: Rng) -> Draw:
    instance = _where(rng)
    first = fo.MaxMin(share(rng, instance)) if rng.random() < 0.5 else objective(rng, instance)
    order = "".join([repr(first), *(f".then({objective(rng, instance)!r})" for _ in range(rng.integers(1, 3)))])
    return Draw(f"answer = Policy({order}).allocate(instance)", instance)


def plane(rng: Rng) -> Draw:
    """The (beta, lambda) plane, where concave and where not."""
    instance, beta = _where(rng), one_of(rng, 0.25, 0.5, 0.8, 1.25, 2, 3, 5)
    family = one_of(rng, "FDS(", "GFJ(", "PNormFairness(2, ")
    edge = (1 - beta) / beta
    lam = one_of(rng, edge, edge * 1.5, edge * 2, edge * 4, edge / 2, -edge)
    return Draw(f"answer = {family}beta={beta}, lam={lam}).allocate(instance)", instance)


def bundles(rng: Rng) -> Draw:
    instance = one_of(rng, pool, cluster)(rng, often=one_of(rng, 0, 0, 0.2))
    if rng.random() < 0.6:
        return Draw(f"answer = named_policy({one_of(rng, *BUNDLES)!r}).allocate(instance)", instance)
    base = one_of(rng, fo.FairShareBase(), fo.FairShareBase("equal"))
    held = one_of(rng, [], [fo.GlobalAggregateResource()], [fo.AtMostRequested()])
    return Draw(f"answer = {fo.Policy(fo.WeightedLog(base), held)!r}.allocate(instance)", instance)


def mechanisms(rng: Rng) -> Draw:
    if rng.random() < 0.2:
        return Draw("answer = BottleneckFairness().allocate(instance)", pool(rng))
    return Draw(f"answer = named_policy({one_of(rng, *MECHANISMS)!r}).allocate(instance)", cluster(rng))


def methods(rng: Rng) -> Draw:
    """By the general method, or by one solver."""
    instance = _where(rng)
    options = one_of(rng, "method='cone'", *(f"solver={name!r}" for name in ("CLARABEL", "ECOS", "HIGHS")))
    return Draw(f"answer = {policy(rng, instance)}.allocate(instance, {options})", instance)


def checks(rng: Rng) -> Draw:
    instance = _where(rng)
    name = one_of(rng, "drf", "2df", "nash", "fds:alpha=2", "most-tasks", "tsf", "ps-dsf", "h-ffmra", "per-server")
    code = f"found = named_policy({name!r}).allocate(instance)\nanswer = [check(found), found.metrics()]"
    return Draw(code, instance)


def prepared(rng: Rng) -> Draw:
    instance = _where(rng)
    capacities = plain(instance.capacities * rng.integers(1, 4, instance.capacities.shape))
    code = (
        f"ready = {policy(rng, instance)}.prepare(instance)\n"
        f"answer = [ready.allocate(), ready.allocate(capacities={capacities}),\n"
        f"    ready.allocate(weights={plain(rng.integers(1, 4, instance.n_users))}), ready.allocate(task_limits=1.5)]"
    )
    return Draw(code, instance)


def batches(rng: Rng) -> Draw:
    shape = (12, int(rng.integers(1, 6)), int(rng.integers(2, 5)))
    name = one_of(
        rng,
        "drf",
        "kdf:k=2",
        "kdf:k=2,short=positive",
        "nash",
        "fds:alpha=0.5",
        "fds:alpha=3",
        "most-tasks",
        "gfj:alpha=2",
        "pnorm:p=2,alpha=1",
        "MaxMin(Tasks())",
        "Total()",
        "fds:beta=2,lam=-0.5",
        "fds:beta=2,lam=-1",
        "h-ffmra",
    )
    least, often = int(rng.integers(2)), one_of(rng, 0, 0.3)
    code = (
        f"rng = np.random.default_rng({rng.integers(1000)})\ndemands = rng.integers({least}, 6, {shape})\n"
        "demands[..., 0] += ~demands.any(axis=-1)\n"
        f"limits = np.where(rng.random({shape[:2]}) < {often}, rng.integers(0, 8, {shape[:2]}) / 2, np.inf)\n"
        f"found = allocate_many(named_policy({name!r}), demands, rng.integers(1, 20, {shape[::2]}),\n"
        f"    weights=rng.integers(1, 4, {shape[:2]}), task_limits=limits)\nanswer = [found, found[0]]"
    )
    return Draw(code)


def shards(rng: Rng) -> Draw:
    m = int(rng.integers(1, 5))
    name = one_of(rng, "drf", "2df", "nash", "fds:alpha=0.5", "fds:alpha=4", "fds:beta=2,lam=-0.5", "most-tasks")
    held = one_of(rng, "", "", "MinTasks(0.01)", "MaxTasks(0.5)", "MaxShare(0.01)", "Reserve(0, 0.25)")
    code = (
        f"demands = np.random.default_rng({rng.integers(1000)}).uniform(0.1, 9, ({rng.integers(20, 3000)}, {m}))\n"
        "np.save(folder / 'demands.npy', demands[10:])\n"
        f"policy = Policy(named_policy({name!r}).objective, [{held}])\n"
        f"found = allocate_sharded(policy, [demands[:10], folder / 'demands.npy'], capacities=[50.0] * {m})\n"
        "answer = [found.summary(), found.tasks(0)]"
    )
    return Draw(code)


def saved(rng: Rng) -> Draw:
    """What is in a file, and what is loaded from it."""
    instance = _where(rng)
    chosen = one_of(rng, policy(rng, instance), f"named_policy({one_of(rng, *BUNDLES, *MECHANISMS)!r})")
    code = (
        f"path = {chosen}.allocate(instance).save(folder / 'answer.json')\n"
        "answer = [json.loads(path.read_text()), Allocation.load(path)]"
    )
    return Draw(code, instance)


def tables(rng: Rng) -> Draw:
    """Instances and answers as text and frames."""
    code = (
        "found, path = DRF().allocate(instance), folder / 'x.json'\ndatasets.write(instance, path)\n"
        "both = compare([DRF(), NashWelfare(), HFFMRA()], instance)\n"
        "answer = [repr(instance), repr(found), path.read_text(), read(path), instance.merged(), both,\n"
        "    both.to_latex(), [found.to_frame(by=by).to_csv() for by in ('user', 'server')],\n"
        "    [frame.to_csv() for frame in instance.to_frames()], str(metrics.utilisation(found)),\n"
        "    [str(of(found)) for of in (metrics.group_shares, metrics.beta_fairness, metrics.group_jain)]]"
    )
    return Draw(code, _where(rng))


def lies(rng: Rng) -> Draw:
    instance = one_of(rng, pool, pool, cluster)(rng)
    name = one_of(rng, "drf", "2df", "nash", "fds:alpha=2", "most-tasks", "tsf")
    call = one_of(rng, "best_misreport(p, instance, 0, budget=60)", *(f"{w}_monotone(p, instance)" for w in MONOTONE))
    return Draw(f"p = named_policy({name!r})\nanswer = {call}", instance)


def audits(rng: Rng) -> Draw:
    """Of given instances in full; of drawn ones the verdicts, as how far a witness is shrunk depends on the clock."""
    name, what = one_of(rng, "drf", "2df", "nash", "most-tasks", "bottleneck"), one_of(rng, "pe", "si", "ef", "sp")
    if rng.random() < 0.4:
        options = f"max_examples=60, weights={bool(rng.random() < 0.5)}, seed={rng.integers(100)}"
        code = (
            f"report = audit(named_policy({name!r}), [{what!r}], {options})\n"
            "answer = [{p: report[p].refuted for p in report}]"
        )
        return Draw(code)
    code = (
        f"report = audit(named_policy({name!r}), [{what!r}], [instance])\n"
        "answer = [report, replay(report.save(folder / 'found.json'))]"
    )
    return Draw(code, pool(rng) if name == "bottleneck" else _where(rng))


def invalid(rng: Rng) -> Draw:
    """What cannot be an instance, a block or a policy."""
    number = one_of(rng, -1, 0, float("nan"), float("inf"), "three", None, 2, 0.5)
    if rng.random() < 0.5:
        kind = one_of(
            rng,
            "AlphaFair({})",
            "KDominantShare({})",
            "PNormShare({})",
            "FairnessEfficiency({0}, {0})",
            "MinTasks({})",
            "MaxShare({})",
            "Reserve(0, {})",
            "{} * MaxMin()",
            "MaxMin() >= {}",
            "OrderedWeighted(({}, 1))",
            "FDS(beta={})",
            "named_policy('fds:alpha=' + str({}))",
            "Leximin() + Total()",
            "named_policy('drff')",
            "named_policy('kdf:k')",
            "named_policy('AlphaFair(1')",
            "named_policy('no.such:X')",
            "Policy({})",
        )
        return Draw(f"inf, nan = np.inf, np.nan\nanswer = repr({kind.format(repr(number))})")
    given = drawn(rng, int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.integers(1, 4)))
    key = one_of(
        rng, "demands", "demands", "capacities", "weights", "task_limits", "eligible", "users", "resources", "counts"
    )
    if key in given and rng.random() < 0.7:  # one entry of it
        row = given[key][int(rng.integers(len(given[key])))]
        (row if isinstance(row, list) else given[key])[0] = number
    else:
        given[key] = one_of(rng, number, [], [[]], [[0, 0]], ["a", "a"], [[1, 2], [3]])
    words = ", ".join(f"{k}={v!r}" for k, v in given.items())
    return Draw(f"inf, nan = np.inf, np.nan\nanswer = DRF().allocate(Instance({words}))")


def _fuzzed(name: str) -> Callable[[Rng], Draw]:
    return lambda rng: Draw(CATEGORIES[name](rng).code)


FUZZED = {"shares": 300, "alpha": 250, "wide": 300, "read": 200, "traces": 250, "own": 250, "rows": 250}
PARTS: dict[str, tuple[int, Callable[[Rng], Draw]]] = {
    **{f"fuzz: {name}": (many, _fuzzed(name)) for name, many in FUZZED.items()},
    "pools": (750, pools),
    "clusters": (550, clusters),
    "constraints": (400, constraints),
    "tiers": (150, tiers),
    "plane": (150, plane),
    "bundles": (250, bundles),
    "mechanisms": (150, mechanisms),
    "methods": (150, methods),
    "checks": (150, checks),
    "prepared": (80, prepared),
    "batches": (80, batches),
    "shards": (60, shards),
    "saved": (150, saved),
    "tables": (60, tables),
    "lies": (40, lies),
    "audits": (25, audits),
    "invalid": (205, invalid),
}


def draws(name: str, every: int = 1) -> list[Draw]:
    """Those of a part, or every K-th of them; each has a seed of its own."""
    many, make = PARTS[name]
    found = (make(np.random.default_rng([SEED, list(PARTS).index(name), k])) for k in range(0, many, every))
    return [draw for draw in found if "time_limit=" not in draw.code]
