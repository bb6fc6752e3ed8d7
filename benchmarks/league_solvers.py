"""A league table of solvers: what each claims on problems with known optima, and what fairopt certifies with it."""

from __future__ import annotations

import platform
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib import metadata
from math import inf
from typing import TYPE_CHECKING, Any

import league_attempts as attempts
import league_process
from league_attempts import (
    CERTIFIED,
    NO_CLAIM,
    NOT_APPLICABLE,
    REFUSED,
    RIGHT,
    WRONG,
    Certified,
    Claim,
    Optimum,
)

from fairopt.datasets import library
from fairopt.errors import InvalidBlock, SolverUnavailable, nearest
from fairopt.instance import Instance
from fairopt.policies.registry import named_policy
from fairopt.policy import Policy
from fairopt.runtime import clock
from fairopt.runtime.lazy import cp, pandas
from fairopt.runtime.progress import by_itself
from fairopt.runtime.tolerances import GAP_TOLERANCE
from fairopt.solve import table
from fairopt.solve.form import solvers

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["League", "bench_solver"]

FORMAT = "fairopt.league/1"
ALL, AUTO, OVERALL = "all", "auto", "all notions"
START = 60.0  # seconds for a subprocess to import what it needs, outside the time limit
GRACE = 1.5  # seconds after the time limit, at which `allocate` should have ended
PACKAGE = {"HIGHS": "highspy", "COPT": "coptpy", "PROXQP": "proxsuite"}  # of solvers that are called otherwise
INTEGER = ("_BB", "_MI")  # ends of names of the variants for integers
LATE = "time limit"
ZERO = "the optimum is 0 whatever the tasks, so that gaps have no unit"
NOBODY = "no user takes part, so there is no problem to solve"


@dataclass(frozen=True)
class Match:
    """One solver or method on one problem.

    Attributes
    ----------
    case, notion : str
        The case of the library, and the notion.
    solver : str
        A solver, or a method of fairopt.
    outcome : str
        Of ``allocate`` with it: ``certified``, ``refused`` or ``not applicable``.
    gap, true_gap : float or None
        The gap that is proved, and the distance to the known optimum.
    seconds : float or None
        Of the call.
    method : str or None
        The method in the certificate.
    claim : str or None
        Of the solver alone on the problem in natural units: ``right``, ``wrong``, ``none`` (no status that says
        something about the optimum) or ``not applicable``; None for methods.
    status : str or None
        The solver's status there.
    claim_gap, claim_seconds : float or None
        The true gap of its answer, and the seconds.
    lacks : tuple of str
        Cones of the problem that it does not take.
    reason, claim_reason : str or None
        Errors.
    """

    case: str
    notion: str
    solver: str
    outcome: str
    gap: float | None = None
    true_gap: float | None = None
    seconds: float | None = None
    method: str | None = None
    claim: str | None = None
    status: str | None = None
    claim_gap: float | None = None
    claim_seconds: float | None = None
    lacks: tuple[str, ...] = ()
    reason: str | None = None
    claim_reason: str | None = None


@dataclass(frozen=True)
class Standing:
    """A solver or method on all problems of a notion, or of all of them.

    Attributes
    ----------
    notion, solver : str
        The notion, and the solver or method.
    problems, certified, refused, not_applicable : int
        How many problems, and how many of them with each outcome of ``allocate``.
    gap, worst_gap : float or None
        Median and largest true gap of certified answers.
    time : float or None
        Median of the seconds of certified answers over those of the fastest solver or method on the same problem.
    claims, wrong : int or None
        On how many problems the solver alone reports an optimum, or that there is none, and how often that is wrong.
    claim_gap, worst_claim_gap : float or None
        Median and largest true gap of the optima that it reports.
    lacks : tuple of str
        Cones that it does not take, where it is not applicable.
    """

    notion: str
    solver: str
    problems: int
    certified: int
    refused: int
    not_applicable: int
    gap: float | None
    worst_gap: float | None
    time: float | None
    claims: int | None
    wrong: int | None
    claim_gap: float | None
    worst_claim_gap: float | None
    lacks: tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class League:
    """Solvers on problems with known optima; made by `bench_solver`.

    Attributes
    ----------
    matches : tuple
        Each solver on each problem, with the columns of ``to_frame("match")``.
    wrong_above : float
        The true gap above which a claim is wrong.
    time_limit : float
        Seconds for each call.
    left_out : dict of str to str
        Problems that were not tried, as ``case, notion``, and why.
    versions : dict of str to str
        Of fairopt, CVXPY and the solvers.
    date : str
        When it was run.
    interrupted : bool
        Whether Ctrl-C came before the end.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> league = bench_solver("HIGHS", notions=["drf", "nash"], cases={"two users": cluster})
    >>> [(match.notion, match.outcome, match.lacks) for match in league.matches if match.solver == "HIGHS"]
    [('drf', 'certified', ()), ('nash', 'not applicable', ('exponential',))]
    """

    matches: tuple[Match, ...]
    wrong_above: float
    time_limit: float
    left_out: dict[str, str]
    versions: dict[str, str]
    date: str
    interrupted: bool = False

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Each solver on each notion, after each solver on all notions."""
        fastest: dict[tuple[str, str], float] = {}
        for match in self.matches:
            if match.outcome == CERTIFIED and match.seconds is not None:
                problem = match.case, match.notion
                fastest[problem] = min(match.seconds, fastest.get(problem, inf))
        notions = list(dict.fromkeys(match.notion for match in self.matches))
        names = list(dict.fromkeys(match.solver for match in self.matches))
        found = []
        for notion in ([OVERALL] if len(notions) > 1 else []) + notions:
            of_notion = [match for match in self.matches if notion in (OVERALL, match.notion)]
            for name in names:
                if some := [match for match in of_notion if match.solver == name]:
                    found.append(_standing(notion, name, some, fastest))
        return tuple(found)

    @property
    def wrong(self) -> tuple[Match, ...]:
        """Where a solver alone claims something wrong, the largest gaps first."""
        found = [match for match in self.matches if match.claim == WRONG]
        return tuple(sorted(found, key=lambda match: -inf if match.claim_gap is None else -match.claim_gap))

    @property
    def contradictions(self) -> tuple[Match, ...]:
        """Certified answers that differ from the known optimum by more than both proofs allow; there should be none."""
        return tuple(m for m in self.matches if m.true_gap is not None and not abs(m.true_gap) <= 2 * GAP_TOLERANCE)

    def to_dict(self) -> dict[str, Any]:
        """The standings and the matches as plain data."""
        return {
            "format": FORMAT,
            "date": self.date,
            "versions": self.versions,
            "wrong_above": self.wrong_above,
            "time_limit": self.time_limit,
            "standings": [asdict(one) for one in self.standings],
            "matches": [asdict(one) for one in self.matches],
            "left_out": self.left_out,
            "interrupted": self.interrupted,
        }

    def to_frame(self, by: str = "solver") -> pd.DataFrame:
        """A pandas frame of the standings, or of the matches.

        Parameters
        ----------
        by : {"solver", "match"}, default "solver"
            A row per notion and solver, or one per case, notion and solver.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InvalidBlock
            If ``by`` is something else.

        Examples
        --------
        >>> import fairopt as fo
        >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
        >>> league = bench_solver("HIGHS", notions=["drf"], cases={"two users": cluster})
        >>> league.to_frame()[["problems", "certified"]]
                       problems  certified
        notion solver
        drf    HIGHS          1          1
               auto           1          1
        """
        if by not in ("solver", "match"):
            raise InvalidBlock(f"no table by {by!r}; {nearest(by, ['solver', 'match'])}")
        rows, index, kind = self.standings, ["notion", "solver"], Standing
        if by == "match":
            rows, index, kind = self.matches, ["case", "notion", "solver"], Match  # type: ignore[assignment]
        names = [field.name for field in fields(kind)]
        data = {name: pandas().Series([getattr(row, name) for row in rows], dtype=object) for name in names}
        return pandas().DataFrame(data).infer_objects().set_index(index)

    def __repr__(self) -> str:
        problems = len({(match.case, match.notion) for match in self.matches})
        names = ", ".join(dict.fromkeys(match.solver for match in self.matches))
        stopped = "; interrupted" if self.interrupted else ""
        return f"<League of {names or 'nobody'} on {problems:,} problem{'s' * (problems != 1)}{stopped}>"


def bench_solver(
    solver: str | Sequence[str],
    *,
    notions: str | Iterable[str] | Mapping[str, str] | None = None,
    cases: Mapping[str, Any] | None = None,
    max_users: int | None = None,
    wrong_above: float = 1e-4,
    time_limit: float = 10.0,
) -> League:
    """Compare solvers on problems with known optima.

    Each call runs in a subprocess: a solver that crashes or does not end fails on one problem only.

    Parameters
    ----------
    solver : str or sequence of str
        Solvers in ``cvxpy.installed_solvers()``, methods of ``allocate`` such as ``"prices"``, or ``"all"`` for all
        solvers that are installed. ``"auto"``, fairopt's own choice, always runs beside them.
    notions : iterable of str or dict of str to str, optional
        Notions of the library, or other policies as text, also by a name. Default: all notions of the library with an
        objective.
    cases : mapping of str to Case or Instance, optional
        Default: `fairopt.datasets.library`. Optima that a case does not have are computed and certified first.
    max_users : int, optional
        Leave out cases of more users.
    wrong_above : float, default 1e-4
        A claim is wrong if the true gap of its answer is larger.
    time_limit : float, default 10
        Seconds for each call.

    Returns
    -------
    League
        After Ctrl-C with the problems so far.

    Raises
    ------
    SolverUnavailable
        If a solver is unknown, or not installed.
    InvalidBlock
        If a notion is unknown, or is no problem for a solver; if ``wrong_above`` or ``time_limit`` is no such number.

    Examples
    --------
    >>> import fairopt as fo
    >>> cluster = fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])
    >>> bench_solver(["CLARABEL", "prices"], notions=["nash"], cases={"two users": cluster})
    <League of CLARABEL, prices, auto on 1 problem>
    """
    names = _contestants(solver)
    limit = clock.checked(time_limit)
    if limit is None:
        raise InvalidBlock(
            "time_limit is None; give seconds for each call, or a solver that does not end stops the run"
        )
    if not 0 <= wrong_above < inf:
        raise InvalidBlock(f"wrong_above is {wrong_above!r}; give a true gap, such as 1e-4")
    given = library() if cases is None else cases
    problems = list(_problems(given, notions, max_users))
    matches: list[Match] = []
    left_out: dict[str, str] = {}
    interrupted = False
    with by_itself() as tell:
        try:
            for k, (case, notion, policy) in enumerate(problems):
                tell(f"{case}, {notion}", k, len(problems))
                one: Any = given[case]
                instance = getattr(one, "instance", one)
                optimum = _optimum(one, notion, policy, instance, limit)
                if isinstance(optimum, str):
                    left_out[f"{case}, {notion}"] = optimum
                    continue
                found = []
                for name in names:
                    tell(f"{case}, {notion}, {name}", k, len(problems))
                    found.append(_match(case, notion, name, policy, instance, optimum, wrong_above, limit))
                matches += found  # whole problems only, so that ratios compare all solvers
        except KeyboardInterrupt:
            interrupted = True
    return League(tuple(matches), wrong_above, limit, left_out, _versions(names), f"{date.today()}", interrupted)


def _contestants(given: str | Sequence[str]) -> list[str]:
    """The names of solvers and methods, and last ``auto``."""
    found: list[str] = []
    for name in [given] if isinstance(given, str) else given:
        if name.lower() == ALL:
            here = solvers.installed()
            found += [one for one in here if not (one.endswith(INTEGER) and one[:-3] in here)]
        elif name.lower() in table.names():
            found.append(name.lower())
        elif name.upper() in (*solvers.installed(), *cp.settings.SOLVERS):
            found.append(solvers.named(name))
        else:
            known = [*solvers.installed(), *table.names(), ALL]
            raise SolverUnavailable(f"no solver or method {name!r}; {nearest(name, known)}")
    return list(dict.fromkeys([*(name for name in found if name != AUTO), AUTO]))


def _problems(
    cases: Mapping[str, Any], notions: str | Iterable[str] | Mapping[str, str] | None, max_users: int | None
) -> Iterator[tuple[str, str, str]]:
    """Case, notion and policy as text of each problem.

    A case with answers is a problem of the notions that have an optimum on it, and of policies that the library does
    not know. A dict names policies of the user's own, also by names that the library has for others.
    """
    users = {name: case.n_users if isinstance(case, Instance) else case.size[0] for name, case in cases.items()}
    answers = {
        name: getattr(cases[name], "answers", {}) for name, n in users.items() if max_users is None or n <= max_users
    }
    known = {notion: answer.policy for of in answers.values() for notion, answer in of.items()}
    if notions is None:
        asked = {notion: text for notion, text in known.items() if isinstance(named_policy(text), Policy)}
    elif isinstance(notions, Mapping):
        asked = dict(notions)
    else:
        asked = {notion: known.get(notion, notion) for notion in ([notions] if isinstance(notions, str) else notions)}
    for text in asked.values() if notions is not None else ():
        attempts.policy_of(text)
    own = isinstance(notions, Mapping)
    for name, of in answers.items():
        for notion, text in asked.items():
            answer = of.get(notion)
            if answer is not None and (not own or answer.policy == text):
                if answer.status == "optimal":
                    yield name, notion, answer.policy
            elif own or (notions is not None and not (of and notion in known)):
                yield name, notion, text


def _optimum(case: Any, notion: str, policy: str, instance: Instance, time_limit: float) -> Optimum | str:
    """The optimum that the library knows, or that fairopt certifies; or why there is none."""
    if not (instance.task_limits > 0).any():
        return NOBODY
    answer = dict(getattr(case, "answers", {})).get(notion)
    if answer is not None and answer.policy == policy and (answer.value is not None or answer.interval is not None):
        value = float(answer.value) if answer.value is not None else sum(answer.interval) / 2
        levels = None if answer.levels is None else tuple(sorted(map(float, answer.levels)))
        unit = value if answer.unit is None else answer.unit
        return Optimum(value, unit, levels) if unit > 0 else ZERO
    found = _within(time_limit, GRACE, attempts.computed, policy=policy, instance=instance, time_limit=time_limit)
    return ZERO if isinstance(found, Optimum) and not found.unit > 0 else found


def _match(
    case: str,
    notion: str,
    name: str,
    policy: str,
    instance: Instance,
    optimum: Optimum,
    wrong_above: float,
    time_limit: float,
) -> Match:
    """One solver or method on one problem."""
    is_method = name in table.names()
    given: dict[str, Any] = {"policy": policy, "instance": instance, "optimum": optimum}
    options = {"method" if is_method else "solver": name}
    warm_up = time_limit + 2 * GRACE  # the first call in a process is repeated
    found = _within(time_limit, warm_up, attempts.certified, **given, options=options, time_limit=time_limit)
    if isinstance(found, str):
        found = Certified(REFUSED, reason=found)
    alone = (
        Claim("")
        if is_method
        else _within(time_limit, 0.0, attempts.claimed, **given, solver=name, wrong_above=wrong_above)
    )
    if isinstance(alone, str):
        alone = Claim(NO_CLAIM, reason=alone)
    return Match(
        case,
        notion,
        name,
        **{field.name: getattr(found, field.name) for field in fields(found) if field.name != "lacks"},
        claim=alone.claim or None,
        status=alone.status,
        claim_gap=alone.gap,
        claim_seconds=alone.seconds,
        lacks=tuple(dict.fromkeys((*found.lacks, *alone.lacks))),
        claim_reason=alone.reason,
    )


def _within(limit: float, more: float, function: Callable[..., Any], **arguments: Any) -> Any:
    """The result of a function of `attempts` in a subprocess; or, as text, that it took too long or ended the process.

    It is stopped ``more`` seconds after the time limit.
    """
    league_process.within(START, attempts.ready)
    try:
        return league_process.within(limit + more, function, **arguments)
    except TimeoutError:
        return f"{LATE} of {limit:g} s"
    except (RuntimeError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def _standing(notion: str, name: str, matches: Sequence[Match], fastest: Mapping[tuple[str, str], float]) -> Standing:
    """The standing of a solver from its matches."""
    count = Counter(match.outcome for match in matches)
    claim = Counter(match.claim for match in matches)
    gaps = [match.true_gap for match in matches if match.true_gap is not None]
    claim_gaps = [match.claim_gap for match in matches if match.claim_gap is not None]
    ratios = [
        match.seconds / fastest[match.case, match.notion]
        for match in matches
        if match.outcome == CERTIFIED and match.seconds is not None
    ]
    alone = name not in table.names()
    return Standing(
        notion,
        name,
        len(matches),
        count[CERTIFIED],
        count[REFUSED],
        count[NOT_APPLICABLE],
        _median(gaps),
        max(gaps, default=None),
        _median(ratios),
        claim[RIGHT] + claim[WRONG] if alone else None,
        claim[WRONG] if alone else None,
        _median(claim_gaps),
        max(claim_gaps, default=None),
        tuple(dict.fromkeys(cone for match in matches for cone in match.lacks)),
    )


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _versions(names: Sequence[str]) -> dict[str, str]:
    """The versions of Python, fairopt, CVXPY and the solvers."""
    found = {"python": platform.python_version()}
    packages = {name: PACKAGE.get(name, name.lower()) for name in names if name not in table.names()}
    for name, package in {"fairopt": "fairopt", "cvxpy": "cvxpy", **packages}.items():
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = "unknown"
    return found
