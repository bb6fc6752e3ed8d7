"""What holds under faults: time limits, kernels of OpenBLAS, files, signals, memory, policy files, shards.

Each fault is a few lines that run fairopt in processes of their own, from this checkout or another, and say what did
not hold. The table tells ``holds``, or in a few words what happened, beside ``before``, the same of another checkout.

=================  ==========================================================
`faults_time`      time limits of the methods
`faults_kernels`   the same answer under every kernel of OpenBLAS
`faults_files`     full disks, memory, labels and names of files
`faults_signals`   Ctrl-C and SIGTERM at random moments of all commands
`faults_policies`  policy files and entry points that exit, raise or take input
`faults_shards`    shards that change, and workers that die or stop
`faults_soak`      mixed calls for SECONDS: the same bits, and no more memory
=================  ==========================================================

Run: python benchmarks/faults.py [--before CHECKOUT --groups time,files --only WORD --seconds 1200]
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import arguments, show

HERE = Path(__file__).parent
GROUPS = ("time", "kernels", "files", "signals", "policies", "shards", "soak")
PATIENCE = 300.0  # seconds; a process that runs longer hangs


@dataclass(frozen=True)
class Ended:
    """What a process left: its exit code (128 and more for signals, None if it hung), words and seconds."""

    code: int | None
    out: str
    err: str
    seconds: float

    def __str__(self) -> str:
        lines = (self.err or self.out).strip().splitlines() or [""]
        traceback = "traceback, " if "Traceback (most recent call last)" in self.err else ""
        return f"{'hangs' if self.code is None else f'exit {self.code}'}: {traceback}{lines[-1][:100]}"

    @property
    def one_line(self) -> bool:
        """Whether it ended with an error of one line at most."""
        return "Traceback" not in self.err and len(self.err.strip().splitlines()) <= 1


@dataclass(frozen=True)
class Bench:
    """A checkout to be tried, in a folder of its own; ``seconds`` is how long what has no end goes on."""

    checkout: Path
    folder: Path
    seconds: float

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Python with these arguments, under this checkout."""
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=self.folder,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": str(self.checkout)} | env,
        )

    def run(self, *words: str, patience: float = PATIENCE, **env: str) -> Ended:
        """Python with these arguments, to its end."""
        begun, process = time.perf_counter(), self.start(*words, **env)
        try:
            out, err = process.communicate(timeout=patience)
            code: int | None = process.returncode if process.returncode >= 0 else 128 - process.returncode
        except subprocess.TimeoutExpired:
            process.kill()
            (out, err), code = process.communicate(), None
        return Ended(code, out, err, time.perf_counter() - begun)

    def fairopt(self, *words: str, patience: float = PATIENCE, **env: str) -> Ended:
        """The command ``fairopt``."""
        return self.run("-m", "fairopt", *words, patience=patience, **env)

    def code(self, text: str, *words: str, patience: float = PATIENCE, **env: str) -> Ended:
        """A program that is given as text."""
        return self.run("-c", text, *words, patience=patience, **env)


Fault = Callable[[Bench], str]  # in a few words what did not hold; empty if all did


def faults(groups: Sequence[str], word: str) -> dict[str, Fault]:
    """Faults by group and name, from ``FAULTS`` of each module."""
    found: dict[str, Fault] = {}
    for group in groups:
        module = importlib.import_module(f"faults_{group}")
        found |= {f"{group}: {name}": fault for name, fault in module.FAULTS.items()}
    return {name: fault for name, fault in found.items() if word in name}


def main() -> None:
    """Print and write the table."""
    asked = arguments(str(__doc__), before="", groups=list(GROUPS), only="", seconds=1200.0)
    checkouts = {"after": HERE.parent} | ({"before": Path(asked.before).resolve()} if asked.before else {})
    rows = []
    for name, fault in faults(asked.groups, asked.only).items():
        row = {"fault": name}
        for side in reversed(checkouts):
            with tempfile.TemporaryDirectory() as folder:
                row[side] = fault(Bench(checkouts[side], Path(folder), asked.seconds)) or "holds"
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    show("Faults", rows, "faults")


if __name__ == "__main__":
    main()
