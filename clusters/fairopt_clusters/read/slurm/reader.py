"""A cluster run by Slurm, from ``scontrol show node --json`` and ``squeue --json``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from fairopt.errors import InvalidInstance
from fairopt.io import About, Arguments, Notes, about, capacity_of, check_choice, shown
from fairopt.runtime import Bool, hosts, names_of
from fairopt_clusters.read.amounts import NAME, by_requested
from fairopt_clusters.read.documents import Document
from fairopt_clusters.read.kinds import CONTRACTS
from fairopt_clusters.read.queues.teams import owed_to
from fairopt_clusters.read.queues.tree import QueueTree
from fairopt_clusters.read.slurm.accounts import associations_in, teams_of, tree_of, user_names, without_share
from fairopt_clusters.read.slurm.contracts import read_contracts
from fairopt_clusters.read.slurm.devices import UNNAMED, Devices, devices_of, is_slice, untyped
from fairopt_clusters.read.slurm.fields import Amounts, Key, satisfies
from fairopt_clusters.read.slurm.objects import SlurmJob, SlurmServer, read_jobs, read_servers
from fairopt_clusters.read.slurm.partitions import in_partitions
from fairopt_clusters.read.slurm.texts import settings_of, slurm_document, with_gres
from fairopt_clusters.read.work import TASKS, Work, arguments_of_work

_Named = tuple[dict[str, Any], str]  # a document and its name
_Job = tuple[str, str, SlurmJob, int]  # its owner, its name, and the number of its tasks
_RULE = "Slurm's own rule is Fair Tree: equal usage per fairshare over time; --policy slurm is what it steers to"
_IN_TREE = ("account", "user")  # owners that associations name
_OWNERS = ("account", "user", "partition", "qos")
_NODES = "expected the output of scontrol show node --json"
_JOBS = "expected the output of squeue --json, or a text of squeue or scontrol show job"
_NO_SERVERS = "there are no servers; add nodes.json (scontrol show node --json) or slurm.conf"
_ASSOCIATIONS = "expected the output of sacctmgr show associations --json"


@dataclass(frozen=True)
class _Options:
    """The options of `fairopt_clusters.read_slurm`.

    With ``full_demand`` all have unlimited work; accounts without jobs and without accounts below have that of all
    others.
    """

    users: str = "account"
    tasks: str = "auto"
    merge: bool = True
    full_demand: bool = False
    capacity: Any = None

    def __post_init__(self) -> None:
        check_choice("tasks", self.tasks, TASKS)
        check_choice("users", self.users, _OWNERS)


def arguments_of_slurm(
    nodes: Document | None,
    jobs: Document,
    associations: Document | None = None,
    settings: Path | None = None,
    qos: Document | None = None,
    contracts: Document | None = None,
    gres: Any = None,
    **given: Any,
) -> Arguments:
    """Read the output of Slurm's commands; see `fairopt_clusters.read_slurm`.

    Quality of service is for replays (`fairopt_clusters.read.slurm.rules`).
    """
    options = _Options(**given)
    tree = associations if options.users in _IN_TREE else None
    notes = Notes()
    if isinstance(jobs, Path):  # of a folder
        used = [nodes, jobs, associations, settings, qos, contracts, gres]
        others = sorted(one.name for one in jobs.parent.iterdir() if one.is_file() and one not in used)
        notes.add("{file} of the folder {is} not read", *(one for one in others if not one.startswith(".")))
    of_nodes = None if nodes is None else slurm_document(nodes, "nodes", _NODES)
    if of_nodes is not None and gres is not None:
        of_nodes = with_gres(of_nodes[0], gres), of_nodes[1]
    return _arguments(
        of_nodes,
        slurm_document(jobs, "jobs", _JOBS),
        None if tree is None else slurm_document(tree, "associations", _ASSOCIATIONS),
        options,
        contracts,
        {} if settings is None else settings_of(settings)[1],
        notes,
    )


def read_documents(found: Sequence[tuple[Any, str]], name: str, **given: Any) -> Arguments:
    """Read one document with the keys ``nodes``, ``jobs`` and perhaps ``associations``."""
    document = found[0][0]
    options, named = _Options(**given), (document, name)
    tree = named if "associations" in document and options.users in _IN_TREE else None
    return _arguments(named if "nodes" in document else None, named, tree, options)


def _arguments(
    nodes: _Named | None,
    jobs: _Named,
    associations: _Named | None,
    options: _Options,
    contracts: Any = None,
    partitions: Mapping[str, Mapping[str, str]] | None = None,
    notes: Notes | None = None,
) -> Arguments:
    users, capacity, full_demand = options.users, options.capacity, options.full_demand
    if nodes is not None and capacity is not None:
        raise InvalidInstance("a capacity is given, and there are nodes, which say it; leave out --capacity")
    notes = notes or Notes()
    (jobs_data, jobs_name), nodes_name = jobs, jobs[1] if nodes is None else nodes[1]
    listed = [] if nodes is None else _listed(nodes[0], nodes_name, "nodes", _NODES, notes)
    with about(jobs_name):
        read = list(read_jobs(_listed(jobs_data, jobs_name, "jobs", _JOBS, notes), jobs_name, notes))
        if nodes is None and capacity is None:
            raise InvalidInstance(f"{_NO_SERVERS}, or --capacity cpu=64")
    in_use = {host for _, job, _ in read if job.runs for host in names_of(job.nodes) or ()}
    with about(nodes_name):
        if nodes is None:
            closed = list[SlurmServer]()
            servers = [_given_server(capacity, {name for _, job, _ in read for name in job.generic.total})]
        else:
            servers, closed = read_servers(listed, nodes_name, notes, in_use)
    with about(jobs_name):
        owned = [
            (_owner(job, users, notes, name), name, job, count)
            for name, job, count in in_partitions(read, partitions or {}, notes)
        ]
    labels: dict[str, dict[str, str | None]] | None = None
    weights: dict[str, float] = {}
    unasked, idle = list[str](), list[str]()  # accounts without jobs, and those that count
    if contracts is not None and associations is None:
        notes.say(f"without a tree of accounts {contracts} does not count in answers; fairshares keep its promises")
    titles = user_names(*associations) if associations is not None and users == "user" else {}
    if associations is not None and (titles or users != "user"):
        known = {one.account for one in associations_in(*associations)}
        listed_in = None if contracts is None else read_contracts(Path(contracts), known)
        tree = tree_of(*associations, by_user=bool(titles), contracts=listed_in)
        of_moment = [
            f"{one.account}: {limit}"
            for one in associations_in(*associations)
            if one.is_account
            for limit in one.limits_not_in(listed_in)
        ]
        notes.add(
            "{limit} (GrpTRES) that {is} not in {file} {is} of a moment: not counted in what is fair",
            *of_moment,
            file=CONTRACTS,
        )
        if titles:
            owned = [(titles.get((job.account, owner), owner), name, job, count) for owner, name, job, count in owned]
        without = {owner for owner in {owner for owner, *_ in owned} if without_share(tree, owner)}
        left_out = [name for owner, name, *_ in owned if owner in without]
        notes.add("{job} of accounts with a fairshare of 0 {was} left out", *left_out)
        owned = [one for one in owned if one[0] not in without]
        busy = {owner for owner, *_ in owned}
        others = sorted({one.name for one in tree.leaves} - busy)
        unasked = [one for one in others if not without_share(tree, one)]
        idle = unasked if full_demand else []
        notes.add("{account} without jobs {counts} with those of all others together", *idle)
        labels, weights = teams_of(tree, sorted({*busy, *idle}), associations[1], notes)
    if nodes is not None and nodes[0].get("access"):
        owned = list(_admitted(owned, nodes[0]["access"], None if labels is None else tree, notes))
    allowed = _places(servers, [(name, job) for _, name, job, _ in owned], notes)
    parts = list(_parts(owned, allowed, servers, closed, notes))
    generic = ([server.generic for server in servers], [server.generic for server in closed])
    devices = devices_of(*generic, [(one.name, of_task, np.asarray(one.servers)) for one, _, of_task in parts], notes)
    plain = [name for name in ("cpu", "memory") if any(of_plain[name] for _, of_plain, _ in parts)]
    labels_of = [*plain, *(_label(key) for key in devices.keys)]
    capacities = [_amounts(plain, server.plain, devices, devices.of_server(server.generic)) for server in servers]
    n, in_closed = len(servers), np.zeros((len(closed), len(labels_of)))
    work = []
    for one, of_plain, of_task in parts:
        may = np.asarray(one.servers)
        demand = _amounts(plain, of_plain, devices, devices.of_task(of_task, may))
        may = np.append(may, [n + k in one.held for k in range(len(closed))]) if closed else may
        staying = [s - n for s in one.held if s >= n]
        in_closed[staying] += demand
        work.append(replace(one, request=demand, servers=may, staying=float(len(staying))))
    work += [one for account in idle for one in _of_all(work, account, n)]
    servers = [*servers, *closed]
    owed = None
    if labels is not None:
        owed = owed_to(tree, {one.owner for one in work}, labels_of, len(servers), notes)
    with about(nodes_name, jobs_name):
        values = arguments_of_work(
            work,
            resources=labels_of,
            capacities=[*capacities, *in_closed.tolist()],
            servers=[server.name for server in servers],
            tasks=options.tasks,
            server_types=_types(servers),
            units={"cpu": "core", "memory": "GiB"},
            notes=notes,
            word="job",
            limiting=[_label(key) for key in devices.keys if key[1] and not is_slice(key[1])],
            labels=labels,
            weights=weights,
            owed=None if owed is None else replace(owed, weights=weights),
            full_demand=full_demand,
            says_what_runs=True,
        )
    values["notes"].append(About(_RULE))
    same = not unasked and values.get("guarantees") is None  # which depend on limits
    return Arguments(values, (nodes_name, jobs_name), options.merge, same_at_full_demand=same)


def _given_server(capacity: Any, generic: Collection[str]) -> SlurmServer:
    """One server that has a capacity, in cores, GiB and pieces."""
    has = by_requested(capacity_of(capacity), ["cpu", "memory", *generic])
    gres = ",".join(f"{name}={int(amount)}" for name, amount in has.items() if name not in ("cpu", "memory"))
    memory = int(has.get("memory", Fraction(0)) * 1024)
    made = SlurmServer.model_validate({"name": NAME, "gres": gres})
    return made.model_copy(update={"cpus": int(has.get("cpu", 0)), "real_memory": memory})


def _of_all(work: list[Work], account: str, n_open: int) -> list[Work]:
    """The tasks of all accounts together as those of one, on servers that start jobs: the first ones."""
    together: dict[tuple[Any, ...], Work] = {}
    for one in work:
        may = np.array(one.servers)
        may[n_open:] = False
        if may.any():
            key = (one.request, may.tobytes(), one.place)
            count = one.count + (together[key].count if key in together else 0.0)
            together[key] = Work(account, one.request, may, count, account, one.place)
    return [*together.values()]


def _listed(document: dict[str, Any], name: str, key: str, expected: str, notes: Notes) -> list[Any]:
    """The entries of a list; errors that Slurm reports become notes."""
    errors = document.get("errors") if isinstance(document.get("errors"), list) else []
    wrong = [shown(error.get("description")) for error in errors or () if isinstance(error, Mapping)]
    notes.add("Slurm reported {error} in {place}", *wrong, place=name)
    for text in document.get("notes") or ():  # of a text
        notes.say(str(text))
    entries = document.get(key)
    if entries is None:
        known = ", ".join([str(name) for name in document if name != key][:8]) or "nothing"
        problem = f"{name} has no list {key!r} but {known[:200]}"
        raise InvalidInstance("; ".join([problem, *notes.sentences(), expected]))
    if not isinstance(entries, list):
        raise InvalidInstance(f"{name}: {key} is {shown(entries)}; give a list")
    return entries


def _types(servers: list[SlurmServer]) -> list[str] | None:
    """Types of servers' GPUs, with their numbers where there are several, if any server has GPUs."""
    out = []
    for server in servers:
        kinds = sorted((kind, n) for (name, kind), n in server.generic.typed.items() if name == "gpu" and n)
        unnamed = untyped(server.generic, "gpu")
        kinds += [(UNNAMED, unnamed)] if unnamed > 0 else []
        out.append(kinds[0][0] if len(kinds) == 1 else "|".join(f"{kind}:{n}" for kind, n in kinds) or "no GPU")
    return out if any(name != "no GPU" for name in out) else None


def _owner(job: SlurmJob, users: str, notes: Notes, name: str) -> str:
    owner = job.owner(users)
    if not owner.isprintable():
        raise InvalidInstance(f"the {users} of job {name} is {shown(owner)}; give a name of printable characters")
    if not owner:
        kind = f"a{'n' * (users == 'account')} {users}"
        notes.add("{job} without {kind} {counts} as those of {none}", name, kind=kind, none=repr(f"no {users}"))
    return owner or f"no {users}"


def _parts(
    owned: list[_Job], places: list[Bool], servers: list[SlurmServer], closed: list[SlurmServer], notes: Notes
) -> Iterator[tuple[Work, dict[str, Fraction], Amounts]]:
    """The tasks of jobs, with what they take: of those that run what is allocated on each server, of others as asked.

    Servers are counted on by those that start no jobs, where the tasks that run there may run.
    """
    at = {server.name: s for s, server in enumerate((*servers, *closed))}
    smallest = dict[tuple[bytes, Any], SlurmServer | None]()
    for (owner, name, job, count), allowed in zip(owned, places, strict=True):
        if job.servers > 1:
            notes.add("{job} on several servers {counts} as a task on each: Slurm starts all of them or none", name)
        hosts_of, place = _hosts(job, name, at, notes), (job.place,) * 2
        if hosts_of:
            given = [job.allocated(host, position) for position, host in enumerate(hosts_of)]
            if any(one != (job.plain, job.generic) for one in given):
                notes.add("{running job} {is} allocated other amounts than requested, and {counts} with these", name)
            for host, one in zip(hosts_of, given, strict=True):
                running = {at[host]: 1.0} if host in at else dict[int, float]()
                yield Work(owner, (), allowed, 1.0, name, place, running), *one
            continue
        if job.servers > max(1, int(allowed.sum())):
            notes.add("{job} that {needs} more servers than it may use {was} left out", name)
            continue
        if job.takes_servers:
            key = (allowed.tobytes(), (job.plain["cpu"], *sorted(job.generic.total.items())))
            if key not in smallest:
                smallest[key] = _smallest(job, allowed, servers)
        taken = smallest[key] if job.takes_servers else None
        yield Work(owner, (), allowed, float(count), name, place), *job.requested(taken)


def _smallest(job: SlurmJob, allowed: Bool, servers: list[SlurmServer]) -> SlurmServer | None:
    """The server with the fewest generic resources and cores that has what a task requests; None if there is none."""
    fitting = [
        server
        for server, may in zip(servers, allowed.tolist(), strict=True)
        if may
        and server.plain["cpu"] >= job.plain["cpu"]
        and server.plain["memory"] >= job.plain["memory"]
        and all(server.generic.total.get(name, 0) >= amount for name, amount in job.generic.total.items())
    ]
    return min(fitting, key=lambda s: (sum(s.generic.total.values()), s.plain["cpu"], s.name), default=None)


def _amounts(
    plain: list[str], of_plain: Mapping[str, Fraction], devices: Devices, generic: Mapping[Key, Fraction]
) -> tuple[float, ...]:
    """Amounts in the order of resources."""
    return tuple(float(one) for one in (*(of_plain[k] for k in plain), *(generic.get(k, 0) for k in devices.keys)))


def _hosts(job: SlurmJob, name: str, at: Mapping[str, int], notes: Notes) -> list[str]:
    """The servers of a running job, one for each of its tasks; none if they are not known."""
    if not job.runs:
        return []
    names = names_of(job.nodes) or []
    if len(names) != job.servers:
        notes.add("{running job} without a list of its servers {counts} as waiting", name)
        return []
    if not at.keys() >= {*names}:
        notes.add("{running job} on servers that are not listed: tasks there count as waiting", name)
    return names


def _label(key: Key) -> str:
    """The name of a resource; a generic resource called cpu or memory gets a name of its own."""
    name, kind = key
    return (f"gres/{name}" if name in ("cpu", "memory") else name) + (f":{kind}" if kind else "")


def _admitted(
    owned: list[_Job], access: Mapping[str, Mapping[str, list[str]]], tree: QueueTree | None, notes: Notes
) -> Iterator[_Job]:
    """The jobs that run, and those that wait, with the partitions that take their account and their QOS.

    Accounts below those that are allowed are too, so that these rules do not count without the ``tree`` of accounts.
    """
    if tree is None:
        unknown = [name for name, rules in access.items() if "allowaccounts" in rules]
        notes.add("{partition} for some accounts only: not modelled without the tree of accounts", *unknown)
        access = {
            name: {key: of for key, of in rules.items() if name not in unknown or not key.endswith("accounts")}
            for name, rules in access.items()
        }
    for owner, name, job, count in owned:
        accounts = [job.account, *(tree.above(job.account) if tree else [])]
        rules = [(access.get(one, {}), one) for one in job.partition]
        kept = [one for of, one in rules if _takes(of, "accounts", accounts) and _takes(of, "qos", [job.qos])]
        if kept or job.runs or not job.partition:
            yield owner, name, job if job.runs else job.model_copy(update={"partition": kept}), count
        else:
            notes.add("{job} of an account or a QOS that its partition does not take {was} left out", name)


def _takes(rules: Mapping[str, list[str]], kind: str, mine: list[str]) -> bool:
    """Whether a partition takes an account or a QOS; those that it denies count only where it names none to allow."""
    allowed = rules.get(f"allow{kind}")
    if not mine[0]:
        return True
    return not {*mine}.isdisjoint(allowed) if allowed else {*mine}.isdisjoint(rules.get(f"deny{kind}", ()))


def _places(servers: list[SlurmServer], jobs: list[tuple[str, SlurmJob]], notes: Notes) -> list[Bool]:
    """Eligible servers of each job; a constraint that is not understood excludes none."""
    known: dict[Any, tuple[Bool, bool]] = {}
    out = []
    for name, job in jobs:
        key = (*job.placement, min(job.servers, len(servers) + 1) if job.required_nodes else 0)
        if key not in known:
            known[key] = _allowed(job, servers)
        allowed, understood = known[key]
        if not understood:
            what = "{job} with a constraint or list of servers that is not modelled may run more widely"
            notes.add(what, name)
        out.append(allowed)
    return out


def _allowed(job: SlurmJob, servers: list[SlurmServer]) -> tuple[Bool, bool]:
    """Servers that a job may use, and whether all its rules were understood."""
    feature_rule = satisfies(job.features) if job.features else lambda features: True
    required = hosts(job.required_nodes) if job.required_nodes else None
    excluded = hosts(job.excluded_nodes) if job.excluded_nodes else frozenset[str]()
    if required is not None and len(required) < job.servers:  # the other servers may be any
        required = None
    allowed = [
        (server.partitions is None or not job.partition or not set(job.partition).isdisjoint(server.partitions))
        and (feature_rule is None or feature_rule(frozenset(server.active_features or server.features)))
        and (required is None or server.name in required)
        and (excluded is None or server.name not in excluded)
        and all(server.generic.typed.get(kind) for kind in job.types)
        for server in servers
    ]
    understood = feature_rule is not None and excluded is not None and (required is not None or not job.required_nodes)
    return np.array(allowed, dtype=np.bool_), understood
