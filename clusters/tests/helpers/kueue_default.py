"""What the default policy gives queues of a drawn cluster: hierarchical DRF by linear programs in fractions.

The programs are those of the cluster as drawn (`kueue_cluster`), with what each queue and cohort takes of the cohort
above; the tree is filled as in `oracle.hierarchy`, which knows neither Kueue nor flavors. What queues are owed are
tasks, from which they rise; what cohorts are owed are units that those inside reach first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kueue_cluster import RESOURCES, Answer, Drawn, Program
from oracle import exact_lp
from oracle.hierarchy import Problem, filled

LARGEST = 100_000  # denominators of amounts that programs in floats found


class DefaultAnswer:
    """The tasks of each kind of pod, by queue and place among its kinds."""

    def __init__(self, cluster: Drawn) -> None:
        self.of = Answer(cluster)
        self.users = [(q.name, k) for q, k, _ in self.of.kinds if self._ever(q.name, k)]

    def _ever(self, queue: str, k: int) -> bool:
        """Whether Kueue could ever admit a pod."""
        return self.of.alone.best(self.of.tasks(queue, k))[0] > 1e-7

    def tasks(self) -> dict[tuple[str, int], Fraction]:
        """The tasks."""
        return dict(zip(self.users, filled(_Filled(self)), strict=True))

    def tree(self, above: str | None) -> list[Any]:
        """What is right below a cohort, or at the top, as `oracle.hierarchy` has it."""
        out = list[Any]()
        for one in self.of.cluster.nodes.values():
            if one.parent == above:
                mine = [j for j, (queue, _) in enumerate(self.users) if queue == one.name]
                inside = mine if one.is_queue else self.tree(one.name)
                out += [(one.weight, inside)] if inside else []
        return out


class _Filled(Problem):
    """A problem whose rows are those of a drawn cluster."""

    def __init__(self, answer: DefaultAnswer) -> None:
        self.answer, of, users = answer, answer.of, answer.users
        self.number = {name: j for j, name in enumerate(users)}
        kinds = [of.cluster.nodes[queue].kinds[k] for queue, k in users]
        super().__init__(
            [[kind.takes(r) for r in RESOURCES] for kind in kinds],
            [[of.cluster.total(r, of.used) for r in RESOURCES]],
            (1, answer.tree(None)),
            [1] * len(users),
            [kind.count for kind in kinds],
            starts=[simple(of.base[name]) for name in users],
        )
        self.one_pool = False
        self.floors = [
            ([j for j, (queue, _) in enumerate(users) if queue in queues], RESOURCES.index(r), simple(units))
            for queues, r, units in of.floors
        ]

    def most(self, x: list[Any], dx: list[Any]) -> Fraction:
        """As of `Problem`, with what is taken of cohorts."""
        program = self._program(x, dx)
        place = {name: k for k, name in enumerate(dict.fromkeys(v for row, _ in program.rows for v in row))}
        rows = []
        for row, right in program.rows:
            numbers = [Fraction(0)] * len(place)
            for name, value in row.items():
                numbers[place[name]] = Fraction(value)
            rows.append((numbers, right))
        return exact_lp.maximise([int(name == "t") for name in place], rows).value

    def can_rise(self, x: list[Any]) -> set[int]:
        """As of `Problem`; programs in floats tell apart nothing and some, 20 times as fast."""
        full, short, out = self.saturated(x), self.short(x), set[int]()
        for j in range(self.n):
            needed = not short or any(j in team and self.demands[j][i] > 0 for team, i in short)
            if needed and x[j] < self.limits[j] and not any(self.demands[j][i] > 0 for i in full):
                one = [Fraction(int(k == j)) for k in range(self.n)]
                out |= {j} if self._program(x, one).best({"t": 1.0})[0] > 1e-6 else set()
        return out

    def _program(self, x: list[Any], dx: list[Any]) -> Program:
        """Rows in which ``t`` is how far users can go on."""
        short, program = self.short(x), Program()
        program.rows = [*self.answer.of.alone.rows]
        for queues, cell, amount in self.answer.of.left_to_others:
            program.add(self.answer.of.use(queues, *cell), float(simple(amount)))
        for j, name in enumerate(self.answer.users):
            program.add({v: -1.0 for v in self.answer.of.tasks(*name)} | {"t": dx[j]}, -x[j])
        for team, i, floor in self.floors if short else ():
            row = dict[Any, float]()
            for j in team:
                row |= {v: -float(self.demands[j][i]) for v in self.answer.of.tasks(*self.answer.users[j])}
            program.add(row, -floor)
        program.add({"t": float(not any(dx))}, 1.0)
        return program


def simple(amount: float) -> Fraction:
    """The fraction that an amount of programs in floats stands for."""
    return Fraction(float(amount)).limit_denominator(LARGEST)
