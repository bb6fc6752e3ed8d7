"""Users in shards as the users of one pool: each round evaluates every shard, and sums the results."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fairopt.errors import Infeasible, NotCertified, OutOfDomain
from fairopt.instance import Instance
from fairopt.proof.pool_gaps import AlphaFairSums, Bottlenecks, PoolProof, combined, proof_on_pool
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Late
from fairopt.runtime.progress import tell, within
from fairopt.solve.form.pool_users import Pool, bounds_fit
from fairopt.solve.pool.alpha_fair import FINE, AlphaFairPool, Response, price_tries, unit_level
from fairopt.solve.pool.waterfilling import Event, Loads, Start, find_events
from fairopt.solve.sharded.shards import Shard, changed
from fairopt.solve.sharded.workers import DaskWorkers, InProcess, LoadedShard, ShardedProblem

log = logging.getLogger("fairopt")

SAMPLE = 50_000  # users, from all shards, for a first guess


class Judged(NamedTuple):
    """Events, or level and prices, from which all tasks follow, with their proof and the load of each shard."""

    answer: tuple[Any, ...]
    proof: PoolProof
    loads: list[Float]

    def has(self, k: int, load: Float) -> bool:
        """Whether the tasks of a shard have the certified load."""
        return np.allclose(load, self.loads[k] * self.proof.factor, rtol=1e-9, atol=0.0)


class ShardedUsers:
    """The users of all shards together, as `WaterfillingUsers` and as `AlphaFairUsers`."""

    def __init__(self, backend: InProcess | DaskWorkers, problem: ShardedProblem) -> None:
        self.backend, self.problem = backend, problem
        self.rounds = 0
        self.checksums: list[int | None] = []
        no_users = np.zeros((0, len(problem.resources)))
        self.program = problem.program(Instance(no_users, problem.capacities, resources=problem.resources))
        self.usable: Float = self.program.usable
        self.alpha = self.program.term.alpha
        self.measure: type[Bottlenecks] | type[AlphaFairSums] = Bottlenecks if self.alpha is None else AlphaFairSums
        if self.alpha is not None and not (self.usable > 0).all():
            raise OutOfDomain("all of a resource is reserved, so its users get nothing; leave some of it")
        opened = self.ask("opening")
        self.sizes = [n for n, _ in opened]
        self.n = sum(self.sizes)
        started = [start for _, start in opened if start is not None]
        self.started = Start.of_all(started) if started else None
        self.level = 1.0
        if self.alpha is not None and self.started is not None:
            self.level = unit_level(self.started.rates, self.usable, self.started.first_limit, self.alpha)

    def ask(self, name: str, *arguments: Any, each: Sequence[tuple[Any, ...]] | None = None) -> list[Any]:
        """Evaluate every shard in one round; ``each`` adds arguments by shard.

        Raises `NotCertified` if a shard changed since the first round.
        """
        self.rounds += 1
        begun = time.perf_counter()
        with within(f"round {self.rounds}"):
            tell(name)
            answers = self.backend.ask(name, *arguments, each=each)
        checksums = [checksum for checksum, _ in answers]
        self.checksums = self.checksums or checksums
        for shard, now, first in zip(self.backend.shards, checksums, self.checksums, strict=True):
            require_as_before(shard, now == first)
        log.info("round %d, %s: %.2f s", self.rounds, name, time.perf_counter() - begun)
        return [answer for _, answer in answers]

    def parts(self, name: str, *arguments: Any) -> list[Any]:
        """The results of one round, of shards in which any user takes part."""
        return [part for part in self.ask(name, *arguments) if part is not None]

    def start(self) -> Start:
        """Load of the lower bounds, and rates."""
        assert self.started is not None
        return self.started

    def loads(self, events: Sequence[Event], level: float) -> Loads:
        """Loads after events, at a level."""
        return Loads.of_all(self.parts("loads", tuple(events), level))

    def respond(self, log_prices: Float, alpha: float) -> Response:
        """Response to prices."""
        return Response.of_all(self.parts("respond", self.level, log_prices, alpha))

    def sample(self) -> AlphaFairPool | None:
        """A sample of the users, in this process.

        Prices from it need 5 rounds in place of 16 to 23, which takes a half of the time.
        """
        pool = self.pool_of_sample()
        if pool is None or self.alpha is None:
            return None
        users = AlphaFairPool.with_samples(pool, self.alpha)
        users.set_level(self.level)
        return users

    def pool_of_sample(self) -> Pool | None:
        """A sample of the users, as a pool in this process."""
        parts = self.parts("sample", max(self.n // SAMPLE, 1))
        demands, weights, limits = (np.concatenate([part[k] for part in parts]) for k in range(3))
        problem = self.problem
        about: dict[str, Any] = {"weights": weights, "task_limits": limits, "resources": problem.resources}
        program = problem.program(Instance(demands, problem.capacities, **about))
        if program.empty or program.pool_share is None:
            return None
        program.usable = self.usable * (len(demands) / sum(part[3] for part in parts))
        return Pool(program, program.pool_share)

    @np.errstate(all="ignore")  # as the gate judges others
    def judged(self, answer: tuple[Any, ...], prices: Float) -> Judged:
        """The proof for the tasks that follow from events, or from level and prices.

        Takes one round, or two if later levels may depend on errors of earlier ones (Bound 4.3, small holdings).
        """
        parts, adjustments = self.ask("judge", answer), None
        evidence = combined([part for part in parts if part is not None])
        loads = [np.zeros(len(self.usable)) if part is None else part.feasible.load for part in parts]
        if isinstance(evidence, Bottlenecks) and evidence.has_small_holdings(self.usable):
            adjustments = combined(self.parts("corrections", answer, evidence.least))
        proof = proof_on_pool(self.program, self.usable, self.n, evidence, prices, self.level, adjustments)
        return Judged(answer, proof, loads)


def tasks_again(
    shards: Sequence[Shard], problem: ShardedProblem, judged: Judged, checksums: Sequence[int | None], k: int
) -> Float:
    """The tasks of shard ``k``, which is read again."""
    checksum, (tasks, load) = LoadedShard(shards[k], problem).answer("tasks", judged.answer, judged.proof.factor)
    require_as_before(shards[k], checksum == checksums[k] and judged.has(k, load))
    return np.asarray(tasks)


def require_as_before(shard: Shard, same: bool) -> None:
    """Raise `NotCertified` if a shard changed."""
    if not same:
        with shard.named():
            raise changed()


def solve_in_shards(users: ShardedUsers) -> Judged:
    """The best answer within the time limit, with its proof."""
    start, m = users.started, len(users.usable)
    if start is None:
        nothing = PoolProof(1.0, users.measure.empty(m), 0.0, 0.0, np.zeros(m))
        return Judged((), nothing, [np.zeros(m)] * len(users.sizes))
    if not bounds_fit(start.low, start.crossed, users.usable):
        raise Infeasible(
            "the lower bounds of all users together do not fit into the capacities; lower them, or give more capacity",
            ("the lower bounds", "the capacities"),
        )
    if users.alpha is None:
        filled = find_events(users, users.usable)
        assert filled is not None
        return users.judged((filled.events,), filled.prices)
    best: Judged | None = None
    try:
        for log_prices in price_tries(users, users.alpha):
            judged = users.judged((users.level, log_prices), log_prices)
            if best is None or judged.proof.gap < best.proof.gap:
                best = judged
            if judged.proof.gap <= FINE:
                break
    except Late:
        if best is None:
            raise
    if best is None:
        raise NotCertified(
            f"no prices were found at alpha = {users.alpha:g}; solve in memory, where other methods can be tried, or "
            "choose an alpha from 0.1 to 20"
        )
    return best
