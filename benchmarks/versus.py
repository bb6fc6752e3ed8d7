"""Notions of a user's own beside the same problem by hand in plain CVXPY: slower, refused, late, below or wrong.

Random notions from the whole language (versus_draws.py): shares, objectives and constraints, shipped and one's own, as
terms, rows, `by_user`, expressions and lambdas, with variables; users and teams, pools and servers, tiers and leximin.
By hand (versus_hand.py) the solver that serves each best counts: HiGHS and Clarabel for linear programs, Clarabel and
ECOS for others, SCS where none of them is right; for leximin linear programs that freeze by multipliers.

Seconds are of the CPU, of the process and of all its children, and count what fairopt does beyond solving: reading the
instance and making the certificate. An answer by hand counts if it fits (1e-6, rows near 1) and is within 1e-6 of the
best that is known, relative to what half of its tasks would lose. Who takes more than twice as long is timed twice.

slower   More than `--slower` times as long as by hand; calls under 10 ms are exempt.
refused  `NotCertified`, or any other error, where an answer by hand is right.
below    Certified, but an answer by hand that fits to 1e-8 is better by over 1e-6, and by over 1e7 of its violation.
wrong    Certified, but rows are broken by over 1e-6.
late     Over the time limit by more than a second.

Run: python benchmarks/versus.py [--seed 1 --draws 200 --users 10,3000 --time-limit 30 --slower 2 --match leximin]
     python benchmarks/versus.py --draw 17 --seed 1   # one draw, with all answers
     python benchmarks/versus.py --table              # the cases of versus_table.py
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections import defaultdict
from typing import Any

from common import OUT, arguments, show  # isort: skip
import numpy as np
from versus_draws import question
from versus_hand import GAINED, NEAR, Answer, Question, hand_answer, timed

import fairopt as fo

EXEMPT = 0.01  # seconds
FITS = 1e-8  # violation up to which a better value by hand counts against fairopt
AGAIN = 5.0  # seconds up to which who is slow is timed again
Row = dict[str, Any]


def by_fairopt(asked: Question, time_limit: float) -> Any:
    """fairopt's answer, the instance read."""
    goal = asked.goal
    policy = fo.Policy(goal.block, [condition.block for condition in asked.conditions])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return policy.allocate(fo.Instance(**asked.given), time_limit=time_limit or None)


def tasks_of(allocation: Any, asked: Question) -> Any:
    """Tasks by pair of an allocation."""
    return np.asarray(allocation.tasks_by_server)[asked.plain.user, asked.plain.server]


def settings(asked: Question) -> list[str]:
    """The ways by hand, in the order in which they are tried."""
    if asked.goal.levels is not None:
        return ["levels"]
    return [
        *(["CLARABEL", "ECOS"] if asked.cone else ["HIGHS", "CLARABEL"]),
        *["CLARABEL tight", "CLARABEL in tasks"],
        *["ECOS in tasks", "SCS"] * asked.cone,
    ]


def by_hand(asked: Question, certified: Any, patience: float) -> tuple[list[Answer], Any]:
    """Answers by hand until one is right, and the best point that is known; the slower ways only where needed."""
    answers: list[Answer] = []
    best = certified
    for setting in settings(asked):
        right = [a for a in answers if is_right(a, asked, best) and (certified is not None or " " in a.solver)]
        if certified is not None and any(a.x is not None and asked.below(certified, a.x) > NEAR for a in answers):
            if any(a.solver == "CLARABEL tight" for a in answers):  # which settles what is better
                break
        elif right and (setting not in ("CLARABEL", "ECOS") or right[0].seconds > 3):
            break
        if setting.startswith("ECOS") and len(asked.plain.user) > 5_000:
            continue
        answers.append(hand_answer(asked, setting, patience))
        x = answers[-1].x
        if x is not None and answers[-1].violation <= FITS and (best is None or is_better(answers[-1], asked, best)):
            best = x
    if best is None:
        fitting = [a.x for a in answers if a.violation <= NEAR]
        best = fitting[0] if fitting else None
        for x in fitting[1:]:
            best = x if asked.below(best, x) > NEAR else best
    return answers, best


def is_better(answer: Answer, asked: Question, point: Any) -> bool:
    """Whether an answer by hand is better than a point, by more than what it breaks explains."""
    return bool(asked.below(point, answer.x) > NEAR + GAINED * answer.violation)


def is_right(answer: Answer, asked: Question, best: Any) -> bool:
    """Whether an answer fits and is as good as the best that is known."""
    if answer.x is None or answer.violation > NEAR or best is None:
        return False
    return asked.below(answer.x, best) <= NEAR


def compared(asked: Question, time_limit: float, slower: float, told: Any = None) -> Row:
    """One question to both."""
    row: Row = {"kind": asked.kind, "users": asked.plain.n, "pairs": len(asked.plain.user), "why": ""}
    found, seconds, wall = timed(lambda: by_fairopt(asked, time_limit))
    row |= {"seconds": seconds, "wall": wall, "method": ""}
    if told is not None:
        told(dict(row))
    certified, x = None, None
    if isinstance(found, Exception):
        row["why"] = f"{type(found).__name__}: {' '.join(str(found).split())[:300]}"
    else:
        certificate = found.certificate
        row["method"] = f"{certificate.method}/{certificate.solver or ''}" + (" assumed" if certificate.assumed else "")
        row["tries"] = [f"{t.solver} {t.status} {t.seconds:.2f}" for t in certificate.tried]
        certified = x = tasks_of(found, asked)
    answers, best = by_hand(asked, certified, time_limit or 30.0)
    right = [a for a in answers if is_right(a, asked, best)]
    fastest = min(right, key=lambda a: a.seconds) if right else None
    hand = fastest.seconds if fastest else float("nan")
    again = fastest is not None and seconds > slower * hand and EXEMPT < seconds < AGAIN
    if again and fastest is not None:
        seconds = min(seconds, timed(lambda: by_fairopt(asked, time_limit))[1])
        hand = min(hand, hand_answer(asked, fastest.solver, time_limit or 30.0).seconds)
    row |= {"seconds": seconds, "hand": hand, "by": fastest.solver if fastest else ""}
    row["ratio"] = float("nan") if fastest is None else seconds / max(hand, 1e-4)
    row["hands"] = [f"{a.solver}: {a.seconds:.3f} s, {a.status}, violation {a.violation:.1e}" for a in answers]
    row["word"] = word(row, asked, x, answers, right, time_limit, slower)
    return row


def word(
    row: Row, asked: Question, x: Any, answers: list[Answer], right: list[Answer], time_limit: float, slower: float
) -> str:
    """What is to be said of it; empty if nothing."""
    if time_limit and row["wall"] > time_limit + 1:
        return "late"
    if x is None:
        return "refused" if right else "neither"
    broken = asked.violation(x)
    if broken > NEAR:
        row["why"] = f"rows broken by {broken:.1e}"
        return "wrong"
    for a in answers:
        if a.x is not None and a.violation <= FITS and is_better(a, asked, x):
            row["why"] = f"{asked.below(x, a.x):.1e} below {a.solver}, which breaks rows by {a.violation:.1e}"
            return "below"
    if row["ratio"] > slower and row["seconds"] > EXEMPT:
        return "slower"
    return ""


# -- a worker that is killed where it hangs ----------------------------------------------------------------------------


def work(pipe: Any, least: int, most: int, time_limit: float, slower: float, graph: str = "") -> None:
    """Answer draws until the parent ends; what it prints goes nowhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for k in range(24):  # so that modules are there
        try:
            compared(question(0, k, 10, 20), 10.0, 1e9)
        except Exception as error:
            pipe.send(("warm", f"{type(error).__name__}: {error}"))
    pipe.send(("ready", None))
    while True:
        seed, k = pipe.recv()
        try:
            if seed < 0:  # a case of the table
                from versus_table import case

                asked, limit = case(k, graph)
            else:
                asked, limit = question(seed, k, least, most), time_limit
            pipe.send(("asked", asked.kind))
            pipe.send(("done", compared(asked, limit, slower, lambda row: pipe.send(("fairopt", row)))))
        except Exception as error:
            import traceback

            pipe.send(("failed", f"{type(error).__name__}: {error} {traceback.format_exc()[-700:]}"))


class Worker:
    """A process that answers draws, started anew where it had to be killed."""

    def __init__(self, *options: Any) -> None:
        self.options = options
        self.process: Any = None

    def start(self) -> None:
        """Start it, and wait until its modules are read."""
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=work, args=(other, *self.options), daemon=False)
        self.process.start()
        while (said := self.pipe.recv())[0] != "ready":
            print("in a warm-up draw:", said[1], file=sys.stderr)

    def ask(self, seed: int, k: int, patience: float) -> Row:
        """What comes of a draw; ``late`` if it does not end in time."""
        if self.process is None or not self.process.is_alive():
            self.start()
        self.pipe.send((seed, k))
        row: Row = {"kind": "?", "users": 0, "why": "", "seconds": float("nan"), "hand": float("nan")}
        end = time.perf_counter() + patience
        while self.pipe.poll(max(0.0, end - time.perf_counter())):
            try:
                what, found = self.pipe.recv()
            except EOFError:
                self.process = None
                return row | {"word": "crashed", "why": "the process died", "ratio": float("nan")}
            if what == "asked":
                row["kind"] = found
            elif what == "fairopt":
                row |= found
            elif what == "done":
                return found
            else:
                return row | {"word": "crashed", "why": found, "ratio": float("nan")}
        self.stop()
        if row.get("wall") is None:
            return row | {"word": "late", "why": f"no answer in {patience:.0f} s", "ratio": float("nan")}
        return row | {"word": "", "why": "by hand takes too long", "ratio": float("nan")}

    def stop(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


def summary(rows: list[Row], by: Any) -> list[Row]:
    """Ratios and words by kind."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for name in by(row):
            groups[name].append(row)
    out = []
    for name, some in groups.items():
        counted = [r["ratio"] for r in some if r["seconds"] > EXEMPT and np.isfinite(r["ratio"])]
        found = np.quantile(counted, [0.5, 0.9, 0.99, 1.0]) if counted else [float("nan")] * 4
        words = [r["word"] for r in some]
        out.append(
            {"kind": name, "draws": len(some), "counted": len(counted)}
            | dict(zip(("median", "90%", "99%", "worst"), map(float, found), strict=True))
            | {w: words.count(w) for w in ("slower", "refused", "below", "wrong", "late", "crashed", "neither")}
        )
    return sorted(out, key=lambda r: (r["kind"] != "all", -r["worst"]))


def parts(row: Row) -> list[str]:
    """All, the objective, each condition, how they are written, whom it is of and where, of a kind."""
    goal, conditions, whom, place = (*row["kind"].split(" | "), "", "", "")[:4]
    found = ["all", goal.partition(" as ")[0].partition(" by ex")[0].partition(" by us")[0], whom, place]
    for name in conditions.split(" + "):
        found.append(f"+ {name.partition(' as ')[0].removeprefix('loose ')}")
        found += [f"written {name.partition(' as ')[2]}"] if " as " in name else []
    return [*found, *(f"written {how}" for how in ("lambda", "expression", "by user") if goal.endswith(how))]


def tell(row: Row) -> str:
    """A line of an offender."""
    numbers = f"{row['seconds']:.3f} s, by hand {row.get('hand', float('nan')):.3f} ({row.get('by', '')})"
    return (
        f"{row['word']:8} seed {row['seed']} draw {row['draw']:5} n {row['users']:5} x{row['ratio']:.1f} {numbers} "
        f"[{row['kind']}] {row.get('method', '')} {row['why']}"
    )


def main() -> None:
    """Print offenders as they are found, and the tables."""
    given = arguments(
        str(__doc__),
        seed=1,
        draws=200,
        first=0,
        draw=-1,
        users=[10, 3000],
        time_limit=30.0,
        slower=2.0,
        match="",
        name="versus",
        table=False,
        cases="",
        graph="",
    )
    if given.table:
        from versus_table import table

        table(given)
        return
    least, most = given.users
    if given.draw >= 0:
        asked = question(given.seed, given.draw, least, most)
        for key, value in compared(asked, given.time_limit, given.slower).items():
            print(f"{key:10} {value}")
        return
    worker, rows = Worker(least, most, given.time_limit, given.slower), list[Row]()
    OUT.mkdir(exist_ok=True)
    try:
        for k in range(given.first, given.first + given.draws):
            if given.match and given.match not in question(given.seed, k, least, most).kind:
                continue
            row = worker.ask(given.seed, k, 4 * max(given.time_limit, 30.0) + 30)
            rows.append({"seed": given.seed, "draw": k} | row)
            if row["word"]:
                print(tell(rows[-1]), flush=True)
            if len(rows) % 20 == 0:
                (OUT / f"{given.name}-draws.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    except KeyboardInterrupt:
        print("interrupted: the tables are of what was done", file=sys.stderr)
    worker.stop()
    if rows:
        show(f"fairopt beside CVXPY by hand, seed {given.seed}, CPU seconds", summary(rows, parts), given.name)
        (OUT / f"{given.name}-draws.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
