"""Finds the reader or writer of instances for a path."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairopt.errors import InvalidInstance, nearest
from fairopt.io.assemble import TITLES
from fairopt.io.notes import Arguments
from fairopt.io.parquet import pyarrow_for
from fairopt.io.readers import OWN, Document, Reader, function_of, readers, readers_to_ask, usual_name
from fairopt.io.text_files import DASH, about, is_path
from fairopt.runtime.extensions import OF_ITS_OPTIONS, READERS, broken, installed, looks_like, missing
from fairopt.runtime.lazy import later

if TYPE_CHECKING:
    from fairopt.instance import Instance

ENDINGS = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}
_FULL = "full_demand"
_GENERAL = (_FULL, "scale_quotas")  # options of all inputs, which readers take that know more than tables
_WRITERS = {
    "csv": "fairopt.io.csv_folder:write_tables",
    "parquet": "fairopt.io.parquet:write_tables",
    "json": "fairopt.io.json_file:write_json",
    "yaml": "fairopt.io.yaml_file:write_yaml",
}
_INSTANCE = "an instance with the keys demands and capacities"
_OF_INSTANCE = {"demands", "capacities", "users", "servers"}  # keys of which it has some
_OF_ONE_TABLE = (".csv", ".parquet", ".pq", ".gz")


def folders_shown() -> str:
    """The kinds of folders."""
    return ", ".join(dict.fromkeys(kind.name for kind in readers() if kind.files))


def inputs_shown() -> list[tuple[str, str]]:
    """For the help of commands what each input but files of JSON and YAML looks like, and its kind."""
    shown = []
    for kind in readers():
        further = [name for name in map(usual_name, kind.further) if "*" not in name]
        if kind.files or (kind.path and kind.shown):
            shown.append((kind.title(" + "), kind.name + f"\n  (+ {', '.join(further)})" * bool(further)))
    return shown


def _expected() -> str:
    known = readers()
    folders = ", ".join(f"{kind.title(' and ')} ({kind.name})" for kind in known if kind.files)
    others = [kind.shown for kind in known if kind.path and kind.shown]
    listed = ", ".join([f"a folder with {folders}", *others])
    return f"give {listed}, a .json file or a .yaml file, or - for standard input"


# -- read -----------------------------------------------------------------------------------------------------


def read_path(path: str | os.PathLike[str], **options: Any) -> Arguments:
    """Read an instance from a file or a folder of any kind, as `fairopt.datasets.read` does; options may be None."""
    given = {name: value for name, value in options.items() if value is not None}
    if path == DASH:
        with about("standard input"):
            documents, name = later("fairopt.io.documents:documents_of_standard_input")(f"expected {_INSTANCE}")
            return _of_documents(documents, name, given)
    place = place_of(path)
    if place.is_dir():
        kind, parts = reader_of_folder(place, given)
        what = parts if kind.files and not kind.whole else [place]
        return _read_as(kind, what, given, f"{place} is one of {kind.name}")
    if place.suffix.lower() not in ENDINGS:
        return _of_file(place, given)
    with _with_hint(place), about(os.fspath(place)):
        read = later("fairopt.io.documents:documents_of_file")(place, f"expected {_INSTANCE}")
        return _of_documents(read, os.fspath(place), given)


def _read_as(kind: Reader, what: Sequence[Any], given: Mapping[str, Any], is_one: str) -> Arguments:
    """What a reader makes of its input, with the options that it takes."""
    _refuse_others(kind.takes, given, is_one)
    arguments: Arguments = function_of(kind.read)(*what, **{name: given[name] for name in given if name in kind.takes})
    return arguments if _FULL in kind.takes else replace(arguments, same_at_full_demand=True)


def _refuse_others(taken: set[str], given: Mapping[str, Any], is_one: str) -> None:
    """Raise an error about an option that an input does not take."""
    for name in given:
        if name not in (*taken, *_GENERAL):
            known = readers()
            takers = " and ".join(dict.fromkeys(one.name for one in known if name in one.takes))
            if not takers:
                if name in OF_ITS_OPTIONS and not installed():
                    raise missing(f"the option {name!r}")
                every = dict.fromkeys([*_GENERAL, *(of.name for one in known for of in one.options)])
                raise InvalidInstance(f"{name!r} is no option of a reader; {nearest(name, every)}")
            shown = f"{name!r}{' (--teams)' * (name == 'labels')}"
            raise InvalidInstance(
                f"{shown} is an option for folders of {takers}, and {is_one}; leave it out, or give such a folder"
            )


def _of_file(place: Path, given: Mapping[str, Any]) -> Arguments:
    """The arguments in a file whose name does not say that it is JSON or YAML."""
    if not place.exists():
        fix = f"--capacity {place} says what there is of a resource" if "=" in place.name else _expected()
        raise InvalidInstance(f"{place} does not exist; {fix}")
    for kind in readers_to_ask():
        if kind.asked(kind.path, place, ()):
            return _read_as(kind, [place], given, f"{place} is one of {kind.name}")
    _refuse_if_missing([place.name], str(place), also_by_ending=True)
    _refuse_others(set(), given, f"{place} is not such a folder")
    fix = "give the folder that it is in" if _is_part(place) else _expected()
    raise InvalidInstance(f"{place} is not a kind of file that can be read; {fix}{broken(READERS)}")


def _of_documents(found: list[Document], name: str, given: Mapping[str, Any]) -> Arguments:
    """The arguments in documents: an instance, or what another reader knows."""
    data = found[0][0] if len(found) == 1 else None
    if not (isinstance(data, dict) and "demands" in data):
        for kind in readers_to_ask():
            if kind.asked(kind.documents, found, given):
                made = _read_as(kind, [found, name], given, f"{name} is one of {kind.name}")
                return replace(made, hint=_hint(Path(name)))
        keys = [str(key)[:40] for one, _ in found if isinstance(one, dict) for key in one]
        if not _OF_INSTANCE.intersection(keys):
            _refuse_if_missing(keys, name)
        if len(found) > 1:
            raise InvalidInstance(f"{name} holds {len(found):,} documents, which no reader takes; give one document")
        others = [kind.shown for kind in readers() if kind.documents and kind.shown]
        expected = f"expected {', or '.join([_INSTANCE, *others])}{broken(READERS)}"
        if not isinstance(data, dict):
            raise InvalidInstance(f"{name} holds {'a list' if isinstance(data, list) else 'one value'}; {expected}")
        if keys and not _OF_INSTANCE.intersection(keys):
            shown = ", ".join(map(repr, keys[:5]))
            raise InvalidInstance(f"{name} is none of the kinds that are read: its keys are {shown}; {expected}")
    _refuse_others(set(), given, f"{name} is not such a folder")
    own: Arguments = later("fairopt.io.json_file:arguments_of_data")(data, name)
    return replace(own, same_at_full_demand=True)


def _is_part(place: Path) -> bool:
    """Whether a file has the name of one of several in a folder."""
    return any(kind.known({place.name}) for kind in readers() if kind.files)


def _hint(place: Path) -> str:
    one_of = place.is_file() and _is_part(place)
    return ". If it is one of several files, give the folder that it is in" if one_of else ""


@contextmanager
def _with_hint(place: Path) -> Iterator[None]:
    """Say after errors about a file that has the name of one of several that they belong in a folder."""
    try:
        yield
    except InvalidInstance as error:
        if hint := _hint(place):
            raise InvalidInstance(f"{error}{hint}") from error
        raise


def _refuse_if_missing(names: Sequence[str], what: str, also_by_ending: bool = False) -> None:
    """Raise the error about the distribution which reads such files or documents, if it is missing or broken."""
    if kind := looks_like(names) or (also_by_ending and looks_like(names, by_ending=True)):
        raise missing(f"{what} looks like one of {kind}, which")


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


def reader_of_folder(folder: Path, options: Mapping[str, Any]) -> tuple[Reader, list[Path | None]]:
    """The reader of a folder, and the paths of its parts, None for missing ones that it may have."""
    entries = _listed(folder)
    own = next((kind for kind in OWN if not kind.missing(entries) and entries == kind.known(entries)), None)
    known = readers_to_ask() if own is None else (own,)  # tables alone are read without a look at what is installed
    matching = [kind for kind in known if kind.files and kind.known(entries)]
    complete = [kind for kind in matching if not kind.missing(entries, options)]
    for kind in known:
        if kind.asked(kind.path, folder, tuple(kind.name for kind in matching if not kind.missing(entries))):
            return kind, []
    others = entries.difference(*(kind.known(entries) for kind in complete))
    _refuse_if_missing(sorted(others), str(folder), also_by_ending=not matching)
    if not complete:
        raise InvalidInstance(f"{folder} {_incomplete(entries, matching)}{broken(READERS)}")
    kind = max(complete, key=lambda kind: len(kind.known(entries)))
    mine = kind.known(entries)
    for other in matching:
        if theirs := sorted(other.known(entries) - mine):
            raise InvalidInstance(
                f"{folder} has {_and(sorted(mine))} (of {kind.name}) and {_and(theirs)} (of {other.name}), so it could "
                "be either; give each kind its own folder"
            )
    parts: list[Path | None] = []
    for found_parts in kind.parts(folder, entries):
        if len(found_parts) > 1:
            raise InvalidInstance(f"{folder} has both {_and([one.name for one in found_parts])}; keep one")
        parts.append(found_parts[0] if found_parts else None)
    return kind, parts


def _incomplete(entries: set[str], matching: Sequence[Reader]) -> str:
    """What a folder that cannot be read has, and what it lacks, with the commands that print that."""
    if not matching:
        names = sorted(entries)[:3] + ["..."] * (len(entries) > 3)
        what = f"has {', '.join(names)}, and no file that is read" if names else "is empty"
        return f"{what}; {_expected()}"
    present = _and(sorted({name for kind in matching for name in kind.known(entries)}))
    lacking = {_and(kind.missing(entries)): kind for kind in reversed(matching)}
    missed = list[str]()
    for files, kind in reversed(lacking.items()):
        by = [line.strip() for line in kind.examples.splitlines() if line.endswith(f"/{files}")]
        missed.append(f"{files} (for {kind.name}{': ' * bool(by)}{''.join(by)})")
    what = "it" if len(missed) == 1 and " and " not in missed[0] else "what is missing of one of these"
    return f"has {present}, but no {' and no '.join(missed)}; add {what}"


def _listed(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in folder.iterdir()}
    except OSError as error:
        raise InvalidInstance(f"{folder} cannot be read ({error.strerror}); {_expected()}") from error


def _and(names: list[str]) -> str:
    return " and ".join(names)


def written_at(source: str, options: Mapping[str, Any]) -> float | None:
    """When the oldest file that is read as ``source`` was written, in seconds since 1970; None if it is no file."""
    if source == DASH or not (place := place_of(source)).exists():
        return None
    files: list[Path | None] = [place]
    if place.is_dir():
        kind, parts = reader_of_folder(place, options)
        files = parts or [place / name for name in kind.known(_listed(place))]
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
    later(_WRITERS[chosen])(instance, Path(path))


def is_read_as(file: Path, source: str) -> bool:
    """Whether a file is, or would be, read as a part of the input ``source``."""
    target, place = (Path(os.path.realpath(one)) for one in (file, source))
    if not place.is_dir():
        return target == place or (target.exists() and place.exists() and target.samefile(place))
    if target.parent != place:
        return False
    own = tuple(kind.name for kind in readers() if kind.files and not kind.missing(_listed(place)))
    return any(
        kind.known({target.name}) and (bool(kind.files) or kind.asked(kind.path, place, own)) for kind in readers()
    )


def files_to_write(path: str | os.PathLike[str], kind: str | None = None) -> tuple[str, list[Path]]:
    """The kind that `write` would choose, and the files that it would replace or remove.

    Raises `MissingExtra` without the package that writes them.
    """
    place = place_of(path)
    ending = place.suffix.lower()
    if kind is not None and kind not in _WRITERS:
        raise InvalidInstance(f"kind is {kind!r}; {nearest(kind, _WRITERS)}")
    of_file = None if place.is_dir() else ENDINGS.get(ending)
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
        others = _listed(place) - own
        if others and (others := set().union(*(kind.known(others) for kind in readers() if kind.files))):
            raise InvalidInstance(
                f"{place} has {_and(sorted(others))}, so it could be read as either; give another folder"
            )
    if chosen == "parquet":
        pyarrow_for("writing Parquet files")
    return chosen, files
