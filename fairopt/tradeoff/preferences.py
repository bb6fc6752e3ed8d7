"""Which points of the (beta, lambda) plane rank given allocations as people did (Joe-Wong et al. 2013, sec. VI)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.cluster.vq import kmeans2

from fairopt.accessor import later
from fairopt.blocks.constraints import MinTasks
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.measure import log_fairness, log_total
from fairopt.blocks.objectives import Total
from fairopt.blocks.shares import Share, Tasks
from fairopt.errors import Infeasible, InvalidBlock, InvalidInstance, nearest
from fairopt.instance import Instance
from fairopt.labels import axes_of
from fairopt.policies.registry import named_policy
from fairopt.policy import Policy
from fairopt.progress import tell
from fairopt.tradeoff.answers import read
from fairopt.validation import as_floats

__all__ = ["Survey", "compatible", "consistency", "intervals", "read", "respondents"]

Float = NDArray[np.floating[Any]]
Family = str | Callable[..., Any]
BEYOND = 1e-9  # relative excess over a capacity or a limit that counts as rounding
STARTS = 10  # of k-means
SAME = 1e-9  # relative difference up to which options are scalar multiples of others


def compatible(
    options: Any, ranking: Iterable[Any], family: Family, *, betas: ArrayLike, lams: ArrayLike,
    instance: Instance | None = None,
) -> NDArray[np.bool_]:  # fmt: skip
    """Points (beta, lam) whose measure falls strictly along a person's ranking of given allocations.

    Parameters
    ----------
    options : array-like of shape (n_options, n_users), dict, or data frame
        Tasks of each user under each option; a dict by label of tasks, in order or by user; a frame with a row per
        option. Options without labels are called 0, 1, ...
    ranking : iterable of labels
        All options, the best first. An index stands for an option where labels are words.
    family : str or callable
        ``"fds"``, ``"gfj"``, ``"pnorm:p=2"``; or a function of beta and lam that makes a `FairnessEfficiency`, or a
        policy of one, as `FDS`. Its share is measured, also where the measure has no maximum.
    betas, lams : array-like
        The grid; beta must not be 0.
    instance : Instance, optional
        Demands, capacities and weights; needed unless the share is `Tasks`. Without it capacities are not checked.

    Returns
    -------
    ndarray of bool of shape (n_betas, n_lams)
        Two options whose measures differ by no more than rounding are tied, which no strict ranking is compatible with.

    Raises
    ------
    InvalidInstance
        If an option exceeds a capacity or a limit, or gives nothing to all users; if the ranking has ties, or missing,
        repeated or unknown options; if options and instance have other users.
    InvalidBlock
        If beta is 0, a grid is empty or not finite, or the family does not measure a share.

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}  # tasks of two users
    >>> fo.preferences.compatible(options, ["even", "more", "starved"], "gfj", betas=[0.5, 2], lams=[-1, 0, 1])
    array([[ True,  True, False],
           [False,  True,  True]])
    """
    lower, upper = intervals(options, ranking, family, betas=betas, instance=instance)
    at = _grid(lams, "lams")
    return (lower[:, None] < at) & (at < upper[:, None])


def intervals(
    options: Any, ranking: Iterable[Any], family: Family, *, betas: ArrayLike, instance: Instance | None = None
) -> tuple[Float, Float]:
    """Ends of the open interval of lam in which the measure falls strictly along a ranking, for each beta.

    Parameters
    ----------
    options, ranking, family, betas, instance
        As for `compatible`.

    Returns
    -------
    lower, upper : ndarray of shape (n_betas,)
        Exact thresholds, moved inwards by the rounding error of their evaluation; NaN where no lam is compatible.

    Raises
    ------
    InvalidInstance, InvalidBlock
        As `compatible`.

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}
    >>> lower, upper = fo.preferences.intervals(options, ["even", "more", "starved"], "gfj", betas=[0.5, 2])
    >>> lower.round(4), upper.round(4)
    (array([   -inf, -0.6583]), array([0.3208,    inf]))
    """
    checked = _options(options, family, instance)
    order = _order(checked.labels, ranking, "the ranking")
    lower, upper = _above(checked, _grid(betas, "betas"))
    better, worse = np.array([*combinations(order, 2)], dtype=np.int64).reshape(-1, 2).T
    low = lower[:, better, worse].max(axis=1, initial=-np.inf)
    high = upper[:, better, worse].min(axis=1, initial=np.inf)
    return np.where(low < high, low, np.nan), np.where(low < high, high, np.nan)


class Survey:
    """Rankings of the same options by many people, compared with every point of a grid.

    Parameters
    ----------
    options, family, betas, lams, instance
        As for `compatible`.
    rankings : dict of rankings by person
        Each as for `compatible`, whose errors are raised with the person's name.

    Attributes
    ----------
    options, users, people : tuple of str
        Labels; ``tasks`` is of shape (n_options, n_users).
    rankings : ndarray of int of shape (n_rankings, n_options)
        The different rankings, as indices of options, the best first; ``ranking_of`` is that of each person.
    wrong : ndarray of int of shape (n_rankings, n_betas, n_lams)
        Pairs of options that a point does not put in the order of the ranking (Kendall's distance; ties count).

    Examples
    --------
    >>> import fairopt as fo
    >>> options = {"even": (3, 3), "more": (5, 2), "starved": (8, 0)}
    >>> people = {"ann": ["even", "more", "starved"], "bob": ["starved", "more", "even"]}
    >>> found = fo.preferences.Survey(options, people, "gfj", betas=[0.5, 2], lams=[-1, 0, 1])
    >>> found.counts
    array([[1, 1, 0],
           [0, 1, 1]])
    >>> found.best("bob")  # pairs in the wrong order, and all points with so few
    (2, [(0.5, 1.0), (2.0, -1.0)])
    """

    def __init__(
        self, options: Any, rankings: Mapping[Any, Iterable[Any]], family: Family, *, betas: ArrayLike,
        lams: ArrayLike, instance: Instance | None = None,
    ) -> None:  # fmt: skip
        checked, self.betas, self.lams = _options(options, family, instance), _grid(betas, "betas"), _grid(lams, "lams")
        self.options, self.users, self.tasks = checked.labels, checked.users, checked.tasks
        self.people = tuple(map(str, rankings))
        if not isinstance(rankings, Mapping) or not rankings or len(set(self.people)) < len(rankings):
            raise InvalidInstance("rankings are empty, or not by person; give a dict, as {'ann': ['2', '1']}")
        orders = [_order(self.options, r, f"person {str(person)!r}") for person, r in rankings.items()]
        self.rankings, ranking_of = np.unique(np.array(orders), axis=0, return_inverse=True)
        self.ranking_of = ranking_of.ravel()
        lower, upper = _above(checked, self.betas)
        self.wrong = np.zeros((len(self.rankings), len(self.betas), len(self.lams)), dtype=np.int32)
        for d, order in enumerate(self.rankings):
            tell("rankings", d, len(self.rankings))
            for better, worse in combinations(order, 2):
                low, high = lower[:, better, worse, None], upper[:, better, worse, None]
                self.wrong[d] += ~((low < self.lams) & (self.lams < high))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of people compatible with each point, shape (n_betas, n_lams)."""
        return np.tensordot(self._numbers, self.wrong == 0, axes=1)

    @property
    def explained(self) -> NDArray[np.bool_]:
        """Whether each person is compatible with some point of the grid, shape (n_people,)."""
        return (self.wrong == 0).any(axis=(1, 2))[self.ranking_of]

    @property
    def ranks(self) -> NDArray[np.int64]:
        """Number of people who give each option each rank, shape (n_options, n_options): options by ranks."""
        out = np.zeros((len(self.options),) * 2, dtype=np.int64)
        np.add.at(out, (self.rankings, np.arange(len(out))), self._numbers[:, None])
        return out

    @property
    def tastes(self) -> Float:
        """Average fairness and efficiency that each person asks for, shape (n_people, 2).

        Fairness of an option is minus the mean absolute difference of tasks over pairs of users (of two users, minus
        their difference), efficiency its number of tasks. The best of k options counts k times, the next k - 1 times,
        and so on; Joe-Wong et al. (2013) do not print their weights.
        """
        k, n = self.tasks.shape
        pairs = [np.abs(self.tasks[:, i] - self.tasks[:, j]) for i, j in combinations(range(n), 2)]
        fairness = -np.mean(pairs, axis=0) if pairs else np.zeros(k)
        values = np.column_stack([fairness, self.tasks.sum(axis=1)])
        return np.average(values[self.rankings], axis=1, weights=np.arange(k, 0, -1))[self.ranking_of]

    @property
    def _numbers(self) -> NDArray[np.int64]:
        """People of each ranking."""
        return np.bincount(self.ranking_of, minlength=len(self.rankings))

    def best(self, person: str | None = None) -> tuple[int, list[tuple[float, float]]]:
        """The fewest pairs in the wrong order, of one person or summed over all, and all (beta, lam) that reach it."""
        if person is not None and person not in self.people:
            raise InvalidInstance(f"no person {person!r}; {nearest(person, self.people)}")
        chosen = self._numbers if person is None else np.eye(len(self.rankings), dtype=np.int64)[
            self.ranking_of[self.people.index(person)]]  # fmt: skip
        wrong = np.tensordot(chosen, self.wrong, axes=1)
        cells = np.argwhere(wrong == wrong.min())
        return int(wrong.min()), [(float(self.betas[b]), float(self.lams[q])) for b, q in cells]

    def select(self, chosen: ArrayLike) -> Survey:
        """The survey of some people, as those of one cluster, given as booleans or indices."""
        out, index = copy(self), np.arange(len(self.people))[np.asarray(chosen, dtype=None if np.size(chosen) else int)]
        if not index.size:
            raise InvalidInstance("none of the people is chosen; choose at least one")
        out.people, out.ranking_of = tuple(self.people[p] for p in index), self.ranking_of[index]
        return out

    def clusters(self, number: int = 2) -> tuple[NDArray[np.int64], Float]:
        """Groups of people by `tastes` (k-means), and their mean tastes; the group that asks for most efficiency first.

        Both coordinates are divided by their standard deviations; of ten seeded starts the best is taken, and the order
        of people does not matter. There are fewer groups where fewer tastes differ.
        """
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
            raise InvalidBlock(f"number of clusters is {number!r}; give a whole number >= 1")
        spread = self.tastes.std(axis=0)
        scaled = self.tastes / np.where(spread > SAME * np.abs(self.tastes).max(), spread, np.inf)
        order = np.lexsort(scaled.T)
        people, different = scaled[order], len(np.unique(self.tastes.round(9), axis=0))
        runs = [kmeans2(people, min(int(number), different), minit="++", seed=seed) for seed in range(STARTS)]
        best = min(runs, key=lambda run: float(((people - run[0][run[1]]) ** 2).sum()))[1]
        found = np.unique(best, return_inverse=True)[1][np.argsort(order)]
        centres = np.array([self.tastes[found == c].mean(axis=0) for c in range(found.max() + 1)])
        place = np.argsort(np.argsort(-centres[:, 1], kind="stable"))
        return place[found], centres[np.argsort(place)]

    def plot(self, kind: str = "heat", ax: Any = None) -> Any:
        """Draw the number of compatible people over the grid; "clusters": `tastes`; "ranks": people by option and rank.

        As Joe-Wong et al. (2013), Figs. 20 and 21; 19; 18. On given axes, or a new figure; the axes are returned.
        """
        return later("Survey.plot")(self, kind, ax)


def consistency(surveys: Mapping[str, Survey]) -> dict[str, tuple[float, int]]:
    """Compare the answers of the same people to several questions.

    Parameters
    ----------
    surveys : dict of Survey by question
        Surveys over the same grid.

    Returns
    -------
    dict by person
        The mean of Kendall's tau over pairs of questions whose options are multiples of each other (NaN without such a
        pair), and the number of points of the grid that are compatible with all answers of the person.

    Raises
    ------
    InvalidInstance
        If grids differ.

    Examples
    --------
    >>> import fairopt as fo
    >>> grid = {"betas": [2], "lams": [-2, 0]}
    >>> one = fo.preferences.Survey({"a": (3, 3), "b": (5, 2)}, {"ann": ["a", "b"]}, "gfj", **grid)
    >>> two = fo.preferences.Survey({"x": (10, 4), "y": (6, 6)}, {"ann": ["y", "x"]}, "gfj", **grid)
    >>> fo.preferences.consistency({"1": one, "2": two})  # one point, as all is the same but twice as large
    {'ann': (1.0, 1)}
    """
    answers: dict[str, list[tuple[Survey, int]]] = {}
    for question, one in surveys.items():
        first = next(iter(surveys.values()))
        if not (np.array_equal(one.betas, first.betas) and np.array_equal(one.lams, first.lams)):
            raise InvalidInstance(f"question {question!r} has another grid than the first; use the same for all")
        for person, ranking in zip(one.people, one.ranking_of.tolist(), strict=True):
            answers.setdefault(person, []).append((one, ranking))
    same = {(id(a), id(b)): _multiple(a, b) for a, b in combinations(surveys.values(), 2)}

    @cache
    def compared(*answered: tuple[Survey, int]) -> tuple[float, int]:
        taus = []
        for (a, r), (b, s) in combinations(answered, 2):
            partner = same[id(a), id(b)]
            if partner is not None and len(partner) > 1:
                place = np.argsort(b.rankings[s])[partner[a.rankings[r]]]
                taus.append(2 * np.mean([x < y for x, y in combinations(place, 2)]) - 1)
        fit = np.logical_and.reduce([s.wrong[r] == 0 for s, r in answered])
        return float(np.mean(taus)) if taus else np.nan, int(fit.sum())

    return {person: compared(*answered) for person, answered in answers.items()}


def respondents(
    options: Any, family: Family, parameters: Any, *, betas: ArrayLike = (), lams: ArrayLike = (),
    instance: Instance | None = None, noise: float = 0.0, seed: int | None = 0,
) -> tuple[Float, dict[str, list[str]]]:  # fmt: skip
    """Generate people who rank options by the measure at known parameters.

    Parameters
    ----------
    options, family, instance
        As for `compatible`.
    parameters : array-like of shape (n_people, 2), or int
        The (beta, lam) of each person, or how many to draw from the points of a grid at which no options are tied.
    betas, lams : array-like, optional
        The grid, where ``parameters`` is a number.
    noise : float, default 0
        Standard deviation of the normal error that is added to the logarithm of each measure.
    seed : int, optional
        Seed of all draws; None for others each time.

    Returns
    -------
    parameters : ndarray of shape (n_people, 2)
    rankings : dict of list of str by person

    Raises
    ------
    InvalidInstance, InvalidBlock
        As `compatible`, and where options are tied.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.preferences.respondents({"a": (3, 3), "b": (5, 2)}, "gfj", [(2, -0.1), (2, -3)])[1]
    {'person1': ['a', 'b'], 'person2': ['b', 'a']}
    """
    checked, rng = _options(options, family, instance), np.random.default_rng(seed)
    if not (np.isfinite(noise) and noise >= 0):
        raise InvalidBlock(f"noise is {noise}; give a number >= 0")
    if isinstance(parameters, (int, np.integer)):
        grid = product(_grid(betas, "betas").tolist(), _grid(lams, "lams").tolist())
        strict = [point for point in grid if _strict(checked, *point) is not None]
        if not strict or parameters < 1:
            raise InvalidBlock(f"{parameters} people to draw from {len(strict)} points without ties; give at least one")
        points = np.array(strict)[rng.integers(len(strict), size=int(parameters))]
    else:
        points = as_floats(parameters, "parameters")
        if points.ndim != 2 or points.shape[1] != 2:
            raise InvalidBlock(f"parameters have shape {points.shape}; give a (beta, lam) for each person, or a number")
        _grid(points[:, 0], "betas"), _grid(points[:, 1], "lams")
    errors, rankings = noise * rng.standard_normal((len(points), len(checked.labels))), {}
    for p, (beta, lam) in enumerate(points.tolist()):
        order = _strict(checked, beta, lam)
        if order is None:
            raise InvalidInstance(f"two options are tied at (beta, lam) = ({beta:g}, {lam:g}); give another point")
        if noise > 0:
            logs = log_fairness(checked.shares, checked.weights, beta)[0] + lam * log_total(checked.shares)[0]
            order = np.argsort(-(logs if beta <= 1 else -logs) - errors[p], kind="stable")
        rankings[f"person{p + 1}"] = [checked.labels[i] for i in order]
    return points, rankings


# -- the measure of options -------------------------------------------------------------------------------------


class _Options(NamedTuple):
    """Checked options: tasks and shares by option and user, and weights of users."""

    labels: tuple[str, ...]
    users: tuple[str, ...]
    tasks: Float
    shares: Float
    weights: Float


def _above(options: _Options, betas: Float) -> tuple[Float, Float]:
    """Ends of the open intervals of lam in which option i is above option k, shape (n_betas, n_options, n_options).

    With the emphasis ``l = lam * sgn(1-beta)``, i is above k where ``D + l E > 0``: D is the difference of
    ``sgn(1-beta) log fairness``, E that of the logarithms of the sums. Both count only beyond their rounding errors.
    """
    k = len(options.labels)
    lower, upper = np.empty((2, len(betas), k, k))
    total, about_total = log_total(options.shares)
    e, about_e = total[:, None] - total, about_total[:, None] + about_total
    e = np.where(np.abs(e) <= about_e, 0.0, e)
    for b, beta in enumerate(betas.tolist()):
        sign = 1.0 if beta <= 1 else -1.0
        fairness, about = log_fairness(options.shares, options.weights, beta)
        with np.errstate(invalid="ignore", divide="ignore"):
            d = sign * (fairness[:, None] - fairness) - about[:, None] - about
            d = np.where(np.isnan(d), -np.inf, d)  # both -infinity: tied
            at = np.abs(d) / np.where(d > 0, np.abs(e) + about_e, np.abs(e) - about_e)
            at = np.where(d > 0, -1.0, 1.0) * np.sign(e) * at + 0.0
        low = np.where(e > 0, at, np.where((e < 0) | (d > 0), -np.inf, np.inf))
        high = np.where(e < 0, at, np.where((e > 0) | (d > 0), np.inf, -np.inf))
        lower[b], upper[b] = (low, high) if sign > 0 else (-high, -low)
    return lower, upper


def _strict(options: _Options, beta: float, lam: float) -> NDArray[np.int64] | None:
    """The options in falling order of their measure, or None where two are tied."""
    lower, upper = _above(options, np.array([beta]))
    above = ((lower < lam) & (lam < upper))[0]
    wins = above.sum(axis=1)
    return np.argsort(-wins) if above.sum() == len(wins) * (len(wins) - 1) / 2 else None


def _share(family: Family) -> Share:
    """The share that a family measures, from its members at two points that have an optimum."""
    shares: set[Share] = set()
    for beta, lam in ((0.5, 1.0), (2.0, -0.5)):
        try:
            made = family(beta=beta, lam=lam) if callable(family) else named_policy(
                f"{family}{',' if ':' in family else ':'}beta={beta},lam={lam}")  # fmt: skip
        except TypeError as error:
            raise InvalidBlock(f"family {family!r} takes no beta and lam ({error}); give fds, gfj or FDS") from error
        objective = getattr(made, "objective", made)
        if not isinstance(objective, FairnessEfficiency) or (objective.beta, objective.lam) != (beta, lam):
            raise InvalidBlock(f"family {family!r} makes {made!r}; give one that makes FairnessEfficiency(beta, lam)")
        shares.add(objective.share)
    if len(shares) > 1:
        raise InvalidBlock(f"the share of family {family!r} depends on beta and lam; give a family with one share")
    return shares.pop()


def _grid(values: ArrayLike, name: str) -> Float:
    """Numbers of a grid: at least one, finite, and betas not 0."""
    array = np.atleast_1d(as_floats(values, name))
    if array.ndim != 1 or not array.size:
        raise InvalidBlock(f"{name} have shape {array.shape}; give a list of at least one number")
    if not np.isfinite(array).all():
        raise InvalidBlock(f"{name} hold {array[~np.isfinite(array)][0]}; give finite numbers")
    if name == "betas" and (array == 0).any():
        raise InvalidBlock("betas hold 0, where the measure is undefined (1/beta); leave it out")
    return array


# -- options and rankings as given ------------------------------------------------------------------------------


def _options(options: Any, family: Family, instance: Instance | None) -> _Options:
    share = _share(family)
    if not isinstance(instance, Instance) and (instance is not None or share != Tasks()):
        raise InvalidBlock(
            f"instance is {instance!r}, and {share!r} depends on it; give an Instance, or measure tasks (gfj)"
        )
    labels, users, tasks = _tasks(options)
    for i, j in np.argwhere(~(np.isfinite(tasks) & (tasks >= 0))):
        raise InvalidInstance(f"option {labels[i]!r} gives user {j + 1} {tasks[i, j]} tasks; give a number >= 0")
    if instance is None:
        users, shares = users or [f"user{j + 1}" for j in range(tasks.shape[1])], tasks
        weights: Float = np.ones(len(users))
    else:
        if tasks.shape[1] != instance.n_users or sorted(users or instance.users) != sorted(instance.users):
            these = ", ".join(map(repr, users[:5])) if users else f"{tasks.shape[1]} users"
            there = ", ".join(map(repr, instance.users[:5])) + (", ..." if instance.n_users > 5 else "")
            raise InvalidInstance(f"the options are for {these}, the instance for {there}; give their own instance")
        tasks = tasks[:, [users.index(user) for user in instance.users]] if users else tasks
        users = list(instance.users)
        _check_fit(labels, tasks, instance)
        per_task, part = share.coefficients(instance), instance.task_limits > 0
        if per_task.ndim == 2:
            raise InvalidInstance(f"{share!r} differs by server, and options are tasks in total; pool the servers")
        weights, shares = instance.weights[part], (tasks * per_task)[:, part]
    with np.errstate(over="ignore"):
        sums = shares.sum(axis=1)
    for i in np.flatnonzero(~((sums > 0) & (sums < np.inf))):
        raise InvalidInstance(f"the shares of option {labels[i]!r} add up to {sums[i]:g}; leave it out")
    return _Options(tuple(labels), tuple(users), tasks, shares, weights)


def _tasks(options: Any) -> tuple[list[str], list[str] | None, Float]:
    """Labels, users (None where they have no labels) and tasks of options in any form."""
    users: list[str] | None = None
    rows, axes = options, axes_of(options)
    if isinstance(options, Mapping):
        labels, rows = list(map(str, options)), list(options.values())
        if rows and all(isinstance(row, Mapping) for row in rows):
            users = list(map(str, rows[0]))
            for label, row in zip(labels, rows, strict=True):
                for user in set(row) ^ set(rows[0]):
                    raise InvalidInstance(f"only one of options {labels[0]!r} and {label!r} has user {user!r}; name it")
            rows = [[row[user] for user in rows[0]] for row in rows]
    elif axes is not None and len(axes) == 2:
        labels = list(map(str, range(len(options)) if axes[0] is None else axes[0]))
        users = None if hasattr(axes[1], "start") else list(map(str, axes[1]))  # an index that counts holds no labels
    else:
        labels = list(map(str, range(np.shape(options)[0] if np.ndim(options) else 0)))
    tasks = as_floats(rows, "options")
    if tasks.ndim != 2 or not tasks.size:
        raise InvalidInstance(f"options have shape {tasks.shape}; give a row of tasks by user for each of them")
    for k, label in enumerate(labels):
        if label in labels[:k]:
            raise InvalidInstance(f"the option {label!r} is there twice; labels must differ")
    return labels, users, tasks


def _check_fit(labels: Sequence[str], tasks: Float, instance: Instance) -> None:
    """`InvalidInstance` for options beyond task limits or capacities; on several servers by a linear program."""
    for i, j in np.argwhere(tasks > instance.task_limits * (1 + BEYOND)):
        limit = f"{tasks[i, j]:g} tasks, beyond its limit of {instance.task_limits[j]:g}"
        raise InvalidInstance(f"option {labels[i]!r} gives user {instance.users[j]!r} {limit}; give what it may run")
    least = instance.per_server_demands.min(axis=1)
    used, there = tasks @ least, instance.total_capacities
    for i, r in np.argwhere(used > there * (1 + BEYOND)):
        raise InvalidInstance(
            f"option {labels[i]!r} needs {used[i, r]:g} of {instance.resources[r]!r}, {used[i, r] - there[r]:g} more "
            f"than the capacity {there[r]:g}; give an option that fits, or the instance of this question"
        )
    for label, row in zip(labels, tasks, strict=True) if instance.n_servers > 1 else ():
        try:
            Policy(Total(Tasks()), [MinTasks(row * (1 - BEYOND))]).allocate(instance)
        except Infeasible as error:
            raise InvalidInstance(f"option {label!r} does not fit on the servers: {error}") from error


def _order(labels: Sequence[str], ranking: Any, who: str) -> list[int]:
    """A strict ranking of all options as their indices."""
    if isinstance(ranking, (Mapping, str)) or not isinstance(ranking, Iterable):
        raise InvalidInstance(f"{who}: {ranking!r} is not a ranking; give a list of options, the best first")
    numbers = any(label.isdecimal() for label in labels)
    out: list[int] = []
    for entry in ranking:
        if isinstance(entry, (list, tuple, set, frozenset)):
            tied = " and ".join(repr(str(x)) for x in entry)
            raise InvalidInstance(f"{who} ranks options {tied} alike; give a strict ranking, or leave the person out")
        if not numbers and isinstance(entry, (int, np.integer)) and 0 <= entry < len(labels):
            k = int(entry)
        elif str(entry) in labels:
            k = labels.index(str(entry))
        else:
            raise InvalidInstance(f"{who} ranks an unknown option {str(entry)!r}; {nearest(entry, labels)}")
        if k in out:
            raise InvalidInstance(f"{who} ranks option {labels[k]!r} twice; give each option once")
        out.append(k)
    for k, label in enumerate(labels):
        if k not in out:
            raise InvalidInstance(f"{who} leaves out option {label!r}; rank all {len(labels)} options")
    return out


def _multiple(one: Survey, two: Survey) -> NDArray[np.int64] | None:
    """Which option of the second question is the multiple of each of the first, or None where one has no such."""
    if one.tasks.shape != two.tasks.shape or set(one.users) != set(two.users):
        return None
    first, second = one.tasks / one.tasks.sum(), two.tasks / two.tasks.sum()
    second = second[:, [two.users.index(user) for user in one.users]]
    near = np.abs(first[:, None] - second).max(axis=2) <= SAME * first.max()
    return near.argmax(axis=1) if (near.sum(axis=0) == 1).all() and (near.sum(axis=1) == 1).all() else None
