"""The argument INPUT of commands and its options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import typer

from fairopt import datasets, networks
from fairopt.cli.progress import console_for, say, working
from fairopt.cli.values import labelled_amount, labelled_number
from fairopt.errors import InvalidInstance, MissingExtra
from fairopt.instance import Instance
from fairopt.instance.labels import whole_name
from fairopt.io import About
from fairopt.io.assemble import NO_USERS
from fairopt.io.files import folders_shown, reader_of_folder, written_at
from fairopt.io.readers import Reader, function_of, readers, readers_of_jobs
from fairopt.io.text_files import DASH
from fairopt.networks.files import demands_in, is_graph
from fairopt.online import SlurmRules
from fairopt.questions.fitting import too_large, why_too_large
from fairopt.runtime.extensions import OF_ITS_OPTIONS, installed, missing

_Command = TypeVar("_Command", bound=Callable[..., Any])
_PANEL = "Options of the input"
_INPUT = (
    f"A .json or .yaml file, - for standard input, or a folder: {folders_shown()}; see 'fairopt convert --help'. Or "
    "library:NAME, see 'fairopt library'."
)
GRAPHS, OF_GRAPHS = (".gml", ".graphml"), ("demands", "paths", "link_capacity")
LIBRARY = "library:"  # before the name of a case
SCALE = "scale"  # guarantees in proportion


def _annotated(kind: Any, name: str, metavar: str | None, help: str) -> Any:
    """The annotation of an option of the input."""
    made: Any = Annotated
    return made[kind, typer.Option(name, help=help, metavar=metavar, rich_help_panel=_PANEL)]


_COMPARED = _annotated(
    str | None, "--input", "INPUT", "Compare the answers with this cluster: any INPUT of 'fairopt solve'."
)
_PATH = Annotated[str, typer.Argument(show_default=False, metavar="INPUT", help=_INPUT)]
_TAKEN: dict[str, tuple[Any, str | None, str]] = {  # type, metavar and help
    "full_demand": (
        bool | None,
        None,
        "As if all had more work than fits: what each is entitled to.",
    ),
    "demands": (
        str | None,
        "FILE",
        "INPUT is a graph (.gml, .graphml, .json or .txt): a .csv file of demands, with the columns source, target, "
        "and optionally volume and weight, if not those in the graph. Users are paths, resources links, teams demands.",
    ),
    "paths": (int | None, "NUMBER", "Graphs: the shortest paths for each demand; default 4."),
    "link_capacity": (
        str | None,
        "WHAT",
        "Graphs: the attribute of links with their capacities, such as LinkSpeedRaw, or one number for those without; "
        "default 'capacity'.",
    ),
    "teams": (str | None, "LABELS", "Tables: columns of users that are labels, outermost first, such as 'org,team'."),
    "weight": (list[str] | None, "NAME=NUMBER", "Set the weight of a user or a team, such as web=2; repeatable."),
    "limit": (
        list[str] | None,
        "NAME=NUMBER",
        "Set the task limit of a user (web=100), or what a user or a team takes at most of a resource, in units "
        "(vision=16gpu); repeatable.",
    ),
    "guarantee": (
        list[str] | None,
        "NAME=NUMBER",
        "What a user (web=10, in tasks) or a team (vision=16gpu, in units) gets first; repeatable.",
    ),
    "fit_guarantees": (
        str | None,
        "HOW",
        "Reduce guarantees that do not fit together: 'scale' them in proportion, or give an order of users and "
        "teams, such as 'vision,nlp': the first keep theirs first, those not named last.",
    ),
    "equal_weights": (bool | None, None, "Give all users the same weight (h-ffmra and mlf-drs require it)."),
    "pooled": (bool | None, None, "Treat all servers as one pool."),
    "notes": (bool | None, None, "Say all that is noted of INPUT, also what changes no number."),
    "divisible": (
        bool | None,
        None,
        "Share also among users whose tasks fit on no server, as if tasks could be split.",
    ),
}
_TYPES = {one.name: one.type for reader in (*readers(), *readers_of_jobs()) for one in reader.options}
_MISSING = () if installed() else tuple(name for name in OF_ITS_OPTIONS if name not in _TYPES)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _on_command_line(kind: type) -> Any:
    """The type on the command line of a reader's option: lists are text, and amounts by name several texts."""
    return (str if kind is list else list[str] if kind is dict else kind) | None


def _options_of(known: Iterable[Reader], own: Mapping[str, tuple[Any, str | None, str]]) -> dict[str, Any]:
    """The annotations of options of readers and of ``own``; the help of an option of several says which they are."""
    helps: dict[str, dict[str, list[str]]] = {}
    types = dict[str, tuple[Any, str | None]]()
    for reader in known:
        for one in reader.options:
            if one.help:
                types.setdefault(one.name, (_on_command_line(one.type), one.metavar))
                helps.setdefault(one.name, {}).setdefault(one.help, []).append(reader.name)
    said = {
        name: " ".join(f"{', '.join(dict.fromkeys(names))}: {help}" for help, names in texts.items())
        for name, texts in helps.items()
    }
    taken = {name: (*types[name], said[name]) for name in types if name not in own}
    taken |= {
        name: (kind, metavar, f"{help} {said.get(name, '')}".strip()) for name, (kind, metavar, help) in own.items()
    }
    made = {name: _annotated(kind, _option(name), metavar, help) for name, (kind, metavar, help) in taken.items()}
    return made | {name: Annotated[str | None, typer.Option(_option(name), hidden=True)] for name in _MISSING}


_OPTIONS = _options_of(readers(), _TAKEN)
TimeLimit = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit for each policy.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show the output of solvers on stderr.")]


@dataclass(frozen=True)
class Solving:
    """How policies are solved: the options that commands have in common."""

    solver: Annotated[
        str | None, typer.Option(help="Solve through CVXPY with this solver only; see 'fairopt solvers'.")
    ] = None
    method: Annotated[
        str, typer.Option(help="'auto': the first exact method; 'cone': a cone program through CVXPY.")
    ] = "auto"
    time_limit: TimeLimit = None
    verbose: Verbose = False

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of ``allocate``."""
        return dict(vars(self))


USUAL = Solving()


@dataclass(frozen=True)
class Source:
    """INPUT, and its options: those of readers, and changes that are made here."""

    path: str
    options: dict[str, Any]
    equal_weights: bool = False
    pooled: bool = False
    divisible: bool = False
    notes: bool = False
    weight: Sequence[str] | None = None
    limit: Sequence[str] | None = None
    guarantee: Sequence[str] | None = None
    fit_guarantees: str | None = None
    below: list[str] = field(default_factory=list)  # lines to be printed below the tables
    noted: list[str] = field(default_factory=list)  # of INPUT, to be said below that
    team_weights: dict[str, float] = field(default_factory=dict)  # of the users that `read_servers` leaves out
    kept: list[Instance] = field(default_factory=list)  # as read, where that says what is read at full demand

    @property
    def all_noted(self) -> list[str]:
        """What is noted of INPUT, in groups: what is left out, what counts otherwise, and on request what explains."""
        kept = [one for one in dict.fromkeys(self.noted) if self.notes or not isinstance(one, About)]
        kept.sort(key=lambda one: 2 if isinstance(one, About) else "left out" not in one)
        if more := len(dict.fromkeys(self.noted)) - len(kept):
            kept.append(f"{more} more on INPUT that change{'s' * (more == 1)} no number: --notes")
        return kept

    @property
    def _name(self) -> str:
        return "standard input" if self.path == DASH else self.path

    @property
    def title(self) -> str:
        """The name of the input without its folder."""
        return Path(self._name).resolve().name or self._name

    @property
    def written_at(self) -> float | None:
        """When its oldest file was written, in seconds since 1970; None if it is no file."""
        return None if self.path.startswith(LIBRARY) else written_at(self.path, self.options)

    @property
    def words(self) -> tuple[str, ...]:
        """INPUT and its options as words of a command line."""
        given: dict[str, Any] = {("teams" if key == "labels" else key): value for key, value in self.options.items()}
        given |= {name: getattr(self, name) for name in _CHANGES if name != "notes"}
        out = [self.path]
        for name, value in given.items():
            option = _option(name)
            if isinstance(value, (list, tuple)) and (name == "teams" or _TYPES.get(name) is list):
                out += [option, ",".join(value)]
            elif isinstance(value, Mapping):
                out += [word for of, amount in value.items() for word in (option, f"{of}={amount}")]
            elif isinstance(value, (list, tuple)):
                out += [word for one in value for word in (option, one)]
            elif value is True:
                out.append(option)
            elif value:
                out += [option, str(value)]
        return tuple(out)

    def _read(self) -> Instance:
        """The instance of a file, a folder or the library."""
        if self.path.startswith(LIBRARY):
            full = bool(self.options.get("full_demand"))
            given = [_option(name) for name in self.options if name not in ("labels", "full_demand")]
            given += ["--teams"] * (self.options.get("labels") is not None)
            if given:
                raise InvalidInstance(f"{self.path} is no file, so it takes no {given[0]}; leave it out")
            case = datasets.library()[self.path.removeprefix(LIBRARY)].instance
            return case.full_demand() if full else case
        with working(f"reading {self._name}"):
            if self._is_graph:
                return self._network()
            try:
                scale = False if self.fit_guarantees else None
                made, same = datasets.read_and_compare(self.path, **self.options, scale_quotas=scale)
                self.kept[:] = [made] if same else []
                return made
            except (InvalidInstance, MissingExtra):  # nodes alone look like a file of Slurm
                if Path(self.path).suffix.lower() in (".json", ".txt") and is_graph(Path(self.path)):
                    return self._network()  # says what a graph needs
                raise

    @property
    def _is_graph(self) -> bool:
        """Whether the input is a graph with demands."""
        return bool({*OF_GRAPHS} & self.options.keys()) or Path(self.path).suffix.lower() in GRAPHS

    def _network(self) -> Instance:
        """The instance of a graph and its demands, each link with its ``capacity``, by default that of the graph."""
        path, own = Path(self.path), None
        if "demands" not in self.options and (path.suffix.lower() in GRAPHS or is_graph(path)):
            own = demands_in(networks.read(path))
        if "demands" not in self.options and own is None:
            options = [f"{_option(name)} is for graphs" for name in OF_GRAPHS if name in self.options]
            raise InvalidInstance(
                f"{self._name}: {(options or ['this is a graph'])[0]} and needs demands; give --demands FILE.csv with "
                "source,target"
            )
        others = [name for name in self.options if name not in (*OF_GRAPHS, "full_demand")]
        if others:
            raise InvalidInstance(f"{self._name} is a graph, which takes no {_option(others[0])}; leave it out")
        how = {"paths": self.options["paths"]} if "paths" in self.options else {}
        capacity: str | float = self.options.get("link_capacity", "capacity")
        with suppress(ValueError):  # the name of an attribute
            capacity = float(capacity)
        graph = networks.read(self.path, capacity=capacity)
        made = networks.instance(graph, self.options.get("demands", own), **how)
        return made.replace(limits=()) if self.options.get("full_demand") else made

    def read_servers(self) -> Instance:
        """The instance without users; servers.csv alone is enough."""
        file = Path(self.path) / "servers.csv"
        if file.is_file() and not file.with_name("users.csv").exists():
            instance = datasets.servers_alone(file)
        else:
            instance = self._read()
            self.noted.extend(note for note in instance.notes if not note.startswith(NO_USERS))
        self.team_weights.update(instance.team_weights)
        instance = (instance.merged_from or instance).select_users([])  # with their own names
        return instance.pooled() if self.pooled else instance

    def rules(self, servers: Instance, users: str | None) -> SlurmRules | None:
        """What a folder says of replays by the rules of its scheduler."""
        place = Path(self.path)
        entries = {one.name for one in place.iterdir()} if place.is_dir() else set[str]()
        if not any(kind.rules and not kind.missing(entries, self.options) for kind in readers()):
            return None
        kind, parts = reader_of_folder(place, self.options)
        made = None if kind.rules is None else function_of(kind.rules)(*parts, servers=servers, users=users)
        return made if isinstance(made, SlurmRules) else None

    def read(self) -> Instance:
        """The instance, and what is `noted` of it.

        Users whose tasks fit on no server get a task limit of 0. With ``fit_guarantees`` guarantees are reduced.
        """
        return self.fitted(self.limited(self.read_as_given()))

    def fitted(self, instance: Instance) -> Instance:
        """The instance with guarantees that fit together, if ``fit_guarantees`` is given, which is `noted`."""
        if not self.fit_guarantees:
            return instance
        order = None if self.fit_guarantees == SCALE else [name.strip() for name in self.fit_guarantees.split(",")]
        with working("fitting guarantees"):
            made = instance.fit_guarantees(order)
        self.noted.extend(made.notes[len(instance.notes) :])
        return made

    def limited(self, instance: Instance) -> Instance:
        """The instance with a task limit of 0 for users whose tasks fit on no server, unless ``divisible``."""
        users = np.empty(0, dtype=np.intp) if self.divisible else too_large(instance)
        if not len(users):
            return instance
        why, back = why_too_large(instance, users), "--divisible shares as if tasks could be split"
        if len(users) == instance.n_users:
            raise InvalidInstance(f"{self._name}: {why}; {back}")
        line = f"{why}: {'it gets' if len(users) == 1 else 'they get'} nothing; {back}"
        if line not in self.below:
            self.below.append(line)
        limits = np.array(instance.task_limits)
        limits[users] = 0
        return instance.replace(task_limits=limits, notes=[*instance.notes, line])

    def read_as_given(self) -> Instance:
        """The instance with the changes that options ask for, and what is `noted` of it."""
        instance = self._read()
        self.noted.extend(instance.notes)
        return self._changed(instance)

    def read_at_full_demand(self) -> Instance:
        """The instance as if all had more work than fits, without a word on what was left out."""
        options = self.options | {"full_demand": True}
        full = replace(self, options=options, below=[], noted=[], team_weights={}, kept=[])
        return full.limited(full._changed(self.kept[0].full_demand() if self.kept else full._read()))

    def _changed(self, instance: Instance) -> Instance:
        instance = instance.with_weights(1) if self.equal_weights else instance
        changes = changes_of(instance, self.weight, self.limit, self.guarantee)
        instance = instance.replace(**changes) if changes else instance
        return instance.pooled() if self.pooled else instance


_CHANGES = tuple(one.name for one in fields(Source) if one.name in _OPTIONS)  # made here, not by readers


def amounts_given(option: str, texts: Sequence[str]) -> dict[str, str]:
    """The amounts by name that an option gives, as text."""
    out = dict[str, str]()
    for text in texts:
        name, equals, amount = (part.strip() for part in text.rpartition("="))
        if not (name and equals and amount):
            raise InvalidInstance(f"{option} {text!r} has no name and amount; give such as {option} cpu=64")
        if name in out:
            raise InvalidInstance(f"{option} gives {name!r} twice; keep one")
        out[name] = amount
    return out


def _as_given(name: str, value: Any) -> Any:
    """The value of an option of readers, from that of the command line."""
    if value is None or value is False or value == []:
        return None
    if name in _MISSING:
        raise missing(_option(name))
    if _TYPES.get(name) is list:
        return [one.strip() for one in value.split(",")]
    return amounts_given(_option(name), value) if _TYPES.get(name) is dict else value


def with_options_of_jobs(command: _Command) -> _Command:
    """Give a command whose parameter ``options`` is a dict those of the readers of jobs; below ``@guarded``."""
    signature = inspect.signature(command, eval_str=True)
    jobs = readers_of_jobs()
    names = {one.name for one in jobs}  # of those with servers too
    known = _options_of([*jobs, *(one for one in readers() if one.name in names)], {})
    kinds = {name: kind for name, kind in known.items() if name not in signature.parameters}

    @functools.wraps(command)
    def run(*arguments: Any, **given: Any) -> Any:
        options = {name: value for name in kinds if (value := _as_given(name, given.pop(name))) is not None}
        return command(*arguments, **given, options=options)

    parameters = [one for one in signature.parameters.values() if one.name != "options"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
        for name, kind in kinds.items()
    ]
    run.__signature__ = signature.replace(parameters=[*parameters, *added])  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def changes_of(
    instance: Instance, weight: Sequence[str] | None, limit: Sequence[str] | None, guarantee: Sequence[str] | None
) -> dict[str, Any]:
    """The arguments of an instance that ``--weight``, ``--limit`` and ``--guarantee`` change."""
    changes: dict[str, Any] = {}
    if weight:
        changes["weights"] = dict(labelled_number("--weight", one, "user or team", "web=2") for one in weight)
    for one in limit or ():
        name, value = labelled_amount("--limit", one)
        if not isinstance(value, dict):
            changes.setdefault("task_limits", {})[name] = value
            continue
        limits = {of.name: of for of in instance.limits} | changes.get("limits", {})
        for resource, amount in value.items():
            title = f"{whole_name(resource, instance.resources)} of {name}"
            limits[title] = {"name": title, "resource": resource, "amount": amount, "of": [name]}
        changes["limits"] = limits
    if "limits" in changes:
        changes["limits"] = [*changes["limits"].values()]
    for one in guarantee or ():
        name, value = labelled_amount("--guarantee", one)
        given = changes.setdefault("guarantees", {})
        before = given.get(name)
        given[name] = before | value if isinstance(before, dict) and isinstance(value, dict) else value
    return changes


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr."""
    console = console_for(stderr=True)
    for note in notes:
        console.print(f"note: {note}", markup=False, style="dim", soft_wrap=not console.is_terminal)


def reading(command: _Command) -> _Command:
    """Add INPUT and its options to a command whose first parameter is a `Source`; goes below ``@guarded``.

    A parameter of type `Solving` becomes the options of solvers.

    Options that the command has itself, such as ``--weight`` as a change, are left to it.
    """
    return _taking(command, inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY, annotation=_PATH))


def comparing(command: _Command) -> _Command:
    """Add ``--input`` and its options to a command whose first parameter is a `Source` or None."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return _taking(command, inspect.Parameter("input", keyword, annotation=_COMPARED, default=None))


def _taking(command: _Command, path: inspect.Parameter) -> _Command:
    signature = inspect.signature(command, eval_str=True)
    _, *others = signature.parameters.values()
    how = next((one.name for one in others if one.annotation is Solving), None)
    solving = [*inspect.signature(Solving, eval_str=True).parameters.values()]
    last = [solving.pop()] if how else []  # --verbose
    own = {one.name for one in others}

    @functools.wraps(command)
    def run(input: str | None = None, **given: Any) -> Any:
        options = {name: given.pop(name) for name in _OPTIONS if name not in own}
        changes = {name: options.pop(name) for name in _CHANGES if name not in own}
        options["labels"] = options.pop("teams")
        values = {name: _as_given(name, value) for name, value in options.items()}
        asked = {name: value for name, value in values.items() if value is not None}
        source = None if input is None else Source(input, asked, **changes)
        if how is not None:
            given[how] = Solving(**{one.name: given.pop(one.name) for one in (*solving, *last)})
        try:
            return command(source, **given)
        finally:
            for line in source.below if source else ():
                if given.get("as_json"):
                    say_notes([line])
                else:
                    say(line)
            if source is not None:
                say_notes(source.all_noted)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=None)
        for name, kind in _OPTIONS.items()
        if name not in own
    ]
    listed = [of for one in others for of in (solving if one.name == how else [one])]
    kept = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*listed, *last)]
    parameters = [path, *kept, *added] if path.kind is inspect.Parameter.POSITIONAL_ONLY else [*kept, path, *added]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]
