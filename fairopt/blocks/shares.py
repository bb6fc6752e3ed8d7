"""Shares: one number ``s_j = c_j x_j`` per user, with coefficients ``c_j`` from the block.

With the ratios ``g_ji = d_ji / C_i`` of demands and total capacities a task of user j has the share

    Tasks            1                                 ResourceShare     g_ji of one i
    DominantShare    max_i g_ji                        PNormShare        (sum_i g_ji^p)^(1/p)
    KDominantShare   product of the k largest g_ji     StandAloneShare   1 / (tasks alone on the whole cluster)

and `ThroughputShare` what it runs per time over that on an equal slice (docs/methods/shares.md). Coefficients by
server, (n_users, n_servers), are for demands or rates that differ there. A share is written twice: in floats
(`per_task`) and in fractions (`exact_per_task`), for exact answers; the checker has it a third time, in code of its
own. Definitions in polynomials (`conditions`) are for `prove`.

Floats: ratios lie within 1e-120 to 1e120, and products of two may not be floats with all their digits, which is refused
by name (`SMALLEST`). A norm is of ratios over the largest, so that no power overflows. Coefficients are computed once
per call and not kept longer: a user's share may depend on what changes. A share of one's own sees all users and servers
as they were given, also where a method asks for a part of them or for merged servers, since it may compare them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from numbers import Rational
from typing import Any, ClassVar

import numpy as np

from fairopt.blocks.base import Block, ByUser, brief, call_block, is_ours, parameter, resource_name
from fairopt.blocks.numbers import Numbers
from fairopt.blocks.roots import Between, norm
from fairopt.blocks.terms import Condition, ShareSymbols, all_of, any_of, is_largest, product, simple_fraction, total
from fairopt.errors import InvalidBlock, OutOfDomain
from fairopt.instance import Instance
from fairopt.instance.in_fractions import Fractions
from fairopt.instance.parts import window
from fairopt.runtime.arrays import Float
from fairopt.runtime.tolerances import GAP_TOLERANCE, ROUNDING

__all__ = [
    "DominantShare",
    "KDominantShare",
    "PNormShare",
    "ResourceShare",
    "Share",
    "StandAloneShare",
    "Tasks",
    "ThroughputShare",
]


# The shares of a task. Ratios of demands and capacities are within 1e-120 to 1e120, and products of them may not be.
# Times tasks and per weight, these are floats with all their digits.
SMALLEST, LARGEST = 1e-200, 1e200
BEYOND = "outside the range that floats compare (1e-200 to 1e200); count its tasks or resources in other units"
PART = 4_096  # users evaluated together in the search for a positive share, which the first part usually has

# Coefficients by the ids of share and instance, which are kept alive so that ids stay unique.
_CACHE: ContextVar[dict[tuple[int, int, str], tuple[Share, Instance, Any]] | None] = ContextVar("shares", default=None)


class Share(Block):
    """The base class of shares: subclass as a frozen dataclass and write `per_task`.

    Examples
    --------
    The mean of the ratios:

    >>> import fairopt as fo
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, repr=False)
    ... class MeanShare(fo.Share):
    ...     def per_task(self, instance):
    ...         return instance.ratios.mean(axis=-1)
    >>> fo.Policy(fo.Leximin(MeanShare())).allocate(fo.Instance([[1, 0], [1, 1]], [2, 2])).tasks
    array([1.33333333, 0.66666667])
    """

    _is_plain: ClassVar[bool] = True  # whether it is a coefficient times the tasks of each user
    instead: ClassVar[str] = "a share is not a number; use it in objectives and bounds, such as MinShare(0.1, share)"

    def per_task(self, instance: Instance) -> Float:
        """The share of one task of each user: the coefficients c.

        Parameters
        ----------
        instance : Instance
            Users and servers.

        Returns
        -------
        ndarray of shape (n_users,), or (n_users, n_servers) where demands differ by server
        """
        raise InvalidBlock(f"{type(self).__name__} has no per_task(instance); write it")

    def __init_subclass__(cls, **given: Any) -> None:
        """Let no class inherit an exact formula of other coefficients than its own."""
        super().__init_subclass__(**given)
        if "per_task" in vars(cls) and "exact_per_task" not in vars(cls):
            cls.exact_per_task = Share.exact_per_task  # type: ignore[method-assign]

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Any:
        """The coefficients of `per_task` without rounding, for exact answers and their bounds; optional.

        Parameters
        ----------
        instance : Instance
            Users and servers. ``instance.in_fractions`` has its numbers as arrays of Fractions.
        width : Fraction, optional
            Of irrational coefficients, the largest length of the intervals that are given for them, relative to their
            lower ends. Without it no intervals are needed: raise `OutOfDomain`, or give some.

        Returns
        -------
        array-like of shape (n_users,) or (n_users, n_servers)
            Fractions, or pairs of Fractions between which irrational coefficients lie.

        Raises
        ------
        OutOfDomain
            If the share states no exact formula, the default.

        Examples
        --------
        >>> import fairopt as fo
        >>> print(*fo.DominantShare().exact_per_task(fo.Instance([[1, 2]], [3, 4])))
        1/2
        """
        raise OutOfDomain(
            f"{self} states no exact formula; write {type(self).__name__}.exact_per_task(instance, width)"
        )

    @property
    def states_exactly(self) -> bool:
        """Whether the class states an exact formula, `exact_per_task`."""
        return type(self).exact_per_task is not Share.exact_per_task

    def conditions(self, symbols: ShareSymbols) -> Condition | None:
        """The definition of the share of one task, in polynomials, for `prove`; None, the default, if not stated.

        Parameters
        ----------
        symbols : ShareSymbols
            Offers ``ratios``, the demands of a task over capacities, ``coefficient``, the share of one task, and
            ``root(value, power)``.

        Returns
        -------
        Condition or None
            Comparisons by ``==``, ``<=``, ..., combined by ``&``, ``|`` and ``~``, that hold only if ``coefficient`` is
            the share. Numbers in them are integers or ``Fraction``. They are tested against `per_task` on random pools.

        Examples
        --------
        >>> import fairopt as fo
        >>> from fairopt.blocks.terms import ShareSymbols, Symbols, Term
        >>> fo.ResourceShare(1).conditions(ShareSymbols([Term("cpu"), Term("gpu")], Term("share"), Symbols()))
        (= share gpu)
        """
        return None

    def elasticities(self, instance: Instance) -> tuple[Float, Float] | None:
        """Derivatives of log c by logarithms of demands on each server row, from above and below; None if unknown.

        Each has shape (n_users, n_servers, n_resources). Derivatives by capacities are the negatives with sides
        exchanged, since shares depend on ratios. Used for fairopt's shares only.
        """
        return None

    @property
    def by_row(self) -> bool:
        """Whether a user's coefficient depends only on its own demands and on the capacities.

        Users are then evaluated in parts. Set ``by_row = True`` in your own class if this holds.
        """
        return False

    def coefficients(self, instance: Instance, levelled: bool = False) -> Float:
        """`per_task`, validated: finite and at least 0, and positive where shares are compared between users.

        Parameters
        ----------
        instance : Instance
            Users and servers.
        levelled : bool, default False
            Whether shares are compared between users. Sums and bounds allow shares of zero.

        Returns
        -------
        ndarray of shape (n_users,) or (n_users, n_servers)

        Raises
        ------
        OutOfDomain
            If a coefficient is zero and shares are compared: max-min would give the user everything or nothing. If one
            is not within 1e-200 to 1e200, such as a product of two ratios of 1e-110.
        InvalidBlock
            If `per_task` returns another shape, a negative number or NaN.
        """
        c = self._cached(instance)
        if c.ndim == 2 and instance.n_servers == 1:
            c = c[:, 0]
        least = c.min(initial=np.inf)  # the usual case, by two passes; what is wrong is looked for after it
        usual = least >= SMALLEST or (least == 0 and not levelled and c.ndim == 1)
        if usual and c.max(initial=0.0) <= LARGEST:
            return c
        relevant = instance.eligible if c.ndim == 2 else True
        lost = relevant & (c > 0) & ~((c >= SMALLEST) & (c <= LARGEST))
        if lost.any() and (is_ours(self) or c[lost][0] < np.inf):
            j = int(np.argwhere(lost)[0][0])
            raise OutOfDomain(f"user {instance.users[j]!r} has {self!r} of {c[lost][0]:.3g} per task, {BEYOND}")
        wrong = relevant & ~(np.isfinite(c) & (c >= 0))
        if wrong.any():
            j = int(np.argwhere(wrong)[0][0])
            raise InvalidBlock(f"{self}.per_task gave user {instance.users[j]!r} {c[j]}; give finite numbers >= 0")
        zero = relevant & (c == 0)
        if levelled and zero.any():
            j, *server = np.argwhere(zero)[0].tolist()
            why, where = self.why_zero(instance, j), ""
            if server and not is_ours(self) and (c[j] > 0).any():
                where, why = f" on server {instance.servers[server[0]]!r}", "set eligible to False there"
            raise OutOfDomain(f"user {instance.users[j]!r} has a zero {self}{where}: {why}")
        return c

    def _cached(self, instance: Instance) -> Float:
        """`_evaluated`, at most once within `coefficients_cached`; a copy, as callers change it."""
        made: Float = kept(self, instance, "per task", lambda: self._evaluated(instance))
        return made.copy()

    def _evaluated(self, instance: Instance) -> Float:
        """`per_task`; a user-defined share sees all users and servers as they were given."""
        n, servers = instance.n_users, instance.n_servers
        if (seen := self._seen(instance)) is not None:
            c = self._cached(seen[0])[seen[1]]
            return c if c.ndim == 1 else c[:, seen[2]]
        given = call_block(self, "per_task", instance)
        try:
            if np.iscomplexobj(given):
                raise ValueError("complex numbers")
            c = np.asarray(given, dtype=float)
        except (TypeError, ValueError) as error:
            raise InvalidBlock(f"{self}.per_task gave {brief(given)}; give an array of numbers") from error
        if c.shape != (n,) and c.shape != (n, servers):
            raise InvalidBlock(f"{self}.per_task gave shape {c.shape}; give ({n},) or ({n}, {servers})")
        return c

    def _seen(self, instance: Instance) -> tuple[Instance, Any, Any] | None:
        """The instance as given, which a user-defined share sees, and which of its users and servers these are."""
        if is_ours(self):
            return None
        if (unmerged := instance.merged_from) is not None:
            return unmerged, slice(None), np.unique(unmerged.derived.server_classes, return_index=True)[1]
        parent = None if self.by_row else instance.derived.chosen_from
        return None if parent is None else (*parent, slice(None))

    def enclosed(
        self, instance: Instance, width: Fraction | None = None, as_floats: bool = False
    ) -> list[list[Between]]:
        """`exact_per_task` by user and server, validated: intervals of fractions, of length 0 where these are known.

        With ``as_floats`` a share that states no formula is what `per_task` gives, as it is for answers in floats.

        Raises
        ------
        OutOfDomain
            If the share states no exact formula or, without ``width``, a coefficient is irrational.
        InvalidBlock
            If `exact_per_task` gives other values than `per_task`, or intervals that are longer.
        """
        if (seen := self._seen(instance)) is not None:
            whole = self.enclosed(instance.in_fractions.alike(seen[0]), width, as_floats)
            users, servers = (
                np.arange(n)[some].tolist() for n, some in zip(seen[0].eligible.shape, seen[1:], strict=True)
            )
            return [[whole[j][s] for s in servers] for j in users]
        if as_floats and not self.states_exactly:
            given: Any = np.vectorize(Fraction, otypes=[object])(self.coefficients(instance))
        else:
            given = self.exact_per_task(instance, width)
        several = (list, tuple, np.ndarray)  # of a user by server; a pair is one interval
        rows = [
            list(row) if isinstance(row, several) and not _is_pair(row) else [row] * instance.n_servers for row in given
        ]
        if len(rows) != instance.n_users or any(len(row) != instance.n_servers for row in rows):
            raise InvalidBlock(
                f"{self}.exact_per_task gave another shape than ({instance.n_users},) or "
                f"({instance.n_users}, {instance.n_servers})"
            )
        out = [[_between(self, value) for value in row] for row in rows]
        # a formula of one's own that contradicts `per_task` would prove other answers than are found
        c = None if is_ours(self) else self.coefficients(instance)
        for j, s in np.argwhere(instance.eligible).tolist():
            (low, high), user = out[j][s], instance.users[j]
            if not low <= high or low < 0 or (width is not None and high - low > width * low):
                raise InvalidBlock(f"{self}.exact_per_task gave user {user!r} an interval that is wrong or too long")
            if width is None and low != high:
                raise OutOfDomain(f"{self} of user {user!r} is irrational")
            near = 0.0 if c is None else float(c[j] if c.ndim == 1 else c[j, s])
            if c is not None and not abs(float(low) - near) <= GAP_TOLERANCE * near:
                raise InvalidBlock(f"{self} of user {user!r} is {near!r} by per_task, and {low} by exact_per_task")
        return out

    def _numbers(self, instance: Instance, levelled: bool = False) -> Numbers:
        """What an objective of this share compares: one number per user, or per team for `OfTeam`."""
        return Numbers(self.coefficients(instance, levelled), instance.weights)

    @property
    def _of_user(self) -> Share:
        """The share of a user: itself, or what is summed over the members of a team."""
        return self

    @property
    def _counts_teams(self) -> bool:
        """Whether the share is one number per team."""
        return False

    def _names(self, instance: Instance) -> Sequence[str]:
        """The label of each of these numbers."""
        return instance.users

    def why_zero(self, instance: Instance, user: int) -> str:
        """Why a coefficient is zero, and the fix, for the message of `OutOfDomain`."""
        return "shares of zero cannot be compared; leave the user out or choose another share"


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, Rational) for end in value)


def _between(share: Share, value: Any) -> Between:
    """An exact coefficient as an interval."""
    if isinstance(value, Rational):
        return Between(Fraction(value), Fraction(value))
    if _is_pair(value):
        return Between(*map(Fraction, value))
    raise InvalidBlock(f"{share}.exact_per_task holds {brief(value)}; give a Fraction, or two between which it lies")


def kept(of: Any, instance: Instance, what: Any, make: Callable[[], Any]) -> Any:
    """What a share, or the instance, gives on an instance, made at most once within `coefficients_cached`."""
    cache, parent = _CACHE.get(), instance.taken_from
    if cache is None or (parent is not None and isinstance(parent[1], slice)):  # windows are many and short-lived
        return make()
    key = id(of), id(instance), what
    if key not in cache:
        cache[key] = of, instance, make()
    return cache[key][2]


@contextmanager
def coefficients_cached() -> Iterator[None]:
    """Evaluate each share once per instance, by identity, while the block runs in this thread.

    Not for longer, since user-defined shares may depend on mutable state.
    """
    token = _CACHE.set({}) if _CACHE.get() is None else None
    try:
        yield
    finally:
        if token is not None:
            _CACHE.reset(token)


def best_server(c: Float, instance: Instance) -> Float:
    """The largest of each user's coefficients on eligible servers, shape (n_users,)."""
    if c.ndim == 1:
        return c
    table = np.where(instance.eligible, c, 0.0)  # of 3 servers in a third of the time of `max` along rows
    return np.maximum.reduceat(table.ravel(), np.arange(0, table.size, table.shape[1])) if table.size else c[:, 0]


def takes_windows(share: Share, instance: Instance) -> bool:
    """Whether users can be evaluated in parts; a user-defined share on merged servers cannot."""
    return share.by_row and (is_ours(share) or instance.merged_from is None)


def nobody_has(share: Share, instance: Instance) -> bool:
    """Whether a share is zero for every user; stops at the first part of users with a positive one."""
    n = instance.n_users
    step = PART if takes_windows(share, instance) else max(n, 1)
    parts = (window(instance, slice(k, k + step)) if step < n else instance for k in range(0, n, step))
    return not any(best_server(share._numbers(part).per_task, part).any() for part in parts)


def require_share(share: object, block: object) -> None:
    """`InvalidBlock` unless the share of a block is an instance of `Share`, not the class."""
    if not isinstance(share, Share):
        given = f"{share.__name__} without brackets" if isinstance(share, type) else brief(share)
        owner = block if isinstance(block, str) else getattr(block, "__name__", type(block).__name__)
        raise InvalidBlock(f"the share of {owner} is {given}; give one such as DominantShare() or Tasks()")


@dataclass(frozen=True, repr=False)
class Tasks(Share):
    """The number of tasks, ``c_j = 1`` (Generalized Fairness on Jobs, Joe-Wong et al. 2013, sec. III-B).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.Tasks().per_task(fo.Instance([[40, 8], [8, 5]], [200, 200]))
    array([1., 1.])
    """

    by_row = True

    def per_task(self, instance: Instance) -> Float:
        return np.ones(instance.n_users)

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        return np.full(instance.n_users, Fraction(1), dtype=object)

    def conditions(self, symbols: ShareSymbols) -> Condition:
        return symbols.coefficient == 1

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        return _of_ratios(np.zeros(instance.ratios.shape), instance)


@dataclass(frozen=True, repr=False)
class DominantShare(Share):
    """The largest share of any resource that a user holds, ``c_j = max_i d_ji / C_i`` (Ghodsi et al. 2011).

    ``C_i`` is total capacity, so on several servers this is the global dominant share of DRFH (Wang, Liang and Li
    2015).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.DominantShare().per_task(fo.Instance([[40, 8], [8, 5]], [200, 200]))
    array([0.2 , 0.04])
    """

    by_row = True

    def per_task(self, instance: Instance) -> Float:
        return instance.dominant_shares

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        return instance.in_fractions.ratios.max(axis=-1)

    def conditions(self, symbols: ShareSymbols) -> Condition:
        return is_largest(symbols.coefficient, symbols.ratios)

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        return KDominantShare(1).elasticities(instance)


@dataclass(frozen=True, repr=False)
class KDominantShare(Share):
    """The product of a user's k largest demand/capacity ratios (Jiang and Wu 2021, sec. 4; k = 2 is 2-DF).

    Parameters
    ----------
    k : int
        Number of ratios, counted with multiplicity; from 1 to the number of resources.
    rank_weights : sequence of float, sequence of those by user, or dict of those by user, optional
        Factors of the k largest ratios, at least k numbers > 0. Only their product matters, and only if it differs
        between users.
    short : {"refuse", "positive"}, default "refuse"
        For users of fewer than k resources, whose product is zero: raise `OutOfDomain` where shares are compared, or
        multiply only their positive ratios.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.KDominantShare(2).per_task(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200]))
    array([0.008, 0.001])
    """

    k: int
    rank_weights: tuple[float, ...] | tuple[tuple[float, ...], ...] | ByUser | None = None
    short: str = "refuse"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise InvalidBlock(f"k is {self.k!r}; give a whole number from 1 to the number of resources")
        object.__setattr__(self, "k", int(self.k))
        if self.short not in ("refuse", "positive"):
            raise InvalidBlock(f"short is {self.short!r}; give 'refuse' or 'positive'")
        if self.rank_weights is not None and not isinstance(self.rank_weights, ByUser):
            try:
                object.__setattr__(self, "rank_weights", self._as_tuples(self.rank_weights))
            except (TypeError, ValueError) as error:
                given = f"rank_weights are {brief(self.rank_weights)} ({error})"
                raise InvalidBlock(f"{given}; give numbers by rank, or those by user") from error

    def _as_tuples(self, given: Any) -> tuple[float, ...] | tuple[tuple[float, ...], ...] | ByUser:
        if isinstance(given, Mapping):
            return ByUser({user: self._ranks(ranks) for user, ranks in given.items()})
        if any(np.ndim(ranks) for ranks in given):
            return tuple(self._ranks(ranks) for ranks in given)
        return self._ranks(given)

    def _ranks(self, given: Any) -> tuple[float, ...]:
        ranks = tuple(parameter(w, "a rank weight") for w in np.atleast_1d(given))
        if len(ranks) < self.k or not all(0 < w < np.inf for w in ranks):
            raise InvalidBlock(f"rank_weights hold {brief(given)}; give at least k = {self.k} numbers > 0 each time")
        return ranks

    def _rank_products(self, product: Callable[[Sequence[float]], Any]) -> Any:
        """The products of the rank weights: one number, one per user, or a dict by user; None without weights."""
        weights: Any = self.rank_weights
        if isinstance(weights, ByUser):
            return {user: product(ranks[: self.k]) for user, ranks in weights.items()}
        if weights is not None and isinstance(weights[0], tuple):
            return [product(ranks[: self.k]) for ranks in weights]
        return None if weights is None else product(weights[: self.k])

    @property
    def by_row(self) -> bool:
        """Unless rank weights are given by user."""
        held: Any = self.rank_weights
        return held is None or not (isinstance(held, ByUser) or isinstance(held[0], tuple))

    def per_task(self, instance: Instance) -> Float:
        if self.k > instance.n_resources:
            raise self._too_large(instance.n_resources)
        ratios = instance.ratios
        if self.k == 1:
            product = instance.dominant_shares
        elif self.k == instance.n_resources and self.short == "refuse":
            product = np.prod(ratios, axis=-1)
        else:
            largest = _largest(ratios, self.k)
            if self.short == "positive":
                largest = [r if r.min(initial=1.0) > 0 else np.where(r > 0, r, 1.0) for r in largest]
            product = functools.reduce(np.multiply, largest)
        products = self._rank_products(lambda ranks: float(np.prod(ranks)))
        if products is None:
            return product
        factor = instance.per_user(products, "rank_weights", default=1.0)
        return product * (factor if product.ndim == 1 else factor[:, None])

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        if self.k > instance.n_resources:
            raise self._too_large(instance.n_resources)
        largest = np.sort(instance.in_fractions.ratios, axis=-1)[..., -self.k :]
        if self.short == "positive":
            largest = largest + (largest == 0).astype(int)
        exact = instance.in_fractions
        products = self._rank_products(lambda ranks: prod(map(exact.parameter, ranks), start=Fraction(1)))
        if products is None:
            return largest.prod(axis=-1)
        factor = exact.per_user(products, "rank_weights", 1)
        return largest.prod(axis=-1) * (factor if largest.ndim == 2 else factor[:, None])

    def conditions(self, symbols: ShareSymbols) -> Condition | None:
        g, c, k = symbols.ratios, symbols.coefficient, self.k
        if not self.by_row:
            return None
        if k > len(g):
            raise self._too_large(len(g))
        held: Any = self.rank_weights
        factor = Fraction(1) if held is None else prod(map(Fraction, held[:k]), start=Fraction(1))
        whole = is_largest(c, (factor * product(some) for some in itertools.combinations(g, k)))
        if self.short == "refuse":
            return whole
        # users of fewer than k resources: the product of their positive ratios
        few = (
            all_of(
                [
                    c == factor * product(g[i] for i in some),
                    *(r > 0 if i in some else r == 0 for i, r in enumerate(g)),
                ]
            )
            for size in range(1, k)
            for some in itertools.combinations(range(len(g)), size)
        )
        enough = any_of(all_of(r > 0 for r in some) for some in itertools.combinations(g, k))
        return any_of([enough & whole, *few])

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        """1 for the k largest ratios; at a tie for rank k a ratio counts from above, not from below."""
        g = instance.ratios
        last = np.sort(g, axis=1)[:, -self.k][:, None]
        # ratios that should tie differ by the rounding of a quotient
        above, level = g > last * (1 + ROUNDING), np.abs(g - last) <= ROUNDING * last
        room = self.k - above.sum(axis=1, keepdims=True)  # places left for those that tie for rank k
        up = ((above | level) & (g > 0)).astype(np.float64)
        return _of_ratios(up, instance, up * (above | (level.sum(axis=1, keepdims=True) <= room)))

    def _too_large(self, n_resources: int) -> OutOfDomain:
        return OutOfDomain(f"{self} on {n_resources} resource(s): k is larger; give k <= {n_resources}")

    def why_zero(self, instance: Instance, user: int) -> str:
        if np.count_nonzero(instance.per_server_demands[user].max(axis=0)) >= self.k:
            return f"its product of ratios is {BEYOND}"
        return (
            f"it demands fewer than k = {self.k} resources; use KDominantShare({self.k}, short='positive'), "
            "a smaller k, or leave the user out"
        )


def _of_ratios(up: Float, instance: Instance, down: Float | None = None) -> tuple[Float, Float]:
    """Elasticities by the ratios of demand and total capacity, (n_users, n_resources), on each server row."""
    row, total = instance.capacities * instance.counts[:, None], instance.total_capacities
    part = np.divide(row, total, out=np.zeros_like(row), where=total > 0)
    return up[:, None, :] * part, (up if down is None else down)[:, None, :] * part


def _of_tasks_alone(worth: Float, instance: Instance) -> tuple[Float, Float]:
    """Elasticities by what the tasks that each user could run alone are worth, at ``worth`` (n_users, n_servers)."""
    row, demands = instance.capacities * instance.counts[:, None], instance.demands[:, None, :]
    with np.errstate(divide="ignore"):
        each = np.where(demands > 0, row / demands, np.inf)
    alone = each.min(axis=2, keepdims=True)
    least = each <= alone * (1 + ROUNDING)  # several at a tie: then the derivatives from both sides differ
    only = least & (least.sum(axis=2, keepdims=True) == 1)
    part = worth[:, :, None] * alone
    # of H = sum_s worth_s min_i C_si / d_i: by the scarcest resource of each server, in proportion to what is run there
    part /= part.sum(axis=1, keepdims=True)
    return part * least, part * only


def _largest(ratios: Float, k: int) -> list[Float]:
    """The k largest of each row, by insertion resource by resource: four times as fast as a partition of short rows."""
    top: list[Float] = []
    for i in range(ratios.shape[-1]):
        value = ratios[..., i]
        for rank, held in enumerate(top):
            top[rank] = np.maximum(held, value)
            if rank + 1 < k:
                value = np.minimum(held, value)
        if len(top) < k:
            top.append(value)
    return top


@dataclass(frozen=True, repr=False)
class PNormShare(Share):
    """The p-norm of a user's demand/capacity ratios, ``c_j = (sum_i (d_ji / C_i)^p)^(1/p)``.

    Joe-Wong et al. (2013, eq. 19) use the norm of demands; the norm of ratios does not depend on units.

    Parameters
    ----------
    p : float
        At least 0: infinity is `DominantShare`, and 0 is `Tasks` by definition.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.PNormShare(1).per_task(fo.Instance([[40, 8], [8, 5]], [200, 200]))
    array([0.24 , 0.065])
    """

    by_row = True
    p: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", parameter(self.p, "p", low=0.0))

    def per_task(self, instance: Instance) -> Float:
        mu = instance.dominant_shares
        if self.p == 0:
            return np.ones(mu.shape)
        if np.isinf(self.p):
            return mu
        safe = np.where(mu > 0, mu, 1.0)[..., None]  # so that no power overflows: ratios to the largest are at most 1
        with np.errstate(over="ignore"):
            norms = mu * ((instance.ratios / safe) ** self.p).sum(axis=-1) ** (1.0 / self.p)
        if not np.isfinite(norms).all():
            raise OutOfDomain(f"{self} is outside the range of floats for p = {self.p:g}; give a larger p, or 0")
        return norms

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        ratios = instance.in_fractions.ratios
        if self.p == 0:
            return np.full(ratios.shape[:-1], Fraction(1), dtype=object)
        if self.p == 1 or np.isinf(self.p):
            return ratios.sum(axis=-1) if self.p == 1 else ratios.max(axis=-1)
        out = np.empty(ratios.shape[:-1], dtype=object)
        for place in np.ndindex(out.shape):
            some, p = [r for r in ratios[place] if r], instance.in_fractions.parameter(self.p)
            if len(some) > 1 and width is None:  # the norm of one number is that number
                raise OutOfDomain(f"{self} has roots as coefficients")
            out[place] = norm(some, p, width or Fraction(1)) if some else Fraction(0)
        return out

    def conditions(self, symbols: ShareSymbols) -> Condition | None:
        g, c = symbols.ratios, symbols.coefficient
        if self.p == 0:
            return c == 1
        if np.isinf(self.p):
            return is_largest(c, g)
        p = simple_fraction(self.p)
        if p is None:
            return None
        a, b = p.as_integer_ratio()
        return symbols.root(c, b) ** a == total(symbols.root(r, b) ** a for r in g)

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        if self.p == 0 or np.isinf(self.p):
            return (DominantShare() if self.p else Tasks()).elasticities(instance)
        return _of_ratios((instance.ratios / self.coefficients(instance)[:, None]) ** self.p, instance)


@dataclass(frozen=True, repr=False)
class ResourceShare(Share):
    """The share of one resource that a user holds (asset fairness on one resource).

    Parameters
    ----------
    resource : str or int
        Label or index of the resource. Every user must demand it where shares are compared.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.ResourceShare("cpu").per_task(fo.Instance([[4, 1], [2, 3]], [8, 8], resources=["cpu", "gpu"]))
    array([0.5 , 0.25])
    """

    by_row = True
    resource: str | int

    def __post_init__(self) -> None:
        object.__setattr__(self, "resource", resource_name(self.resource))

    def per_task(self, instance: Instance) -> Float:
        return instance.ratios[..., instance.resource_index(self.resource)]

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        return instance.in_fractions.ratios[..., instance.resource_index(self.resource)]

    def conditions(self, symbols: ShareSymbols) -> Condition | None:
        names = [f"resource{i + 1}" for i in range(len(symbols.ratios))]  # default labels
        where = names.index(self.resource) if self.resource in names else self.resource
        if isinstance(where, str):
            return None
        if not 0 <= where < len(names):
            raise OutOfDomain(f"{self} on {len(names)} resource(s): give an index below {len(names)}")
        return symbols.coefficient == symbols.ratios[where]

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        up = np.zeros(instance.ratios.shape)
        up[:, instance.resource_index(self.resource)] = 1.0
        return _of_ratios(up, instance)

    def why_zero(self, instance: Instance, user: int) -> str:
        return "it demands none of this resource; choose another share, or leave the user out"


@dataclass(frozen=True, repr=False)
class StandAloneShare(Share):
    """Tasks relative to those that the user could run alone on the whole cluster, ignoring eligibility.

    ``c_j = 1 / H_j`` with ``H_j = sum_s min_i C_si / d_ji`` over all servers (TSF; Wang, Li, Liang and Li 2016).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.StandAloneShare().per_task(fo.Instance([[0.2, 1], [1, 0.2]], [[2, 12], [12, 2]]))
    array([0.08333333, 0.08333333])
    """

    by_row = True

    def per_task(self, instance: Instance) -> Float:
        return 1.0 / instance.derived.tasks_alone_within(np.ones(instance.n_resources), everywhere=True).sum(axis=1)

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        return 1 / instance.in_fractions.tasks_alone(everywhere=True).sum(axis=1)

    def conditions(self, symbols: ShareSymbols) -> Condition:
        return is_largest(symbols.coefficient, symbols.ratios)

    def elasticities(self, instance: Instance) -> tuple[Float, Float]:
        return _of_tasks_alone(np.ones(instance.eligible.shape), instance)


@dataclass(frozen=True, repr=False)
class ThroughputShare(Share):
    """Throughput relative to an equal slice of everything (Gavel; Narayanan et al. 2020, sec. 4.1).

    Throughput is tasks at the instance's ``rates``, `r_js x_js` summed over servers; without rates it is tasks. User
    j's slice is ``w_j / sum w`` of every server where it may run, cut at its task limit, which is its time budget: all
    its parts alike. The share per weight, which policies compare, is the throughput over that on the slice, times
    ``n / sum w``:
    ``c_js = n r_js / (R_j f_j)``, where ``R_j = sum_s r_js N_js`` is the throughput of the ``N_js`` tasks that the user
    could run alone on each server, and ``f_j = min(1, T_j sum w / (w_j sum_s N_js))`` cuts its slice at the limit
    ``T_j``.

    Gavel's formulas have a slice of ``1 / n`` and divide by the weight afterwards; the two agree for equal weights, and
    wherever no slice is cut.

    Examples
    --------
    Three jobs on one server each of three types, in which each job can use an hour per hour:

    >>> import fairopt as fo
    >>> jobs = fo.Instance(
    ...     [[1], [1], [1]], [[1], [1], [1]], task_limits=1, rates=[[3, 1, 1], [3, 2, 1], [3, 2, 1]]
    ... )
    >>> fo.ThroughputShare().per_task(jobs)[0]
    array([1.8, 0.6, 0.6])
    >>> hours = fo.Policy(fo.Leximin(fo.ThroughputShare())).allocate(jobs).tasks_by_server
    >>> (jobs.rates * hours).sum(axis=1).round(3)
    array([1.765, 2.118, 2.118])
    """

    def per_task(self, instance: Instance) -> Float:
        # n and the total weight are of all users as given: leaving users out of a program changes nobody's slice
        alone, rates, n = instance.tasks_alone, instance.rates, instance.derived.whole.n_users
        most = np.minimum(1.0, _limits_of_slices(instance)) * (alone if rates is None else rates * alone).sum(axis=1)
        return n / most if rates is None else n * rates / most[:, None]

    def exact_per_task(self, instance: Instance, width: Fraction | None = None) -> Fractions:
        exact, n = instance.in_fractions, instance.derived.whole.n_users
        alone, rates, limits = exact.tasks_alone(), exact.rates, exact.task_limits
        slices = exact.weights / exact.total_weight * alone.sum(axis=1)
        cut = [
            min(Fraction(1), t / most) if 0 < t < np.inf else Fraction(1)
            for t, most in zip(limits, slices, strict=True)
        ]
        most = np.array(cut, dtype=object) * (alone if rates is None else rates * alone).sum(axis=1)
        return n / most if rates is None else n * rates / most[:, None]

    def elasticities(self, instance: Instance) -> tuple[Float, Float] | None:
        """Unknown where a limit cuts a slice, since coefficients then depend on limits and weights too."""
        if (_limits_of_slices(instance) <= 1.0 + ROUNDING).any():
            return None
        rates = instance.eligible.astype(float) if instance.rates is None else instance.rates * instance.eligible
        return _of_tasks_alone(rates, instance)


def _limits_of_slices(instance: Instance) -> Float:
    """Each user's task limit over the tasks on its slice; infinite for a limit of 0, with which it takes no part."""
    slices = instance.weights / instance.derived.total_weight * instance.tasks_alone.sum(axis=1)
    return np.where(instance.task_limits > 0, instance.task_limits / slices, np.inf)
