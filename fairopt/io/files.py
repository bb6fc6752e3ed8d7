"""Finds the reader or writer of instances for a path."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt_clusters.read.openb import PODS, SERVERS_FILE

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.assemble import TITLES
from fairopt.io.notes import Arguments
from fairopt.io.parquet import pyarrow_for
from fairopt.io.text_files import DASH, about, is_path

if TYPE_CHECKING:
    from fairopt.instance import Instance


@dataclass(frozen=True)
class _Folder:
    """A kind of folder: its reader, its files (each under one of several names), and the options of the reader."""

    name: str
    reader: str
    needed: tuple[tuple[str, ...], ...]
    further: tuple[tuple[str, ...], ...] = ()
    options: tuple[str, ...] = ()
    whole: bool = False  # the reader takes the folder, not its files
    instead: tuple[str, ...] = ()  # files that may say what there is where the first needed file, of servers, is not

    @property
    def names(self) -> set[str]:
        return {name for names in self.needed + self.further for name in names}

    def missing(self, entries: set[str], capacity: bool = False) -> list[str]:
        """The needed files that are missing; those of servers are not needed if a capacity is given."""
        without = (capacity and _CAPACITY in self.options) or bool(entries.intersection(self.instead))
        return [names[0] for names in self.needed[without:] if not entries.intersection(names)]

    def shown(self, joined: str) -> str:
        """The needed files, of several names the one without an ending, else the first."""
        return joined.join(map(_usual, self.needed))


def _usual(names: tuple[str, ...]) -> str:
    return names[0] if "." in names[-1] else names[-1]


_OF_QUEUES = ("fair-scheduler.xml", "capacity-scheduler.xml", "queues.yaml", "queues.yml")


def _tables(ending: str, *more: tuple[str, ...]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    users, servers, *further = ((f"{title}.{ending}",) for title in TITLES)
    return (users, servers), (*further, *more)


def _events(name: str) -> tuple[str, ...]:
    return (f"{name}.parquet", f"{name}.csv", f"{name}.csv.gz", name)  # the last is a folder of parts


def _document(name: str) -> tuple[str, ...]:
    return tuple(f"{name}{ending}" for ending in (".json", ".yaml", ".yml"))


_OF_WORK = ("users", "tasks")
_FULL = "full_demand"  # where readers do not know of idle teams, task limits are left out afterwards
_CAPACITY = "capacity"  # instead of servers
_OF_JOBS = (*_OF_WORK, _FULL, _CAPACITY)
_OF_PODS = (*_OF_JOBS, "resources", "scale_quotas")
_OF_QUOTAS = ("scale_quotas",)  # which means nothing where there are none
_QUEUES = ("clusterqueues.json", "queues.json")
_BESIDE_PODS = tuple(
    (f"{kind}.json",)
    for kind in (
        *("workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors", "resourcequotas"),
        *("queues", "podgroups", "configmaps", "namespaces"),
    )
)
_SLURM_NODES = (*_document("nodes"), "nodes.txt", "slurm.conf")
_ACCOUNTS = (
    *_document("associations"),
    *("associations.txt", "associations.cfg", "accounts.cfg", "cluster.cfg", "sacctmgr.txt"),
    *("sshare.txt", "sshare.json"),
)
_FOLDERS = (
    _Folder("CSV tables", "csv_folder:read_tables", *_tables("csv", _OF_QUEUES), ("labels",)),
    _Folder("Parquet tables", "parquet:read_tables", *_tables("parquet"), ("labels",)),
    _Folder(
        "Kubernetes",
        "kubernetes.reader:read_kubernetes",
        (("nodes.json",), ("pods.json",)),
        _BESIDE_PODS,
        _OF_PODS,
        instead=_QUEUES,
    ),
    _Folder("Slurm", "slurm.reader:read_slurm", (_SLURM_NODES, _document("jobs")), (_ACCOUNTS,), _OF_JOBS),
    _Folder(
        "ClusterData 2019",
        "clusterdata:read_clusterdata",
        (_events("instance_events"), _events("machine_events")),
        (_events("collection_events"),),
        (*_OF_WORK, "at"),
    ),
    _Folder(
        "the openb trace",
        "openb:read_openb",
        ((SERVERS_FILE,),),
        options=("pods", "capacity_scale", "backlog"),
        whole=True,
    ),
)
_MANIFESTS = _Folder("Kubernetes", "kubernetes.reader:read_folder", (), options=_OF_PODS, whole=True)
SNAPSHOT = ".zip"  # the ending of snapshots of KAI
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_OF_KUBERNETES = re.compile(rb"""["']?(apiVersion|kind)["']?\s*:""")
_START = 1 << 16  # bytes of a file in which a first object has its kind
_WRITERS = {
    "csv": "csv_folder:write_tables",
    "parquet": "parquet:write_tables",
    "json": "json_file:write_json",
    "yaml": "yaml_file:write_yaml",
}
FOLDERS = ", ".join(kind.name for kind in _FOLDERS)
FILES = "\n".join(
    [
        *(
            f"{kind.shown(' + '):<40}{kind.name}"
            + f"\n  (+ {', '.join(map(_usual, kind.further))})" * bool(kind.further)
            for kind in _FOLDERS
        ),
        f"{'.yaml, .yml, .json of any names':<40}Kubernetes, as kubectl apply -f takes them",
        f"{'a .zip file':<40}a snapshot of the KAI scheduler",
    ]
)
_SHOWN = ", ".join(f"{kind.shown(' and ')} ({kind.name})" for kind in _FOLDERS)
_EXPECTED = (
    f"give a folder with {_SHOWN}, files of YAML or JSON of Kubernetes, a .json file or a .yaml file, a .zip file "
    "of KAI's snapshot, or - for standard input"
)
_IN_DOCUMENT = {
    "json": "expected one JSON object: an instance with the keys demands and capacities, a list of kubectl get "
    "nodes,pods, or nodes and jobs of Slurm",
    "yaml": "expected the keys demands and capacities, as in a .json file, or objects of Kubernetes",
}
_OF_INSTANCE = {"demands", "capacities", "users", "servers"}  # keys of which it has some
_OF_ONE_TABLE = (".csv", ".parquet", ".pq", ".gz")


def _function(place: str) -> Any:
    """Import a reader or writer when needed: importing pydantic takes longer than solving a small instance."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"fairopt.io.{module}"), name)


# -- read -----------------------------------------------------------------------------------------------------


def read_path(path: str | os.PathLike[str], **options: Any) -> Arguments:
    """Read an instance from a file or a folder of any kind, as `fairopt.datasets.read` does; options may be None."""
    given = {name: value for name, value in options.items() if value is not None}
    if path == DASH:
        return _of_standard_input(given)
    place = place_of(path)
    if place.is_dir():
        kind, parts = _kind_of(place, _CAPACITY in given)
        _check_options(given, kind.options, f"{place} is one of {kind.name}")
        given = {name: value for name, value in given.items() if name in kind.options}
        found: Arguments = _function(kind.reader)(*([place] if kind.whole else parts), **given)
        return found
    part = any(place.name in kind.names for kind in _FOLDERS)
    ending = place.suffix.lower()
    of_file = "json" if ending == SNAPSHOT else _ENDINGS.get(ending)
    if of_file is None:
        if place.is_file():
            _function("queues.reader:refuse_text")(place)
        _check_options(given, (), f"{place} is not such a folder")
        if not place.exists():
            raise InvalidInstance(f"{place} does not exist; {_EXPECTED}")
        fix = "give the folder that it is in" if part else _EXPECTED
        raise InvalidInstance(f"{place} is not a kind of file that can be read; {fix}")
    hint = ". If it is one of several files, give the folder that it is in" if part and place.is_file() else ""
    with about(os.fspath(place), hint=hint):
        data = _function("documents:data_of_file")(place, _IN_DOCUMENT[of_file])
        return replace(_of_document(data, os.fspath(place), given), hint=hint)


def _of_standard_input(given: dict[str, Any]) -> Arguments:
    with about("standard input"):
        data, name = _function("documents:data_of_standard_input")(_IN_DOCUMENT["json"])
        return _of_document(data, name, given)


def _of_document(data: dict[str, Any], name: str, given: dict[str, Any]) -> Arguments:
    """The arguments in a document: an instance, objects of Kubernetes, or nodes and jobs of Slurm."""
    options: tuple[str, ...]
    _function("queues.reader:refuse_document")(data, name)
    if "kind" in data and "demands" not in data:
        what, reader, options = "one of Kubernetes", "kubernetes.reader:read_list", _OF_PODS
    elif {"nodes", "jobs"} <= data.keys() or ("jobs" in data and _CAPACITY in given):
        what, reader, options = "one of Slurm", "slurm.reader:read_together", _OF_JOBS
    elif data.keys() & _OF_INSTANCE or not data:
        what, reader, options = "not such a folder", "json_file:arguments_of_data", ()
    else:
        keys = ", ".join([repr(str(key)[:40]) for key in data][:5])
        raise InvalidInstance(f"{name} is none of the kinds that are read: its keys are {keys}; {_IN_DOCUMENT['json']}")
    _check_options(given, options, f"{name} is {what}")
    given = {option: value for option, value in given.items() if option in options}
    found: Arguments = _function(reader)(data, name, **given)
    return found


def place_of(path: object) -> Path:
    """A path that the system can look up."""
    if not is_path(path):
        shown = repr(path) if isinstance(path, (str, bytes)) else f"of type {type(path).__name__}"
        raise InvalidInstance(f"the path is {shown[:100]}; give the name of a file or a folder, '.' for this folder")
    place = Path(path)
    try:
        place.exists()
    except (OSError, ValueError) as error:  # a name too long, no permission, half a surrogate pair
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInstance(f"{str(place)[:200]!r} cannot be looked up ({reason}); give another name") from error
    return place


def _kind_of(folder: Path, capacity: bool = False) -> tuple[_Folder, list[Path | None]]:
    """The kind of a folder, and the paths of its parts, None for missing ones that it may have."""
    entries = _listed(folder)
    if is_of_manifests(folder):
        return _MANIFESTS, []
    matching, complete = _matching(entries, capacity)
    if not complete:
        found = sorted({name for kind in matching for name in kind.names & entries})
        missing = [f"{_and(kind.missing(entries))} (for {kind.name})" for kind in matching]
        what = f"has {_and(found)}, but no " + " and no ".join(missing) if matching else "has no file users.csv"
        raise InvalidInstance(f"{folder} {what}; {_EXPECTED}")
    kind = complete[0]
    for other in matching:
        others = sorted((other.names - kind.names) & entries)
        if others:
            raise InvalidInstance(
                f"{folder} has {_and(sorted(kind.names & entries))} (of {kind.name}) and {_and(others)} (of "
                f"{other.name}), so it could be either; give each kind its own folder"
            )
    parts: list[Path | None] = []
    for names in kind.needed + kind.further:
        found = [name for name in names if name in entries]
        if len(found) > 1:
            raise InvalidInstance(f"{folder} has both {_and(found)}; keep one")
        parts.append(folder / found[0] if found else None)
    return kind, parts


def _matching(entries: set[str], capacity: bool = False) -> tuple[list[_Folder], list[_Folder]]:
    """The kinds of folders that have some of these entries, and those that have all that they need."""
    matching = [kind for kind in _FOLDERS if kind.names & entries]
    return matching, [kind for kind in matching if not kind.missing(entries, capacity)]


def is_of_manifests(folder: Path) -> bool:
    """Whether a folder is read as the objects of Kubernetes in its files, whatever their names.

    Not if it has tables or a trace, nor with ``nodes.json`` and ``pods.json`` or ``jobs.json``, unless there are files
    of YAML with such objects beside them.
    """
    entries = _listed(folder)
    complete = _matching(entries)[1]
    if any(kind.name not in ("Kubernetes", "Slurm") for kind in complete):
        return False
    ends = {name: _ENDINGS[ending] for name in entries if (ending := Path(name).suffix.lower()) in _ENDINGS}
    known = {name for kind in _FOLDERS for name in kind.names if kind.name == "Kubernetes"}
    if complete:  # only jobs.json is of Slurm for certain
        others = {name for name, end in ends.items() if end == "yaml" or name == "jobs.json"}
    else:
        others = ends.keys() - known
    found = any(_starts_as_kubernetes(folder / name) for name in others)
    return found or (not complete and "yaml" in ends.values())


def _starts_as_kubernetes(file: Path) -> bool:
    """Whether a file seems to hold objects of Kubernetes."""
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        return _OF_KUBERNETES.search(opened.read(_START)) is not None


def _listed(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InvalidInstance(f"{folder} cannot be read ({error.strerror}); {_EXPECTED}") from error


def _and(names: list[str]) -> str:
    return " and ".join(names)


def _check_options(given: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    """Refuse options that a reader does not know, but for `_FULL`, which is taken out."""
    if _FULL not in known:
        given.pop(_FULL, None)
    for option in given:
        if option not in (*known, *_OF_QUOTAS):
            takers = " and ".join(kind.name for kind in _FOLDERS if option in kind.options)
            raise InvalidInstance(
                f"{option!r} is an option for folders of {takers}, and {what}; leave it out, or give such a folder"
            )


def written_at(source: str, capacity: bool = False) -> float | None:
    """When the oldest file that is read as ``source`` was written, in seconds since 1970; None if it is no file."""
    if source == DASH or not (place := place_of(source)).exists():
        return None
    files: list[Path | None] = [place]
    if place.is_dir():
        _, parts = _kind_of(place, capacity)
        files = parts or [file for file in place.iterdir() if file.suffix.lower() in _ENDINGS]
    return min(file.stat().st_mtime for file in files if file is not None)


# -- write ----------------------------------------------------------------------------------------------------


def write(instance: Instance, path: str | os.PathLike[str], kind: str | None = None) -> None:
    """Write an instance so that `read` gives an equal one, exact to the last bit.

    Parameters
    ----------
    instance : Instance
        The instance to write, without its notes.
    path : path-like
        A file if it ends in ``.json``, ``.yaml`` or ``.yml``, else a folder for tables of users and servers, of demands
        or rates by server, and of teams with weights or guarantees, created if missing. Files of these names are
        replaced, once the new files are complete.
    kind : {"csv", "parquet", "json", "yaml"}, optional
        Default by the ending of the path; of folders ``"csv"``.

    Raises
    ------
    InvalidInstance
        If such a file could not hold it, as CSV the name ``" a"``, or `read` would not find it there.
    OSError
        If it cannot be written there.
    MissingExtra
        If the library that writes Parquet is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> fo.datasets.write(fo.datasets.demo(), folder / "demo.json")
    >>> fo.read(folder / "demo.json") == fo.datasets.demo()
    True
    """
    chosen, _ = files_to_write(path, kind)
    _function(_WRITERS[chosen])(instance, Path(path))


def is_read_as(file: Path, source: str) -> bool:
    """Whether a file is, or would be, read as a part of the input ``source``."""
    target, place = (Path(os.path.realpath(one)) for one in (file, source))
    if not place.is_dir():
        return target == place or (target.exists() and place.exists() and target.samefile(place))
    known = any(target.name in kind.names for kind in _FOLDERS) or target.name.startswith(PODS)
    known = known or (target.suffix.lower() in _ENDINGS and is_of_manifests(place))
    return known and target.parent == place


def files_to_write(path: str | os.PathLike[str], kind: str | None = None) -> tuple[str, list[Path]]:
    """The kind that `write` would choose, and the files that it would replace or remove.

    Raises `MissingExtra` without the package that writes them.
    """
    place = place_of(path)
    ending = place.suffix.lower()
    if kind is not None and kind not in _WRITERS:
        raise InvalidInstance(f"kind is {kind!r}; {nearest(kind, _WRITERS)}")
    of_file = None if place.is_dir() else _ENDINGS.get(ending)
    chosen = kind or of_file or "csv"
    if chosen in ("json", "yaml"):
        if of_file != chosen:
            raise InvalidInstance(f"{place} is not a name for a {chosen} file; give one that ends in .{chosen}")
        return chosen, [place]
    if not place.is_dir() and (of_file or ending in _OF_ONE_TABLE):
        raise InvalidInstance(f"{place} would be one file, but tables are several; give a folder, as {place.stem}")
    files = [place / f"{title}.{chosen}" for title in TITLES]
    if place.exists() and not place.is_dir():
        raise InvalidInstance(f"{place} is not a folder, but tables are several files; give another name")
    if place.is_dir():
        own = {file.name for file in files}
        others = sorted({name for other in _FOLDERS for name in other.names} & (_listed(place) - own))
        if others:
            raise InvalidInstance(f"{place} has {_and(others)}, so it could be read as either; give another folder")
    if chosen == "parquet":
        pyarrow_for("writing Parquet files")
    return chosen, files
