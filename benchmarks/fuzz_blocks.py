"""What fuzz.py draws: questions as data that turn into code, and blocks of one's own as users write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from inspect import getsource
from typing import Any

import cvxpy as cp
import numpy as np

import fairopt as fo
from fairopt.blocks import normal_form
from fairopt.blocks.rows import Rows
from fairopt.proof import gate


@dataclass(frozen=True, repr=False)
class Held(fo.Share):
    table: tuple[tuple[float, ...], ...]

    def per_task(self, instance):
        return np.array(self.table, dtype=float)


@dataclass(frozen=True, repr=False)
class Sliced(fo.Share):
    table: tuple[tuple[float, ...], ...]

    def per_task(self, instance):
        return np.array(self.table, dtype=float)[: instance.n_users, : instance.n_servers]


@dataclass(frozen=True, repr=False)
class ByPosition(fo.Share):
    steps: tuple[float, ...]

    def per_task(self, instance):
        return 1.0 + np.outer(self.steps, np.arange(instance.n_servers))


@dataclass(frozen=True, repr=False)
class ByType(fo.Share):
    rates: tuple[tuple[str, tuple[float, ...]], ...]

    def per_task(self, instance):
        return np.array([dict(self.rates)[kind] for kind in instance.server_types]).T


@dataclass(frozen=True, repr=False)
class ByLabel(fo.Share):
    rates: tuple[tuple[str, tuple[float, ...]], ...]

    def per_task(self, instance):
        return np.array([dict(self.rates)[server] for server in instance.servers]).T


@dataclass(frozen=True, repr=False)
class Saturating(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return -cp.sum(cp.exp(-cp.multiply(self.rates, model.tasks)))

    def by_user(self, instance):
        r = np.array(self.rates)
        return fo.blocks.Marginal(lambda x: r * np.exp(-r * x), lambda x: -(r**2) * np.exp(-r * x))


@dataclass(frozen=True, repr=False)
class Logarithms(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return cp.sum(cp.log1p(cp.multiply(self.rates, model.tasks)))

    def by_user(self, instance):
        r = np.array(self.rates)
        return fo.blocks.Marginal(lambda x: r / (1 + r * x), lambda x: -((r / (1 + r * x)) ** 2))


@dataclass(frozen=True, repr=False)
class Roots(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return cp.sum(cp.sqrt(cp.multiply(self.rates, model.tasks)))

    def by_user(self, instance):
        r = np.sqrt(self.rates)
        return fo.blocks.Marginal(lambda x: 0.5 * r / np.sqrt(x), lambda x: -0.25 * r * x**-1.5)


@dataclass(frozen=True, repr=False)
class Near(fo.Objective):
    aims: tuple[float, ...]

    def expression(self, model):
        return -cp.sum_squares(model.tasks - np.array(self.aims))

    def by_user(self, instance):
        return fo.blocks.Marginal(lambda x: 2 * (np.array(self.aims) - x), lambda x: np.full(len(x), -2.0))


@dataclass(frozen=True, repr=False)
class Bent(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        worth = cp.multiply(self.rates, model.tasks)
        return cp.sum(cp.minimum(worth, 1 + worth / 4, 3))

    def by_user(self, instance):  # linear between kinks, where it has no derivative
        r = np.array(self.rates)
        return fo.blocks.Marginal(lambda x: r * np.select([r * x < 4 / 3, r * x < 8], [1.0, 0.25], 0.0), np.zeros_like)


@dataclass(frozen=True, repr=False)
class BentByVariable(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        worth, least = cp.multiply(self.rates, model.tasks), cp.Variable(len(self.rates))
        model.required += [least <= worth, least <= 1 + worth / 4, least <= 3]
        return cp.sum(least)


@dataclass(frozen=True, repr=False)
class Linear(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        return cp.sum(cp.multiply(self.rates, model.tasks))

    def by_user(self, instance):
        return fo.blocks.Marginal(lambda x: np.array(self.rates) + 0 * x, np.zeros_like)


@dataclass(frozen=True, repr=False)
class AtMost(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        return {"rows": np.array(self.matrix) @ model.tasks <= np.array(self.values)}


@dataclass(frozen=True, repr=False)
class RequiredAtMost(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        model.required.append(np.array(self.matrix) @ model.tasks <= np.array(self.values))
        return {}


@dataclass(frozen=True, repr=False)
class WithRoom(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        room = cp.Variable(len(self.values))
        model.required.append(np.array(self.matrix) @ model.tasks + room == np.array(self.values))
        return {"room": room >= 0}


@dataclass(frozen=True, repr=False)
class RequiringTotal(fo.Objective):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def expression(self, model):
        model.required.append(np.array(self.matrix) @ model.tasks <= np.array(self.values))
        return cp.sum(model.tasks)

    def value(self, point):
        return point.tasks.sum()


@dataclass(frozen=True, repr=False)
class Smallest(fo.Objective):
    rates: tuple[float, ...]

    def expression(self, model):
        least = cp.Variable()
        model.required.append(cp.multiply(self.rates, model.tasks) >= least)
        return least

    def value(self, point):
        return (np.array(self.rates) * point.tasks).min()


@dataclass(frozen=True, repr=False)
class Proportion(fo.Constraint):
    factor: float

    def constraints(self, model):
        return {"proportion": model.tasks[0] == self.factor * model.tasks[1]}


@dataclass(frozen=True, repr=False)
class WithBonus(fo.Objective):
    alpha: float
    bonus: float

    def terms(self):
        fair = normal_form.Term(1.0, normal_form.Power(self.alpha), fo.DominantShare())
        return fair, normal_form.Term(self.bonus, normal_form.Linear(), fo.Tasks())


@dataclass(frozen=True, repr=False)
class SumOfSmallest(fo.Objective):
    k: int

    def expression(self, model):
        shares = model.share(fo.DominantShare())
        most = model.instance.n_servers  # of a dominant share, where demands differ by server: 1 from each
        t = model.variable(lower=0, upper=most)
        below = model.variable(shares.shape, lower=0, upper=most)
        model.require("below", below >= t - shares)
        return self.k * t - cp.sum(below)


@dataclass(frozen=True, repr=False)
class ByRows(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def rows(self, pairs):
        return {"rows": Rows(np.array(self.matrix) @ pairs.totals, np.array(self.values))}


@dataclass(frozen=True, repr=False)
class WithSlack(fo.Constraint):
    matrix: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    def constraints(self, model):
        slack = model.variable(len(self.values), name="slack", lower=0)
        model.require("slack", np.array(self.matrix) @ model.tasks + slack == np.array(self.values))
        return {}


@dataclass(frozen=True, repr=False)
class LeastTasks(fo.Constraint):
    level: float

    def constraints(self, model):
        return {"least tasks": cp.min(model.tasks) >= self.level}


@dataclass(frozen=True, repr=False)
class LeastShare(fo.Constraint):
    level: float

    def constraints(self, model):
        return {"least share": cp.min(model.share(fo.DominantShare())) >= self.level}


@dataclass(frozen=True, repr=False)
class Jain(fo.Constraint):
    index: float

    def constraints(self, model):
        shares = model.share(fo.DominantShare())
        return {"Jain": np.sqrt(self.index * shares.size) * cp.norm(shares, 2) <= cp.sum(shares)}


@dataclass(frozen=True, repr=False)
class NormAtMost(fo.Constraint):
    rates: tuple[float, ...]
    most: float

    def constraints(self, model):
        return {"norm": cp.norm(cp.multiply(self.rates, model.tasks), 2) <= self.most}


@dataclass(frozen=True, repr=False)
class QuadOverLin(fo.Constraint):
    rates: tuple[float, ...]
    most: float

    def constraints(self, model):
        held = cp.multiply(self.rates, model.tasks)
        return {"spread": cp.quad_over_lin(held, 1 + cp.sum(model.tasks)) <= self.most}


@dataclass(frozen=True, repr=False)
class GeoMean(fo.Constraint):
    level: float

    def constraints(self, model):
        return {"mean": cp.geo_mean(model.tasks) >= self.level}


@dataclass(frozen=True, repr=False)
class LogSum(fo.Constraint):
    rates: tuple[float, ...]
    level: float

    def constraints(self, model):
        return {"logarithms": cp.sum(cp.log1p(cp.multiply(self.rates, model.tasks))) >= self.level}


OWN = {
    name: block
    for name, block in globals().items()
    if isinstance(block, type) and issubclass(block, (fo.Share, fo.Objective, fo.Constraint))
}
FACES = (fo, fo.policies, fo.properties)  # whose names draws use
NAMES = {"np": np, "cp": cp, "fo": fo, **{name: getattr(face, name) for face in FACES for name in face.__all__}, **OWN}


@dataclass(frozen=True)
class Draw:
    """A question: arguments of an instance, a policy, options of the call, and how it is asked.

    ``how`` is a word and what belongs to it: ``allocate``; ``read`` with a solver, changes of the problem and whether
    its answer is spoilt; ``prepared`` with arguments that change; ``whole``; ``many`` with further instances of the
    batch; ``saved`` with whether the file is edited. ``text`` is the policy as it is written, if not as its repr.
    """

    given: dict[str, Any]
    policy: Any
    options: dict[str, Any] = field(default_factory=dict)
    how: tuple[Any, ...] = ("allocate",)
    text: str = ""

    @property
    def is_worse(self) -> bool:
        """Whether the answer is made worse on purpose, or only SCS is asked, which has an accuracy of its own."""
        kind, *rest = self.how
        spoilt = kind == "lie" or (kind == "read" and rest[-1]) or (kind == "saved" and rest[0])
        return bool(spoilt) or "SCS" in (self.options.get("solver"), *(rest[:1] if kind == "read" else ()))

    @property
    def code(self) -> str:
        """Lines that leave an ``answer``."""
        policy, words = self.text or repr(self.policy), [f"{key}={value!r}" for key, value in self.options.items()]
        kind = self.how[0]
        if kind == "read":
            return "\n".join(_read(policy, self.given, *self.how[1:]))
        if kind == "many":
            batch = (self.given, *self.how[1])
            arrays = {key: [given.get(key) for given in batch] for key in self.given}
            demands, capacities = arrays.pop("demands"), arrays.pop("capacities")
            words = [repr(demands), repr(capacities), *(f"{key}={value!r}" for key, value in arrays.items())]
            return f"answer = allocate_many({policy}, {', '.join(words)})"
        if kind == "prepared":
            changed = ", ".join(f"{key}={value!r}" for key, value in self.how[1].items())
            return f"answer = {policy}.prepare({', '.join([written(self.given), *words])}).allocate({changed})"
        if kind == "lie":
            return "\n".join(_lie(policy, self.given, *self.how[3:]))
        if kind == "whole":
            words.append("integral=True")
        return f"answer = {policy}.allocate({', '.join([written(self.given), *words])})"


def _lie(policy: str, given: dict[str, Any], tried: str, part: float, by_user: bool) -> list[str]:
    """A wrong point, or wrong evidence, beside what a method or a problem's dual values prove."""
    if tried != "read":
        return [f"with spoilt({tried!r}, {part!r}, {by_user}):", f"    answer = {policy}.allocate({written(given)})"]
    return [
        f"policy, instance = {policy}, {written(given)}",
        "problem = policy.problem(instance)",
        "for variable in problem.variables():",
        f"    variable.value = np.full(variable.shape, {part!r})",
        "answer = policy.certify(problem, instance)",
    ]


@contextmanager
def spoilt(what: str, part: float, by_user: bool) -> Iterator[None]:
    """What every method proposes is changed before the gate sees it: its tasks, or prices of its evidence."""
    honest = gate.judge

    def less(values: Any) -> Any:
        if values is None or not np.size(values):
            return values
        factor = np.ones(np.shape(values))
        factor[:1] = part
        return values * (factor if by_user else part)

    def judge(program: Any, proposal: Any) -> Any:
        evidence = proposal.evidence
        if what == "tasks" and proposal.tasks is not None:
            proposal = replace(proposal, tasks=less(np.array(proposal.tasks)))
        elif what == "evidence" and evidence is not None:
            known = {field.name for field in fields(evidence)}
            for name in ("prices", "capacity", "log_prices"):
                if name in known and getattr(evidence, name) is not None:
                    value = getattr(evidence, name)
                    value = value + np.log(max(part, 1e-300)) if name == "log_prices" else less(value)
                    proposal = replace(proposal, evidence=replace(evidence, **{name: value}))
            if hasattr(evidence, "holdings"):
                held = [replace(h, prices=less(h.prices)) for h in evidence.holdings]
                proposal = replace(proposal, evidence=replace(evidence, holdings=held))
        return honest(program, proposal)

    gate.judge = judge
    try:
        yield
    finally:
        gate.judge = honest


def _read(policy: str, given: dict[str, Any], solver: str, changes: tuple[Any, ...], spoilt: bool) -> list[str]:
    """A problem that is changed, solved and read back."""
    of_user = "tasks" if len(given["capacities"]) == 1 else "cp.sum(tasks, axis=1)"
    maximand = "problem.objective"
    lines = [
        f"policy, instance = {policy}, {written(given)}",
        "problem = policy.problem(instance)",
        "tasks, held = problem.var_dict['tasks'], list(problem.constraints)",
    ]
    for kind, *values in changes:
        if kind == "out":
            lines.append(f"held = [c for c in held if not (c.label or '').startswith({values[0]!r})]")
        elif kind == "limits":
            lines.append("held = [c for c in held if c.label != 'task limits']")
        elif kind == "ratio":
            j, k, factor = values
            lines.append(f"held.append({of_user}[{j}] <= {factor} * {of_user}[{k}])")
        elif kind == "most":
            lines.append(f"held.append({of_user}[{values[0]}] <= {values[1]})")
        elif kind == "linear":
            maximand = f"cp.Maximize({values[0]} @ {of_user})"
        elif kind == "least":
            maximand = f"cp.Maximize(cp.min({of_user}))"
        else:
            maximand = f"cp.Maximize(cp.sum(cp.{'sqrt' if kind == 'roots' else 'log1p'}({of_user})))"
    lines += [f"changed = cp.Problem({maximand}, held)", f"changed.solve(solver={solver!r})"]
    if spoilt:
        lines.append("tasks.value = 0.7 * tasks.value")
    return [*lines, "answer = policy.certify(changed, instance)"]


def asked_of(draw: Draw) -> tuple[dict[str, Any], Any]:
    """The instance and the policy that an answer is of, as if it had been asked for at once."""
    given, policy, kind = draw.given, draw.policy, draw.how[0]
    if kind in ("wild", "lie"):
        given = draw.how[1]
    if kind == "lie" and draw.how[3] == "read" and isinstance(policy.objective, fo.Leximin):
        policy = fo.Policy(fo.MaxMin(policy.objective.share), policy.constraints)  # its first level
    if kind == "prepared":
        given = given | draw.how[1]
    if kind != "read":
        return given, policy
    n, objective, constraints = len(given["demands"]), policy.objective, list(policy.constraints)
    if isinstance(objective, fo.Leximin):  # its first level
        objective = fo.MaxMin(objective.share)
    for change, *values in draw.how[2]:
        if change == "out":
            constraints = [block for block in constraints if not repr(block).startswith(values[0])]
        elif change in ("ratio", "most"):
            row = [0.0] * n
            row[values[0]] = 1.0
            if change == "ratio":
                row[values[1]] = -float(values[2])
            constraints.append(AtMost((tuple(row),), (0.0 if change == "ratio" else float(values[1]),)))
        elif change != "limits":
            kinds = {"linear": Linear, "least": Smallest, "roots": Roots, "logarithms": Logarithms}
            objective = kinds[change](tuple(map(float, values[0])) if values else (1.0,) * n)
    return given, fo.Policy(objective, constraints)


NAMES["spoilt"] = spoilt


def written(given: dict[str, Any]) -> str:
    """An instance as code."""
    return f"Instance({', '.join(f'{key}={value!r}' for key, value in given.items())})"


def pasted(code: str) -> str:
    """The code with what it needs to run by itself."""
    blocks = [block for name, block in OWN.items() if f"{name}(" in code]
    head = ["from dataclasses import dataclass", "import cvxpy as cp", "import numpy as np", "import fairopt as fo"]
    head += ["from fairopt.blocks import normal_form", "from fairopt.blocks.rows import Rows"] if blocks else []
    return "\n".join([*head, *(f"from {face.__name__} import *" for face in FACES), *map(getsource, blocks), code])
