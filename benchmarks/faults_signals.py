"""Ctrl-C and SIGTERM, as a terminal and a service manager send them, at random moments (a module of `faults`)."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from faults import PATIENCE, Bench, Ended, Fault

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job, and what it starts, ignore it
INTERRUPTS, TERMS = 200, 40
LEFT = 5.0  # seconds for child processes to notice that their parent is gone
PREPARE = """
import numpy as np, fairopt as fo
draw = np.random.default_rng(0)
fo.datasets.write(fo.Instance(draw.uniform(1, 9, (300, 3)), draw.uniform(90, 200, (6, 3))), "c")
fo.datasets.write(fo.datasets.demo(), "small.json")
fo.DRF().allocate(fo.datasets.demo()).save("answer.json")
fo.audit(fo.KDF(2), ["sp"], max_examples=50).save("audit.json")
"""
TABLES = {
    "jobs.csv": "user,arrival,duration,tasks,cpu [core],memory [GiB],gpu,bandwidth [Gbit/s]\n"
    + "".join(f"u{k % 7},{k},{5 + k % 11},3,1,2,0,0\n" for k in range(2000)),
    "options.csv": "question,option,A,B\n2,1,24,28\n2,2,12,32\n2,3,36,24\n2,4,45,0\n",
    "rankings.csv": "person,question,option,rank\n"
    + "".join(f"x,2,{option},{rank}\n" for rank, option in enumerate("3124", 1)),
}
COMMANDS = {
    "solve": "solve c -p drf --out out/a.json",
    "nash": "solve c -p nash --out out/a.csv",
    "ecos": "solve small.json -p nash --solver ECOS --out out/a.json",
    "scs": "solve small.json -p nash --solver SCS --out out/a.json",
    "compare": "compare c -p drf -p fds:alpha=1 -p nash --out out/t.json --plot out/t.png",
    "policies": "policies",
    "solvers": "solvers",
    "help": "--help",
    "demo": "demo --folder out/demo",
    "claims": "claims",
    "audit": "audit 2df --property sp --property pe --max-examples 300 --save out/audit.json",
    "replay": "replay audit.json",
    "verify": "verify answer.json",
    "buy": "buy c -p drf --plot out/buy.png",
    "convert": "convert c out/c.json",
    "frontier": "frontier small.json -f fds --alpha 0:4:9 --out out/f.csv --resume out/r.json",
    "processes": "frontier small.json -f fds --alpha 0:4:9 --processes 2 --out out/f.json",
    "plot": "plot small.json -p drf -p nash --out out/p.png",
    "simulate": "simulate jobs.csv --servers small.json -p drf -p fcfs --out out/s.json",
    "prefer": "prefer options.csv rankings.csv --plot out/p.png",
}
DROPS = """
import fairopt as fo, os, signal
class Drops:
    def allocate(self, instance):
        try:
            os.kill(os.getpid(), signal.SIGINT)
            for _ in range(1000): pass
        except KeyboardInterrupt:
            return fo.DRF().allocate(instance)
"""


@dataclass(frozen=True)
class Sent:
    """A signal that a command got after some seconds: how it ended, and what it left; ``late`` if it had ended."""

    command: str
    number: int
    after: float
    late: bool
    ended: Ended
    left: str

    def fault(self, code: int) -> str:
        """In a few words; empty if it ended as it should, or before the package was imported."""
        told = self.ended.err
        traced = any(word in told for word in ("Traceback", "Exception ignored", "Fatal Python error", "Aborted"))
        if self.left:
            return self.left
        if traced:
            return "" if self.early else "traceback"
        if self.ended.code != code:
            return "hangs" if self.ended.code is None else f"exit {self.ended.code}"
        lines = [line for line in told.splitlines() if "stopped by" in line]
        expected = 1 if self.number == signal.SIGINT else 0
        return "" if len(lines) == expected or not told else f"{len(lines)} lines"

    @property
    def early(self) -> bool:
        """Whether Python itself was still starting, or had still to import `fairopt.runtime.quiet_start`."""
        told = self.ended.err.rpartition("quiet_start")[2]
        return not any(word in told for word in ("fairopt", "site-packages"))


def _broken(folder: Path) -> str:
    """A file that is not whole, of those that commands wrote."""
    for path in (path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.name.startswith("."):
            return "temporary file"
        whole = {".png": data.endswith(b"IEND\xaeB`\x82"), ".csv": data.endswith(b"\n"), ".npy": b"NUMPY" in data[:6]}
        if path.suffix == ".json":
            try:
                json.loads(data)
            except ValueError:
                return f"broken {path.name}"
        elif not whole.get(path.suffix, True):
            return f"broken {path.name}"
    return ""


def _exiting(process: int) -> bool:
    """Whether a process has ended or is about to: no signal reaches it any more."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return words[0] == "Z" or bool(int(words[6]) & 4)  # PF_EXITING


def _children_left(folder: Path) -> bool:
    """Whether any process in this working folder, of any session, still runs after a while; they are killed."""
    until = time.monotonic() + LEFT
    while found := list(_working_in(folder)):
        if time.monotonic() > until:
            for process in found:
                os.kill(process, signal.SIGKILL)
            return True
        time.sleep(0.02)
    return False


def _working_in(folder: Path) -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if os.path.samefile(process / "cwd", folder):
                yield int(process.name)


def _send(bench: Bench, name: str, number: int, after: float, whole_group: bool) -> Sent:
    """Start a command, and send it a signal: to it alone, or as Ctrl-C in a terminal to all its processes."""
    shutil.rmtree(bench.folder / "out", ignore_errors=True)
    (bench.folder / "out").mkdir()
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "fairopt", *COMMANDS[name].split()],
        cwd=bench.folder,
        text=True,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(bench.checkout)},
    )
    try:
        out, err = process.communicate(timeout=after)
        return Sent(name, number, after, True, Ended(process.returncode, out, err, time.perf_counter() - begun), "")
    except subprocess.TimeoutExpired:
        if _exiting(process.pid):
            process.communicate()
            return Sent(name, number, after, True, Ended(process.returncode, "", "", time.perf_counter() - begun), "")
        (os.killpg if whole_group else os.kill)(process.pid, number)
    try:
        out, err = process.communicate(timeout=PATIENCE)
        code: int | None = process.returncode if process.returncode >= 0 else 128 - process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        (out, err), code = process.communicate(), None
    left = "processes left" if _children_left(bench.folder) else _broken(bench.folder / "out")
    return Sent(name, number, after, False, Ended(code, out, err, time.perf_counter() - begun), left)


def _prepare(bench: Bench) -> None:
    done = bench.code(PREPARE)
    assert done.code == 0, done
    for name, text in TABLES.items():
        (bench.folder / name).write_text(text)


def _at_random(bench: Bench, number: int, count: int, whole_group: bool) -> Iterator[Sent]:
    """Signals over all commands in turn, each at a moment of its time that is drawn."""
    draw, seconds = random.Random(0), {}
    for name in COMMANDS:
        ended = _send(bench, name, number, PATIENCE, whole_group)
        assert ended.late and ended.ended.code in (0, 1), (name, ended)
        seconds[name] = ended.ended.seconds
    until = time.monotonic() + bench.seconds
    for k in range(count):
        name = list(COMMANDS)[k % len(COMMANDS)]
        sent = _send(bench, name, number, draw.uniform(0, seconds[name]), whole_group)
        while sent.late:  # the machine is less busy than before
            sent = _send(bench, name, number, sent.after * draw.random(), whole_group)
        yield sent
        if time.monotonic() > until:
            return


def _random(number: int, count: int, whole_group: bool) -> Fault:
    def fault(bench: Bench) -> str:
        _prepare(bench)
        all_sent = list(_at_random(bench, number, count, whole_group))
        found = [(sent, words) for sent in all_sent if (words := sent.fault(128 + number))]
        for sent, words in found:
            print(
                f"{sent.command} after {sent.after:.3f} s, ended at {sent.ended.seconds:.3f}: {words}; {sent.ended}\n"
                f"{sent.ended.err}",
                file=sys.stderr,
            )
        early = sum("Traceback" in sent.ended.err and sent.early for sent in all_sent)
        slowest = max(all_sent, key=lambda sent: sent.ended.seconds - sent.after)
        print(
            f"{len(all_sent)} signals, {early} before the package was imported, the slowest end {slowest.command} "
            f"after {slowest.ended.seconds - slowest.after:.1f} s",
            file=sys.stderr,
        )
        if not found:
            return "" if len(all_sent) == count else f"holds for {len(all_sent)}, then the time was over"
        kinds = Counter(words for _, words in found).most_common()
        return f"{len(found)} of {len(all_sent)}: " + ", ".join(f"{words} {times}" for words, times in kinds)

    return fault


def _first_second(bench: Bench) -> str:
    """By the script ``fairopt``, as installed, every 40 ms."""
    (bench.folder / "bin").mkdir()
    script = bench.folder / "bin" / "fairopt"
    script.write_text("import re\nimport sys\nfrom fairopt.cli import main\nsys.exit(main())\n")
    bad = Counter[str]()
    for k in range(25):
        process = bench.start(str(script), "policies")
        time.sleep(0.1 + 0.04 * k)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        sent = Sent("script", signal.SIGINT, 0.0, False, Ended(code, out, err, 0.0), "")
        bad[sent.fault(130)] += 1
    return ", ".join(f"{words} {times} of 25" for words, times in bad.items() if words)


def _dropped(bench: Bench) -> str:
    _prepare(bench)
    (bench.folder / "drops.py").write_text(DROPS)
    done = bench.fairopt("solve", "small.json", "-p", "drops.py:Drops")
    return "" if done.code == 130 and done.one_line else str(done)


FAULTS: dict[str, Fault] = {
    "the first second, by the script": _first_second,
    "a policy that drops Ctrl-C": _dropped,
    f"{INTERRUPTS} x Ctrl-C at random moments of {len(COMMANDS)} commands": _random(signal.SIGINT, INTERRUPTS, True),
    f"{TERMS} x SIGTERM at random moments": _random(signal.SIGTERM, TERMS, False),
}
