"""What `fairopt verify` accepts of cone programs: files that are true by construction, and changes of them.

A file of `fairopt.proof/1` is drawn whose optimum is known exactly (`tests/oracle/cone_programs.py`), and must be
proved. Then one to three things in it are changed: a number by a factor of 1e-3 to 1e3 or its sign, two entries of a
list, a claim for a better one, the cones, the sense, or what makes it no file. Two kinds of change forge a proof:
a dual point outside its cone for a point that is not optimal, and a point outside its cone that a poor dual point would
prove optimal. A changed file that is still proved is judged by fractions and by Clarabel. ``WRONG`` must be 0;
``undecided`` are those that Clarabel cannot solve. Of ``larger``, which are listed, the violation is more than is
claimed by the largest term of a row, and not by the sum of its terms, which the checker counts.

    python benchmarks/verify_programs.py --files 500 --mutations 5000
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from common import arguments, show  # isort: skip
import numpy as np
from oracle import cone_programs

from fairopt.checker import verify

Rng = np.random.Generator
STATUSES = ("optimal", "optimal", "infeasible", "unbounded")
NO_FILE = (TypeError, LookupError, ValueError, AttributeError, ArithmeticError)
WORDS = ("refused", "right", "larger", "WRONG", "undecided", "crashed")


def lists_of(data: Any, most: int = 10**9) -> Iterator[list[Any]]:
    """All lists of numbers in a file."""
    if isinstance(data, list):
        if data and all(isinstance(x, (int, float, type(None))) for x in data):
            yield data
        for x in data:
            yield from lists_of(x)
    elif isinstance(data, dict):
        for x in data.values():
            yield from lists_of(x)


def objects_of(data: Any) -> Iterator[dict[str, Any]]:
    """All objects in a file."""
    if isinstance(data, dict):
        yield data
    for x in data.values() if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from objects_of(x)


def one_of(rng: Rng, values: Any) -> Any:
    """One of some values, without NumPy's types."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def changed(rng: Rng, x: float | None) -> float | None:
    """Another number."""
    if x is None:
        return float(rng.integers(-3, 4))
    kind = rng.integers(4)
    if kind == 0:
        return -x
    if kind == 1:
        return x * float(10.0 ** rng.uniform(-3, 3))
    if kind == 2:
        return float(np.nextafter(x, one_of(rng, (-math.inf, math.inf))))
    return x + float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-12, 1))


def number(rng: Rng, data: Any) -> None:
    """Change a number of a list, with a whole one for whole ones."""
    values = one_of(rng, lists_of(data))
    k = int(rng.integers(len(values)))
    if type(values[k]) is int:
        values[k] = max(values[k] + int(rng.integers(-2, 3)), 0)
    else:
        values[k] = changed(rng, values[k])


def in_dual(rng: Rng, data: Any) -> None:
    """Change a number of the dual point, or scale all of it."""
    y = data["dual"]
    if rng.random() < 0.3:
        data["dual"] = [x * one_of(rng, (0.5, 2.0, 1 + 1e-9)) for x in y]
    elif y:
        k = int(rng.integers(len(y)))
        y[k] = changed(rng, y[k])


def in_program(rng: Rng, data: Any) -> None:
    """Change a number of the cost, the matrix or the right side."""
    values = one_of(rng, (data["program"][key]["value"] for key in ("cost", "matrix")))
    values = data["program"]["right"] if rng.random() < 0.4 or not values else values
    k = int(rng.integers(len(values)))
    values[k] = changed(rng, values[k])


def in_point(rng: Rng, data: Any) -> None:
    """Change a number of the point, and the value with it."""
    z = data["point"]
    if z is None:
        return
    k = int(rng.integers(len(z)))
    z[k] = changed(rng, z[k])
    revalue(data)
    if data["claims"]["violation"] is not None and rng.random() < 0.5:
        data["claims"]["violation"] = float(10.0 ** rng.uniform(-12, -6))
    if data["claims"]["gap"] is not None:
        data["claims"]["gap"] = float(10.0 ** rng.uniform(-9, -6))


def revalue(data: Any) -> None:
    """State the value that the point has."""
    if data["claims"]["value"] is not None:
        of = data["program"]["cost"]
        value = sum(c * data["point"][k] for k, c in zip(of["column"], of["value"], strict=True))
        value += data["program"]["offset"]
        data["claims"]["value"] = value if data["sense"] == "minimize" else -value


def consistent(rng: Rng, data: Any) -> None:
    """Change the program or the dual point, and state the value and a bound close to it: only the proof can refuse."""
    one_of(rng, (in_program, in_dual, limits))(rng, data)
    if data["claims"]["status"] == "optimal":
        revalue(data)
        data["claims"] |= {"bound": data["claims"]["value"] - 1e-8 * (1 if data["sense"] == "minimize" else -1)}
        data["claims"] |= {"gap": 1e-6, "violation": one_of(rng, (0.0, 1e-9, 1e-6))}


def limits(rng: Rng, data: Any) -> None:
    """Change or remove limits or radii."""
    which = one_of(rng, (data["limits"]["least"], data["limits"]["most"], data["radius"] or data["limits"]["most"]))
    k = int(rng.integers(len(which)))
    which[k] = None if rng.random() < 0.3 else changed(rng, which[k])
    if rng.random() < 0.1:
        data["radius"] = None


def boxed(data: Any, by: float) -> cone_programs.Reference:
    """Give all columns limits around the point, at which it stays optimal, and add one of cost 1 that is 0 there."""
    program, z = data["program"], data["point"]
    for key, sign in (("least", -1), ("most", 1)):
        held = data["limits"][key]
        data["limits"][key] = [x + sign * by if end is None else end for x, end in zip(z, held, strict=True)]
    program["cost"]["column"].append(program["columns"])
    program["cost"]["value"].append(1.0)
    program["columns"] += 1
    data["limits"]["least"].append(0.0)
    data["limits"]["most"].append(1e6)
    z.append(0.0)
    if data["radius"] is not None:
        data["radius"].append(None)
    return cone_programs.Reference(data)


def direction(rng: Rng, file: cone_programs.Reference, inside: bool) -> np.ndarray:
    """Into the dual cone of one block along its axis, or out of it against the slack."""
    parts = [part for part in file.parts() if part[0] != "zero"]
    kind, at, rows, extra = parts[int(rng.integers(len(parts)))]
    out, s = np.zeros(file.m), file.b - file.a @ np.array(file.data["point"])
    if not inside:
        out[at : at + rows] = -s[at : at + rows]
    elif kind == "psd":
        out[[at + k * (k + 3) // 2 for k in range(extra)]] = 1.0
    else:
        axis = {"soc": [1.0], "exp": [-1.0, 1.0, 1.0], "power": [1.0, 1.0]}.get(kind, [1.0] * rows)
        out[at : at + len(axis)] = axis
    return out


def forged(rng: Rng, data: Any) -> None:
    """A dual point outside its cone that would prove a suboptimal point optimal."""
    if data["claims"]["status"] != "optimal":
        return
    best, file = data["claims"]["value"], boxed(data, float(10.0 ** rng.uniform(-4, 0)))
    tried = [10.0 ** rng.uniform(-2, 1) * direction(rng, file, False) + np.array(data["dual"]) for _ in range(20)]
    y = max(tried, key=file.bound)
    gained = max(file.bound(y) - best * file.sign, 0.0)
    data["dual"], data["point"][-1] = y.tolist(), gained
    claimed(data, gained + best * file.sign, 0.0)


def escaped(rng: Rng, data: Any) -> None:
    """A point outside its cones, of the value that a poor dual point proves."""
    if data["claims"]["status"] != "optimal":
        return
    best, file = data["claims"]["value"], boxed(data, float(10.0 ** rng.uniform(0, 2)))
    y = np.array(data["dual"]) + 10.0 ** rng.uniform(-3, 0) * direction(rng, file, True)
    lost, c = best * file.sign - file.bound(y), np.array(file.c) * (rng.random(file.n) < 0.7)
    c[-1] = 0.0
    if c.any():
        data["dual"], data["point"] = y.tolist(), (np.array(data["point"]) - lost / float(c @ c) * c).tolist()
    claimed(data, best * file.sign - lost, one_of(rng, (0.0, 1e-9, 1e-6)))


def claimed(data: Any, value: float, violation: float) -> None:
    """Claim that a value is optimal."""
    sign = 1 if data["sense"] == "minimize" else -1
    data["claims"] |= {"value": value * sign, "bound": (value - 1e-9 * abs(value) - 1e-9) * sign}
    data["claims"] |= {"gap": 1e-6, "violation": violation}


def claim(rng: Rng, data: Any) -> None:
    """Claim something better, or another status."""
    claims, better = data["claims"], float(10.0 ** rng.uniform(-9, 1))
    if rng.random() < 0.2:
        claims["status"] = one_of(rng, ("optimal", "infeasible", "unbounded"))
    key = one_of(rng, ("value", "bound", "gap", "violation"))
    claims[key] = None if rng.random() < 0.1 else (claims[key] or 0.0) + one_of(rng, (-better, better))


def swapped(rng: Rng, data: Any) -> None:
    """Exchange two entries of a list."""
    values = one_of(rng, lists_of(data))
    a, b = (int(k) for k in rng.integers(len(values), size=2))
    values[a], values[b] = values[b], values[a]


def resized(rng: Rng, data: Any) -> None:
    """Remove or repeat an entry of a list."""
    values = one_of(rng, lists_of(data))
    k = int(rng.integers(len(values)))
    if rng.random() < 0.5:
        values.insert(k, values[k])
    else:
        del values[k]


def duplicated(rng: Rng, data: Any) -> None:
    """Add entries to the matrix: a second one at a place, or two that cancel."""
    of = data["program"]["matrix"]
    if not of["value"]:
        return
    k = int(rng.integers(len(of["value"])))
    by = float(10.0 ** rng.uniform(-3, 12))
    for x in (by, -by)[: 1 + int(rng.random() < 0.7)]:
        of["row"].append(of["row"][k])
        of["column"].append(of["column"][k])
        of["value"].append(x)


def cones(rng: Rng, data: Any) -> None:
    """Read rows as those of other cones, as many in all."""
    of = data["program"]["cones"]
    kind = rng.integers(5)
    if kind == 0 and of["nonneg"]:
        of["zero"], of["nonneg"] = of["zero"] + 1, of["nonneg"] - 1
    elif kind == 1 and of["zero"]:
        of["zero"], of["nonneg"] = of["zero"] - 1, of["nonneg"] + 1
    elif kind == 2 and of["exp"]:
        of["exp"] -= 1
        one_of(rng, (of["power"], of["soc"])).insert(0, 0.5 if rng.random() < 0.5 else 3)
    elif kind == 3 and of["power"]:
        k = int(rng.integers(len(of["power"])))
        of["power"][k] = float(rng.uniform(-0.1, 1.1))
    elif of["soc"]:
        k = of["soc"].pop()
        of["psd" if k == 3 else "soc"].insert(0, 2 if k == 3 else k)


def spoilt(rng: Rng, data: Any) -> None:
    """What no file holds, in the place of something."""
    values = one_of(rng, [*lists_of(data), *objects_of(data)])
    if not values:
        return
    key = one_of(rng, values) if isinstance(values, dict) else int(rng.integers(len(values)))
    kind = rng.integers(4)
    if kind == 0 and isinstance(values, dict):
        del values[key]
    elif kind == 1 and isinstance(values, dict):
        values["more"] = 1.0
    else:
        odd = (math.nan, math.inf, -math.inf, True, False, "1.0", None, [], {}, [1.0], -1, 10**400, 1e300, 5e-324)
        values[key] = one_of(rng, odd)


def sense(rng: Rng, data: Any) -> None:
    """The other sense, with or without the claims turned."""
    data["sense"] = "maximize" if data["sense"] == "minimize" else "minimize"
    if rng.random() < 0.5:
        for key in ("value", "bound"):
            data["claims"][key] = None if data["claims"][key] is None else -data["claims"][key]


CHANGES = (number, in_dual, in_program, in_point, consistent, forged, escaped, limits, claim)
CHANGES += (swapped, resized, duplicated, cones, spoilt, sense)
KINDS = {kind.__name__: kind for kind in CHANGES}


def mutated(rng: Rng, text: str, among: Iterable[str]) -> tuple[Any, list[str]]:
    """A changed file, and the kinds of its one to three changes."""
    data = json.loads(text)
    kinds = [one_of(rng, among) for _ in range(one_of(rng, (1, 1, 2, 3)))]
    for kind in kinds:
        if any(lists_of(data)) and isinstance(data.get("claims"), dict):
            with suppress(*NO_FILE):  # after another change
                KINDS[kind](rng, data)
    return data, kinds


def verdict(text: str, path: Path) -> tuple[str, str]:
    """A word of the table for a changed file, and what is wrong with it if it is proved."""
    path.write_text(text, encoding="utf-8")
    try:
        if not verify(path).ok:
            return "refused", ""
    except Exception as error:
        return "crashed", repr(error)
    try:
        wrong = cone_programs.false(json.loads(text))
        if not wrong and (by_largest := cone_programs.differs(json.loads(text))):
            return "larger", f"violation {by_largest:.1e} of the largest term, and the file claims less"
    except Exception as error:  # what cannot be read is no file
        return "WRONG", f"not a file: {error!r}"
    return ("undecided", "") if wrong is None else ("WRONG" if wrong else "right", wrong)


def main() -> None:
    """Print the table; the exit code is 1 if something is wrong."""
    o = arguments(str(__doc__), files=500, mutations=5000, seed=1, kinds=list(KINDS))
    table: dict[str, Counter[str]] = {kind: Counter() for kind in o.kinds}
    bad, unproved, begun = list[str](), 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "proof.json"
        for k in range(o.files):
            rng = np.random.default_rng([o.seed, k])
            data = cone_programs.drawn(rng, STATUSES[k % len(STATUSES)])
            text = json.dumps(data)
            path.write_text(text, encoding="utf-8")
            unproved += not verify(path).ok
            while sum(map(Counter.total, table.values())) * o.files < (k + 1) * o.mutations:
                data, kinds = mutated(rng, text, o.kinds)
                word, what = verdict(json.dumps(data), path)
                table[kinds[-1]][word] += 1
                bad += [json.dumps(data)] if word in ("WRONG", "crashed") else []
                if what:
                    print(f"{k}, {', '.join(kinds)}, {word}: {what}", file=sys.stderr, flush=True)
    rows = [
        {"changed": kind, "tried": one.total(), **{word: one[word] for word in WORDS}} for kind, one in table.items()
    ]
    rows.append({"changed": "all", **{key: sum(row[key] for row in rows) for key in ("tried", *WORDS)}})
    show(f"Changed programs, seed {o.seed}, {time.perf_counter() - begun:.0f} s", rows, "verify-programs")
    print(f"{unproved} of {o.files} unchanged files are not proved")
    raise SystemExit(1 if bad or unproved else 0)


if __name__ == "__main__":
    main()
