"""What an operator wants to know of a cluster under some policies: answers, reasons, verdicts, prices and proofs."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import fairopt
from fairopt import Allocation, Instance, check
from fairopt.errors import FairoptError, InvalidBlock
from fairopt.instance import whole_name
from fairopt.io import replacing
from fairopt.policies import accepted, label
from fairopt.properties import when_late
from fairopt.questions import (
    TASKS,
    Explainer,
    Explanation,
    Purchases,
    described_held,
    leading,
    purchases,
    team_sums,
    too_large,
)
from fairopt.report import Comparison, Outcome, mechanisms, outcome
from fairopt.runtime import Clock, Listener, begin, by_itself, later, tell, within
from fairopt_clusters.report import words
from fairopt_clusters.report.words import Entitled, Findings

FORMAT = "fairopt.report/1"
EXPLAINED = 20  # users without teams of whom it is said what stops them; teams always
RANGES = 5.0  # seconds for the ranges of prices, without a time limit
CHECKED = 10.0  # seconds in which a saved answer is proved again, without a time limit
ENDINGS = (".html", ".htm")

Result = TypeVar("Result")


@dataclass(frozen=True)
class Origin:
    """How the report was made, as words of the command line: the input with its options, and each policy."""

    input: tuple[str, ...] = ()
    policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Saved:
    """A saved answer, and what `verify` proves of it."""

    path: Path
    verification: fairopt.checker.Verification


@dataclass(frozen=True, eq=False, repr=False)
class ClusterReport:
    """A report on a cluster for those who run it; made by ``fairopt_clusters.report``.

    Attributes
    ----------
    comparison : Comparison
        The answers of the policies, or their errors.
    findings : dict of Findings
        What follows from each answer, by policy name: reasons, verdicts and prices.
    title : str
        The heading of the page.
    made : datetime
        When the report was made.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance([[4, 1], [1, 0]], [32, 4], users=["train", "web"], resources=["cpu", "gpu"])
    >>> for line in fc.report("drf", cluster).sentences:
    ...     print(line)
    DRF divides 1 server among 2 users and runs 24 tasks.
    67% of gpu is in use; cpu is used up (all 32).
    Every user asks for more than it gets: train and web.
    """

    comparison: Comparison
    findings: Mapping[str, Findings]
    title: str
    made: datetime

    @property
    def instance(self) -> Instance:
        """Users and servers."""
        return self.comparison.instance

    @property
    def sentences(self) -> tuple[str, ...]:
        """The summary of the first policy that was solved."""
        return words.summary(self.main)

    @property
    def main(self) -> Allocation:
        """The first answer, which the summary describes."""
        return next(iter(self.comparison.allocations.values()))

    def to_html(self, *, saved: Mapping[str, Saved] | None = None, origin: Origin | None = None) -> str:
        """The page: one HTML document that requests nothing else.

        Parameters
        ----------
        saved : dict of Saved, optional
            Files of the answers by policy name, as `write` saves them.
        origin : Origin, optional
            How the report was made, for the commands that it names.

        Returns
        -------
        str
        """
        page: str = later("fairopt_clusters.report.page:rendered")(self, saved or {}, origin or Origin())
        return page

    def write(
        self,
        path: str | Path,
        *,
        answers: str | Path | None = None,
        origin: Origin | None = None,
        time_limit: float | None = None,
    ) -> dict[str, Saved]:
        """Write the page and, into the folder ``answers``, the answers; all files or, if one fails, none.

        Parameters
        ----------
        path : str or Path
            The page, a name that ends in ``.html``.
        answers : str or Path, optional
            A folder, made if it is missing, for a JSON file of each answer, which `fairopt.verify` proves again.
            Default: answers are not saved.
        origin : Origin, optional
            How the report was made, for the commands that it names.
        time_limit : float, optional
            Seconds for proving each saved answer again. Default: 10.

        Returns
        -------
        dict of Saved
            The saved answers, by policy name.

        Raises
        ------
        InvalidBlock
            If the name has another ending.
        OSError
            If a file cannot be written.

        Examples
        --------
        >>> import pathlib, tempfile, fairopt as fo, fairopt_clusters as fc
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> found = fc.report(["drf", "nash"], fo.Instance([[2, 3], [2, 1]], [6, 4]))
        >>> saved = found.write(folder / "report.html", answers=folder / "answers")
        >>> [(one.path.name, one.verification.ok) for one in saved.values()]
        [('drf.json', True), ('nash-welfare.json', True)]
        """
        page = Path(path)
        if page.suffix.lower() not in ENDINGS:
            raise InvalidBlock(f"cannot write {page}; give a name that ends in {' or '.join(ENDINGS)}")
        if answers is None:
            with replacing([page]) as (file,):
                file.write(self.to_html(origin=origin).encode(errors="backslashreplace"))
            return {}
        folder, names = Path(answers), words.file_names(list(self.findings))
        with tempfile.TemporaryDirectory() as scratch:
            saved = {}
            for k, (name, found) in enumerate(self.findings.items()):
                tell(f"saving {names[name]}", k, len(names))
                part = Path(scratch) / names[name]
                with warnings.catch_warnings():  # the page says what a file does not prove
                    warnings.simplefilter("ignore", UserWarning)
                    found.allocation.save(part)
                tell(f"proving {names[name]}", k, len(names))
                saved[name] = Saved(folder / names[name], fairopt.verify(part, time_limit=time_limit or CHECKED))
            text = self.to_html(saved=saved, origin=origin)
            with replacing([page, *(one.path for one in saved.values())], folder) as (first, *others):
                first.write(text.encode(errors="backslashreplace"))
                for file, name in zip(others, names.values(), strict=True):
                    file.write((Path(scratch) / name).read_bytes())
        return saved

    def to_dict(self) -> dict[str, Any]:
        """The summary, and for each policy its answer, reasons, verdicts and prices, as plain data for ``json.dumps``.

        Returns
        -------
        dict
            Valid under ``fairopt.report.schema("fairopt.report/1")``.
        """
        return {
            "format": FORMAT,
            "title": self.title,
            "made": self.made.isoformat(timespec="seconds"),
            "summary": list(self.sentences),
            "to_do": [one.text for one in words.to_do(self.findings)],
            "waiting": [asdict(one) for one in words.waiting(self.main)],
            "comparison": self.comparison.to_dict(),
            "findings": {name: _described(found) for name, found in self.findings.items()},
        }

    def __repr__(self) -> str:
        return f"<ClusterReport of {self.comparison!r}>"


def _described(found: Findings) -> dict[str, Any]:
    """What follows from an answer, as plain data."""
    return {
        "held": described_held(found.allocation),
        "why": [{"name": e.name, "sentences": list(e.sentences)} for e in found.explanations],
        "unexplained": found.unexplained,
        "verdicts": [
            {"property": v.name, "holds": v.holds, "margin": v.margin, "sentence": v.sentence} for v in found.verdicts
        ],
        "entitled": found.entitled,
        "worth": [worth.text for worth in words.worths(found.purchases)],
        "missing": list(found.missing),
    }


def report(
    policies: Any,
    instance: Instance | None = None,
    *,
    title: str = "Fair shares of the cluster",
    lead: str | None = None,
    full_demand: Instance | None = None,
    method: str = "auto",
    solver: str | None = None,
    time_limit: float | None = None,
    verbose: bool = False,
) -> ClusterReport:
    """Find everything that a report on a cluster says: of one answer, or of several policies side by side.

    Parameters
    ----------
    policies : Allocation, or iterable of Policy, mechanism or str, or dict of these by name
        An answer is not computed again. Of several policies the summary is of the first. Strings are read by
        `fairopt.policies.named_policy`.
    instance : Instance, optional
        For policies: users and servers. With `Instance.held` the report compares what runs now with what is fair.
    title : str
        The heading of the page.
    lead : str, optional
        What is worth most is what brings most units in use of this resource, such as ``"gpu"``, or most ``"tasks"``.
        Default: GPUs if users wait for some, else tasks.
    full_demand : Instance, optional
        The same cluster at full demand, for what each team is entitled to, as ``fo.read(path, full_demand=True)``
        reads it with idle queues. Default: the instance without task limits.
    method, solver, verbose
        Passed to each ``allocate``, see `Policy.allocate`.
    time_limit : float, optional
        Seconds for each policy: its answer first, then reasons, verdicts and prices. What is not found in time is
        said to be missing.

    Returns
    -------
    ClusterReport
        Ctrl-C returns what is found so far; ``comparison.unanswered`` names the policies that are left.

    Raises
    ------
    InvalidBlock
        If policies come without an instance, or an answer with one.
    FairoptError
        The first policy's error, if none has an answer.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance([[2, 3], [2, 1]], [6, 4])
    >>> list(fc.report(fo.DRF().allocate(cluster)).findings)
    ['DRF']
    >>> found = fc.report(["drf", "most-tasks"], cluster)
    >>> list(found.findings), found.to_html().count("<h1")
    (['DRF', 'most tasks'], 1)
    """
    if isinstance(policies, Allocation):
        if instance is not None:
            raise InvalidBlock("report(answer, instance): an answer knows its instance; leave it out")
        policies, instance = {label(policies.policy): _Answered(policies)}, policies.instance
    if not isinstance(instance, Instance):
        given = f"{type(policies).__name__}, {type(instance).__name__}"
        raise InvalidBlock(f"report({given}): give an Allocation, or policies and an Instance")
    chosen, outcomes, findings = mechanisms(policies), list[Outcome](), dict[str, Findings]()
    if not chosen:
        raise InvalidBlock("no policy is given; give one, such as 'drf'")
    if lead not in (None, TASKS):
        instance.resource_index(whole_name(lead, instance.resources))
    options = {"method": method, "solver": solver, "verbose": verbose}
    full = _at_full_demand(instance) if full_demand is None else full_demand
    try:
        for k, (name, mechanism) in enumerate(chosen.items()):
            tell(name, k, len(chosen))
            clock = begin(time_limit)
            with within(name), by_itself() as say:
                say("the answer", None, None)
                one = outcome(name, mechanism, instance, **options, time_limit=time_limit)
                if one.allocation is not None:
                    findings[name] = _findings(one.allocation, clock, say, lead, full, **options)
            outcomes.append(one)
    except KeyboardInterrupt:
        if not findings:
            raise
    if not findings:
        raise next(one.error for one in outcomes if one.error is not None)
    kept = {one.policy: findings[one.policy] for one in outcomes if one.policy in findings}
    comparison = Comparison(instance, tuple(outcomes), tuple(chosen)[len(outcomes) :])
    return ClusterReport(comparison, kept, title, datetime.now(UTC).astimezone())


@dataclass(frozen=True, eq=False)
class _Answered:
    """A mechanism whose answer is known."""

    answer: Allocation

    def allocate(self, instance: Instance) -> Allocation:
        """The answer."""
        return self.answer


def _findings(
    allocation: Allocation,
    clock: Clock,
    say: Listener,
    lead: str | None = None,
    full: Instance | None = None,
    **options: Any,
) -> Findings:
    """Reasons, verdicts and prices of an answer."""
    missing: list[str] = []

    def part(what: str, find: Callable[[], Result]) -> Result | None:
        """What ``find`` finds; if it cannot, the page says why."""
        say(what, None, None)
        if clock.late:
            missing.append(f"{what}: not begun {when_late(clock)}")
            return None
        try:
            return find()
        except FairoptError as error:
            missing.append(f"{what}: {error}")
            return None

    explained, left = part("reasons", lambda: _explained(allocation, clock, say)) or ((), 0)
    verdicts = list(part("properties", lambda: check(allocation, time_limit=clock.left).verdicts) or ())
    if allocation.instance.teams.mixed:
        verdicts += part("properties of teams", lambda: check(allocation, "team-si").verdicts) or ()
    bought = part("prices", lambda: _purchases(allocation, clock, lead, **options))
    of_full = None if full is None else part("entitlements", lambda: _entitled(allocation, full, clock, **options))
    return Findings(allocation, explained, left, tuple(verdicts), bought, tuple(missing), of_full)


def _explained(allocation: Allocation, clock: Clock, say: Callable[..., object]) -> tuple[tuple[Explanation, ...], int]:
    """What stops each team or, without teams, the users who are worst off; and how many users are left out."""
    about = Explainer(allocation, clock.left)
    names: Sequence[str] = about.worst_first()
    shown = names if allocation.instance.teams.mixed else names[:EXPLAINED]
    out = []
    for k, name in enumerate(shown):
        say("reasons", k, len(shown))
        out.append(about.explain(name, False))
    return tuple(out), len(names) - len(shown)


def _at_full_demand(instance: Instance) -> Instance | None:
    """The instance at full demand, where users whose tasks fit nowhere get nothing; None if nobody has a limit."""
    if np.isinf(instance.task_limits).all():
        return None
    full = instance.full_demand()
    limits = np.array(full.task_limits)
    limits[too_large(full)] = 0
    return full.replace(task_limits=limits)


def _entitled(allocation: Allocation, full: Instance, clock: Clock, **options: Any) -> Entitled:
    """The units that each team and user gets of the same policy at full demand."""
    policy = allocation.policy
    answer = policy.allocate(full, **accepted(policy, **options, time_limit=clock.left))
    out = dict[str, dict[str, dict[str, float]]]()
    for by in (*full.teams, None):
        sums = team_sums(answer, by, alone=True)
        rows = zip(sums.names, sums.units.tolist(), strict=True)
        out[by or "user"] = {name: dict(zip(full.resources, row, strict=True)) for name, row in rows}
    return out


def _purchases(allocation: Allocation, clock: Clock, lead: str | None, **options: Any) -> Purchases:
    """What one more of each resource brings, by class of identical servers."""
    instance = allocation.instance.merged()
    if instance.n_servers < allocation.instance.n_servers:
        mechanism = allocation.policy
        allocation = mechanism.allocate(instance, **accepted(mechanism, **options, time_limit=clock.left))
    return purchases(allocation, None, clock, search=RANGES, lead=leading(allocation, lead), **options)
