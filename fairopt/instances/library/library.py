"""The collection of named instances."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib import resources as package_files
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, UnknownName, nearest
from fairopt.instance import Instance
from fairopt.instances.library.answers import Answer
from fairopt.instances.library.cases import Case
from fairopt.instances.library.families import FAMILIES, made, parameters_of, summary_of
from fairopt.runtime.lazy import later, pandas

_OF_OPENB = ("cpu_milli", "memory_mib", "gpu_milli")  # resources of the trace

if TYPE_CHECKING:
    import pandas as pd


def library() -> Library:
    """Named instances with their sources and certified answers.

    Returns
    -------
    Library
        A mapping from names to cases. Each is read on first use.

    Examples
    --------
    >>> import fairopt as fo
    >>> library = fo.datasets.library()
    >>> case = library["ghodsi-2011-example"]
    >>> case.answers["drf"].tasks
    (Fraction(3, 1), Fraction(2, 1))
    >>> fo.DRF().allocate(case.instance).tasks
    array([3., 2.])
    """
    return Library({entry["name"]: Case(entry, partial(_read, entry)) for entry in read_data("index")["cases"]})


class Library(Mapping[str, Case]):
    """Named instances: a mapping from names to cases.

    Parameters
    ----------
    cases : mapping of str to Case
        The cases by name.

    Examples
    --------
    >>> import fairopt as fo
    >>> library = fo.datasets.library()
    >>> len(library) >= 100, "ghodsi-2011-example" in library
    (True, True)
    """

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self._cases = dict(cases)

    def __getitem__(self, name: str) -> Case:
        if name not in self._cases:
            raise UnknownName(f"the library has no {name!r}; {nearest(name, self._cases)}")
        return self._cases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def tags(self) -> dict[str, int]:
        """The tags, and how many cases have each.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library().tags["paper"] > 20
        True
        """
        return dict(sorted(Counter(tag for case in self.values() for tag in case.tags).items()))

    def tagged(self, *tags: str) -> Library:
        """The cases that have all of some tags.

        Parameters
        ----------
        *tags : str
            Such as ``paper``, ``servers``, ``ties``; `tags` has all.

        Returns
        -------
        Library

        Raises
        ------
        UnknownName
            If no case has one of the tags.

        Examples
        --------
        >>> import fairopt as fo
        >>> "ghodsi-2011-example" in fo.datasets.library().tagged("paper", "pool")
        True
        """
        known = self.tags
        for tag in tags:
            if tag not in known:
                raise UnknownName(f"no case has the tag {tag!r}; {nearest(tag, known)}")
        return Library({name: case for name, case in self.items() if set(tags) <= set(case.tags)})

    def answers(self, name: str | None = None, status: str | None = None) -> Iterator[tuple[Case, Answer]]:
        """All answers with their cases.

        Parameters
        ----------
        name : str, optional
            Only answers of this notion, as ``drf``.
        status : str, optional
            Only ``optimal``, ``infeasible``, ``unbounded`` or ``out of domain`` ones.

        Yields
        ------
        tuple of Case and Answer

        Examples
        --------
        >>> import fairopt as fo
        >>> [case.name for case, _ in fo.datasets.library().answers("minima-total", "infeasible")]
        ['hard-minima-conflict']
        """
        for case in self.values():
            for notion, answer in case.answers.items():
                if name in (None, notion) and status in (None, answer.status):
                    yield case, answer

    def family(self, name: str, **parameters: Any) -> Case:
        """An instance of any size, generated from a seed; it has no answers.

        Parameters
        ----------
        name : str
            One of ``families()``.
        **parameters
            ``n_users``, ``seed``, and what else the family takes.

        Returns
        -------
        Case

        Raises
        ------
        UnknownName
            If there is no such family.
        InvalidInstance
            If a parameter is unknown or out of its range.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library().family("shared-pool", n_users=1000, seed=0).instance
        Instance(1000 users x 4 resources on 1 server)
        """
        instance, data = made(name, **parameters), {"family": {"name": name, **parameters}}
        return _unanswered(name, "family", name, parameters, summary_of(name).rstrip("."), instance, data)

    def openb(self, folder: str | os.PathLike[str], **options: Any) -> Case:
        """The openb trace of a production cluster from a folder of yours; it has no answers.

        Parameters
        ----------
        folder : path-like
            The folder of the trace, which is not part of fairopt.
        **options
            Of its reader in fairopt-clusters: ``pods``, ``capacity_scale``, ``backlog``.

        Returns
        -------
        Case

        Raises
        ------
        InvalidInstance
            If the folder has no such files.
        MissingExtra
            If fairopt-clusters is not installed.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library().openb("no/such/folder")
        Traceback (most recent call last):
        ...
        fairopt.errors.InvalidInstance: ...
        """
        instance = later("fairopt.datasets:read")(folder, **options)
        if instance.resources != _OF_OPENB:
            raise InvalidInstance(f"{os.fspath(folder)} is not a folder of the openb trace; give such a folder")
        title = "Requests of the openb trace of a cluster of GPUs"
        data = {"instance": instance.to_dict()}
        return _unanswered("openb", "openb", os.fspath(folder), options, title, instance, data)

    def families(self) -> dict[str, str]:
        """The families of generated instances, and what each is.

        Examples
        --------
        >>> import fairopt as fo
        >>> list(fo.datasets.library().families())[:2]
        ['shared-pool', 'servers']
        """
        return {name: f"{summary_of(name)} ({parameters_of(name)})" for name in FAMILIES}

    def to_frame(self) -> pd.DataFrame:
        """A row per case.

        Returns
        -------
        pandas.DataFrame
            With index ``name`` and the columns ``title``, ``source``, ``tags``, ``users``, ``resources`` and
            ``servers``.

        Examples
        --------
        >>> import fairopt as fo
        >>> fo.datasets.library().to_frame().loc["ghodsi-2011-example", "source"]
        'Ghodsi et al. 2011, the example of DRF'
        """
        rows = [(case.name, case.title, str(case.source), " ".join(case.tags), *case.size) for case in self.values()]
        columns = ["name", "title", "source", "tags", "users", "resources", "servers"]
        return pandas().DataFrame(rows, columns=columns).set_index("name")

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        yield from later("fairopt.report.library:library_parts")(self)

    def _repr_html_(self) -> str | None:
        return later("fairopt.report.library:library_page")(self)

    def __repr__(self) -> str:
        kinds = Counter(case.tags[0] for case in self.values())
        words = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
        return f"Library({len(self)} case{'s' * (len(self) != 1)}{': ' * bool(kinds)}{words})"


def kind_of(entry: Mapping[str, Any]) -> str:
    """The name of the file in ``data`` that contains a case, which is the first tag of the case."""
    return entry["tags"][0]


@cache
def read_data(kind: str) -> dict[str, Any]:
    """A file of the folder ``data``: cases of one kind by name, or the index of all."""
    file = package_files.files("fairopt.instances.library") / "data" / f"{kind}.json"
    return json.loads(file.read_text(encoding="utf-8"))


def _read(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A case, from the file of its kind."""
    return read_data(kind_of(entry))[entry["name"]]


def _unanswered(
    name: str, method: str, first: str, options: Mapping[str, Any], title: str, instance: Instance, data: dict[str, Any]
) -> Case:
    """A case without answers, which a method of `Library` makes from its first argument and options."""
    words = [f"{key}={value!r}" for key, value in options.items()]
    command = f"fo.datasets.library().{method}({', '.join([repr(first), *words])})"
    entry = {
        "name": f"{name}({', '.join(words)})",
        "title": title,
        "source": {"where": command},
        "tags": ["generated" if method == "family" else "trace"],
        "command": command,
        "size": [instance.n_users, instance.n_resources, int(instance.counts.sum())],
    }
    return Case(entry, lambda: data, instance)
