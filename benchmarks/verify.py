"""Saved answers of all kinds through `fo.verify`, and files with one change each, judged by exact references.

Draws of fuzz.py are allocated, saved with and without evidence, and verified: by kind how many certified answers are
``proved``, ``not proved`` or ``cannot`` be checked this way, with medians of milliseconds. Then each file is changed in
one place: a number of tasks, a price, a capacity, a parameter in the policy's text, ... by a factor, a part of 1e-12 to
1e2 of it, its sign, zero, NaN, a string, true; another objective; a key deleted or written twice, a team named like a
user, events left out or in another order, two users exchanged, the file cut; or it gets the proof, the policy or
numbers of another file. Among the answers are hierarchies, exact ones, users and teams with guarantees, ideals, rates,
what is held, whole tasks and variables of blocks, and the files of tests/data, which earlier versions wrote. Of the
changed files

refused    are not proved.
right      are proved, and the references (fuzz_verdicts.py and verify_truth.py), which share no code with fairopt,
           agree: capacities, limits and eligibility to 2e-9, conditions to 2e-7, the optimum (of leximin each sorted
           level, both ways) to 2e-6, tasks of a hierarchy and its objective to 1e-6, exact tasks to 1e-12, as numbers
           are read as decimals there.
WRONG      are proved, and the references disagree, or the file is not an answer: `Instance` refuses its numbers, a key
           occurs twice, or a truth value stands for a number.
undecided  are proved, and the reference's own bound is not close enough to say.

Instances of users of one's own shares are read with the coefficients of the file. Ctrl-C prints what was done.

Run: python benchmarks/verify.py [--files 1000 --mutations 1000 --seed 1 --categories pools,tiers --start 0]
     python benchmarks/verify.py --kinds "another proof,another policy,another number" --files 500 --mutations 10000
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import OUT, arguments, median, show  # isort: skip
import fuzz_verdicts
import numpy as np
import verify_truth as truth
from fuzz import TooLong, patience
from fuzz_blocks import NAMES, Draw, Held
from fuzz_draws import ALPHAS, CATEGORIES, a_share, any_instance, one_of, sizes
from oracle import hierarchy

import fairopt as fo

Rng = np.random.Generator
Data = dict[str, Any]
PATIENCE = 20  # seconds for an answer, for a file, and for a reference
fuzz_verdicts.GAP, fuzz_verdicts.FIT, fuzz_verdicts.BLOCKS = 2e-6, 2e-9, 2e-7

# -- answers --------------------------------------------------------------------------------------------------------


def more_blocks(rng: Rng) -> Draw:
    """Blocks that `fuzz_draws` draws rarely or not at all."""
    given = any_instance(rng, least=2)
    n, m = sizes(given)
    k, of = int(rng.integers(1, m + 1)), a_share(rng, n, m)
    by_user = {f"user{j + 1}": tuple(rng.integers(1, 4, k).tolist()) for j in rng.permutation(n)[: max(n - 1, 1)]}
    ranked = fo.KDominantShare(k, by_user, "positive")
    edge = one_of(rng, (0.5, 1), (0.8, 0.25), (2, -0.5), (3, -2 / 3), (1, 2))
    objective = one_of(
        rng,
        fo.Leximin(ranked),
        fo.AlphaFair(one_of(rng, 0.3, 1, 30, *ALPHAS), ranked),
        fo.FairnessEfficiency(*edge, of),
        fo.AlphaFair(2) + 0.5 * fo.AlphaFair(0.5, fo.Tasks()) + fo.MaxMin(),
        3 * fo.OrderedWeighted((2, 1), of),
        fo.MaxMin().then(fo.AlphaFair(1)).then(fo.Total(fo.Tasks())),
        fo.Leximin(of).then(fo.Total(fo.Tasks())),
        fo.AlphaFair(one_of(rng, 5, 10, 20, 30)),
    )
    level = fo.MaxMin() >= 0.001 if rng.random() < 0.5 else fo.AlphaFair(2, fo.Tasks()) >= -1000
    block = one_of(rng, level, fo.EnvyFree(), fo.SharingIncentive(), fo.Reserve(0, 0.25))
    return Draw(given, fo.Policy(objective, [block] if rng.random() < 0.4 else []))


DRAWS: dict[str, Callable[[Rng], Draw]] = {"more": more_blocks} | {
    name: CATEGORIES[name]
    for name in (
        "pools",
        "servers",
        "weights",
        "scales",
        "ties",
        "zeros",
        "blocks",
        "flat",
        "tiers",
        "solvers",
        "shares",
        "alpha",
        "wide",
        "traces",
        "bundles",
        "whole",
        "plane",
        "by-server",
        "own",
        "rows",
        "conic",
        "conic-leximin",
        "prepared",
        "bottleneck",
        "ps-dsf",
        "guarantees",
        "teams",
        "speeds",
    )
}


def hierarchies(rng: Rng) -> Draw:
    """Hierarchical DRF on pools and servers, with and without floors of teams, in floats and exactly."""
    servers, floors = one_of(rng, 1, 1, 2, 3), bool(rng.random() < 0.3)
    instance, _, policy = hierarchy.drawn(int(rng.integers(10**6)), servers, floors)
    given = json.loads(json.dumps(instance.to_dict()).replace("/", "."))  # paths of values in a file have the other
    policy = eval(repr(policy).replace("/", "."), NAMES)
    return Draw(given, policy, {"exact": True} if not floors and rng.random() < 0.4 else {})


def secured_teams(rng: Rng) -> Draw:
    """Users compared where teams are guaranteed units of a resource."""
    given = any_instance(rng, least=2, room=40)
    n, m = sizes(given)
    given["teams"] = {"team": [one_of(rng, "a", "b") for _ in range(n)]}
    team, i = given["teams"]["team"][0], int(rng.integers(m))
    given["guarantees"] = {team: {f"resource{i + 1}": int(rng.integers(1, 5))}}
    objective = one_of(rng, fo.Leximin(), fo.MaxMin(), fo.Total(fo.Tasks()), fo.AlphaFair(2))
    return Draw(given, fo.Policy(objective))


def ideals(rng: Rng) -> Draw:
    """Kalai-Smorodinsky, above nothing, guarantees, or a point."""
    given = any_instance(rng, least=2, room=40)
    n = len(given["demands"])
    at = [0.0, *(rng.integers(0, 3, n - 1) / 16).tolist()] if rng.random() < 0.4 else None
    return Draw(given, fo.KalaiSmorodinsky(at))


def exactly(rng: Rng) -> Draw:
    """Exact answers of what has any."""
    given = one_of(rng, CATEGORIES["pools"], CATEGORIES["servers"], CATEGORIES["guarantees"])(rng).given
    share = one_of(rng, fo.DominantShare(), fo.Tasks(), fo.PNormShare(1))
    objectives = [fo.Leximin(share), fo.MaxMin(share), fo.Total(share), fo.OrderedWeighted((3, 2, 1), share)]
    policy = one_of(rng, *map(fo.Policy, objectives), fo.Policy(fo.MaxMin(share).then(fo.Total(fo.Tasks()))))
    return Draw(given, policy, {"exact": True})


def in_use(rng: Rng) -> Draw:
    """What is held beside the answer."""
    draw = CATEGORIES["pools"](rng)
    return Draw(draw.given | {"held": [0.25] * len(draw.given["demands"])}, draw.policy)


DRAWS |= {
    "hierarchies": hierarchies,
    "secured teams": secured_teams,
    "ideals": ideals,
    "exact": exactly,
    "in use": in_use,
}
EARLIER_FILES = "earlier"  # a category: files of tests/data, as earlier versions wrote them


def kind_of(policy: Any) -> str:
    """The kind of a policy: its objective, and whether there are conditions."""
    objective = getattr(policy, "objective", policy)
    return type(objective).__name__ + (", conditions" if getattr(policy, "constraints", ()) else "")


def seconds_of(what: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the seconds it took."""
    begun = time.perf_counter()
    with patience(PATIENCE):
        found = what()
    return found, time.perf_counter() - begun


@dataclass
class Tally:
    """What became of the answers of a kind."""

    words: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def row(self, kind: str) -> dict[str, Any]:
        """Of the table."""
        middle = {
            what: 1e3 * median(s) if (s := self.seconds[what]) else math.nan
            for what in ("allocate", "save", "plain", "verify")
        }
        words = {word: self.words[word] for word in ("proved", "not proved", "cannot", "not certified")}
        return {
            "kind": kind,
            **words,
            **{f"{what} ms": ms for what, ms in middle.items()},
            "verify / allocate": middle["verify"] / middle["allocate"],
        }


def saved(draw: Draw, path: Path, tally: Tally) -> Any:
    """The answer to a draw, saved and verified; None without an answer."""
    try:
        instance = fo.Instance(**draw.given)
        options = draw.options | ({"integral": True} if draw.how[0] == "whole" else {})
        answer, took = seconds_of(lambda: draw.policy.allocate(instance, **options))
    except (fo.FairoptError, TooLong):  # of which fuzz.py asks more
        tally.words["not certified"] += 1
        return None
    tally.seconds["allocate"].append(took)
    for what, evidence in (("plain", False), ("save", True)):
        tally.seconds[what].append(seconds_of(lambda e=evidence: answer.save(path, evidence=e))[1])
    found, took = seconds_of(lambda: fo.verify(path))
    tally.seconds["verify"].append(took)
    word = "proved" if found.ok else "cannot" if found.statement.startswith("cannot") else "not proved"
    tally.words[word] += 1
    return found


# -- changes ----------------------------------------------------------------------------------------------------------

WHERE: dict[str, str] = {  # by kind a pattern of the path of what is changed
    "tasks": r"tasks_by_server/\d+/\d+",
    "price": r"evidence/.*prices/\d+/\d+",
    "multiplier": r"evidence/.*(rows|kept)/\d+/[12]",
    "mixture": r"evidence/.*mixtures/\d+/\d+",
    "line": r"evidence/.*(levels/\d+|slope)",
    "unit": r"evidence/\d+/unit",
    "users of a level": r"evidence/.*users/\d+",
    "tier's tasks": r"evidence/\d+/(tasks/\d+/\d+|level)",
    "capacity": r"instance/capacities/.*",
    "demand": r"instance/demands/.*\d",
    "limit": r"instance/task_limits/\d+",
    "weight": r"instance/weights/\d+",
    "counts": r"instance/counts/\d+",
    "eligibility": r"instance/eligible/\d+/\d+",
    "coefficient": r"given/.*\d",
    "bundle": r"bundles/.*\d",
    "placement": r"placement/.*\d",
    "rate": r"instance/rates/\d+/\d+",
    "held": r"instance/held/.*\d",
    "guarantee": r"instance/guarantees/.*",
    "exact number": r"(exact|evidence/\d+/(point|levels/\d+/(of_numbers|prices)))/.*",
    "objective": "objective",
    "stated price": r"prices/\d+/\d+",
}
KINDS = (
    *WHERE,
    "policy",
    "another proof",
    "another policy",
    "another number",
    "exchange",
    "tasks moved",
    "tasks scaled",
    "key deleted",
    "key twice",
    "true for a number",
    "negative",
    "other objective",
    "other held",
    "team as a user",
    "events",
    "file cut",
)


def leaves(data: Any, path: str = "") -> list[str]:
    """Paths of the values that are neither lists nor dicts."""
    if isinstance(data, (dict, list)):
        items = data.items() if isinstance(data, dict) else enumerate(data)
        return [leaf for key, value in items for leaf in leaves(value, f"{path}/{key}" if path else str(key))]
    return [path]


def holder(data: Any, path: str) -> tuple[Any, Any]:
    """The list or dict that a path leads to, and the last key."""
    *before, last = path.split("/")
    for key in before:
        data = data[int(key)] if isinstance(data, list) else data[key]
    return data, int(last) if isinstance(data, list) else last


def value_at(data: Any, path: str) -> Any:
    """What a path leads to."""
    held, key = holder(data, path)
    return held[key]


def lists_of(data: Any, roots: tuple[str, ...]) -> list[str]:
    """Paths of the lists in some parts of a file."""
    found: list[str] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, list):
            found.append(path)
        if isinstance(value, (list, dict)):
            for key, one in value.items() if isinstance(value, dict) else enumerate(value):
                visit(one, f"{path}/{key}")

    for root in roots:
        visit(data.get(root), root)
    return found


def changed(rng: Rng, value: Any) -> Any:
    """Another value: mostly by a relative size from 1e-12 to 1e2."""
    if isinstance(value, bool) or value is None:
        return one_of(rng, not value, 0, 1.5, "no")
    if isinstance(value, str):  # a fraction, or a name
        try:
            exact = Fraction(value)
        except ValueError:
            return value + "x"
        near = exact * (1 + Fraction(one_of(rng, 1, -1), 10 ** int(rng.integers(0, 25))))
        return str(one_of(rng, near, near, near, -exact, 0, exact + 1, float(exact), f"{exact}/0", exact / 2))
    if rng.random() < 0.7:
        return (float(value) or 1.0) * (1 + one_of(rng, 1.0, -1.0) * 10.0 ** rng.uniform(-12, 2))
    others = (-value, 0, math.nan, math.inf, str(value), None, value + 1, value / 2, [value], True, 1e300, 1e-300)
    return one_of(rng, *others)


EARLIER: list[Data] = []  # files before, of any kind
ENTRIES: tuple[Data, ...] = (  # one of each kind, which fit two users of a pool at least
    {"kind": "bottlenecks"},
    {"kind": "pulled"},
    {"kind": "bundles"},
    {"kind": "empty"},
)


def shape_of(data: Data) -> tuple[int, ...]:
    """The numbers of users, servers and resources."""
    return tuple(len(data["instance"][what]) for what in ("users", "servers", "resources"))


def of_another(rng: Rng, data: Data, part: str) -> None:
    """Put numbers of another file into a file; or its proof or policy, with other tasks most of the time.

    Of files of the same shape where there are any: else evidence is mostly refused for its length.
    """
    alike = [one for one in EARLIER if shape_of(one) == shape_of(data)]
    other = one_of(rng, *(alike if len(alike) > 1 and rng.random() < 0.8 else EARLIER))
    if part == "another number":  # or a list of them
        both = sorted({*leaves(data)} & {*leaves(other)} - {"policy"})
        path = one_of(rng, *both).rsplit("/", int(rng.integers(0, 3)))[0]
        (mine, key), (theirs, _) = holder(data, path), holder(other, path)
        mine[key] = theirs[key]
        return
    if part == "another policy":
        data["policy"] = other["policy"]
    elif rng.random() < 0.5:
        data["evidence"] = [dict(one_of(rng, *ENTRIES))]
        users = data["instance"]["users"]
        n = len(users)
        if data["evidence"][0]["kind"] == "pulled":
            data["evidence"][0]["pairs"] = [[users[j], users[k]] for j, k in rng.integers(n, size=(n, 2)) if j != k]
    else:
        data |= {part: other[part] for part in ("exact", "evidence") if part in other}
    if rng.random() < 0.7:  # any feasible tasks, so that what is proved of them is mostly wrong
        tasks = np.array(data["tasks_by_server"])
        data["tasks_by_server"] = (tasks * rng.uniform(0.3, 1, tasks.shape)).tolist()


def mutated(rng: Rng, text: str, kind: str) -> str | None:
    """A file with one change of a kind; None if it has nothing of the kind."""
    if kind == "file cut":
        return text[: rng.integers(1, len(text))]
    data = json.loads(text)
    if kind == "key twice":  # in any dict, with another value
        at = [m.start() for m in re.finditer(r'"\w+": ', text)]
        begin = at[rng.integers(len(at))]
        key = re.match(r'"\w+": ', text[begin:])
        return text[:begin] + f"{key[0] if key else ''}{one_of(rng, 0, 1, 'null', '[]')}, " + text[begin:]
    if kind not in (
        "objective",
        "other objective",
        "stated price",
    ):  # which would be refused for what they were worth before
        data["objective"] = data["prices"] = None
    tasks = np.array(data["tasks_by_server"])
    n = len(tasks)
    if kind in WHERE:
        if kind == "eligibility" and not data["instance"]["eligible"]:
            data["instance"]["eligible"] = np.ones(tasks.shape, dtype=bool).tolist()
        unread = "evidence/" if "proof" in data else "none"  # of files with both, the checker reads the proof
        paths = [p for p in leaves(data) if re.fullmatch(WHERE[kind], p) and not p.startswith(unread)]
        if not paths:
            return None
        held, key = holder(data, paths[rng.integers(len(paths))])
        held[key] = changed(rng, held[key]) if kind != "users of a level" else int(rng.integers(-1, n + 1))
    elif kind.startswith("another"):
        of_another(rng, data, kind)
    elif kind in ("true for a number", "negative"):
        roots = ("instance", "tasks_by_server", "proof", "exact", "bundles", "placement")
        paths = leaves({key: data[key] for key in roots if key in data})
        paths = [p for p in paths if isinstance(v := value_at(data, p), (int, float)) and not isinstance(v, bool)]
        if kind == "negative":
            named = [p for p in paths if re.match(r"instance/(weights|guarantees|rates|held|task_limits)", p)]
            paths = named or paths
        if not paths:
            return None
        path = paths[rng.integers(len(paths))]
        held, key = holder(data, path)
        held[key] = True if kind != "negative" else -abs(held[key]) or -1
    elif kind == "other objective":
        data["objective"] = one_of(rng, 0, -1, 1e9, True, False, "1", [], math.nan, -(data["objective"] or 1.0))
    elif kind == "other held":
        data["instance"]["held"] = one_of(rng, [], -1, {}, [-1] * n, [1] * (n + 1), "all", {"nobody": 1}, [[1]] * n)
    elif kind == "team as a user":
        labels = [*(data["instance"].get("teams") or {}).values()]
        if not labels:
            return None
        column, users = labels[rng.integers(len(labels))], data["instance"]["users"]
        old, new = one_of(rng, *column), one_of(rng, *users)
        column[:] = [new if name == old else name for name in column]
    elif kind == "events":
        lists = [path for path in lists_of(data, ("proof", "evidence", "exact")) if len(value_at(data, path)) > 0]
        if not lists:
            return None
        some = value_at(data, lists[rng.integers(len(lists))])
        k = int(rng.integers(len(some)))
        change = one_of(rng, "removed", "twice", "order", "all")
        if change == "removed":
            del some[k]
        elif change == "twice":
            some.insert(k, some[k])
        elif change == "order":
            some.reverse()
        else:
            some.clear()
    elif kind == "policy":
        data["policy"] = changed_policy(rng, data["policy"])
    elif kind == "exchange":
        if n < 2:
            return None
        a, b = rng.choice(n, 2, replace=False)
        one = one_of(rng, "tasks_by_server", "demands", "weights", "task_limits")
        rows = data[one] if one == "tasks_by_server" else data["instance"][one]
        rows[a], rows[b] = rows[b], rows[a]
    elif kind == "tasks moved":  # from a user to another, as many as fit there
        s = int(rng.integers(tasks.shape[1]))
        a, b = rng.integers(n, size=2)
        part = 10.0 ** rng.uniform(-10, 0) * tasks[a, s]
        needs = np.array(data["instance"]["demands"])
        mine, other = (needs[j, s] if needs.ndim == 3 else needs[j] for j in (a, b))
        moved = np.min(np.divide(mine, other, where=other > 0, out=np.full(len(mine), np.inf)))
        tasks[a, s] -= part
        tasks[b, s] += part * moved if np.isfinite(moved) else 0.0
        data["tasks_by_server"] = tasks.tolist()
    elif kind == "tasks scaled":
        data["tasks_by_server"] = (tasks * (1 - 10.0 ** rng.uniform(-10, 0))).tolist()
    else:
        paths = [path.rsplit("/", int(rng.integers(0, 3)))[0] for path in leaves(data)]
        held, key = holder(data, one_of(rng, *paths))
        del held[key]
    return json.dumps(data)


def changed_policy(rng: Rng, text: str) -> str:
    """A policy with another number, or with a name or a bracket in another's place."""
    numbers = [*re.finditer(r"(?<![\w.])-?\d+(\.\d+)?(e-?\d+)?", text)]
    if numbers and rng.random() < 0.7:
        at = numbers[rng.integers(len(numbers))]
        value = changed(rng, float(at[0]))
        return text[: at.start()] + (f"float('{value}')" if rng.random() < 0.1 else str(value)) + text[at.end() :]
    names = ("Tasks", "DominantShare", "StandAloneShare", "Leximin", "MaxMin", "Total", "EnvyFree", "SharingIncentive")
    found = [*re.finditer(rf"\b({'|'.join(names)})\b", text)]
    if not found or rng.random() < 0.3:
        return one_of(
            rng,
            text.replace(", constraints=[", ", constraints=[MinTasks(0.01), "),
            text.replace("constraints", "conditions"),
            text.replace("constraints=[", "constraints=[], constraints=["),
            text.replace("Policy(", "Policy(-1 * "),
            text.replace("user1", "user9"),
            text.replace("], name", ") name"),
            text.replace("resource", "res"),
        )
    at = found[rng.integers(len(found))]
    return text[: at.start()] + one_of(rng, *names) + text[at.end() :]


# -- references -------------------------------------------------------------------------------------------------------


def reference(text: str) -> str:
    """What the references of fuzz.py say of a file: nothing if it is right."""
    data = json.loads(text, object_pairs_hook=once)
    held, policy = data["instance"], data["policy"]
    if wrong := untyped(data):
        return wrong
    policy = by_position(policy, held)
    tasks = np.array(data["tasks_by_server"], dtype=float)
    for share, c in (data.get("given") or {}).items():
        if share.startswith("IdealGain"):  # which is not taken as given
            continue
        table = c if isinstance(c[0], list) else [[v] * tasks.shape[1] for v in c]
        policy = policy.replace(share, f"Held({tuple(map(tuple, table))!r})")
    given = truth.given_of(held)

    def ranked(k: int, ranks: Any = None, short: str = "refuse") -> fo.Share:  # by user as the references take them
        by_user = isinstance(ranks, dict) and tuple(tuple(ranks.get(user, (1.0,) * k)) for user in held["users"])
        return fo.KDominantShare(k, by_user or ranks, short)

    def ideal(disagreement: Any = None) -> fo.Share:  # of whom nobody can rise, 1: it leaves the objective
        return Held(truth.ideal_gains(given, disagreement))

    asked = eval(policy, NAMES | {"KDominantShare": ranked, "IdealGain": ideal})
    fo.Instance(**held)  # refuses what is not an instance
    names = [name for name in ("users", "resources") if len(set(held[name])) < len(held[name])]
    if names or not np.isfinite(tasks).all():
        return f"{names or 'tasks'}: not an answer"
    if truth.is_tree(asked):
        return truth.wrong_tree(given, asked, data)
    if data.get("exact") and (wrong := truth.wrong_exactly(given, asked, data)):
        return wrong
    question = truth.question_of(given, asked if hasattr(asked, "objective") else None)
    if not question.cluster.pairs:
        return "over: tasks where no user may run any" if tasks.any() else ""
    if data.get("placement") is not None:  # of whole tasks nothing but that they fit is proved
        return question.unfit(tasks) or misplaced(held, tasks, np.array(data["placement"], dtype=float))
    if data.get("bundles") is not None and (wrong := question.unfit(tasks) or overheld(held, tasks, data["bundles"])):
        return wrong
    bundles = data.get("bundles")
    if bundles is not None:  # what no task needs is worth nothing
        bundles = np.array(bundles, dtype=float) * (needs_of(held) > 0)
    certificate = SimpleNamespace(ok=True, solver="any", assumed="")
    answer = SimpleNamespace(
        tasks_by_server=tasks, objective=data.get("objective"), certificate=certificate, bundles=bundles
    )
    own = {key: value for key, value in given.items() if key not in ("team_guarantees", "team_weights") and value != {}}
    if given["team_guarantees"]:  # which the verdicts of fuzz.py do not know
        with truth.kept(given):
            return fuzz_verdicts.judge(Draw(own, asked), answer)
    return fuzz_verdicts.judge(Draw(own, asked), answer)


def once(pairs: list[tuple[str, Any]]) -> Data:
    """A dict without a key that is there twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def untyped(data: Data) -> str:
    """Whether a truth value stands for a number, or the objective is none."""
    parts = {key: data.get(key) for key in ("objective", "tasks_by_server", "prices", "bundles", "placement", "exact")}
    parts["instance"] = {key: value for key, value in data["instance"].items() if key != "eligible"}
    found = [path for path in leaves(parts) if isinstance(value_at(parts, path), bool)]
    says = data.get("objective")
    if says is not None and not (isinstance(says, (int, float)) and math.isfinite(says)):
        found.append("objective")
    return f"{re.sub(r'[0-9]+', '#', found[0])} is not a number" if found else ""


def by_position(policy: str, held: Data) -> str:
    """A policy's text with users and resources named by position."""
    for kind in ("users", "resources"):
        for k, name in enumerate(held[kind]):
            if name != f"{kind[:-1]}{k + 1}":
                policy = policy.replace(f"'{name}'", f"'{kind[:-1]}{k + 1}'")
    return policy


def needs_of(held: Data) -> np.ndarray:
    """Demands by user, server (or one for all) and resource."""
    demands = np.array(held["demands"], dtype=float)
    return demands if demands.ndim == 3 else demands[:, None]


def misplaced(held: Data, tasks: np.ndarray, placed: np.ndarray) -> str:
    """What is wrong with whole tasks by individual server."""
    rows, needs = np.repeat(np.arange(len(held["counts"])), held["counts"]), needs_of(held)
    needs = needs[:, rows] if needs.shape[1] > 1 else needs
    loads, room = (placed[:, :, None] * needs).sum(axis=0), np.array(held["capacities"], dtype=float)[rows]
    sums = np.array([placed[:, rows == s].sum(axis=1) for s in range(len(held["counts"]))]).T
    if (placed < 0).any() or (placed % 1).any() or (loads > room * (1 + fuzz_verdicts.FIT)).any():
        return "over: not whole, or beyond a server"
    return "" if (sums == tasks).all() else "over: other tasks on servers than in all"


def overheld(held: Data, tasks: np.ndarray, bundles: Any) -> str:
    """Whether bundles are too small for the tasks."""
    needs = needs_of(held)
    with np.errstate(all="ignore"):
        fit = np.where(needs > 0, np.array(bundles, dtype=float) / needs, np.inf).min(axis=2)
    return "over: tasks that do not fit in bundles" if (tasks > fit * (1 + fuzz_verdicts.FIT)).any() else ""


def judged(text: str) -> tuple[str, str]:
    """A word of the table for a file that was proved, and what is wrong."""
    try:
        with patience(PATIENCE):
            wrong = reference(text)
    except (TooLong, truth.Unjudged):
        return "undecided", ""
    except Exception as error:  # a file that cannot be read is not an answer
        return "WRONG", f"not an answer: {type(error).__name__}: {error}"
    if wrong == fuzz_verdicts.SMALLER:
        wrong = ""
    if wrong == "" or wrong.startswith(fuzz_verdicts.OPEN) or "worth -inf" in wrong:  # beyond floats
        return ("undecided" if wrong else "right"), ""
    return "WRONG", wrong


def attacked(
    rng: Rng, text: str, path: Path, tallies: dict[str, Counter[str]], bad: list[Data], kinds: list[str]
) -> None:
    """Verify one changed file, and judge it if it is proved."""
    kind = kinds[rng.integers(len(kinds))]
    file = mutated(rng, text, kind)
    if file is None or file == text:
        return
    path.write_text(file, encoding="utf-8")
    try:
        with patience(PATIENCE):
            found = fo.verify(path)
        word, what = judged(file) if found.ok else ("refused", "")
    except Exception as error:
        word, what = "crashed", f"{type(error).__name__}: {error}"
    tallies[kind][word] += 1
    if word not in ("refused", "right"):
        bad.append({"kind": kind, "word": word, "what": what, "file": file, "before": text})
        if word != "undecided":
            print(f"{kind}, {word}: {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Print both tables, and write what is wrong beside them."""
    o = arguments(
        str(__doc__), files=1000, mutations=1000, seed=1, categories=[*DRAWS, EARLIER_FILES], start=0, kinds=list(KINDS)
    )
    answers: dict[str, Tally] = defaultdict(Tally)
    attacks: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    bad: list[Data] = []
    done, proved, tried, begun = 0, 0, o.start, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "answer.json"
        while done < o.files:
            category = o.categories[tried % len(o.categories)]
            rng = np.random.default_rng([o.seed, *category.encode(), tried])
            tried += 1
            if category == EARLIER_FILES:
                name = one_of(rng, *sorted((Path(__file__).parents[1] / "tests/data").glob("*.json")))
                path.write_text(name.read_text(encoding="utf-8"), encoding="utf-8")
                kind, found = "written by earlier versions", fo.verify(path)
                if not found.ok:  # an audit, a wrong answer, or what this way cannot check
                    continue
                answers[kind].words["proved"] += 1
            else:
                draw = DRAWS[category](rng)
                kind = kind_of(draw.policy) + ", exact" * bool(draw.options.get("exact"))
                try:
                    found = saved(draw, path, answers[kind])
                except TooLong:
                    found = SimpleNamespace(ok=False, statement="too long")
                if found is None:
                    continue
            done += 1
            if done % 500 == 0:
                print(f"{done} of {o.files} files", file=sys.stderr, flush=True)
            text = path.read_text(encoding="utf-8")
            if not found.ok:
                bad.append(
                    {
                        "kind": kind,
                        "word": "not proved",
                        "what": found.statement,
                        "file": text,
                        "draw": [category, tried - 1],
                    }
                )
                continue
            proved += 1
            word, what = judged(text)
            if word == "WRONG":  # without a change: the answer is wrong, or the reference
                print(f"{category}, unchanged, {word}: {what}", file=sys.stderr, flush=True)
                bad.append({"kind": f"unchanged {kind}", "word": word, "what": what, "file": text, "before": text})
                continue
            EARLIER.append(json.loads(text))
            while sum(map(Counter.total, attacks.values())) * o.files < done * o.mutations:
                attacked(rng, text, path, attacks, bad, o.kinds)
    title = f"seed {o.seed}, {(time.perf_counter() - begun) / 60:.1f} minutes"
    OUT.mkdir(exist_ok=True)
    (OUT / "verify-bad.json").write_text(json.dumps(bad, indent=1), encoding="utf-8")
    whole = Tally()
    for tally in answers.values():
        whole.words += tally.words
        for what, seconds in tally.seconds.items():
            whole.seconds[what] += seconds
    rows = [tally.row(kind) for kind, tally in sorted(answers.items())]
    show(f"Saved answers, {title}", [*rows, whole.row("all")], "verify")
    words = ("refused", "right", "WRONG", "undecided", "crashed")
    table = [
        {"changed": kind, "tried": found.total(), **{word: found[word] for word in words}}
        for kind, found in attacks.items()
    ]
    sums = {key: sum(row[key] for row in table) for key in ("tried", *words)}
    show(f"Changed files, {title}", [*table, {"changed": "all", **sums}], "verify-changed")
    why = Counter((one["kind"], re.sub(r"[\d.e+-]+", "#", one["what"])[:110]) for one in bad if one["word"] != "right")
    for (kind, what), count in why.most_common(40):
        print(f"{count:5} {kind}: {what}")


if __name__ == "__main__":
    main()
