"""Dynamic DRF: users arrive in sequence, and allocations never shrink."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from fairopt.allocation import Allocation
from fairopt.blocks.constraints import MinTasks, Reserve
from fairopt.blocks.objectives import Leximin
from fairopt.blocks.shares import DominantShare
from fairopt.errors import NotCertified
from fairopt.instance import Instance
from fairopt.policies.mechanism import Mechanism, require_pool
from fairopt.proof import gate
from fairopt.runtime.clock import FIX, Clock
from fairopt.runtime.progress import tell
from fairopt.solve.dispatch import best
from fairopt.solve.form.program import Program
from fairopt.solve.pool.waterfilling import solve_waterfilling
from fairopt.solve.settings import Settings


@dataclass(frozen=True)
class DynamicDRF(Mechanism):
    """Dynamic Dominant Resource Fairness (Kash, Procaccia and Shah 2014).

    Users arrive in the order of the instance and never leave, and no user loses tasks. When user k arrives, at most the
    part ``(w_1 + ... + w_k) / W`` of each resource may be in use, and the smallest dominant share per weight of the
    users present is maximised. If zero demands or task limits, which the paper does not have, stop some users, the
    others rise further, as in `DRF`. For one pool, or identical servers.

    Examples
    --------
    The third user comes too late to reach the share of the others:

    >>> import fairopt as fo
    >>> three = fo.Instance([[1, 1/2, 3/4], [1/2, 1, 3/4], [1/2, 1/2, 1]], [1, 1, 1])
    >>> fo.DynamicDRF().allocate(three).tasks.round(4)
    array([0.4444, 0.4444, 0.3333])
    >>> fo.DRF().allocate(three).tasks.round(4)
    array([0.4, 0.4, 0.4])
    """

    _name = "dynamic DRF"

    def _solved(self, instance: Instance, clock: Clock) -> Allocation:
        """The last of `steps`."""
        last, arrived = deque[Allocation](maxlen=1), 0

        def arrive() -> None:
            nonlocal arrived
            for step in self.steps(instance):
                last.append(step)
                arrived += 1
                if clock.late and arrived < instance.n_users:
                    stop()

        def stop() -> NoReturn:
            words = f"the time limit was over after {arrived:,} of {instance.n_users:,} users had arrived"
            held = None
            if last:
                program = Program(instance, Leximin(DominantShare()), ())
                tasks = program.gather(last[0].tasks_by_server)
                judged = replace(gate.nothing(program, "water-filling"), tasks=tasks, block_violation=0.0)
                held = gate.unfinished(self, program, judged, None, clock.begun)
            raise NotCertified(f"{words}: {clock}; .best is what they have. {FIX}", best=held)

        clock.run(arrive, stop)
        if last:
            return last[0]
        program = Program(instance, Leximin(DominantShare()), ())  # of no users
        return gate.allocation(self, [(program, gate.empty(program))], clock.begun)

    def steps(self, instance: Instance) -> Iterator[Allocation]:
        """The allocation after each arrival.

        Parameters
        ----------
        instance : Instance
            Users, in the order of their arrival, on one pool.

        Yields
        ------
        Allocation
            With all users; those who have not arrived have a task limit of 0. It is certified as the leximin of
            dominant shares per weight, given the previous step and the usable part of each resource. The objective is
            the smallest dominant share per weight.

        Raises
        ------
        OutOfDomain, NotCertified
            As `allocate`.

        Examples
        --------
        >>> import fairopt as fo
        >>> three = fo.Instance([[1, 1/2, 3/4], [1/2, 1, 3/4], [1/2, 1/2, 1]], [1, 1, 1], users=["a", "b", "c"])
        >>> for step in fo.DynamicDRF().steps(three):
        ...     print(step.tasks.round(4), round(step.objective, 4))
        [0.3333 0.     0.    ] 0.3333
        [0.4444 0.4444 0.    ] 0.4444
        [0.4444 0.4444 0.3333] 0.3333
        """
        self._refuse(instance)
        require_pool(instance, self._name)
        n = instance.n_users
        present = np.cumsum(instance.weights) / instance.derived.total_weight
        had = np.zeros(n)
        for k in range(n):
            begun = time.perf_counter()
            tell("users arrived", k, n)
            here = np.arange(n) <= k
            now = instance if k == n - 1 else instance.with_task_limits(np.where(here, instance.task_limits, 0.0))
            held_back = [Reserve(name, max(1.0 - present[k], 0.0)) for name in instance.resources]
            program = Program(now, Leximin(DominantShare()), (MinTasks(tuple(had.tolist())), *held_back))
            answer = gate.empty(program) if program.empty else best(program, solve_waterfilling(program, Settings()))
            step = gate.allocation(self, [(program, answer)], begun)
            if not step.certificate.ok:
                raise NotCertified(
                    f"the allocation after the arrival of user {instance.users[k]!r} could not be proved: "
                    f"{step.certificate}",
                    best=step,
                )
            had = np.maximum(had, step.tasks)
            yield step
