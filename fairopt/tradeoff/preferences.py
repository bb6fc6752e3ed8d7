"""Parameters (beta, lambda) that reproduce rankings of allocations from a survey (Joe-Wong et al. 2013, sec. VI)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairopt.blocks.base import brief
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.powers import log_fairness, log_total
from fairopt.blocks.shares import Share
from fairopt.errors import InvalidBlock, InvalidInstance, OutOfTime, nearest
from fairopt.instance import Instance
from fairopt.instance.validation import as_floats
from fairopt.policies.registry import named_family
from fairopt.properties.names import require_whole
from fairopt.runtime.arrays import Float
from fairopt.runtime.clock import Clock
from fairopt.runtime.lazy import later, ndimage, vq
from fairopt.runtime.progress import tell
from fairopt.runtime.tolerances import NOISE
from fairopt.tradeoff.answers import Options, checked_options, order_of, read

__all__ = ["Survey", "compatible", "consistency", "intervals", "read", "respondents"]

Family = str | Callable[..., Any]
STARTS = 10  # of k-means
LONGER = "give it more time_limit, or fewer points"


def compatible(
    options: Any,
    ranking: Iterable[Any],
    family: Family,
    *,
    betas: ArrayLike,
    lams: ArrayLike,
    instance: Instance | None = None,
) -> NDArray[np.bool_]:
    """Points (beta, lam) whose measure decreases strictly along a person's ranking of allocations.

    Parameters
    ----------
    options : array-like of shape (n_options, n_users), or dict
        Tasks of each user under each option, or a dict of these by label; each in order, or a dict or series by user.
        Options without labels are called 0, 1, ...
    ranking : iterable of labels
        All options, the best first.
    family : str or callable
        ``"fds"``, ``"gfj"``, ``"pnorm:p=2"``; or a function of beta and lam that makes a `FairnessEfficiency`, or a
        policy of one, as `FDS`.
    betas, lams : array-like
        The grid, without beta = 0.
    instance : Instance, optional
        Demands, capacities and weights; required unless the share is `Tasks`. Without it capacities are not checked.

    Returns
    -------
    ndarray of bool of shape (n_betas, n_lams)
        Options whose measures agree up to rounding are tied, and no strict ranking is compatible with a tie.

    Raises
    ------
    InvalidInstance
        If an option exceeds a capacity or a limit, or gives no user tasks; if the ranking has ties, or missing,
        repeated or unknown options; if options and instance have different users.
    InvalidBlock
        If a beta is 0, a grid is empty or not finite, or the family does not measure a share.

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}  # tasks of two users
    >>> fo.tradeoff.preferences.compatible(options, ["even", "more", "starved"], "gfj", betas=[0.5, 2], lams=[-1, 0, 1])
    array([[ True,  True, False],
           [False,  True,  True]])
    """
    lower, upper = intervals(options, ranking, family, betas=betas, instance=instance)
    at = _grid(lams, "lams")
    return (lower[:, None] < at) & (at < upper[:, None])


def intervals(
    options: Any, ranking: Iterable[Any], family: Family, *, betas: ArrayLike, instance: Instance | None = None
) -> tuple[Float, Float]:
    """The open interval of lam in which the measure decreases strictly along a ranking, for each beta.

    Parameters
    ----------
    options, ranking, family, betas, instance
        As for `compatible`.

    Returns
    -------
    lower, upper : ndarray of shape (n_betas,)
        Bounds, moved inwards by their rounding errors; NaN where no lam is compatible.

    Raises
    ------
    InvalidInstance, InvalidBlock
        As `compatible`.

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}
    >>> lower, upper = fo.tradeoff.preferences.intervals(options, ["even", "more", "starved"], "gfj", betas=[0.5, 2])
    >>> lower.round(4), upper.round(4)
    (array([   -inf, -0.6583]), array([0.3208,    inf]))
    """
    checked = checked_options(options, _share(family), instance)
    pairs = _pairs(order_of(checked.labels, ranking, "the ranking"))
    lower, upper = (ends[pairs] for ends in _thresholds(checked, _grid(betas, "betas")))
    low, high = lower.max(axis=0, initial=-np.inf), upper.min(axis=0, initial=np.inf)
    return np.where(low < high, low, np.nan), np.where(low < high, high, np.nan)


class Survey:
    """Rankings of the same options by many people, compared with every point of a grid.

    Parameters
    ----------
    options, family, betas, lams, instance
        As for `compatible`.
    rankings : dict of rankings by person
        Each as for `compatible`.
    time_limit : float, optional
        Seconds; people not compared by then are left out.

    Raises
    ------
    InvalidInstance, InvalidBlock
        As `compatible`.
    OutOfTime
        If the time limit ended before the first person was compared.

    Attributes
    ----------
    options, users, people : tuple of str
        Labels; ``tasks`` is of shape (n_options, n_users).
    family, betas, lams : str and ndarrays of float
        Name of the family, and the grid rounded to 15 digits.
    rankings : ndarray of int of shape (n_people, n_options)
        Indices of options, the best first.
    wrong : ndarray of int of shape (n_people, n_betas, n_lams)
        Number of pairs that a point does not rank as the person (Kendall's distance; ties count).
    late : bool
        Whether the time limit left people out.

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}
    >>> people = {"ann": ["even", "more", "starved"], "bob": ["starved", "more", "even"]}
    >>> found = fo.tradeoff.preferences.Survey(options, people, "gfj", betas=[0.5, 2], lams=[-1, 0, 1])
    >>> found.counts
    array([[1, 1, 0],
           [0, 1, 1]])
    >>> found.best("bob")  # pairs in the wrong order, and all points with so few
    (2, [(0.5, 1.0), (2.0, -1.0)])
    """

    def __init__(
        self,
        options: Any,
        rankings: Mapping[Any, Iterable[Any]],
        family: Family,
        *,
        betas: ArrayLike,
        lams: ArrayLike,
        instance: Instance | None = None,
        time_limit: float | None = None,
    ) -> None:
        clock, share = Clock(time_limit), _share(family)
        checked = checked_options(options, share, instance)
        self.family = family if isinstance(family, str) else getattr(family, "__name__", repr(share))
        grids = _grid(betas, "betas"), _grid(lams, "lams")
        self.betas, self.lams = (np.array([float(f"{value:.15g}") for value in grid]) for grid in grids)
        self.options, self.users, self.tasks = checked.labels, checked.users, checked.tasks
        if not isinstance(rankings, Mapping) or not rankings:
            raise InvalidInstance("rankings are empty, or not by person; give a dict, as {'ann': ['2', '1']}")
        self.people = tuple(map(str, rankings))
        self.rankings = np.array(
            [order_of(self.options, ranking, f"person {str(person)!r}") for person, ranking in rankings.items()]
        )
        lower, upper = (ends[..., None] for ends in _thresholds(checked, self.betas, clock))
        wrong = ~((lower < self.lams) & (self.lams < upper))
        chosen: list[NDArray[np.int64]] = []
        for p, order in enumerate(self.rankings):
            tell("people", p, len(self.people))
            if clock.late:
                break
            chosen.append(wrong[_pairs(order)].sum(axis=0))
        if not chosen:
            raise OutOfTime(f"nobody was compared before the time limit; {LONGER}")
        self.late, reached = len(chosen) < len(self.people), len(chosen)
        self.people, self.rankings = self.people[:reached], self.rankings[:reached]
        self.wrong = np.array(chosen, dtype=np.int32)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of people compatible with each point, shape (n_betas, n_lams)."""
        return (self.wrong == 0).sum(axis=0)

    @property
    def explained(self) -> NDArray[np.bool_]:
        """Whether each person is compatible with some point of the grid, shape (n_people,)."""
        return (self.wrong == 0).any(axis=(1, 2))

    @property
    def tastes(self) -> Float:
        """Mean fairness and efficiency of each person's options, weighted by rank, shape (n_people, 2).

        Fairness is minus the mean absolute difference of tasks over pairs of users, efficiency the number of tasks. The
        best of k options has weight k, the next k - 1, and so on; Joe-Wong et al. (2013) do not print their weights.
        """
        k, n = self.tasks.shape
        differences = np.sort(self.tasks, axis=1) @ (2.0 * np.arange(n) - n + 1)  # summed over pairs
        values = np.column_stack([0.0 - differences / max(n * (n - 1) / 2, 1), self.tasks.sum(axis=1)])
        return np.average(values[self.rankings], axis=1, weights=np.arange(k, 0, -1))

    def best(self, person: str | None = None) -> tuple[int, list[tuple[float, float]]]:
        """The smallest number of misranked pairs, of one person or summed over all, and its points (beta, lam)."""
        if person is not None and person not in self.people:
            raise InvalidInstance(f"no person {person!r}; {nearest(person, self.people)}")
        wrong = self.wrong.sum(axis=0) if person is None else self.wrong[self.people.index(person)]
        cells = np.argwhere(wrong == wrong.min())
        return int(wrong.min()), [(float(self.betas[b]), float(self.lams[q])) for b, q in cells]

    @property
    def best_point(self) -> tuple[float, float]:
        """One point of ``best()``: among those with the most compatible people, the farthest from all others."""
        grid = np.ix_(np.argsort(self.betas), np.argsort(self.lams))
        cost = (self.wrong.sum(axis=0) * (len(self.people) + 1) - self.counts)[grid]
        depth = ndimage.distance_transform_edt(np.pad(cost == cost.min(), 1))[1:-1, 1:-1]
        b, q = np.unravel_index(depth.argmax(), depth.shape)
        return float(np.sort(self.betas)[b]), float(np.sort(self.lams)[q])

    def select(self, chosen: ArrayLike) -> Survey:
        """The survey of some people, chosen by booleans of shape (n_people,)."""
        kept = np.asarray(chosen)
        if kept.dtype != bool or kept.shape != (len(self.people),) or not kept.any():
            raise InvalidInstance(f"select({chosen!r}): give True or False for each person, with one True at least")
        out = copy(self)
        out.people = tuple(person for person, held in zip(self.people, kept, strict=True) if held)
        out.rankings, out.wrong = self.rankings[kept], self.wrong[kept]
        return out

    def clusters(self, number: int = 2) -> tuple[NDArray[np.int64], Float]:
        """Clusters of people by `tastes`, and their means, by decreasing efficiency.

        k-means on coordinates over their standard deviations, the best of ten seeded starts; the order of people does
        not matter. There are at most as many clusters as distinct tastes.
        """
        require_whole(number, "number of clusters")
        tastes = self.tastes
        spread = tastes.std(axis=0)
        scaled = tastes / np.where(spread > NOISE * np.abs(tastes).max(), spread, np.inf)
        order = np.lexsort(scaled.T)
        people, different = scaled[order], len(np.unique(tastes.round(9), axis=0))
        runs = [vq.kmeans2(people, min(int(number), different), minit="++", seed=seed) for seed in range(STARTS)]
        best = min(runs, key=lambda run: float(((people - run[0][run[1]]) ** 2).sum()))[1]
        cluster = np.unique(best, return_inverse=True)[1][np.argsort(order)]
        centres = np.array([tastes[cluster == c].mean(axis=0) for c in range(cluster.max() + 1)])
        first = np.argsort(-centres[:, 1], kind="stable")
        return np.argsort(first)[cluster], centres[first]

    def plot(self, kind: str = "heat", *, ax: Any = None) -> Any:
        """Draw the number of compatible people over the grid (Joe-Wong et al. 2013, Figs. 20 and 21).

        ``kind="clusters"`` draws their `tastes` (Fig. 19). Returns the Axes.
        """
        return later("fairopt.plots:preferences")(self, kind, ax)

    def __repr__(self) -> str:
        people, *grid = self.wrong.shape
        late = "; others were not reached before the time limit" if self.late else ""
        points = f"{grid[0]} x {grid[1]} points of {self.family}"
        return f"<Survey: people {people}, options {len(self.options)}, {points}{late}>"


def consistency(surveys: Mapping[str, Survey]) -> dict[str, tuple[float, int]]:
    """Compare the answers of the same people to several questions.

    Parameters
    ----------
    surveys : dict of Survey by question
        Surveys over the same grid.

    Returns
    -------
    dict by person
        The mean of Kendall's tau over pairs of questions whose options are multiples of each other (NaN without any),
        and the number of grid points that are compatible with all rankings of the person.

    Raises
    ------
    InvalidInstance
        If grids differ.

    Examples
    --------
    >>> import fairopt as fo
    >>> grid = {"betas": [2], "lams": [-2, 0]}
    >>> one = fo.tradeoff.preferences.Survey({"a": (3, 3), "b": (5, 2)}, {"ann": ["a", "b"]}, "gfj", **grid)
    >>> two = fo.tradeoff.preferences.Survey({"x": (10, 4), "y": (6, 6)}, {"ann": ["y", "x"]}, "gfj", **grid)
    >>> fo.tradeoff.preferences.consistency({"1": one, "2": two})  # one point, as all is the same but twice as large
    {'ann': (1.0, 1)}
    """
    fits: dict[str, Any] = {}
    taus: dict[str, list[float]] = {}
    for question, one in surveys.items():
        first = next(iter(surveys.values()))
        if not (np.array_equal(one.betas, first.betas) and np.array_equal(one.lams, first.lams)):
            raise InvalidInstance(f"question {question!r} has another grid than the first; use the same for all")
        for person, wrong in zip(one.people, one.wrong, strict=True):
            fits[person] = fits.get(person, True) & (wrong == 0)
    for one, other in combinations(surveys.values(), 2):
        partner, theirs = _multiple(one, other), dict(zip(other.people, other.rankings, strict=True))
        for person, ranking in zip(one.people, one.rankings, strict=True):
            if partner is not None and person in theirs:
                place = np.argsort(theirs[person])[partner[ranking]]
                taus.setdefault(person, []).append(2 * float(np.mean(np.less(*_pairs(place)))) - 1)
    return {person: (float(np.mean(taus.get(person, np.nan))), int(fit.sum())) for person, fit in fits.items()}


def respondents(
    options: Any, family: Family, parameters: ArrayLike, *, instance: Instance | None = None
) -> dict[str, list[str]]:
    """Synthetic rankings of options by the measure at known parameters.

    Parameters
    ----------
    options, family, instance
        As for `compatible`.
    parameters : array-like of shape (n_people, 2)
        The (beta, lam) of each person.

    Returns
    -------
    dict of list of str by person
        Rankings of ``person1``, ``person2``, ...

    Raises
    ------
    InvalidInstance, InvalidBlock
        As `compatible`, and if options are tied at the parameters of a person.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.tradeoff.preferences.respondents({"a": (3, 3), "b": (5, 2)}, "gfj", [(2, -0.1), (2, -3)])
    {'person1': ['a', 'b'], 'person2': ['b', 'a']}
    """
    checked, points = checked_options(options, _share(family), instance), as_floats(parameters, "parameters")
    if points.ndim != 2 or points.shape[1] != 2:
        raise InvalidBlock(f"parameters have shape {points.shape}; give a (beta, lam) for each person")
    betas, lams = _grid(points[:, 0], "betas"), _grid(points[:, 1], "lams")
    lower, upper = _thresholds(checked, betas)
    wins = ((lower < lams) & (lams < upper)).sum(axis=1)
    out = {}
    for p, mine in enumerate(wins.T):
        if len(np.unique(mine)) < len(mine):
            point = f"({betas[p]:g}, {lams[p]:g})"
            raise InvalidInstance(f"two options are tied at (beta, lam) = {point}; give another point")
        out[f"person{p + 1}"] = [checked.labels[i] for i in np.argsort(-mine)]
    return out


# -- the measure of options -------------------------------------------------------------------------------------


def _thresholds(options: Options, betas: Float, clock: Clock | None = None) -> tuple[Float, Float]:
    """Open intervals of lam in which option i ranks above k, as two arrays (n_options, n_options, n_betas).

    With ``l = lam * sgn(1-beta)``, i ranks above k where ``D + l E > 0``, with the differences D of ``sgn(1-beta) log
    fairness`` and E of the logarithms of sums, each reduced by its rounding error.
    """
    k = len(options.labels)
    lower, upper = np.empty((2, k, k, len(betas)))
    total, about = log_total(options.shares)
    e, about_e = total[:, None] - total, about[:, None] + about
    e = np.where(np.abs(e) <= about_e, 0.0, e)
    for b, beta in enumerate(betas.tolist()):
        tell("values of beta", b, len(betas))
        if clock is not None and clock.late:
            raise OutOfTime(f"{b} of {len(betas)} values of beta were compared before the time limit; {LONGER}")
        sign = 1.0 if beta <= 1 else -1.0
        fairness, about = log_fairness(options.shares, options.weights, beta)
        with np.errstate(invalid="ignore"):
            d = sign * (fairness[:, None] - fairness) - about[:, None] - about
            d = np.where(np.isnan(d), -np.inf, d)  # both -infinity: tied
            reach = d / (np.abs(e) + np.sign(d) * about_e)
        low = np.where(e > 0, 0.0 - reach, np.where((e < 0) | (d > 0), -np.inf, np.inf))
        high = np.where(e < 0, 0.0 + reach, np.where((e > 0) | (d > 0), np.inf, -np.inf))
        lower[..., b], upper[..., b] = (low, high) if sign > 0 else (-high, -low)
    return lower, upper


def _pairs(order: Sequence[int] | NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The earlier and the later elements of all pairs in a sequence."""
    first, second = np.triu_indices(len(order), 1)
    return np.asarray(order)[first], np.asarray(order)[second]


def _multiple(one: Survey, two: Survey) -> NDArray[np.int64] | None:
    """For each option of the first question the index of its multiple in the second; None if one has none."""
    if one.tasks.shape != two.tasks.shape or set(one.users) != set(two.users) or len(one.options) < 2:
        return None
    first, second = one.tasks / one.tasks.sum(), two.tasks / two.tasks.sum()
    second = second[:, [two.users.index(user) for user in one.users]]
    near = np.abs(first[:, None] - second).max(axis=2) <= NOISE * first.max()
    return near.argmax(axis=1) if (near.sum(axis=0) == 1).all() and (near.sum(axis=1) == 1).all() else None


def _share(family: Family) -> Share:
    """The share that a family measures, from its members at two points."""
    make = named_family(family) if isinstance(family, str) else family
    try:
        inspect.signature(make).bind(beta=2.0, lam=-0.5)
    except TypeError as error:
        missing = str(error).partition("missing a required argument: ")[2].strip("'")
        lack = f"needs {missing}, as pnorm:p=2" if missing else "takes no beta and lam; give fds, gfj or pnorm:p=2"
        raise InvalidBlock(f"family {brief(family)} {lack}") from error
    one, other = (make(beta=beta, lam=lam) for beta, lam in ((2.0, -0.5), (0.5, 1.0)))
    measure, second = (getattr(made, "objective", made) for made in (one, other))
    if not isinstance(measure, FairnessEfficiency) or second != replace(measure, beta=0.5, lam=1.0):
        fix = "give one that makes FairnessEfficiency(beta, lam) of one share"
        raise InvalidBlock(f"family {brief(family)} makes {one} and {other}; {fix}")
    return measure.share


def _grid(values: ArrayLike, name: str) -> Float:
    """The numbers of a grid, checked."""
    array = np.atleast_1d(as_floats(values, name))
    if array.ndim != 1 or not array.size:
        raise InvalidBlock(f"{name} have shape {array.shape}; give a list of at least one number")
    if not np.isfinite(array).all():
        raise InvalidBlock(f"{name} hold {array[~np.isfinite(array)][0]}; give finite numbers")
    if name == "betas" and (array == 0).any():
        raise InvalidBlock("betas hold 0, where the measure is undefined (1/beta); leave it out")
    return array
