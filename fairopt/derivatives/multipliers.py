"""All optimal multipliers of a program at an optimum: a polyhedron, and the least of a linear function on it.

At an optimum (Karush, Kuhn and Tucker) the last task of a user is worth its cost on every server where the user runs
tasks, and at most its cost where it runs none; users at a bound, and users tied with others in an objective that ranks
them, have a multiplier of their own that makes up the difference. The multipliers (prices of capacities, and of other
conditions) that satisfy these conditions are the supergradients of the optimal value, at any optimal point. So the
derivative of the value from one side is the least of a linear function over them (Rockafellar 1970, sections 23 and
29).

In most cases the equations leave one point only, and no linear program is needed. Otherwise the inequalities, of which
there may be one per user and server, are added as they are violated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairopt.formulation.program import Float, Indices, Mask
from fairopt.runtime.lazy import optimize, sp

# Singular values of the equations, relative to their columns, below which multipliers are not told apart. Resources
# full for the same users give 1e-16 to 1e-9 (demands rounded in other units).
RANK = 1e-6
# By how much, as a part of all payments, conditions may fail. Answers certified within 1e-8 failed by 1e-12 to 4e-4
# (interior points on servers, CLARABEL at alpha = 8); points that are not optimal by 1e-2 and more.
TRUST = 1e-3
# A hint that fails by less is accepted: least squares weigh equations by payments, which loses the prices of resources
# that only users with shares of negligible worth need (1e-25 of all, at alpha = 100).
EXACT = 1e-9
SLACKS = (1e-11, 1e-9, 1e-7, 1e-5, 1e-4)  # slack of the inequalities: the first at which they can be satisfied
TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
# Bounds on scaled multipliers: the first that does not decide the least. At the second, a least below -FAR is minus
# infinity: lower bounds that leave a part r of a capacity free make prices of about 1 / r.
BOXES, FAR = (1e3, 1e8), 1e6
NOISE = 1e-9  # of a goal, in directions along which it does not change
ROUNDING = 1e-13  # of terms that cancel, relatively
AT_ONCE = 100  # violated rows that are added together
ROUNDS = 200  # of adding rows; instances of 200 users on 27 servers took 1 to 12


class Ties(NamedTuple):
    """Users with about the same share, and the weights v of their places in a ranking objective, which decrease.

    The users' own multipliers are any point of the permutahedron of v, the convex hull of its permutations.
    """

    users: Indices
    v: Float


class Conditions:
    """The conditions on optimal multipliers at a point, but for `Ties`.

    ``charges`` (n_columns, n_pairs), dense or sparse, is what a unit of each multiplier charges for a task of each pair
    of a ``user`` and a server, with multipliers near 1. ``worth`` (n_pairs,) is the worth of the last task apart from
    the user's own multiplier, and ``rate`` (n_pairs,) that of a unit of the latter. ``tasks`` and ``reach`` (n_pairs,)
    are the tasks, and about how many are possible; ``used`` (n_pairs,) is where tasks run. ``low``, ``high`` and
    ``own`` (n_users,) are users at a lower bound, at an upper bound, and with a multiplier besides those of bounds.
    ``signed`` (n_columns,) are multipliers that may be negative: those of equations. ``size`` (n_pairs,) is about the
    worth of a task, to which conditions are relative; by default the larger of its worth and its charges.
    """

    def __init__(
        self,
        charges: Any,
        worth: Float,
        rate: Float,
        user: Indices,
        tasks: Float,
        reach: Float,
        used: Mask,
        low: Mask,
        high: Mask,
        own: Mask,
        signed: Mask,
        size: Float | None = None,
    ) -> None:
        self.user, self.used, self.low, self.high, self.own, self.signed = user, used, low, high, own, signed
        self.charges: Any = times_columns(charges, 1.0 / rate)
        self.worth = worth / rate
        self.size = np.abs(self.worth) if size is None else size / rate
        if len(signed) and len(user):
            self.size = np.maximum(self.size, flat(abs(self.charges).max(axis=0)))
        self.size = np.where(self.size > 0, self.size, 1.0)
        self.main = np.full(len(own), -1)  # the pair where a user runs most tasks: the last one written remains
        order = np.flatnonzero(used)
        if len(user) > len(own):
            order = order[np.argsort(tasks[order], kind="stable")]
        self.main[user[order]] = order
        self.runs = self.main[user] >= 0
        self.exact = ~own & ~low & ~high
        self.paid = np.where(used, tasks, 0.0) * rate * self.size  # about the user's payment there: a weight
        # relative to the payments of users whom only prices hold: those of users at limits are often nearly all
        self.total = float(self.paid[self.exact[user]].sum()) or float(self.paid.sum()) or 1.0
        most = np.bincount(user, weights=tasks, minlength=len(own))[user] if len(user) else tasks
        self.potential = np.where(self.runs, most, reach) * rate * self.size / self.total
        self.dead = self._dead()
        self.plain = np.flatnonzero(used & self.exact[user])
        self.spread = np.flatnonzero(used & ~self.exact[user] & (self.main[user] != np.arange(len(user))))
        to = self.main[user[self.spread]]
        self.rows = self.charges[:, self.plain], _cleared(self.charges[:, self.spread], self.charges[:, to])
        self.sides = self.worth[self.plain], self.worth[self.spread] - self.worth[to]
        sizes = self.size[self.plain], np.maximum(self.size[self.spread], self.size[to])
        self.weights = tuple(
            self.paid[q] / self.total / size**2 for q, size in zip((self.plain, self.spread), sizes, strict=True)
        )

    def _dead(self) -> Mask:
        """Multipliers that can only be zero, since a user whose tasks are worth nothing would pay for them."""
        user, signed = self.user, self.signed
        idle = np.flatnonzero(self.used & ~self.own[user] & ~self.low[user] & (self.worth == 0))
        if not len(idle) or not len(signed):
            return np.zeros(len(signed), dtype=bool)
        part = self.charges[:, idle]
        other = flat((part[~signed] < 0).sum(axis=0)) + flat((part[signed] != 0).sum(axis=0))
        dead: Mask = flat((part[:, np.flatnonzero(other == 0)] > 0).sum(axis=1)) > 0
        return dead & ~signed

    def rows_of(self, pairs: Indices | list[Any]) -> Float:
        """Charges of some pairs, in units of the users' own multipliers, shape (n_columns, len(pairs))."""
        return dense(self.charges[:, pairs])

    def own_multipliers(self, theta: Float) -> Float:
        """The cost of each pair beyond its worth, in units of the user's own multiplier, shape (n_pairs,)."""
        return np.asarray(flat(self.charges.T @ theta) - self.worth)

    @cached_property
    def gram(self) -> Float:
        """Matrix of the normal equations of weighted least squares, (n_columns, n_columns)."""
        plain, spread = (times_columns(rows, w) @ rows.T for rows, w in zip(self.rows, self.weights, strict=True))
        return dense(plain) + dense(spread)


class Face:
    """The multipliers that satisfy `Conditions` and `Ties`, each of users with multipliers of their own.

    A ``hint`` (n_columns,) is accepted where it fits as well as the accuracy of the point allows; ``noise`` is the
    known error of the point itself, by which a hint may fail. ``rays`` (n_rays, n_columns) are directions in which
    multipliers may grow without bound, and along which no function of interest changes. ``theta`` is one point, which
    is ``unique`` where the equations leave no other; ``pinned`` columns are the same at all points.
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
        matrix = conditions.gram + self.sums.T @ self.sums
        live = np.flatnonzero(~conditions.dead)
        norm = np.sqrt(np.diag(matrix)[live])
        per = np.divide(1.0, norm, out=np.zeros(len(norm)), where=norm > 0)
        values, vectors = np.linalg.eigh(matrix[np.ix_(live, live)] * per * per[:, None])
        kept = values > RANK**2
        self.pinned = conditions.dead.copy()
        self.pinned[live] = (vectors[:, kept] ** 2).sum(axis=1) > 1 - 1e-9
        self.unique = bool(self.pinned.all())
        # an orthonormal basis of the solutions of the homogeneous equations
        self.open = np.zeros((len(matrix), int((~kept).sum())))
        self.open[live] = _basis(vectors[:, ~kept] * np.where(norm > 0, per, 1.0)[:, None])
        self.theta = np.zeros(len(matrix))
        for _ in range(3):  # normal equations lose half of the digits; iterative refinement restores them
            rest = self._moment()[live] * per
            self.theta[live] += per * (vectors[:, kept] @ ((rest @ vectors[:, kept]) / values[kept]))
        self.strain = self._strain(self.theta)
        if hint is not None and self._strain(hint) <= max(2 * self.strain, noise, EXACT):
            self.theta = np.where(conditions.dead, 0.0, hint)
            self.strain = self._strain(self.theta)
        self.cuts: dict[object, Float] = {}
        self.cut_sides: list[float] = []
        self.points: list[Float] = []  # that satisfy all conditions
        self.programs = 0
        self.slack = 0
        if rays is not None and not self.unique and len(self.sums) == len(self.ties):
            self._go_along(rays)

    def _go_along(self, rays: Float) -> None:
        """Move the point to where all inequalities hold, if the equations leave only the rays open."""
        rays = rays / np.abs(rays).max(axis=1, keepdims=True)
        off = rays - (rays @ self.open) @ self.open.T
        if np.abs(off).max() > RANK or np.linalg.matrix_rank(rays, RANK) < self.open.shape[1]:
            return
        self.unique = True
        given, ray = self.given, rays.sum(axis=0)
        here, there = given.own_multipliers(self.theta), given.own_multipliers(ray) + given.worth
        steps = [np.zeros(1)]
        for missing, gained in (
            (-self.theta[~given.signed], ray[~given.signed]),
            (self._shortfalls(here), -self._shortfalls(there)),
        ):
            some = (missing > 0) & (gained > RANK)
            steps.append(missing[some] / gained[some])
        self.theta = self.theta + max(float(step.max(initial=0.0)) for step in steps) * ray

    def _whole_ties(self) -> tuple[Float, Float]:
        """An equation for each tie of users none of whom is at a bound: their multipliers add up to the weights."""
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
        return np.where(np.abs(row) > ROUNDING * terms, row, 0.0), float(given.worth[pairs].sum())

    def _moment(self) -> Float:
        """Weighted rows times the residuals."""
        given = self.given
        out: Float = self.sums.T @ (self.sum_sides - self.sums @ self.theta)
        for rows, side, weight in zip(given.rows, given.sides, given.weights, strict=True):
            out = out + flat(rows @ (weight * (side - flat(rows.T @ self.theta))))
        return out

    def _strain(self, theta: Float) -> float:
        """By how much equations fail, as a part of all payments."""
        given = self.given
        out = float(np.abs(self.sums @ theta - self.sum_sides).sum())
        for rows, side, weight, pairs in zip(
            given.rows, given.sides, given.weights, (given.plain, given.spread), strict=True
        ):
            missing = np.abs(flat(rows.T @ theta) - side)
            out += float(np.sqrt(weight * given.paid[pairs] / given.total) @ missing)
        return out

    @cached_property
    def sound(self) -> bool:
        """Whether the conditions hold: if not, the point is not an optimum of this program."""
        given, theta = self.given, self.theta
        if not (np.isfinite(theta).all() and self.strain <= TRUST):
            return False
        if not self.unique:
            return self.least(np.zeros(len(theta))) is not None
        if theta[~given.signed].min(initial=0.0) < -TRUST:
            return False
        multipliers = given.own_multipliers(theta)
        short = np.maximum(self._shortfalls(multipliers), 0.0)
        beyond = np.maximum(self._excesses(multipliers), 0.0)
        lost = float((short + beyond) @ given.potential)
        return lost <= TRUST and next(self._tie_cuts(multipliers, TRUST), None) is None

    def least(self, goal: Float) -> tuple[float, Float] | None:
        """The least of a linear function, and where; minus infinity if unbounded, None if conditions cannot hold."""
        if self.unique:
            return (float(goal @ self.theta), self.theta) if self.sound else None
        along = goal @ self.open / (np.abs(goal).max(initial=0.0) or 1.0)
        along = np.where(np.abs(along) > NOISE, along, 0.0)
        if self.points and not along.any():  # the function is constant: a mean of points is in the relative interior
            theta = np.mean(self.points, axis=0)
            return float(goal @ theta), theta
        while self.slack < len(SLACKS):
            for box in BOXES:
                found = self._program(along, SLACKS[self.slack], box)
                if found is not None and (found[1] or box == BOXES[-1]):
                    self.points += [found[0]] if found[1] else []
                    value = float(goal @ found[0])
                    return (-np.inf if value < -FAR * np.abs(goal).max(initial=0.0) else value), found[0]
            self.slack += 1
        return None

    def _program(self, along: Float, slack: float, box: float) -> tuple[Float, bool] | None:
        """A minimiser, and whether the box does not bind there; None where the inequalities cannot be satisfied.

        Unknowns are steps from the point along what the equations leave open; inequalities are added as they are
        violated.
        """
        unsigned = ~self.given.signed
        for _ in range(ROUNDS):
            rows = np.vstack([np.eye(len(self.theta))[unsigned], *self.cuts.values()])
            sides = np.concatenate([np.zeros(int(unsigned.sum())), self.cut_sides]) - rows @ self.theta - slack
            self.programs += 1
            found: Any = optimize.linprog(  # type: ignore[call-overload]
                along, -(rows @ self.open), -sides, bounds=(-box, box), method="highs", options=TIGHT
            )
            if found.x is None:
                return None
            theta = self.theta + self.open @ found.x
            theta = np.where(unsigned, np.maximum(theta, 0.0), theta)
            before = len(self.cuts)
            for name, row, side in self._violated(theta, 2 * slack + 1e-9):
                if name not in self.cuts:
                    self.cuts[name] = row
                    self.cut_sides.append(side)
            if len(self.cuts) == before:
                walls = np.abs(found.upper.marginals) + np.abs(found.lower.marginals)
                return theta, float(walls.max(initial=0.0)) <= RANK
        return None

    # -- inequalities: rows with ``row @ theta >= side``, in units of their largest term ------------------------------

    def _shortfalls(self, multipliers: Float) -> Float:
        """By how much each pair where no tasks run is too cheap, relatively."""
        given = self.given
        bar = np.where(given.exact[given.user] | ~given.runs, 0.0, multipliers[given.main[given.user]])
        judged = ~given.used & (given.runs | ~given.own[given.user])
        return np.where(judged, (bar - multipliers) / given.size, -np.inf)

    def _excesses(self, multipliers: Float) -> Float:
        """By how much users at one bound have a multiplier of the wrong sign, at the pair where they run most."""
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
        short = self._shortfalls(multipliers)
        for q in _largest(short, slack):
            j = given.user[q]
            row, side = given.rows_of([q]).ravel(), given.worth[q]
            if given.runs[q] and not given.exact[j]:
                row = row - given.rows_of([given.main[j]]).ravel()
                side = side - given.worth[given.main[j]]
            yield (int(q), "too cheap"), row / given.size[q], float(side / given.size[q])
        for q in _largest(self._excesses(multipliers), slack):
            sign = -1.0 if given.high[given.user[q]] else 1.0
            row = given.rows_of([q]).ravel()
            yield (int(q), "at a bound"), sign * row / given.size[q], float(sign * given.worth[q] / given.size[q])
        for row, side in self._tie_cuts(multipliers, slack):
            yield (row.tobytes(), side), row, side

    def _tie_cuts(self, multipliers: Float, slack: float) -> Iterator[tuple[Float, float]]:
        """The most violated upper and the most violated lower inequality of each tie.

        A vector between bounds l <= u <= h is in the permutahedron of v if and only if no k users have l above the k
        largest of v together, nor h below the k smallest (Rado 1952). Users at an upper bound may have a larger
        multiplier than they pay for, users at a lower bound (or without tasks) a smaller one.
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
                k = int(np.argmax(missing))
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
    """A difference, with zero where it is only the rounding of terms that cancel."""
    out = first - second
    counts = abs(out) > ROUNDING * (abs(first) + abs(second))
    return sp.csc_array(out.multiply(counts)) if is_sparse(out) else out * counts


def _basis(columns: Float) -> Float:
    """Orthonormal columns with the same span."""
    if not columns.size:
        return columns
    out = np.linalg.qr(columns / np.abs(columns).max(axis=0))[0]
    return np.where(np.abs(out) > 1e-13, out, 0.0)


def _largest(values: Float, above: float) -> Indices:
    """Indices of the largest values above a bound, `AT_ONCE` of them at most."""
    found = np.flatnonzero(values > above)
    if len(found) > AT_ONCE:
        found = found[np.argpartition(-values[found], AT_ONCE)[:AT_ONCE]]
    return found


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is one of SciPy's."""
    return not isinstance(matrix, np.ndarray)


def times_columns(matrix: Any, by_column: Float) -> Any:
    """Columns of a matrix multiplied by numbers."""
    return sp.csc_array(matrix) @ sp.diags_array(by_column) if is_sparse(matrix) else matrix * by_column


def dense(matrix: Any) -> Float:
    """A matrix as an array."""
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def flat(values: Any) -> Float:
    """A dense or sparse row or column as a vector."""
    return dense(values).ravel()
