"""The set of optimal multipliers of a program at an optimum, and the minimum of a linear function over it.

At an optimum (Karush, Kuhn and Tucker) a user's marginal utility equals the cost of a task on every server where it
runs tasks, and is at most the cost elsewhere. Users at a bound, and users tied in an objective that ranks them, have a
multiplier of their own for the difference. With multipliers theta of capacities and constraints, and charges K,

    (K'theta)_q = marginal_q + own_j   where user j runs tasks,   >=  elsewhere,   theta >= 0 but for equations.

The multipliers that satisfy these conditions are the supergradients of the optimal value, at any optimal point, so a
one-sided derivative of the value is the minimum of a linear function over them (Rockafellar 1970, sections 23 and 29;
Propositions 10.2 and 10.3).

Usually the equations have one solution. Otherwise a linear program is solved, and the inequalities, of which there may
be one per user and server, are added as they are violated. Why not the solver's own multipliers: they are one point of
the set, whichever; of two identical full resources each has price 0 to the right and the whole price to the left.

In floats nothing holds exactly at a point that a solver found: which equations are independent is a decision (`RANK`),
inequalities hold to a slack that grows until they are feasible (`SLACKS`), and failures count as parts of all payments.
If they are above `TRUST` there are no prices. Equations are weighted by payments: what nobody pays for decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.runtime.arrays import Bool, Float, Indices
from fairopt.runtime.lazy import optimize, sp
from fairopt.runtime.tolerances import NOISE, SUM_ROUNDING

# Relative singular values of the equations below which multipliers are not told apart. Resources that are full for the
# same users give 1e-16 to 1e-9 (demands rounded in other units). At 1e-9 levels with ties on servers have wrong prices.
RANK = 1e-6
# Tolerated failure of the conditions, as a part of all payments. Answers certified within 1e-8 failed by 1e-12 to 4e-4
# (interior points on servers, CLARABEL at alpha = 8); points that are not optimal by 1e-2 and more.
TRUST = 1e-3
# Failure by which a hint is accepted: least squares weigh equations by payments, which loses the prices of resources
# that only users with negligible shares need (1e-25 of all, at alpha = 100).
EXACT = 1e-9
SLACKS = (1e-11, 1e-9, 1e-7, 1e-5, 1e-4)  # of the inequalities, until they are feasible
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Bounds on scaled multipliers, until they are slack at the minimum. At the second, a minimum below -FAR is minus
# infinity: lower bounds that leave a part r of a capacity free give prices of about 1 / r.
BOXES, FAR = (1e3, 1e8), 1e6
AT_ONCE = 100  # violated rows that are added together
ROUNDS = 200  # of adding rows; instances of 200 users on 27 servers took 1 to 12


class Ties(NamedTuple):
    """Users with about the same share, and the decreasing weights v of their places in a ranking objective.

    The users' own multipliers are any point of the permutahedron of v, the convex hull of its permutations.
    """

    users: Indices
    v: Float


class Conditions:
    """The conditions on optimal multipliers at a point, except `Ties`.

    ``charges`` (n_columns, n_pairs), dense or sparse, is the cost of a task of each pair per unit of each multiplier,
    with multipliers near 1. ``marginal`` (n_pairs,) is the marginal utility apart from the user's own multiplier, and
    ``rate`` (n_pairs,) that per unit of it. ``tasks`` and ``reach`` (n_pairs,) are the tasks, and about how many are
    possible; ``used`` (n_pairs,) is where tasks run. ``low``, ``high`` and ``own`` (n_users,) are users at a lower
    bound, at an upper bound, and with a multiplier besides those of bounds. ``signed`` (n_columns,) are multipliers of
    either sign, those of equations. ``size`` (n_pairs,) is about the value of a task, to which errors are relative; by
    default the larger of its marginal utility and its charges.
    """

    def __init__(
        self,
        charges: Any,
        marginal: Float,
        rate: Float,
        user: Indices,
        tasks: Float,
        reach: Float,
        used: Bool,
        low: Bool,
        high: Bool,
        own: Bool,
        signed: Bool,
        size: Float | None = None,
    ) -> None:
        self.user, self.used, self.low, self.high, self.own, self.signed = user, used, low, high, own, signed
        self.charges: Any = times_columns(charges, 1.0 / rate)
        self.marginal = marginal / rate
        self.size = np.abs(self.marginal) if size is None else size / rate
        if len(signed) and len(user):
            self.size = np.maximum(self.size, flat(abs(self.charges).max(axis=0)))
        self.size = np.where(self.size > 0, self.size, 1.0)
        self.main = np.full(len(own), -1)  # the pair with most of a user's tasks: the last write wins
        order = np.flatnonzero(used)
        if len(user) > len(own):
            order = order[np.argsort(tasks[order], kind="stable")]
        self.main[user[order]] = order  # most tasks: its equation has the smallest relative error
        self.runs = self.main[user] >= 0
        self.interior = ~own & ~low & ~high
        self.payment = np.where(used, tasks, 0.0) * rate * self.size  # about the user's payment: a weight
        # relative to payments of users strictly between bounds, as users at limits often pay nearly all
        self.total = float(self.payment[self.interior[user]].sum()) or float(self.payment.sum()) or 1.0
        most = np.bincount(user, weights=tasks, minlength=len(own))[user] if len(user) else tasks
        self.potential = np.where(self.runs, most, reach) * rate * self.size / self.total
        self.forced_zero = self._forced_zero()
        self.priced = np.flatnonzero(used & self.interior[user])
        self.split = np.flatnonzero(used & ~self.interior[user] & (self.main[user] != np.arange(len(user))))
        to = self.main[user[self.split]]
        self.rows = self.charges[:, self.priced], _cleared(self.charges[:, self.split], self.charges[:, to])
        self.sides = self.marginal[self.priced], self.marginal[self.split] - self.marginal[to]
        sizes = self.size[self.priced], np.maximum(self.size[self.split], self.size[to])
        self.weights = tuple(
            self.payment[q] / self.total / size**2 for q, size in zip((self.priced, self.split), sizes, strict=True)
        )

    def _forced_zero(self) -> Bool:
        """Multipliers that must be zero, since a user with zero marginal utility would pay for them."""
        user, signed = self.user, self.signed
        idle = np.flatnonzero(self.used & ~self.own[user] & ~self.low[user] & (self.marginal == 0))
        if not len(idle) or not len(signed):
            return np.zeros(len(signed), dtype=bool)
        part = self.charges[:, idle]
        other = flat((part[~signed] < 0).sum(axis=0)) + flat((part[signed] != 0).sum(axis=0))
        forced_zero: Bool = flat((part[:, np.flatnonzero(other == 0)] > 0).sum(axis=1)) > 0
        return forced_zero & ~signed

    def rows_of(self, pairs: Indices | list[Any]) -> Float:
        """Charges of some pairs, in units of the users' own multipliers, shape (n_columns, len(pairs))."""
        return dense(self.charges[:, pairs])

    def own_multipliers(self, theta: Float) -> Float:
        """The cost of each pair less its marginal utility, in units of the user's own multiplier, shape (n_pairs,)."""
        return np.asarray(flat(self.charges.T @ theta) - self.marginal)


class MultiplierSet:
    """The multipliers that satisfy `Conditions` and `Ties`.

    A ``hint`` (n_columns,) is accepted if it fits as well as the accuracy of the point allows; ``noise`` is the known
    error of the point, by which a hint may fail. ``rays`` (n_rays, n_columns) are directions in which multipliers may
    grow without bound, and along which no function of interest changes. ``theta`` is one point, which is ``unique`` if
    the equations have no other; ``determined`` columns are equal at all points.
    """

    def __init__(
        self,
        conditions: Conditions,
        ties: Sequence[Ties] = (),
        hint: Float | None = None,
        noise: float = 0.0,
        rays: Float | None = None,
    ) -> None:
        self.given, self.ties = conditions, ties
        self.sums, self.sum_sides = self._whole_ties()
        weighted = zip(conditions.rows, conditions.weights, strict=True)
        # of the normal equations of weighted least squares, (n_columns, n_columns)
        matrix = sum((dense(times_columns(rows, w) @ rows.T) for rows, w in weighted), self.sums.T @ self.sums)
        # columns are divided by their norms, so that `RANK` does not depend on units of capacities
        live = np.flatnonzero(~conditions.forced_zero)
        norm = np.sqrt(np.diag(matrix)[live])
        per = np.divide(1.0, norm, out=np.zeros(len(norm)), where=norm > 0)
        values, vectors = np.linalg.eigh(matrix[np.ix_(live, live)] * per * per[:, None])
        kept = values > RANK**2  # eigenvalues are squares of singular values
        self.determined = conditions.forced_zero.copy()
        # a column without a part in the null space is the same at all solutions
        self.determined[live] = (vectors[:, kept] ** 2).sum(axis=1) > 1 - 1e-9
        self.unique = bool(self.determined.all())
        # an orthonormal basis of the directions in which multipliers may move
        self.null_space = np.zeros((len(matrix), int((~kept).sum())))
        self.null_space[live] = _basis(vectors[:, ~kept] * np.where(norm > 0, per, 1.0)[:, None])
        self.theta = np.zeros(len(matrix))
        for _ in range(3):  # iterative refinement, since normal equations lose half of the digits
            residual = self._moment()[live] * per
            self.theta[live] += per * (vectors[:, kept] @ ((residual @ vectors[:, kept]) / values[kept]))
        self.residual = self._residual(self.theta)
        if hint is not None and self._residual(hint) <= max(2 * self.residual, noise, EXACT):
            self.theta = np.where(conditions.forced_zero, 0.0, hint)
            self.residual = self._residual(self.theta)
        self.cuts: dict[object, Float] = {}
        self.cut_sides: list[float] = []
        self.points: list[Float] = []  # feasible ones
        self.programs = 0
        self.slack = 0
        if rays is not None and not self.unique and len(self.sums) == len(self.ties):
            self._move_along(rays)

    def _move_along(self, rays: Float) -> None:
        """Move the point to where all inequalities hold, if only the rays are undetermined."""
        rays = rays / np.abs(rays).max(axis=1, keepdims=True)
        off = rays - (rays @ self.null_space) @ self.null_space.T
        if np.abs(off).max() > RANK or np.linalg.matrix_rank(rays, RANK) < self.null_space.shape[1]:
            return
        self.unique = True
        given, ray = self.given, rays.sum(axis=0)
        here, there = given.own_multipliers(self.theta), given.own_multipliers(ray) + given.marginal
        steps = [np.zeros(1)]
        for missing, gained in (
            (-self.theta[~given.signed], ray[~given.signed]),
            (self._shortfalls(here), -self._shortfalls(there)),
        ):
            some = (missing > 0) & (gained > RANK)
            steps.append(missing[some] / gained[some])
        self.theta = self.theta + max(float(step.max(initial=0.0)) for step in steps) * ray

    def _whole_ties(self) -> tuple[Float, Float]:
        """An equation for each tie without users at bounds: their multipliers sum to the weights."""
        given = self.given
        rows, sides = [], []
        for users, v in self.ties:
            if not (given.low | given.high)[users].any() and (given.main[users] >= 0).all():
                row, side = self._sum_of(given.main[users])
                side += float(v.sum())
                size = max(float(np.abs(row).max(initial=0.0)), abs(side)) or 1.0
                rows.append(row / size)
                sides.append(side / size)
        return np.reshape(rows, (len(rows), len(given.signed))), np.array(sides)

    def _sum_of(self, pairs: Indices) -> tuple[Float, float]:
        """The sum of own multipliers at some pairs: as a row, and the constant that is subtracted."""
        given = self.given
        chosen = np.zeros(len(given.user))
        chosen[pairs] = 1.0
        row, terms = flat(given.charges @ chosen), flat(abs(given.charges) @ chosen)
        return np.where(np.abs(row) > SUM_ROUNDING * terms, row, 0.0), float(given.marginal[pairs].sum())

    def _moment(self) -> Float:
        """Weighted rows times the residuals."""
        given = self.given
        out: Float = self.sums.T @ (self.sum_sides - self.sums @ self.theta)
        for rows, side, weight in zip(given.rows, given.sides, given.weights, strict=True):
            out = out + flat(rows @ (weight * (side - flat(rows.T @ self.theta))))
        return out

    def _residual(self, theta: Float) -> float:
        """The residual of the equations as a part of all payments."""
        given = self.given
        out = float(np.abs(self.sums @ theta - self.sum_sides).sum())
        for rows, side, weight, pairs in zip(
            given.rows, given.sides, given.weights, (given.priced, given.split), strict=True
        ):
            missing = np.abs(flat(rows.T @ theta) - side)
            out += float(np.sqrt(weight * given.payment[pairs] / given.total) @ missing)
        return out

    @cached_property
    def consistent(self) -> bool:
        """Whether the conditions hold; otherwise the point is not an optimum of this program."""
        given, theta = self.given, self.theta
        if not (np.isfinite(theta).all() and self.residual <= TRUST):
            return False
        if not self.unique:
            return self.least(np.zeros(len(theta))) is not None
        if theta[~given.signed].min(initial=0.0) < -TRUST:
            return False
        multipliers = given.own_multipliers(theta)
        shortfall = np.maximum(self._shortfalls(multipliers), 0.0)
        beyond = np.maximum(self._excesses(multipliers), 0.0)
        lost = float((shortfall + beyond) @ given.potential)
        return lost <= TRUST and next(self._tie_cuts(multipliers, TRUST), None) is None

    def least(self, goal: Float) -> tuple[float, Float] | None:
        """The minimum of a linear function, maybe minus infinity, and a minimiser; None if nothing is feasible."""
        if self.unique:
            return (float(goal @ self.theta), self.theta) if self.consistent else None
        along = goal @ self.null_space / (np.abs(goal).max(initial=0.0) or 1.0)
        along = np.where(np.abs(along) > NOISE, along, 0.0)  # a constant function must not follow rounding to the box
        if self.points and not along.any():  # a constant function: the mean of points is in the relative interior
            theta = np.mean(self.points, axis=0)
            return float(goal @ theta), theta
        while self.slack < len(SLACKS):
            for box in BOXES:  # the second only where the first binds
                point = self._program(along, SLACKS[self.slack], box)
                if point is not None and (point[1] or box == BOXES[-1]):
                    self.points += [point[0]] if point[1] else []
                    value = float(goal @ point[0])
                    return (-np.inf if value < -FAR * np.abs(goal).max(initial=0.0) else value), point[0]
            self.slack += 1
        return None

    def _program(self, along: Float, slack: float, box: float) -> tuple[Float, bool] | None:
        """A minimiser, and whether the box is slack there; None if the inequalities are infeasible.

        Unknowns are steps in the null space of the equations; inequalities are added as they are violated.
        """
        unsigned = ~self.given.signed
        for _ in range(ROUNDS):
            rows = np.vstack([np.eye(len(self.theta))[unsigned], *self.cuts.values()])
            sides = np.concatenate([np.zeros(int(unsigned.sum())), self.cut_sides]) - rows @ self.theta - slack
            self.programs += 1
            solution: Any = optimize.linprog(  # type: ignore[call-overload]
                along, -(rows @ self.null_space), -sides, bounds=(-box, box), method="highs", options=TIGHT
            )
            if solution.x is None:
                return None
            theta = self.theta + self.null_space @ solution.x
            theta = np.where(unsigned, np.maximum(theta, 0.0), theta)  # below 0 by the slack at most
            before = len(self.cuts)
            # rows that HiGHS has hold to the slack; the others are judged at twice that
            for name, row, side in self._violated(theta, 2 * slack + 1e-9):
                if name not in self.cuts:
                    self.cuts[name] = row
                    self.cut_sides.append(side)
            if len(self.cuts) == before:
                box_multipliers = np.abs(solution.upper.marginals) + np.abs(solution.lower.marginals)
                return theta, float(box_multipliers.max(initial=0.0)) <= RANK
        return None

    # -- inequalities: rows with ``row @ theta >= side``, in units of their largest term ------------------------------

    def _shortfalls(self, multipliers: Float) -> Float:
        """By how much each pair without tasks is relatively too cheap."""
        given = self.given
        # where its user is at a bound, or has a multiplier of its own, a pair is compared with the user's main one
        threshold = np.where(given.interior[given.user] | ~given.runs, 0.0, multipliers[given.main[given.user]])
        judged = ~given.used & (given.runs | ~given.own[given.user])
        return np.where(judged, (threshold - multipliers) / given.size, -np.inf)

    def _excesses(self, multipliers: Float) -> Float:
        """By how much users at one bound have a multiplier of the wrong sign, at the pair with most of their tasks."""
        given = self.given
        out = np.full(len(given.user), -np.inf)
        for users, sign in ((given.high & ~given.low, 1.0), (given.low & ~given.high, -1.0)):
            main = given.main[users & ~given.own]
            main = main[main >= 0]
            out[main] = sign * multipliers[main] / given.size[main]
        return out

    def _violated(self, theta: Float, slack: float) -> Iterator[tuple[object, Float, float]]:
        """Violated inequalities: a name, the row and its side."""
        given = self.given
        multipliers = given.own_multipliers(theta)
        shortfall = self._shortfalls(multipliers)
        for q in _largest(shortfall, slack):
            j = given.user[q]
            row, side = given.rows_of([q]).ravel(), given.marginal[q]
            if given.runs[q] and not given.interior[j]:
                row = row - given.rows_of([given.main[j]]).ravel()
                side = side - given.marginal[given.main[j]]
            yield (int(q), "too cheap"), row / given.size[q], float(side / given.size[q])
        for q in _largest(self._excesses(multipliers), slack):
            sign = -1.0 if given.high[given.user[q]] else 1.0
            row = given.rows_of([q]).ravel()
            yield (int(q), "at a bound"), sign * row / given.size[q], float(sign * given.marginal[q] / given.size[q])
        for row, side in self._tie_cuts(multipliers, slack):
            yield (row.tobytes(), side), row, side

    def _tie_cuts(self, multipliers: Float, slack: float) -> Iterator[tuple[Float, float]]:
        """The most violated upper and the most violated lower inequality of each tie.

        A vector between bounds l <= u <= h is in the permutahedron of v if and only if no k users have l above the k
        largest v together, nor h below the k smallest (Rado 1952). Users at an upper bound may have a larger multiplier
        than they pay for, users at a lower bound (or without tasks) a smaller one.
        """
        given = self.given
        for users, v in self.ties:
            main = given.main[users]
            runs = main >= 0
            atleast, atmost = main[runs & ~given.low[users]], main[runs & ~given.high[users]]
            if not runs.all():
                atmost = np.concatenate([atmost, self._cheapest(users[~runs], multipliers)])
            for pairs, bound, sign in ((atleast, np.cumsum(v), -1.0), (atmost, np.cumsum(v[::-1]), 1.0)):
                if not len(pairs):
                    continue
                order = pairs[np.argsort(sign * multipliers[pairs])]
                missing = sign * (bound[: len(order)] - np.cumsum(multipliers[order]))
                k = int(np.argmax(missing))  # the worst of all subsets is among the sorted ones
                row, side = self._sum_of(order[: k + 1])
                size = max(float(np.abs(row).max(initial=0.0)), float(abs(side + bound[k]))) or 1.0
                if missing[k] > slack * size:
                    yield sign * row / size, float(sign * (side + bound[k]) / size)

    def _cheapest(self, users: Indices, multipliers: Float) -> Indices:
        """The cheapest pair of each user."""
        pairs = np.flatnonzero(np.isin(self.given.user, users))
        order = pairs[np.lexsort((multipliers[pairs], self.given.user[pairs]))]
        return order[np.unique(self.given.user[order], return_index=True)[1]]


def _cleared(first: Any, second: Any) -> Any:
    """A difference, with zeros where terms cancel up to rounding."""
    out = first - second
    counts = abs(out) > SUM_ROUNDING * (abs(first) + abs(second))
    return sp.csc_array(out.multiply(counts)) if is_sparse(out) else out * counts


def _basis(columns: Float) -> Float:
    """Orthonormal columns with the same span."""
    if not columns.size:
        return columns
    out = np.linalg.qr(columns / np.abs(columns).max(axis=0))[0]
    return np.where(np.abs(out) > 1e-13, out, 0.0)


def _largest(values: Float, above: float) -> Indices:
    """Indices of the largest values above a bound, at most `AT_ONCE`."""
    above_bound = np.flatnonzero(values > above)
    if len(above_bound) > AT_ONCE:
        above_bound = above_bound[np.argpartition(-values[above_bound], AT_ONCE)[:AT_ONCE]]
    return above_bound


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is one of SciPy's."""
    return not isinstance(matrix, np.ndarray)


def times_columns(matrix: Any, by_column: Float) -> Any:
    """The columns of a matrix times numbers."""
    return sp.csc_array(matrix) @ sp.diags_array(by_column) if is_sparse(matrix) else matrix * by_column


def dense(matrix: Any) -> Float:
    """A matrix as an array."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def flat(values: Any) -> Float:
    """A dense or sparse row or column as a vector."""
    return dense(values).ravel()
