"""One pool above a base: a program of a surplus as a plain program of the tasks above lower bounds.

There ``x = base + y`` with ``y >= low - base``, and y has what the base leaves of the capacities. Shares keep the
coefficients of the whole capacities, so that methods for one pool solve it as any other program.
"""

from __future__ import annotations

import numpy as np

from fairopt.blocks.constraints import Constraint
from fairopt.blocks.shares import Share
from fairopt.blocks.teams import Surplus, with_shares
from fairopt.instance.parts import taking_part
from fairopt.instance.validation import distinct
from fairopt.runtime.arrays import Bool, Float
from fairopt.runtime.tolerances import ROUNDING, TERM_ROUNDING
from fairopt.solve.form.pool_users import bounds_fit
from fairopt.solve.form.program import Program


class Above(Program):
    """The program in tasks above the base of those users who can rise.

    ``base`` (n_users,) are the tasks to add, of all users, and ``load`` (n_resources,) is what they use; ``rises`` are
    the users who take part. ``rounding`` is the relative rounding of the capacities that are left.
    """

    base: Float
    load: Float
    rises: Bool
    rounding: float

    def __init__(self, program: Program, base: Float) -> None:
        own: Bool | None = None if program.low is base else program.low > base  # lower bounds above the base
        if own is not None and not own.any():
            own, base = None, program.low
        self.base, self.rises = base, program.room if own is None else program.room | own
        everyone = bool(distinct(self.rises).all())
        some = slice(None) if everyone else self.rises
        instance = program.instance if everyone else taking_part(program.instance, self.rises)
        super().__init__(instance, with_shares(program.objective, _plain), (), merge=False)
        self.low = np.broadcast_to(np.float64(0.0), (instance.n_users,)) if own is None else (program.low - base)[some]
        self.high = np.broadcast_to(np.float64(np.inf), (instance.n_users,))
        if not program.unlimited:
            self.high = np.maximum((program.high - base)[some], self.low)
        self.load = program.least_load if own is None else program.rows.load(base)
        left = program.usable - self.load
        with np.errstate(divide="ignore", invalid="ignore"):
            part = left / program.usable
        full = ~(part > ROUNDING)  # nobody who rises needs it
        self.usable = np.where(full, 1.0, left)
        self.rounding = TERM_ROUNDING * float((1.0 / part[~full]).max(initial=1.0))

    def implied(self) -> tuple[Constraint, ...]:
        """None: the base and the lower bounds hold guarantees."""
        return ()

    def whole(self, tasks: Float, out: Float | None = None) -> Float:
        """Tasks of all users, with the base; ``out`` is memory that may be used."""
        if len(tasks) == len(self.base):
            return np.add(self.base, tasks, out=out)
        out = np.array(self.base)
        out[self.rises] += tasks
        return out

    def part(self, tasks: Float) -> Float:
        """The inverse of `whole`."""
        return np.asarray(np.maximum(tasks - self.base, 0.0)[self.rises])


def _plain(share: Share) -> Share:
    return share.share if isinstance(share, Surplus) else share


def above(program: Program) -> Above | None:
    """The program above the base, if `Program.is_above_base`, lower bounds fit and somebody can rise."""
    if not program.is_above_base or program.empty:
        return None
    (share, *_) = program.objective.share_blocks()
    crossed = not program.unlimited and bool(np.any(program.low > program.high * (1 + ROUNDING)))
    assert isinstance(share, Surplus)
    if not bounds_fit(program.least_load, crossed, program.usable):
        return None
    made = Above(program, share.tasks(program.instance))
    return None if made.empty else made
