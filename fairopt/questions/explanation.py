"""What stops a user or team, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from fairopt.runtime.display import tasks_in_words, visible
from fairopt.runtime.lazy import later

KINDS = {  # in tables
    "limit": "task limit",
    "resource": "full",
    "together": "together",
    "weight": "weight",
    "block": "constraint",
    "guarantee": "guarantee",
    "objective": "others first",
    "undecided": "not decided",
    "unknown": "not known",
    "total": "total only",
    "fact": "full",
}
FORMAT = "fairopt.explanation/1"
LOSERS = 3  # named in a sentence


@dataclass(frozen=True)
class Binding:
    """One thing that stops a user or team, or moves it otherwise.

    Attributes
    ----------
    kind : str
        ``limit`` (its own task limit), ``resource`` (full), ``together`` (those of this kind bind together: only all of
        them help), ``weight``, ``block`` (a constraint), ``guarantee`` (its own, or those of others), ``objective``
        (which prefers others), ``undecided`` (other answers are optimal too), ``unknown`` (answers to changes could
        not be certified), ``total`` (moves it only because shares are fractions of a total that grows), ``fact`` (full
        or reached, where changes are not known).
    name : str
        The resource, user, team or constraint.
    servers : tuple of str
        The servers where the resource is full; empty on one pool.
    amount : float or None
        How much there is: capacity in units, the limit or guarantee in tasks, the weight.
    gain : float or None
        Tasks that it gains for one more unit, on average over 1% more; for ``together`` with 1% more of all; for
        ``block`` when it is relaxed by 1%, or left out if it has no number. Negative if it loses.
    units : float or None
        The same in units of the resource that it holds.
    others : dict of float
        The tasks that other users gain with it, where they change.
    percent : float or None
        By how many percent its level rises with 1% more (or without the constraint).
    lost : float
        The shares that others lose together, as a part of what it gains.
    steady : bool
        Whether the first 0.1% moves it in the same direction as the whole 1%.
    relaxed : bool
        Of a ``block``: whether it was relaxed by 1%, and not left out.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["bandwidth", "memory"])
    >>> found = fo.DRF().allocate(pool).explain("web").binding[0]
    >>> found.kind, found.name, round(found.gain, 4)
    ('resource', 'bandwidth', 0.0625)
    """

    kind: str
    name: str
    servers: tuple[str, ...] = ()
    amount: float | None = None
    gain: float | None = None
    units: float | None = None
    others: Mapping[str, float] = field(default_factory=dict)
    percent: float | None = None
    lost: float = 0.0
    steady: bool = True
    relaxed: bool = False


@dataclass(frozen=True, repr=False)
class Explanation:
    """What stops a user or team, beside whom, and what would give it more: `str` of it is one or two sentences.

    Attributes
    ----------
    name : str
        The user or team.
    policy : str
        The policy.
    members : tuple of Explanation
        Of a team of several users, one for each; otherwise empty.
    tasks : float
        Its tasks.
    units : dict of float
        Units of each resource that it holds.
    level : float or None
        What the policy compares: the share per weight; None if it compares nothing of it.
    binding : tuple of Binding
        What stops it: raise one of these by 1%, and it gains.
    also : tuple of Binding
        What else moves it. Whatever is named in neither leaves its level as it is.
    beside : tuple of str
        Who stops at the same resources, at the same level.
    sharing : tuple of str
        Who else uses these resources, the largest use first.
    sentences : tuple of str
        The same in words.

    Examples
    --------
    >>> import fairopt as fo
    >>> pool = fo.Instance([[40, 8], [8, 5]], [200, 200], users=["batch", "web"], resources=["bandwidth", "memory"])
    >>> for line in fo.DRF().allocate(pool).explain("web").sentences:
    ...     print(line)
    web stops at 12.5 tasks because bandwidth is full; batch stops there too, at the same level (0.5).
    One more bandwidth would give it 0.0625 tasks, and cost nobody anything.
    A weight 1% larger would give it 0.06219 tasks, and take 0.01244 tasks from batch.
    """

    name: str
    policy: str
    tasks: float
    units: Mapping[str, float]
    level: float | None
    binding: tuple[Binding, ...]
    also: tuple[Binding, ...]
    beside: tuple[str, ...]
    sharing: tuple[str, ...]
    sentences: tuple[str, ...]
    members: tuple[Explanation, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(visible, self.sentences))

    __repr__ = __str__

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.why:explanation_page")(self)

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.DRF().allocate(fo.Instance([[1]], [4])).explain("user1").to_dict()["binding"][0]["kind"]
        'resource'
        """
        data = asdict(self)
        members = data.pop("members")
        return {"format": FORMAT, **data, "members": members}


def number(value: float) -> str:
    """A number in a sentence, with four digits.

    Examples
    --------
    >>> from fairopt.questions import number
    >>> number(1 / 3), number(123456.7)
    ('0.3333', '123,457')
    """
    if abs(value) >= 10_000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def figure(value: float) -> str:
    """A number in four digits, with commas.

    Examples
    --------
    >>> from fairopt.questions import figure
    >>> figure(1234.5), figure(0.25)
    ('1,234', '0.25')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else number(value)


def plural(count: int, thing: str) -> str:
    """A number of things.

    Examples
    --------
    >>> from fairopt.questions import plural
    >>> plural(1, "server"), plural(2000, "server")
    ('1 server', '2,000 servers')
    """
    return f"{count:,} {thing}{'s' * (count != 1)}"


def listed(names: Iterable[str], most: int = LOSERS, last: str = "and") -> str:
    """Names in a sentence.

    Examples
    --------
    >>> from fairopt.questions import listed
    >>> listed(["a", "b", "c"]), listed("abcde")
    ('a, b and c', 'a, b, c and 2 more')
    """
    every = list(names)
    shown = every if len(every) <= most + 1 else [*every[:most], f"{len(every) - most} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}" if shown else ""


def tasks_of(value: float) -> str:
    """A number of tasks in words.

    Examples
    --------
    >>> from fairopt.questions import tasks_of
    >>> tasks_of(1), tasks_of(2.5)
    ('1 task', '2.5 tasks')
    """
    return tasks_in_words(number(value))


def percent(value: float) -> str:
    """A change in percent."""
    return f"{value:+.0f}%" if abs(value) >= 10 else f"{value:+.2g}%"


def losses(others: Mapping[str, float], least: float) -> Sequence[str]:
    """Who loses how many tasks, the largest loss first."""
    lost = sorted((change, name) for name, change in others.items() if change < -least)
    return [f"{tasks_of(-change)} from {name}" for change, name in lost]
