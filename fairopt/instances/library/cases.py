"""One instance of the library: where it is from, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fairopt.errors import UnknownName, nearest
from fairopt.instance import Instance
from fairopt.instances.library.answers import Agreement, Answer, answer_of, compared
from fairopt.instances.library.families import made
from fairopt.runtime.lazy import later


@dataclass(frozen=True)
class Source:
    """Where an instance is from: a paper, a file of a deployed scheduler, or a script.

    Attributes
    ----------
    where : str
        The place in the paper, the test in the file, or what the script does.
    authors, year : str and int or None
        Of a paper.
    repository, commit, path : str or None
        Of a file in public code, as ``apache/hadoop``.

    Examples
    --------
    >>> import fairopt as fo
    >>> str(fo.datasets.library()["ghodsi-2011-example"].source)
    'Ghodsi et al. 2011, the example of DRF'
    """

    where: str
    authors: str | None = None
    year: int | None = None
    repository: str | None = None
    commit: str | None = None
    path: str | None = None

    @property
    def kind(self) -> str:
        """``paper``, ``code`` or ``script``.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library()["ghodsi-2011-example"].source.kind
        'paper'
        """
        return "paper" if self.authors else "code" if self.repository else "script"

    def __str__(self) -> str:
        if self.authors:
            return f"{self.authors} {self.year}, {self.where}"
        if self.repository:
            return f"{self.repository}@{(self.commit or '')[:12]}, {self.path}, {self.where}"
        return self.where

    def to_dict(self) -> dict[str, Any]:
        """The source as plain data, without what is unknown.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library()["ghodsi-2011-example"].source.to_dict()
        {'where': 'the example of DRF', 'authors': 'Ghodsi et al.', 'year': 2011}
        """
        return {name: value for name, value in vars(self).items() if value is not None}


class Answers(Mapping[str, Answer]):
    """The answers of a case by notion."""

    def __init__(self, answers: Mapping[str, Answer], case: str) -> None:
        self._answers, self._case = dict(answers), case

    def __getitem__(self, notion: str) -> Answer:
        if notion not in self._answers:
            known = nearest(notion, self._answers) if self._answers else "generated instances have none"
            raise UnknownName(f"{self._case!r} has no answer of {notion!r}; {known}")
        return self._answers[notion]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    def __repr__(self) -> str:
        return f"Answers({', '.join(self)})"


class Case:
    """A named instance with its source, and certified answers of the main notions.

    Cases come from `fairopt.datasets.library`. The instance and the answers are read on first use.

    Parameters
    ----------
    entry : dict
        Name, title, source, tags, command and size, as `to_entry` gives them.
    data : function
        Reads the case, as `to_dict` gives it.
    instance : Instance, optional
        The instance, if it is made already.

    Attributes
    ----------
    name, title : str
        Its key in the library, and what it is.
    source : Source
        Where it is from.
    tags : tuple of str
        Such as ``paper``, ``pool``, ``ties``.
    size : tuple of int
        Numbers of users, resources and servers.
    command : str
        What makes it, and its answers, again.

    Examples
    --------
    >>> import fairopt as fo
    >>> case = fo.datasets.library()["ghodsi-2011-example"]
    >>> case.instance, case.answers["drf"].tasks
    (Instance(2 users x 2 resources on 1 server), (Fraction(3, 1), Fraction(2, 1)))
    """

    def __init__(self, entry: Mapping[str, Any], data: Callable[[], Any], instance: Instance | None = None) -> None:
        self.name: str = entry["name"]
        self.title: str = entry["title"]
        self.source = Source(**entry["source"])
        self.tags: tuple[str, ...] = tuple(entry["tags"])
        self.command: str = entry["command"]
        self.size: tuple[int, int, int] = tuple(entry["size"])
        self._entry, self._read, self._made = entry, data, instance

    @cached_property
    def _data(self) -> Mapping[str, Any]:
        return self._read()

    @cached_property
    def instance(self) -> Instance:
        """The instance."""
        if self._made is not None:
            return self._made
        if "family" in self._data:
            return made(**self._data["family"])
        return Instance.from_dict(self._data["instance"])

    @cached_property
    def answers(self) -> Answers:
        """What is known of each notion."""
        entries = self._data.get("answers", {})
        return Answers({name: answer_of(name, entry) for name, entry in entries.items()}, self.name)

    def check(self, found: Any, name: str | None = None) -> Agreement:
        """Whether an answer agrees with the library's.

        Parameters
        ----------
        found : Allocation, exception, array-like or dict by user
            An allocation, of which only the tasks count if it is by another policy or on another instance; the error
            that was raised instead, as `Infeasible`; or tasks, of shape (n_users, n_servers), or on one server
            (n_users,) or a dict by user.
        name : str, optional
            Which answer to compare with, as ``drf``. Default: the one whose policy the allocation has.

        Returns
        -------
        Agreement
            True where they agree. The gap in an allocation's certificate is not used.

        Raises
        ------
        UnknownName
            If there is no answer of the notion or policy.

        Examples
        --------
        >>> import fairopt as fo
        >>> case = fo.datasets.library()["ghodsi-2011-example"]
        >>> case.check([3, 2], "drf").ok
        True
        >>> case.check([1, 2], "drf").reason
        'it is 6.7e-01 below the optimum 2/3'
        """
        if name is None:
            policy = getattr(found, "policy", None)
            fitting = [key for key, answer in self.answers.items() if policy is not None and answer.make() == policy]
            if not fitting:
                raise UnknownName(
                    f"{self.name!r} has no answer of {policy!r}; give name=, one of {', '.join(self.answers)}"
                )
            name = fitting[0]
        return compared(self.answers[name], self.instance, found)

    def to_entry(self) -> dict[str, Any]:
        """What is known of the case without reading it, as plain data.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library()["ghodsi-2011-example"].to_entry()["size"]
        [2, 2, 1]
        """
        return dict(deepcopy(self._entry))

    def to_dict(self) -> dict[str, Any]:
        """The case as plain data, in the format of its file (``fo.report.schema("fairopt.case/1")``).

        Examples
        --------
        >>> import fairopt as fo
        >>> sorted(fo.datasets.library()["ghodsi-2011-example"].to_dict())
        ['answers', 'command', 'instance', 'name', 'size', 'source', 'tags', 'title']
        """
        question = {name: dict(self._data[name]) for name in ("family", "instance") if name in self._data}
        answers = {name: answer.to_dict() for name, answer in self.answers.items()}
        return {**self.to_entry(), **question, "answers": answers}

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from later("fairopt.report.library:case_parts")(self)

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.library:case_page")(self)

    def __repr__(self) -> str:
        return f"Case({self.name!r}: {self.title})"
