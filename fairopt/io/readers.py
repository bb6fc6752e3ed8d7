"""What a reader says of itself: what it is called, how its inputs are recognised, what reads them, and its options.

The readers of this package are in `OWN`. Other distributions bring theirs by entry points of the group
``fairopt.readers``, each a `Reader` or a tuple of them, which name functions as ``"module:function"``: so the table is
imported without what reads, pydantic say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from fairopt.errors import FairoptError, InvalidBlock
from fairopt.io.assemble import TITLES
from fairopt.runtime.extensions import JOBS, READERS, leave_out, loaded, warn, warn_once
from fairopt.runtime.lazy import later

Function = str | Callable[..., Any]
Document = tuple[Any, str]
Files = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Option:
    """An option of a reader, given to `fairopt.read` by keyword and to commands as ``--name``.

    Parameters
    ----------
    name : str
        The keyword, such as ``capacity_scale``; commands write ``--capacity-scale``.
    type : {str, int, float, bool, list, dict}, default str
        On the command line a list is names joined by commas, and a dict ``NAME=AMOUNT``, repeated; amounts are text.
    metavar : str, optional
        What the help of commands shows for a value.
    help : str, default ""
        A sentence for the help of commands; without it commands do not have the option.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.io.Option("at", int, "TIME", "Time of the snapshot, in microseconds.").name
    'at'
    """

    name: str
    type: type = str
    metavar: str | None = None
    help: str = ""

    def __post_init__(self) -> None:
        if self.type not in (str, int, float, bool, list, dict) or not self.name.isidentifier():
            raise InvalidBlock(f"{self!r} is no option; give a name, and str, int, float, bool, list or dict")


@dataclass(frozen=True)
class Reader:
    """A kind of input of `fairopt.read`: how it is recognised, and what reads it.

    It is recognised by the files of a folder, by a function of the ``path``, or by one of the ``documents`` in a file
    of JSON or YAML or on standard input. A function may be given as ``"module:function"``, imported when needed.

    Parameters
    ----------
    name : str
        In messages; readers of one kind may share it.
    read : callable or str
        ``read(*files, **options)`` returns `Arguments`, with the path of each file of ``files`` and ``further``, None
        for further ones that are missing; ``read(path, **options)`` if ``whole`` or if recognised by its ``path``; and
        ``read(documents, name, **options)`` of documents.
    options : tuple of Option, default ()
        What else ``read`` takes. All inputs allow ``full_demand`` and ``scale_quotas``; it gets them if named here.
    files, further : tuple of tuple of str, default ()
        The files that a folder needs and may have, each under one of several names, with ``whole`` also patterns.
    instead : tuple of str, default ()
        Names of files and options that stand in for the first needed file.
    whole : bool, default False
        ``read`` takes the folder, not its files.
    path : callable or str, optional
        ``path(place, kinds)`` tells whether a file or folder is one of these; ``kinds`` are the names of the readers
        whose files a folder has. Files of JSON and YAML are not asked about.
    documents : callable or str, optional
        ``documents(documents, options)`` tells whether pairs of data and place in the file are one of these.
    shown : str, default ""
        How help and messages call the input, such as ``"a .zip file"``. Default: its files.
    examples : str, default ""
        Lines for the help of ``fairopt convert``: how to get such an input, and to read it.
    rules : callable or str, optional
        ``rules(*files, servers, users)``, with the files of ``read``, returns `fairopt.online.SlurmRules` for replays
        on the servers, None if the files say nothing of accounts.

    Examples
    --------
    >>> import fairopt as fo
    >>> lists = fo.io.Reader("lists", "my_package.lists:read", files=(("names.txt",), ("amounts.txt",)))
    >>> lists.missing({"names.txt"})
    ['amounts.txt']
    """

    name: str
    read: Function
    options: tuple[Option, ...] = ()
    files: Files = ()
    further: Files = ()
    instead: tuple[str, ...] = ()
    whole: bool = False
    path: Function | None = None
    documents: Function | None = None
    shown: str = ""
    examples: str = ""
    rules: Function | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.options, tuple) or not all(isinstance(one, Option) for one in self.options):
            raise InvalidBlock(f"{self.name!r}: options is {self.options!r}; give a tuple of Option, such as (ONLY,)")
        for title, files in {"files": self.files, "further": self.further}.items():
            if not isinstance(files, tuple) or not all(isinstance(names, tuple) for names in files):
                raise InvalidBlock(f"{self.name!r}: {title} is {files!r}; give the names of each file: (('a.txt',),)")

    @property
    def takes(self) -> set[str]:
        """The names of its options."""
        return {option.name for option in self.options}

    def known(self, entries: set[str]) -> set[str]:
        """The entries of a folder that are its files."""
        names = {name for names in self.files + self.further for name in names}
        patterns = [name for name in names if "*" in name]
        return (entries & names) | {one for one in entries if any(fnmatchcase(one, name) for name in patterns)}

    def missing(self, entries: set[str], options: Sequence[str] | Mapping[str, Any] = ()) -> list[str]:
        """The needed files that are missing; the first is not needed where something stands in for it."""
        without = not (entries | {*options}).isdisjoint(self.instead)
        return [names[0] for names in self.files[without:] if entries.isdisjoint(names)]

    def parts(self, folder: Path, entries: set[str]) -> list[list[Path]]:
        """The paths of each of its files, of which there should be one; a name of two files is that of the second."""
        all_of = self.files + self.further
        several = {one for k, names in enumerate(all_of) for one in names for more in all_of[k + 1 :] if one in more}
        return [
            [folder / one for one in names if one in here and not (len(here) > 1 and one in several)]
            for names in all_of
            for here in [entries & {*names}]
        ]

    def title(self, joined: str) -> str:
        """What the input looks like, for help and messages."""
        return self.shown or joined.join(map(usual_name, self.files))

    def asked(self, function: Function | None, *arguments: Any) -> bool:
        """What one of its functions answers; False if it breaks, so that it stops no other reader."""
        if function is None:
            return False
        try:
            return bool(function_of(function)(*arguments))
        except FairoptError:
            raise
        except Exception as error:  # of somebody else's code
            warn_once(self.name, f"the reader {self.name!r} breaks: {error!r}")
            return False


def usual_name(names: tuple[str, ...]) -> str:
    """Of the names of a file the one without an ending, else the first."""
    return names[0] if "." in names[-1] else names[-1]


def function_of(function: Function) -> Callable[..., Any]:
    """A function that may be given as ``"module:function"``."""
    return later(function) if isinstance(function, str) else function


def _of_tables(name: str, read: str, ending: str) -> Reader:
    users, servers, *further = ((f"{title}.{ending}",) for title in TITLES)
    labels = Option("labels", list)  # --teams of commands
    return Reader(name, read, (labels,), files=(users, servers), further=tuple(further))


OWN = (
    _of_tables("CSV tables", "fairopt.io.csv_folder:read_csv_tables", "csv"),
    _of_tables("Parquet tables", "fairopt.io.parquet:read_tables", "parquet"),
)

OWN_OF_JOBS = (
    Reader(
        "requests",
        "fairopt.io.request_traces:read_requests",
        (
            Option(
                "tenants", dict, "NAME=PART", "Of a trace of requests: tenants and their parts of them; repeatable."
            ),
            Option("tenant_column", str, "NAME", "Of a trace of requests: the column with the tenant."),
            Option("prefill_rate", float, "TOKENS", "Of a trace of requests: input tokens a second of one slot."),
            Option("decode_rate", float, "TOKENS", "Of a trace of requests: output tokens a second of one slot."),
        ),
        path="fairopt.io.request_traces:is_requests",
        shown="a trace of requests to language models",
        examples="""\
  azure.csv  a trace of requests: TIMESTAMP, ContextTokens, GeneratedTokens (Azure);
             also of BurstGPT (.csv) and Mooncake (.jsonl); with --tenants or
             --tenant-column, and --capacity slot=8""",
    ),
)


@cache
def readers() -> tuple[Reader, ...]:
    """The readers of instances: our own, and those of other distributions."""
    return *OWN, *_of(READERS)


@cache
def readers_of_jobs() -> tuple[Reader, ...]:
    """The readers of jobs; ``read(path, servers, notes, **options)`` returns `JobArguments`."""
    return (*OWN_OF_JOBS, *_of(JOBS))


def readers_to_ask(jobs: bool = False) -> tuple[Reader, ...]:
    """The readers, for an input that one of them may know; the log says which break."""
    found = readers_of_jobs() if jobs else readers()
    warn(JOBS if jobs else READERS)
    return found


def _of(group: str) -> Iterator[Reader]:
    for name, found in loaded(group):
        for one in found if isinstance(found, tuple) else (found,):
            if isinstance(one, Reader):
                yield one
            else:
                leave_out(group, name, f"has {one!r}, which is no Reader")
