"""Users' blocks as a file writes them, since their code is not read: linear rows, and cone programs in tasks.

With tasks x and further variables v, a part of a program states

    maximise  -c'(x, v) - offset   subject to  b - A (x, v) in K,

beside capacities, limits and fairopt's own constraints, which are computed anew. For y in the dual cone and r = c + A'y

    -c'(x, v)  <=  b'y - sum_k min over the range of v_k of r_k v_k  -  r_x'x,

so that y costs r_x per task, like a price, and adds the rest to the right-hand side (Proposition 15.9 for the further
variables, 15.1 for tasks). Without c this holds with 0 on the left. What is proved is of the rows as written: that they
are what the text of the blocks means is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .instance import Cluster
from .numbers import BLOCK_VIOLATION, Fraction, LinearRow, RowName, Rows, together
from .outcome import CannotCheck, Clock, Fault, short
from .policy import PARAMETERS, Block, tiers_of
from .program import Program, count, floats, listed, places, require

KEYS = ("user", "server", "objective", "program", "constraints", "limits", "radius", "point", "dual")
ROWS = ("name", "equal", "right", "row", "user", "server", "value")


class Charge(NamedTuple):
    """What a dual point costs: per task by pair of user and server, and what it adds to a right-hand side."""

    per_task: dict[tuple[int, int], Fraction]
    value: Fraction


class Part:
    """A cone program in tasks and further variables, with a point and a dual point."""

    def __init__(self, data: Any, tasks: Any, tier: int, clock: Clock) -> None:
        """Read the program of a tier; `Fault` unless it is one, and its point has the tasks of the file."""
        require(data, KEYS, "a program as written")
        self.tier = tier
        self.pairs = list(zip(data["user"], data["server"]))
        n, servers = len(tasks), len(tasks[0]) if tasks else 0
        places(listed(data["user"], "user"), "user", len(data["server"]), n)
        places(data["server"], "server", len(data["user"]), servers)
        if len(set(self.pairs)) < len(self.pairs):
            raise Fault("a program as written has two columns for the tasks of one user on one server")
        self.program = Program(data["program"], data["limits"], data["radius"], clock)
        self.objective = data["objective"]
        if self.objective not in (None, "program", "tangent") or (self.objective is None) == any(self.program.cost):
            raise Fault(
                f"objective is {short(repr(self.objective), 40)}, and the costs of the program are another kind"
            )
        program, self.tasks = self.program, len(self.pairs)
        if self.tasks > program.columns:
            raise Fault("a program as written has fewer columns than tasks")
        for ends in program.range:
            if any(end is not None for end in ends[: self.tasks]):
                raise Fault("a program as written limits tasks, whose ranges follow from the instance")
        self.point = None if data["point"] is None else floats(data["point"], "point", program.columns)
        self.dual = floats(data["dual"], "dual", program.rows)
        for (j, s), x in zip(self.pairs, self.point or ()):
            if x != tasks[j][s]:
                raise Fault(f"the point of a program as written has {x!r} tasks of user {j} on server {s}")
        self.places, self.within = set[Any](), 0.0  # the radius that the bound needs
        self.named = list[tuple[int, int, str]]()
        for one in listed(data["constraints"], "constraints"):
            require(one, ("place", "name", "start", "size"), "a constraint as written")
            start, size = count(one["start"], "start"), count(one["size"], "size")
            if not size or start + size > program.rows or type(one["place"]) not in (int, str):
                raise Fault("a constraint as written has no rows, or others than the program")
            self.places.add(one["place"])
            self.named.append((start, start + size, str(one["name"])))

    def value(self) -> tuple[Fraction, Fraction]:
        """The objective at the point, to be maximised, and the unit of gaps."""
        if self.point is None:
            raise Fault("a program as written states an objective and no point")
        value, unit = self.program.value(self.point)
        return -value, unit

    def charge(self, cluster: Cluster) -> Charge:
        """What the dual point costs; `Fault` if nothing bounds a further variable."""
        found = self.program.bound(self.dual, True, [cluster.most_tasks(j) for j, _ in self.pairs])
        if isinstance(found, int):
            raise Fault(f"column {found} of a program as written has no range on the side that its dual point charges")
        self.within = max([self.program.range.radius[k] or 0.0 for k in found.within], default=0.0)
        return Charge(dict(zip(self.pairs, found.left)), -found.value)

    def remark(self) -> str:
        """What was taken as given beside the program."""
        line = ", whose objective is taken to be below its tangent" * (self.objective == "tangent")
        return line + f", with further variables within {self.within:g}" * (self.within > 0)

    def faults(self) -> list[str]:
        """The first row, cone or limit that the point breaks by more than constraints may be, if any."""
        if self.point is None:  # another program has one
            return []
        for x, radius in zip(self.point, self.program.range.radius):
            if radius is not None and abs(x) > radius:
                return ["the point of a program as written is beyond its radius"]
        broken = self.program.broken(self.point, BLOCK_VIOLATION, self.tasks)
        if broken is None:
            return []
        what, at = broken
        name = next((name for start, end, name in self.named if start <= at < end), f"{what} {at}")
        return [f"{short(name, 60)!r} of a program as written is broken by more than {float(BLOCK_VIOLATION):g} of it"]


def is_own(objective: Block) -> bool:
    """Whether some term of an objective is not fairopt's."""
    return any(term.name not in PARAMETERS for _, term in objective.terms)


def user_defined(policy: Block) -> list[str]:
    """The blocks of a policy that are not fairopt's, besides shares; whole sums, as they are written."""
    conditions = policy.given.get("constraints", [])
    found = [tier.text for tier in tiers_of(policy.given["objective"]) if is_own(tier)]
    for condition in conditions:
        if is_own(condition.given["objective"]) if condition.name == "AtLeast" else condition.name not in PARAMETERS:
            found.append(condition.text)
    return list(dict.fromkeys(found))


class AsWritten:
    """What a file writes of users' blocks: linear rows by place, and the parts of programs that its evidence holds."""

    def __init__(self, data: Mapping[str, Any], tasks: Any, active: Sequence[Sequence[int]], clock: Clock) -> None:
        """Read the rows, and replace the programs of evidence by what they are read as."""
        held = data.get("as_written") or {"text": "", "sha256": hashlib.sha256(b"").hexdigest(), "rows": {}}
        require(held, ("text", "sha256", "rows"), "as_written")
        if not isinstance(held["text"], str) or not isinstance(held["rows"], dict):
            raise Fault("as_written has a text or rows of another kind")
        if held["sha256"] != hashlib.sha256(held["text"].encode("utf-8", "surrogatepass")).hexdigest():
            raise Fault("the text in as_written has another SHA-256 than the one stated beside it")
        self.rows = {place: self._rows(place, given, tasks, active) for place, given in held["rows"].items()}
        self.unused, self.parts = set(self.rows), list[Part]()
        self.levels = list[str]()  # of fairopt's objectives that programs state
        floats_of = [[float(x) for x in row] for row in tasks]
        for k, entry in enumerate(data.get("evidence") or ()):
            if isinstance(entry, dict) and "written" in entry:
                entry["written"] = Part(entry["written"], floats_of, k, clock)
                self.parts.append(entry["written"])
        if self.parts and "as_written" not in data:
            raise Fault("the file has programs of users' blocks, and not their text")

    def _rows(self, place: str, given: Any, tasks: Any, active: Sequence[Sequence[int]]) -> Rows:
        """The rows of a constraint, without users who run nothing."""
        out = Rows()
        for one in listed(given, "rows"):
            require(one, ROWS, "rows as written")
            if not isinstance(one["name"], str) or type(one["equal"]) is not bool:
                raise Fault("rows as written have a name or an 'equal' of another kind")
            right, values = floats(one["right"], "right"), floats(one["value"], "value")
            row = places(one["row"], "row", len(values), len(right))
            user = places(one["user"], "user", len(values), len(tasks))
            server = places(one["server"], "server", len(values), len(tasks[0]) if tasks else 0)
            of_pairs: list[dict[tuple[int, int], Fraction]] = [{} for _ in right]
            for r, j, s, a in zip(row, user, server, values):
                if s in active[j]:
                    of_pairs[r][j, s] = of_pairs[r].get((j, s), Fraction(0)) + Fraction(a)
            for r, (pairs, b) in enumerate(together(of_pairs, right)):
                out.append(LinearRow(pairs, Fraction(b), one["equal"], RowName(int(place), f"{one['name']}[{r}]")))
        return out

    def of(self, condition: Block, place: int | str) -> Rows:
        """The rows of a user's constraint, or kept objective; none where a program states it."""
        if self.rows.get(str(place)):
            self.unused.discard(str(place))
            return self.rows[str(place)]
        if any(place in part.places and part.point is not None for part in self.parts):
            return Rows()
        raise CannotCheck(f"{condition.text} is user-defined, and the file has neither its rows nor its program")

    def check_places(self, policy: Block) -> None:
        """`Fault` if rows or programs are of nothing of the user's: what they add would be taken as given, unsaid."""
        own, conditions = user_defined(policy), policy.given.get("constraints", [])
        if self.unused or (self.parts and not own):
            which = f"rows of the constraint {min(self.unused)!r}" if self.unused else "a program"
            raise Fault(f"the file writes {which}, which is none of the user's")
        for place in {place for part in self.parts for place in part.places if type(place) is int}:
            if not 0 <= place < len(conditions):
                raise Fault(f"a program as written has rows of the constraint {place}, which the policy lacks")
            text = conditions[place].text
            if text not in own and conditions[place].name != "AtLeast":
                raise Fault(f"a program as written has rows of {short(text)}, which is one of fairopt's")
            self.levels += [text] * (text not in own)
        tiers = tiers_of(policy.given["objective"])
        for part in self.parts:
            limited = any(map(is_own, tiers[: part.tier])) or any(type(place) is int for place in part.places)
            limited = limited or any(condition.text in own for condition in conditions)
            if part.objective is None and not limited:  # what a later tier asks for limits no earlier one
                of = "".join(short(tier.text) for tier in tiers[part.tier : part.tier + 1])
                raise Fault(f"the file writes a program of {of}, which no block of the user's limits")

    def remark(self) -> str:
        """What was taken as given beside the programs, in words."""
        levels = "".join(f", with {short(text)}" for text in dict.fromkeys(self.levels))
        return levels + "".join(dict.fromkeys(part.remark() for part in self.parts))

    def faults(self) -> list[str]:
        """What points of programs break."""
        return [fault for part in self.parts for fault in part.faults()]
