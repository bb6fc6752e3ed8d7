"""Linear programs and proofs of the library's exact answers, by VIPR's checker, and mutants of the files.

Each exact answer of the library whose policy is a linear program is solved in fractions; `viprchk`, which must be on
the PATH, has to accept every file. Then one number of a file is changed at a time, anywhere in the program, the point
or the multipliers, or the claimed value everywhere: the file may be refused, or accepted with the value that it had
(a change that matters to nothing), and never with another.

Run: python benchmarks/vipr.py [--mutants 2000 --seed 1 --seconds 60]
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

from common import arguments, show  # isort: skip

from fairopt import datasets
from fairopt.errors import OutOfDomain
from fairopt.exact.vipr import write

NUMBER = re.compile(r"(?<=\s)-?\d+(?:/\d+)?(?=\s)")


def accepted(file: Path) -> str | None:
    """The range that viprchk says it verified, if any."""
    try:
        found = subprocess.run(["viprchk", file], capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    said = re.search(r"Successfully verified optimal value range \[(.*), (.*)\]", found.stdout)
    return f"{said[1]} {said[2]}" if found.returncode == 0 and said else None


def claimed(text: str) -> str:
    """The range that a file claims."""
    return re.search(r"^RTP range (.*)$", text, re.M)[1]  # type: ignore[index]


def mutant(text: str, r: random.Random) -> tuple[str, str]:
    """What was changed, and a file with it changed."""
    kind = r.choice(("value", "value everywhere", "point", "multiplier", "coefficient"))
    old = claimed(text).split()[0]
    new = str(Fraction(old) + r.choice((Fraction(1), Fraction(-1), Fraction(1, r.randint(2, 10**6)))))
    if kind.startswith("value"):
        changed = text.replace(f"RTP range {old} {old}", f"RTP range {new} {new}")
        return kind, changed if kind == "value" else changed.replace(f"most L {old} OBJ", f"most L {new} OBJ")
    begin, end = {"point": ("\nSOL", "\nDER"), "multiplier": ("\nDER", "\0"), "coefficient": ("\nOBJ", "\nRTP")}[kind]
    text += "\0"
    places = [m for m in NUMBER.finditer(text, text.index(begin), text.index(end))]
    m = r.choice(places)
    x = Fraction(m[0])
    y = r.choice((x + 1, x - 1, -x, 2 * x, x + Fraction(1, r.randint(2, 10**6))))
    return kind, (text[: m.start()] + str(y) + text[m.end() :]).rstrip("\0")


def main() -> None:
    """Check all, and mutants of them."""
    options = arguments(__doc__ or "", mutants=2000, seed=1, seconds=60.0)
    if shutil.which("viprchk") is None:
        raise SystemExit("viprchk is not on the PATH; build it from github.com/scipopt/vipr")
    counts, r = Counter[str](), random.Random(options.seed)
    with tempfile.TemporaryDirectory() as temporary:
        files: list[Path] = []
        for k, (case, one) in enumerate(datasets.library().answers(status="optimal")):
            if not one.exact:
                counts["answers without: not exact in the library"] += 1
                continue
            try:
                answer = one.make().allocate(case.instance, exact=True, time_limit=options.seconds)
                made = write(answer, Path(temporary, str(k)), case.name, options.seconds)
            except OutOfDomain:
                counts["answers without: OutOfDomain"] += 1
                continue
            counts["answers with programs" if made.programs else "answers without: not linear"] += 1
            mine = sorted(made.folder.glob("*.vipr"))
            for file in mine:
                good = accepted(file) == claimed(file.read_text())
                counts["files accepted" if good else "files refused"] += 1
                if not good:
                    print("refused:", case.name, one.policy, file.name)
            files += mine
        small = [file for file in files if file.stat().st_size < 100_000]
        changed = Path(temporary, "mutant.vipr")
        for _ in range(options.mutants):
            text = r.choice(small).read_text()
            kind, other = mutant(text, r)
            while other == text:  # -x of 0
                kind, other = mutant(text, r)
            changed.write_text(other)
            found = accepted(changed)
            how = "refused" if found is None else "the same value" if found == claimed(text) else "ANOTHER VALUE"
            counts[f"mutants, {kind}: {how}"] += 1
    show("Proofs for viprchk", [{"what": what, "count": count} for what, count in sorted(counts.items())], "vipr")


if __name__ == "__main__":
    main()
