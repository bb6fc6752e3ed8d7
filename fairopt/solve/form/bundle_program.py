"""Programs over bundles: an amount per user, server and resource, and tasks that fit in them if a block needs tasks.

If everything separates by server, resource and group, the program is a `Division`, which has a closed form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fairopt.blocks.algebra import Natural, tiers_of
from fairopt.blocks.bundle_model import BundleModel, BundlePoint, Triples, tasks_in_bundles
from fairopt.blocks.bundles import WeightedLog
from fairopt.blocks.constraints import Constraint, EnvyFree
from fairopt.blocks.model import Model, Pairs
from fairopt.blocks.objectives import Objective
from fairopt.errors import InvalidBlock
from fairopt.instance import Instance
from fairopt.runtime.arrays import Float
from fairopt.runtime.lazy import cp
from fairopt.solve.form.division import Division, division
from fairopt.solve.form.program import ConeModel, Program


def decides_bundles(objective: Objective) -> bool:
    """Whether a policy with this objective decides bundles, not only tasks."""
    return any(part.of_bundles for tier in tiers_of(objective) for _, part in tier.summands())


def program_class(objective: Objective) -> type[Program]:
    """The class of the programs of a policy with this objective."""
    return BundleProgram if decides_bundles(objective) else Program


class BundleProgram(Program):
    """A `Program` with an amount per `Triples`, and tasks per `Pairs` if blocks need tasks.

    Points are arrays by server row, of bundles and of tasks. No constraint is combined into bounds.
    """

    def __init__(
        self, instance: Instance, objective: Objective, constraints: Sequence[Constraint], merge: bool = True
    ) -> None:
        if objective.term.is_order:
            raise InvalidBlock(f"{objective} beside an objective over bundles; give MaxMin, which is a number")
        super().__init__(instance, objective, constraints, merge)
        self.merge = self.instance.n_servers < self.unmerged.n_servers  # no copy of large bundles

    def read_blocks(self) -> None:
        """Check the blocks; all constraints stay in `rest`."""
        if self.empty:
            return
        for constraint in self.constraints:
            if isinstance(constraint, EnvyFree):
                raise InvalidBlock(f"{constraint} is not convex where bundles are decided; leave it out")
            constraint.check(self.instance)
        self.rest = list(self.constraints)
        if self.decides_tasks:
            self.objective.check(self.instance)

    @cached_property
    def division(self) -> Division | None:
        """The program as a `Division`; None if it has other blocks."""
        return division(self.instance, self.objective, self.constraints)

    @property
    def decides_tasks(self) -> bool:
        """Whether tasks are unknowns too, as in all programs but divisions."""
        return self.division is None

    @cached_property
    def triples(self) -> Triples:
        """The triples with a positive base, and those that tasks need if these are unknowns."""
        instance = self.instance
        who = np.zeros((instance.n_users, instance.n_servers, instance.n_resources), dtype=bool)
        for factor, term in self.objective.summands():
            if isinstance(term, WeightedLog) and factor > 0:
                who |= term.bases(instance) > 0
        if self.decides_tasks:
            who |= (instance.per_server_demands > 0) & instance.eligible[:, :, None]
        return Triples(instance, who)

    @property
    def triples_as_given(self) -> Triples:
        """`triples` among all users of the original instance."""
        who = np.zeros((self.given.n_users, *self.triples.who.shape[1:]), dtype=bool)
        who[self.active] = self.triples.who
        return Triples(self.given, who)

    @cached_property
    def capacity_rows(self) -> NDArray[np.int64]:
        """Rows of which some user can hold a part."""
        return np.unique(self.triples.row)

    def on_rows(self, one_server: Float) -> Float:
        """Values on one server of each row as totals of the rows."""
        counts = self.instance.counts
        return one_server if (counts == 1).all() else one_server * counts.reshape(-1, *[1] * (one_server.ndim - 2))

    expand, gather = Program.expand_rows, Program.gather_rows  # tasks are by server row

    def expand_prices(self, prices: Float) -> Float:
        """Prices per natural unit by server row of the original instance."""
        return prices[self.unmerged.derived.server_classes] if self.merge else prices

    def zero_point(self) -> tuple[Float, Float]:
        """Zero tasks and bundles."""
        shape = self.instance.n_users, self.instance.n_servers
        return np.zeros(shape), np.zeros((*shape, self.instance.n_resources))

    def point(
        self, tasks: Float, bundles: Float | None = None, variables: Mapping[str, Float] | None = None
    ) -> BundlePoint:
        """Bundles and the tasks in them as a point of the solved instance."""
        assert bundles is not None
        written = None if self.objective.is_known and not self._has_own_levels else self.natural
        return BundlePoint(self.instance, bundles, tasks, None if variables is None else lambda: variables, written)

    @cached_property
    def natural(self) -> Natural:
        """The constants of objectives that are given by expressions."""
        return Natural(self.instance, self.pairs, BundleConeModel(self).model)


class BundleConeModel(ConeModel):
    """A `BundleProgram` as CVXPY constraints in unknowns near 1: bundles first, then tasks."""

    program: BundleProgram
    model: BundleModel

    def in_unknowns(self, solver: str | None) -> BundleModel:
        """The model; sets `unknowns`, the `units` of bundles and the `scale` of tasks."""
        program, instance = self.program, self.program.instance
        self.triples, pairs = program.triples, program.pairs
        there = np.maximum(instance.eligible.sum(axis=0), 1)
        self.units = self.triples.capacity / there[self.triples.server]  # an equal part of each capacity
        scale = tasks_in_bundles(instance, self.triples.table(self.units))[pairs.user, pairs.server]
        self.alone = instance.tasks_alone[pairs.user, pairs.server]
        self.scale = np.where(scale > 0, scale, self.alone)
        k, n_tasks = len(self.triples), len(pairs) * program.decides_tasks
        self.unknowns = cp.Variable(k + n_tasks, name="bundles and tasks in units", nonneg=True)
        tasks = self.unknowns[k:] if n_tasks else cp.Constant(np.zeros(len(pairs)))
        model = BundleModel(instance, self.unknowns[:k], self.units, self.triples, tasks, self.scale, pairs, solver)
        if n_tasks:
            self.box.append(model.fits())
        return model

    def of_all_users(self, tasks: cp.Expression, scale: Float, pairs: Pairs) -> Model:
        """A model of the original instance; users with a task limit of 0 hold nothing."""
        program, held, solver = self.program, self.model.held, self.model.of_solver
        return BundleModel(program.given, held, self.units, program.triples_as_given, tasks, scale, pairs, solver)

    def bundles(self) -> Float:
        """The bundles of the solver, scaled down to the capacities: totals of the rows."""
        held = np.maximum(np.asarray(self.unknowns.value[: len(self.triples)], dtype=float), 0.0) * self.units
        load = np.bincount(self.triples.row, held / self.triples.capacity)
        return self.triples.table(held / np.maximum(load, 1.0)[self.triples.row])

    def tasks(self) -> Float:
        """Tasks by pair of the solver."""
        return np.maximum(np.asarray(self.unknowns.value[len(self.triples) :], dtype=float), 0.0) * self.scale

    def save_point(self, bundles: Float, tasks: Float) -> None:
        """Set the unknowns to bundles and tasks by server row."""
        triples, pairs = self.triples, self.model.pairs
        held = bundles[triples.user, triples.server, triples.resource] / self.units
        self.unknowns.save_value(np.concatenate([held, tasks[pairs.user, pairs.server] / self.scale]))
