"""An instance from and to files and folders, by their content."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.arguments import Arguments
from fairopt.io.clusterdata import read_clusterdata
from fairopt.io.csv_folder import read_tables, write_tables
from fairopt.io.openb import PODS, SERVERS_FILE, read_openb
from fairopt.io.parquet import pyarrow_for, read_parquet, write_parquet
from fairopt.io.text_files import about, is_path

if TYPE_CHECKING:
    from fairopt.instance import Instance

__all__ = ["KINDS_TO_WRITE", "files_to_write", "is_read_as", "place_of", "read_path", "write"]


# -- readers and writers, imported for inputs of their kind: pydantic takes longer than a small answer -----------


def _read_kubernetes(nodes: Path, pods: Path, **options: Any) -> Arguments:
    from fairopt.io.kubernetes import read_kubernetes

    return read_kubernetes(nodes, pods, **options)


def _read_slurm(nodes: Path, jobs: Path, **options: Any) -> Arguments:
    from fairopt.io.slurm import read_slurm

    return read_slurm(nodes, jobs, **options)


def _read_json(path: Path) -> Arguments:
    from fairopt.io.json_file import read_json

    return read_json(path)


def _read_yaml(path: Path) -> Arguments:
    from fairopt.io.yaml_file import read_yaml

    return read_yaml(path)


def _write_json(instance: Instance, path: Path) -> None:
    from fairopt.io.json_file import write_json

    write_json(instance, path)


def _write_yaml(instance: Instance, path: Path) -> None:
    from fairopt.io.yaml_file import write_yaml

    write_yaml(instance, path)


# -- kinds ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Folder:
    """A kind of folder: its files, each under one of several names, and its reader with its options."""

    name: str
    needed: tuple[tuple[str, ...], ...]
    read: Callable[..., Arguments]
    further: tuple[tuple[str, ...], ...] = ()
    options: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        return {name for names in self.needed + self.further for name in names}

    def missing(self, there: set[str]) -> list[str]:
        """The needed files that are not there, by the first of their names."""
        return [names[0] for names in self.needed if not there.intersection(names)]


def _events(name: str) -> tuple[str, ...]:
    return (f"{name}.parquet", f"{name}.csv", f"{name}.csv.gz", name)  # the last is a folder of parts


_FOLDERS = (
    _Folder("CSV tables", (("users.csv",), ("servers.csv",)), read_tables, (("demands.csv",),)),
    _Folder("Parquet tables", (("users.parquet",), ("servers.parquet",)), read_parquet, (("demands.parquet",),)),
    _Folder("Kubernetes", (("nodes.json",), ("pods.json",)), _read_kubernetes, options=("users", "tasks")),
    _Folder("Slurm", (("nodes.json",), ("jobs.json",)), _read_slurm, options=("users", "tasks")),
    _Folder(
        "ClusterData 2019",
        (_events("instance_events"), _events("machine_events")),
        read_clusterdata,
        (_events("collection_events"),),
        ("users", "tasks", "at"),
    ),
    _Folder(
        "the openb trace",
        ((SERVERS_FILE,),),
        lambda servers, **options: read_openb(servers.parent, **options),
        options=("pods", "capacity_scale", "backlog"),
    ),
)
_FILES: dict[str, Callable[[Path], Arguments]] = {".json": _read_json, ".yaml": _read_yaml, ".yml": _read_yaml}
_EXPECTED = (
    "give a folder with users.csv and servers.csv (or .parquet), a .json file or a .yaml file, a folder with "
    "nodes.json and pods.json (Kubernetes) or jobs.json (Slurm), with instance_events and machine_events "
    f"(ClusterData 2019), or a folder of the openb trace (with {SERVERS_FILE})"
)
KINDS_TO_WRITE: dict[str, Callable[..., None]] = {
    "csv": write_tables,
    "parquet": write_parquet,
    "json": _write_json,
    "yaml": _write_yaml,
}
_ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_OF_ONE_TABLE = (".csv", ".parquet", ".pq", ".gz")


# -- read -----------------------------------------------------------------------------------------------------


def read_path(
    path: str | os.PathLike[str],
    *,
    users: str | None = None,
    tasks: str | None = None,
    at: int | None = None,
    pods: str | None = None,
    capacity_scale: float | None = None,
    backlog: bool | None = None,
) -> Arguments:
    """Read an instance from a file or a folder of any supported kind; see `fairopt.datasets.read`."""
    options = {
        "users": users,
        "tasks": tasks,
        "at": at,
        "pods": pods,
        "capacity_scale": capacity_scale,
        "backlog": backlog,
    }
    given = {key: value for key, value in options.items() if value is not None}
    place = place_of(path)
    if place.is_dir():
        kind, parts = _kind_of(place)
        _check_options(given, kind.options, f"{place} is one of {kind.name}")
        return kind.read(*parts, **given)
    reader = _FILES.get(place.suffix.lower())
    _check_options(given, (), f"{place} is not such a folder")
    part = any(place.name in kind.names for kind in _FOLDERS)
    if reader is None:
        if not place.exists():
            raise InvalidInstance(f"{place} does not exist; {_EXPECTED}")
        fix = "give the folder that it is in" if part else _EXPECTED
        raise InvalidInstance(f"{place} is not a kind of file that can be read; {fix}")
    hint = ". If it is one of several files, give the folder that it is in" if part and place.is_file() else ""
    with about(os.fspath(place), hint=hint):
        return replace(reader(place), hint=hint)


def place_of(path: object) -> Path:
    """A path, as long as the system can look it up."""
    if not is_path(path):
        shown = repr(path) if isinstance(path, (str, bytes)) else f"of type {type(path).__name__}"
        raise InvalidInstance(f"the path is {shown[:100]}; give the name of a file or a folder, '.' for this folder")
    place = Path(path)
    try:
        place.exists()
    except (OSError, ValueError) as error:  # too long a name, a folder that may not be entered, a lone surrogate
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInstance(f"{str(place)[:200]!r} cannot be looked up ({reason}); give another name") from error
    return place


def _kind_of(folder: Path) -> tuple[_Folder, list[Path]]:
    """The kind of a folder, and the paths of its parts."""
    there = _listed(folder)
    touched = [kind for kind in _FOLDERS if kind.names & there]
    complete = [kind for kind in touched if not kind.missing(there)]
    if not complete:
        found = sorted({name for kind in touched for name in kind.names & there})
        lacking = [f"{_and(kind.missing(there))} (for {kind.name})" for kind in touched]
        what = f"has {_and(found)}, but no " + " and no ".join(lacking) if touched else "has no file users.csv"
        raise InvalidInstance(f"{folder} {what}; {_EXPECTED}")
    kind = complete[0]
    for other in touched:
        strange = sorted((other.names - kind.names) & there)
        if strange:
            raise InvalidInstance(
                f"{folder} has {_and(sorted(kind.names & there))} (of {kind.name}) and {_and(strange)} (of "
                f"{other.name}), so it could be either; give each kind a folder of its own"
            )
    parts = []
    for names in kind.needed + kind.further:
        found = [name for name in names if name in there]
        if len(found) > 1:
            raise InvalidInstance(f"{folder} has both {_and(found)}; keep one")
        parts += [folder / name for name in found]
    return kind, parts


def _listed(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InvalidInstance(f"{folder} cannot be read ({error.strerror}); {_EXPECTED}") from error


def _and(names: list[str]) -> str:
    return " and ".join(names)


def _check_options(given: dict[str, Any], known: tuple[str, ...], what: str) -> None:
    for option in given:
        if option not in known:
            takers = " and ".join(kind.name for kind in _FOLDERS if option in kind.options)
            raise InvalidInstance(
                f"{option!r} is an option for folders of {takers}, and {what}; leave it out, or give such a folder"
            )


# -- write ----------------------------------------------------------------------------------------------------


def write(instance: Instance, path: str | os.PathLike[str], kind: str | None = None) -> None:
    """Write an instance so that `read` gives an equal one, exact to the last bit.

    Parameters
    ----------
    instance : Instance
        The instance to write, without its notes.
    path : path-like
        A file if it ends in ``.json``, ``.yaml`` or ``.yml``, else a folder for two tables, or three where demands
        differ by server, made if it is not there. Files of these names are replaced, once the new files are complete.
    kind : {"csv", "parquet", "json", "yaml"}, optional
        Default by the ending of the path; of folders ``"csv"``.

    Raises
    ------
    InvalidInstance
        If such a file could not hold it, as CSV the name ``" a"``, or `read` would not find it there.
    OSError
        If it cannot be written there.
    MissingExtra
        If the library that writes Parquet or YAML is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import fairopt as fo
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> fo.datasets.write(fo.datasets.demo(), folder / "demo.json")
    >>> fo.read(folder / "demo.json") == fo.datasets.demo()
    True
    """
    chosen, files = files_to_write(path, kind)
    if len(files) > 1 and instance.demands.ndim == 2:  # no third table, nor one of an instance written before
        KINDS_TO_WRITE[chosen](instance, Path(path), removing=files[2:])
    else:
        KINDS_TO_WRITE[chosen](instance, Path(path))


def is_read_as(file: Path, source: str) -> bool:
    """Whether a file is, or would be, read as a part of the input ``source``."""
    target, place = (Path(os.path.realpath(one)) for one in (file, source))
    if not place.is_dir():
        return target == place or (target.exists() and place.exists() and target.samefile(place))
    known = any(target.name in kind.names for kind in _FOLDERS) or target.name.startswith(PODS)
    return known and target.parent == place


def files_to_write(path: str | os.PathLike[str], kind: str | None = None) -> tuple[str, list[Path]]:
    """The kind that `write` would choose, and the files (of tables: users, servers, demands) that it would replace.

    Raises `MissingExtra` without the package that writes them.
    """
    place = place_of(path)
    ending = place.suffix.lower()
    if kind is not None and kind not in KINDS_TO_WRITE:
        raise InvalidInstance(f"kind is {kind!r}; {nearest(kind, KINDS_TO_WRITE)}")
    of_file = None if place.is_dir() else _ENDINGS.get(ending)
    chosen = kind or of_file or "csv"
    if chosen in ("json", "yaml"):
        if of_file != chosen:
            raise InvalidInstance(f"{place} is not a name for a {chosen} file; give one that ends in .{chosen}")
        if chosen == "yaml":
            from fairopt.io.yaml_file import pyyaml_for

            pyyaml_for("writing YAML files")
        return chosen, [place]
    if not place.is_dir() and (of_file or ending in _OF_ONE_TABLE):
        raise InvalidInstance(f"{place} would be one file and tables are two or three; give a folder, as {place.stem}")
    files = [place / f"{title}.{chosen}" for title in ("users", "servers", "demands")]
    if place.exists() and not place.is_dir():
        raise InvalidInstance(f"{place} is not a folder, and tables are two or three files; give another name")
    if place.is_dir():
        ours = {file.name for file in files}
        strange = sorted({name for other in _FOLDERS for name in other.names} & (_listed(place) - ours))
        if strange:
            raise InvalidInstance(f"{place} has {_and(strange)}, so it could be read as either; give another folder")
    if chosen == "parquet":
        pyarrow_for("writing Parquet files")
    return chosen, files
