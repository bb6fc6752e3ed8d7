"""The largest sum of shares on several servers if nothing couples these: a linear program for each.

``max sum_js c_j x_js`` under ``sum_j d_jsi x_js <= C_si`` is a sum over servers s if no limit is on a user's tasks on
all servers together. Each server is then a program of as many rows as resources, and all are solved at once, step by
step, by `Simplex` (Proposition 8.3). As one program 1,000 users on 100 servers took HiGHS 0.5 s of 0.6 s.

Columns are in units of what a user could run alone on the server and the largest coefficient is 1, so that `Simplex`'s
1e-11 is relative. The gate computes the bound of the prices of all servers (Bound 4.11), so that a program that ended
early is refused.
"""

from __future__ import annotations

import time

import numpy as np

from fairopt.certificate import Try
from fairopt.proof.dual import Dual
from fairopt.proof.evidence.prices import Prices
from fairopt.proof.proposal import Proposal
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import TINY
from fairopt.solve.batch.max_sum import Simplex
from fairopt.solve.form.program import Program
from fairopt.solve.form.units_on_servers import RowUnits
from fairopt.solve.settings import Proposals, Settings

CHUNK = 1_000_000  # numbers of tables at a time


def totals_apply(program: Program) -> bool:
    """Whether the program is a sum of users' shares on several servers without bounds on their tasks."""
    plain = program.term.is_linear and program.of_users and not (program.single or program.rest)
    free = plain and program.unlimited and not program.low.any() and bool((program.usable > 0).all())
    return free and program.marginal is not None


def solve_totals(program: Program, settings: Settings) -> Proposals:
    """The vertices of all servers, with their prices as evidence."""
    begun, instance = time.perf_counter(), program.instance
    assert program.marginal is not None
    slopes = np.broadcast_to(program.marginal.slope(program.size), (instance.n_users,))
    n, s, m = instance.per_server_demands.shape
    tasks, prices = np.zeros((n, s)), np.zeros((m, s))
    step = max(CHUNK // (n * (m + 1)), 1)
    for first in range(0, s, step):
        tell("servers", first, s)
        some = slice(first, first + step)
        right = (program.whole_capacities[some] * program.usable).T
        # who may not run on a server has no column there: coefficients of 0 never enter a basis
        demands = np.where(instance.eligible[:, some, None], instance.per_server_demands[:, some], 0.0)
        columns = np.zeros((n, m, right.shape[1]))
        np.divide(demands.transpose(0, 2, 1), right, out=columns, where=right > 0)
        largest = columns.max(axis=1)  # in units of what a user could run alone, as for many instances
        unit = np.divide(1.0, largest, out=np.zeros(largest.shape), where=largest > 0)
        coefficients = slopes[:, None] * unit
        best = np.maximum(coefficients.max(axis=0), TINY)
        columns *= unit[:, None]
        values, duals = Simplex(columns, coefficients / best, np.full(unit.shape, np.inf)).run()
        tasks[:, some], prices[:, some] = values * unit, duals * best / program.usable[:, None]
    evidence = Prices(program, Dual(np.maximum(prices, 0.0).T.ravel()))
    status = "solved" if np.isfinite(prices).all() else "no vertex found"
    attempt = Try("linear", status, time.perf_counter() - begun)
    with np.errstate(all="ignore"):
        fitted = RowUnits(program, program.size[:, None]).fitted(tasks)
    yield Proposal("linear", fitted, evidence, attempt=attempt)
