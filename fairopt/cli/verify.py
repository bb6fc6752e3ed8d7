"""``fairopt verify``: prove saved allocations again from their files alone."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fairopt.allocation import Allocation
from fairopt.checker.__main__ import write
from fairopt.checker.outcome import Verification
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import Source, comparing
from fairopt.cli.progress import console_for, show_json, working
from fairopt.exact.vipr import write as written
from fairopt.policies import loading as reading
from fairopt.runtime.clock import checked

VERIFY = """Check saved allocations by arithmetic alone, without a solver.

The check reads only the file. It confirms capacities, limits and constraints in exact fractions, and uses the prices \
in the file to bound every other allocation. The checker shares no code with the rest of fairopt and needs only the \
standard library. --write-checker writes it as one file for those who have no fairopt: it runs on Python 3.9 and later.

A file may also hold a cone program with a point and a dual point, which prove the optimum of any CVXPY problem, or \
that it has none. The program is proved as it is written in the file; its text stands beside it.

A file of fairopt 0.2 or before is upgraded first: its tasks are kept, and evidence is found for them. --upgrade keeps \
the new file.

--vipr writes, for each level of a linear policy, the linear program in fractions as LP text and the proof of its \
optimum in the format of VIPR, whose checker viprchk is by others (https://github.com/scipopt/vipr). Each answer has a \
folder of its own, whose README.txt lists the levels, their values, and what has no such program.

The result shows the size and digest of the cluster. --input compares the cluster in the file with yours and lists the \
differences. The exit code is 0 if all files are proved, else 1.

\b
[bold]Examples[/]
  fairopt solve cluster/ --policy drf --out answer.json
  fairopt verify answer.json
  fairopt verify answer.json --input cluster/
  fairopt verify answers/*.json --json
  fairopt verify --write-checker checker.pyz    # then: python3 checker.pyz answer.json
  fairopt verify answer.json --vipr proofs && viprchk proofs/answer/level-1.vipr"""


ViprFolder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="Write linear programs and their proofs for viprchk into FOLDER/<answer>."),
]
Seconds = Annotated[float | None, typer.Option(metavar="SECONDS", help="Time limit for each file.")]


@app.command(no_args_is_help=True, help=VERIFY)
@guarded
@comparing
def verify(
    source: Source | None,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE...", help="JSON files from 'fairopt solve --out' or Allocation.save."),
    ] = None,
    as_json: AsJson = False,
    tol: Annotated[
        float, typer.Option(min=1e-15, help="The largest gap that is proved; of a program also its violation.")
    ] = 1e-6,
    atol: Annotated[float, typer.Option(min=0.0, help="Of a program: the largest distance from its bound.")] = 0.0,
    time_limit: Seconds = None,
    write_checker: Annotated[
        Path | None,
        typer.Option(metavar="FILE.pyz", help="Write the checker as one file, which runs without fairopt."),
    ] = None,
    upgrade: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write the one FILE in the current format, and check that.")
    ] = None,
    vipr: ViprFolder = None,
) -> None:
    """Check saved allocations."""
    if write_checker is not None:
        write(write_checker)
        console_for().print(f"wrote {write_checker}: python3 {write_checker} ANSWER.json", markup=False, soft_wrap=True)
    elif not paths:
        raise typer.BadParameter("give the files to check, or --write-checker FILE.pyz")
    checked(time_limit)
    if upgrade is not None and len(paths or ()) > 1:
        raise typer.BadParameter("--upgrade takes one file; give them one by one")
    for path in paths or ():
        if not path.is_file():
            raise typer.BadParameter(f"no file {path}; give one that 'solve --out' or Allocation.save wrote")
    if vipr is not None and vipr.exists() and not vipr.is_dir():
        raise typer.BadParameter(f"--vipr {vipr} is a file; give a folder")
    if vipr is not None and len({path.stem for path in paths or ()}) < len(paths or ()):
        raise typer.BadParameter("--vipr names a folder after each file, and two files have one name")
    instance = None if source is None else source.read()
    verifications: dict[str, Verification] = {}
    for path in paths or ():
        with working(str(path), verbose=False):
            path = path if upgrade is None else reading.upgrade(path, upgrade)
            verifications[str(path)] = reading.verify(path, instance, tol=tol, atol=atol, time_limit=time_limit)
        if not as_json:
            name = f"{path}: " if len(paths or ()) > 1 else ""
            console_for().print(f"{name}{verifications[str(path)]}", markup=False, soft_wrap=True)
        if vipr is not None and verifications[str(path)].ok:
            with working(str(path), verbose=False):
                made = written(Allocation.load(path), vipr / path.stem, path.name, time_limit)
            if not as_json:
                console_for().print(f"{path}: {made}", markup=False, soft_wrap=True)
    if as_json and paths:
        show_json(
            "fairopt.verifications/1", {"files": [{"file": name} | asdict(one) for name, one in verifications.items()]}
        )
    if not all(one.ok for one in verifications.values()):
        raise typer.Exit(1)
