"""Answers by the ten thousand, against references: wrong, refused and crashed ones, by category.

Each category draws instances and policies from a seed, asks fairopt through its public interface, and compares with
references that share no code with it: linear programs and leximin level by level in exact fractions, concave objectives
and curved conditions by tangents, closed forms, brute force, definitions. What is wrong is shrunk to code to paste.

ok       What is certified is true: the objective (each sorted level of a leximin; the weighted power mean for
         alpha-fairness; each tier) within 1e-6 of the reference, relatively, capacities and limits to 1e-9, conditions
         of blocks to 1e-7, each by its own size. Or an error is true: nothing satisfies all conditions, by an exact
         program, or a share that is levelled is zero.
open     No better point is known, but the reference's own bound is not close enough to say more.
wrong    Something else is certified.
refused  `NotCertified`. What was refused rightly is counted apart, as ``rightly``: an answer that was made worse on
         purpose, one of SCS asked for alone, one to a problem without limits, which exceeds them, and one to an
         objective whose constants hide a millionth of its changes in floats, where the error says so.
crashed  Any other exception, and `Infeasible`, `Unbounded`, `OutOfDomain`, ... that are untrue.

pools    The fast methods on one server: all objectives and shares; ``servers`` on several, demands by server too.
teams    Shares of teams, and what users or teams have above a base, as guaranteed or given.
plane    (beta, lambda) where the measure is not concave.
weights  Over 9 decades. ``scales``: capacities over 24, users and servers over 12 and 6. ``ties``: twins.
zeros    Limits and totals of shares that some users lack.
blocks   One to four constraints. ``conic``: curved ones of one's own; ``conic-leximin``: leximin under them.
flat     Feasible sets without interior. ``tiers``: two or three.
solvers  Each by name. ``prepared``, ``batches``, ``whole``, ``bundles``, ``by-server``, ``ps-dsf``, ``bottleneck``.
shares   A share of one's own that differs by server, on servers that are alike in all else.
alpha    AlphaFair from 2 to 20 where demands differ by server. ``sums``: beside another term, where they differ by
         decades.
wide     Linear objectives, demands over 8 to 24 decades, by each solver in turn.
read     Problems from which conditions were taken out, added or changed, whose objective was replaced, or whose answer
         was spoilt, and read back. Capacities, limits and eligibility hold even if they were taken out.
traces   Leximin on servers, where some need 1e-4 to 1e-12 of a resource of what others need, or servers almost tie.
own      Bounded objectives of one's own: sums of concave functions of each user's tasks.
constants Sums of multiples of 50 of CVXPY's atoms, with constants up to 1e15 added to the parts or inside atoms, beside
         the same without them. Constants inside that drown differences are refused.
rows     Conditions of one's own with rows of sizes from 1e-8 to 1e8: given, required by a block, or by an objective.
language Known notions as users write them: terms, functions, `Rows`, variables of one's own.
load     Answers of all notions, saved and loaded: what `save` wrote may not be refused.
edited   The same, with all tasks halved in the file: that may not be certified.
wild     Weights, capacities and tasks in units of 1e-58 to 1e58. Errors that name the range of floats are true.
lies     The same, with tasks or evidence of the methods spoilt before the gate, or such tasks read.

Without ``--seconds`` each category gets ``--draws``; with it each gets those first, and what time is left goes to the
category that has had least of it. Ctrl-C prints the table of what was done. Another checkout of the package is asked
by ``PYTHONPATH=../other python benchmarks/fuzz.py``.

Run: python benchmarks/fuzz.py [--seconds 600 --draws 20 --categories pools,tiers --seed 1 --workers 2 --shrink 30]
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections import Counter, defaultdict
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from common import OUT, arguments, median, show  # isort: skip
from fuzz_blocks import NAMES, Draw, pasted
from fuzz_constants import drowned
from fuzz_draws import CATEGORIES, draw_of
from fuzz_shrink import shrunk
from fuzz_verdicts import OPEN, judge, untrue

import fairopt as fo

CHUNK = 10  # draws that a worker takes at once
PATIENCE = 60  # seconds for a draw
EXCEEDS = 1e-6  # of a limit: more than a solver's tolerance
SHOWN = 3  # of a kind, shrunk and printed
OURS = "the fuzzer's own"  # starts what is said of errors in drawing or judging
WORDS = ("wrong", "refused", "rightly", "crashed", "open")  # of the table
Outcome = tuple[str, str, float]  # a word of the table or ok, what is wrong, and seconds of fairopt's


class TooLong(Exception):
    """A draw that took longer than `PATIENCE`."""


@contextmanager
def patience(seconds: int) -> Any:
    """`TooLong` after some seconds."""

    def stop(*_: Any) -> None:
        raise TooLong(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(draw: Draw) -> Outcome:
    """What becomes of a draw."""
    names, begun = dict(NAMES), time.perf_counter()
    error: Exception | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with patience(PATIENCE):
                exec(draw.code, names)
        except Exception as raised:
            error = raised
        seconds = time.perf_counter() - begun
        if isinstance(error, fo.errors.NotCertified):
            without = draw.how[0] == "read" and ("limits",) in draw.how[2]
            beyond = error.best is not None and error.best.certificate.violation > EXCEEDS
            hidden = draw.how[0] == "constants" and "hides differences" in str(error) and drowned(draw)
            return ("rightly" if draw.is_worse or (without and beyond) or hidden else "refused"), "", seconds
        if error is not None and not isinstance(error, fo.FairoptError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} in {os.path.basename(where.filename)}"
            return "crashed", f"{kind}: {error}", seconds
        wrong = judge(draw, names["answer"]) if error is None else untrue(draw, error)
    if not wrong or wrong.startswith(OPEN):
        return "open" if wrong else "ok", "", seconds
    if error is not None:
        return "crashed", f"untrue {type(error).__name__}: {error} ({wrong})", seconds
    return "wrong", wrong, seconds


@dataclass
class Tally:
    """What became of a category's draws."""

    words: Counter[str] = field(default_factory=Counter)
    refused: list[int] = field(default_factory=list)  # draws
    seconds: list[float] = field(default_factory=list)  # fairopt's
    spent: float = 0.0  # of a worker, with drawing and judging
    given_out: int = 0

    def row(self, category: str) -> dict[str, Any]:
        """Of the table."""
        tried = self.words.total()
        return {
            "category": category,
            "tried": tried,
            **{word: self.words[word] for word in WORDS},
            "ms": 1e3 * median(self.seconds) if self.seconds else float("nan"),
            "a second": tried / self.spent if self.spent else float("nan"),
        }


Bad = dict[str, Any]


def work(category: str, seed: int, start: int, many: int) -> tuple[str, list[tuple[int, Outcome]], float]:
    """Outcomes of some draws, in a worker."""
    begun, found = time.perf_counter(), []
    for k in range(start, start + many):
        try:
            found.append((k, outcome(draw_of(category, seed, k))))
        except Exception as error:  # the fuzzer's own
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{OURS} {type(error).__name__} in {place.name}: {error}"
            found.append((k, ("crashed", text, 0.0)))
    return category, found, time.perf_counter() - begun


def shrink(category: str, seed: int, k: int, word: str, what: str, seconds: float) -> Bad:
    """The k-th draw made small, as long as the same word and kind come of it."""
    kind = what.partition(":")[0]

    def same(smaller: Draw) -> bool:
        got, text, _ = outcome(smaller)
        return got == word and text.partition(":")[0] == kind

    found = shrunk(draw_of(category, seed, k), same, seconds)
    return {
        "category": category,
        "draw": k,
        "seed": seed,
        "word": word,
        "what": outcome(found)[1] or what,
        "code": pasted(found.code),
    }


def quiet() -> None:
    """In workers: Ctrl-C is the parent's, and solvers print nowhere."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)


def run(
    categories: list[str], draws: int, seconds: float, seed: int, workers: int, patient: float
) -> tuple[dict[str, Tally], list[Bad]]:
    """Tallies by category, and what is wrong, shrunk; ends early, with what there is, at Ctrl-C."""
    tallies = {category: Tally() for category in categories}
    bad: list[Bad] = []
    end = time.perf_counter() + (seconds or float("inf"))

    def following() -> tuple[str, int, int] | None:
        least = min(categories, key=lambda c: tallies[c].given_out)
        if tallies[least].given_out >= draws:
            if not seconds:
                return None
            least = min(categories, key=lambda c: (tallies[c].spent, tallies[c].given_out))
        start = tallies[least].given_out
        many = min(CHUNK, draws - start) if start < draws else CHUNK
        tallies[least].given_out += many
        return least, start, many

    pool, asked = ProcessPoolExecutor(workers, initializer=quiet), {}  # type: ignore[var-annotated]
    shown = time.perf_counter()
    try:
        while True:
            while len(asked) < workers + 1 and time.perf_counter() < end and (chunk := following()):
                asked[pool.submit(work, chunk[0], seed, *chunk[1:])] = chunk
            if not asked:
                break
            for future in wait(asked, return_when=FIRST_COMPLETED).done:
                chunk = asked.pop(future)
                try:
                    collect(future, seed, tallies, bad)
                except BrokenProcessPool:
                    bad.append(
                        {
                            "category": chunk[0],
                            "draw": chunk[1],
                            "seed": seed,
                            "word": "crashed",
                            "what": f"the process died: in draws {chunk[1]} to {sum(chunk[1:]) - 1}",
                        }
                    )
                    tallies[chunk[0]].words["crashed"] += 1
                    asked.clear()
                    pool = ProcessPoolExecutor(workers, initializer=quiet)
                    break
            if sys.stderr.isatty() or time.perf_counter() - shown > 30:
                shown = time.perf_counter()
                tell(tallies, end)
    except KeyboardInterrupt:
        print("interrupted: the table is of what was done", file=sys.stderr)
        pool.shutdown(wait=False, cancel_futures=True)
        pool = ProcessPoolExecutor(workers, initializer=quiet)
    try:
        bad = smaller(pool, bad, patient)
    except (KeyboardInterrupt, BrokenProcessPool):
        print("not all that failed is shrunk", file=sys.stderr)
    pool.shutdown(wait=False, cancel_futures=True)
    return tallies, bad


def collect(future: Future[Any], seed: int, tallies: dict[str, Tally], bad: list[Bad]) -> None:
    """Count what a worker found."""
    category, found, spent = future.result()
    tally = tallies[category]
    tally.spent += spent
    for k, (word, what, taken) in found:
        tally.words[word] += 1
        tally.seconds.append(taken)
        tally.refused += [k] * (word == "refused")
        if what:
            bad.append({"category": category, "draw": k, "seed": seed, "word": word, "what": what})


def tell(tallies: dict[str, Tally], end: float) -> None:
    """A line of progress."""
    words: Counter[str] = sum((tally.words for tally in tallies.values()), Counter())
    left = end - time.perf_counter()
    line = f"{words.total():,} draws, " + ", ".join(f"{words[w]} {w}" for w in WORDS)
    line += f", {left:.0f} s left" if left < float("inf") else ""
    print(line, end="    \r" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


def smaller(pool: ProcessPoolExecutor, bad: list[Bad], patient: float) -> list[Bad]:
    """All that is wrong, the first few of each category and kind shrunk."""
    kinds: dict[tuple[str, str], list[Bad]] = defaultdict(list)
    for one in bad:
        kinds[one["category"], one["what"].partition(":")[0]].append(one)
    some = [one for group in kinds.values() for one in group[:SHOWN] if patient and not one["what"].startswith(OURS)]
    keys = ("category", "seed", "draw", "word", "what")
    for one, future in [(o, pool.submit(shrink, *(o[k] for k in keys), patient)) for o in some]:
        one |= future.result()
    return bad


def main() -> None:
    """Print what is wrong as code, and the table."""
    options = arguments(
        str(__doc__), seconds=0.0, draws=20, categories=list(CATEGORIES), seed=1, workers=2, shrink=30.0
    )
    begun = time.perf_counter()
    tallies, bad = run(
        options.categories, options.draws, options.seconds, options.seed, options.workers, options.shrink
    )
    kinds: Counter[tuple[str, str]] = Counter()
    for one in sorted(bad, key=lambda b: len(b.get("code", "x" * 10_000))):
        kind = one["category"], one["what"].partition(":")[0]
        kinds[kind] += 1
        if kinds[kind] == 1:
            print(f"# {one['category']}, draw {one['draw']}: {one['word']}, {one['what']}\n{one.get('code', '')}\n")
    for category, tally in tallies.items():
        if tally.refused:
            print(f"refused of {category}: draws {', '.join(map(str, sorted(tally.refused)))}")
    rows = [tally.row(category) for category, tally in tallies.items() if tally.words]
    if not rows:
        return
    sums = {word: sum(row[word] for row in rows) for word in ("tried", *WORDS)}
    everything = [s for tally in tallies.values() for s in tally.seconds]
    spent = sum(tally.spent for tally in tallies.values())
    rows.append({"category": "all", **sums, "ms": 1e3 * median(everything), "a second": sums["tried"] / spent})
    whole = "" if options.categories == list(CATEGORIES) else "-" + "-".join(options.categories)
    minutes = (time.perf_counter() - begun) / 60
    show(f"Fuzzer, seed {options.seed}, {minutes:.1f} minutes ({fo.__file__})", rows, f"fuzz{whole}")
    (OUT / f"fuzz{whole}-bad.json").write_text(json.dumps(bad, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
