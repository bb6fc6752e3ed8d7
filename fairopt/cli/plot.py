"""``fairopt plot``: a picture of what one policy gives, or of several side by side."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt import plots
from fairopt.cli.commands import WHAT_POLICY, Method, Solver, TimeLimit, Verbose, _code, app, guarded
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import STOPPED, complain, console_for, working
from fairopt.errors import FairoptError, InvalidBlock, nearest
from fairopt.formulation import solvers
from fairopt.plots.common import matplotlib_or_missing
from fairopt.report import Comparison, Outcome, ask_all, files, mechanisms

MOST_PIXELS = 20_000  # to a side: larger ones take gigabytes, and viewers refuse them
SHOWN = 3  # of what cannot be read, so much is listed
PLOT = """Draw what policies give: one picture, with a panel for each policy.

\b
[bold]Examples[/]
  fairopt plot cluster/
  fairopt plot cluster/ -p drf -p 2df -p most-tasks --out shares.pdf
  fairopt plot cluster/ -p drf --kind utilisation --width 8 --height 4
  fairopt plot cluster/ -p nash --kind prices
  fairopt plot cluster/ -p drf -p nash --kind region --axis web --axis batch
  fairopt plot cluster/ -p drf --kind demands --axis cpu --axis memory

\b
[bold]Kinds[/]
  shares       shares of each resource by user, stacked
  dominant     dominant shares of users, sorted
  utilisation  the part of each resource in use, by class of servers
  prices       what more of each resource is worth, in % of the dearest
  demands      the plane of two resources: users' demands as lines, and how
               the allocation fills the box of capacities
  region       the plane of two users: the tasks that fit beside each other,
               and where policies put them
  envy         how many more tasks each user would run on what each other
               user holds

Without --out the picture is a .png file in this folder, named after INPUT and the kind."""


@app.command("plot", no_args_is_help=True, help=PLOT)
@guarded
@reading
def plot(
    source: Source,
    policy: Annotated[list[str] | None, typer.Option(
        "--policy", "-p", help=WHAT_POLICY + " Repeat it for panels side by side. Default: drf.")] = None,
    kind: Annotated[str, typer.Option(help="What to draw, as listed above.")] = "shares",
    out: Annotated[Path | None, typer.Option(help="Where to: .png, .pdf or .svg.")] = None,
    axis: Annotated[list[str] | None, typer.Option(
        metavar="NAME", help="region: a user at an axis; demands: a resource. Give two.")] = None,
    width: Annotated[float | None, typer.Option(metavar="INCHES", help="Default: what the panels need.")] = None,
    height: Annotated[float | None, typer.Option(metavar="INCHES", help="Default: what the panels need.")] = None,
    dpi: Annotated[int, typer.Option(help="Dots per inch, for .png.")] = 150,
    solver: Solver = None, method: Method = "auto", time_limit: TimeLimit = None, verbose: Verbose = False,
) -> None:  # fmt: skip
    """Draw what policies give."""
    matplotlib_or_missing()
    size, path = _size(width, height, dpi), out or _named(source.path, kind)
    files.check(path, files.PICTURES)
    two = _two(kind, axis)
    chosen = mechanisms(policy or ["drf"])
    if solver is not None:
        solvers.named(solver)
    instance = source.read()
    plots.check(instance, kind, how=_how, **two)
    outcomes: list[Outcome] = []

    def tell() -> Comparison:
        result = Comparison(instance, tuple(outcomes), tuple(chosen)[len(outcomes) :])
        if result.allocations:
            with working(f"drawing {path}"):
                complaints = _save(lambda: plots.comparison(result, kind=kind, size=size, **two)[0].figure, path, dpi)
            for line in complaints:
                console_for(stderr=True).print(f"note: {line}", markup=False, style="dim", soft_wrap=True)
            console_for().print(f"written: {path}", markup=False, soft_wrap=True)
        for name, error in result.errors.items():
            complain(f"{name}: {type(error).__name__}: {error}")
        return result

    def last_words() -> None:  # what is done is not lost
        try:
            tell()
        except (FairoptError, OSError) as error:  # it may be said in a thread of its own, where nobody would hear it
            complain(f"{type(error).__name__}: {error}")
        complain(f"stopped by Ctrl-C after {len(outcomes)} of {len(chosen)} policies")

    with working(f"{len(chosen)} policies", verbose, last_words):
        left = ask_all(
            chosen, instance, outcomes, method=None if method == "auto" else method, solver=solver,
            time_limit=time_limit, verbose=verbose,
        )  # fmt: skip
    if left:
        last_words()
        raise typer.Exit(STOPPED)
    result = tell()
    if result.errors:
        raise typer.Exit(max(map(_code, result.errors.values())))


# -- pieces ---------------------------------------------------------------------------------------------------


def _size(width: float | None, height: float | None, dpi: int) -> tuple[float | None, float | None]:
    """Inches, or an error before anything is solved."""
    if not 10 <= dpi <= 2400:
        raise InvalidBlock(f"--dpi {dpi}: give 10 to 2400 dots per inch, as 150")
    for option, inches in (("--width", width), ("--height", height)):
        if inches is not None and not 1 <= inches <= MOST_PIXELS / dpi:
            most = f"{MOST_PIXELS / dpi:.0f} (at {dpi} dots per inch)"
            raise InvalidBlock(f"{option} {inches:g}: give inches, from 1 to {most}")
    return width, height


def _named(input: str, kind: str) -> Path:
    """A name for the picture: that of the input, and the kind."""
    if kind not in plots.KINDS:  # it would be part of the name
        raise InvalidBlock(f"--kind {kind}: there is no such picture; {nearest(kind, plots.KINDS)}")
    whole = Path(input).resolve()
    return Path(f"{(whole.name if whole.is_dir() else whole.stem) or 'picture'}-{kind}.png")


def _two(kind: str, axis: Sequence[str] | None) -> dict[str, Any]:
    """What `--axis` means for this kind."""
    if not axis:
        return {}
    if kind not in plots.PLANES:
        raise InvalidBlock(f"--axis {axis[0]}: a picture of {kind} has fixed axes; --axis goes with region and demands")
    if len(axis) != 2:
        given = ", ".join(axis)
        raise InvalidBlock(f"--axis {given}: a picture of {kind} has two axes; give two names, each after --axis")
    return {plots.PLANES[kind]: tuple(axis)}


def _how(one: str, other: str) -> str:
    """How two names are chosen."""
    return f"--axis {shlex.quote(one)} --axis {shlex.quote(other)}"


def _save(draw: Callable[[], Any], path: Path, dpi: int) -> list[str]:
    """Write the picture; what cannot be read in it, and what is warned of, comes back as sentences."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        figure = draw()
        dpi = min(dpi, int(MOST_PIXELS / max(figure.get_size_inches())))  # a picture of very many panels
        figure.savefig(path, dpi=dpi)
        found = plots.unreadable(figure)
    words = list(dict.fromkeys(str(w.message) for w in said))
    out = [w for w in words if w.startswith("no installed font")]
    if found or any("layout not applied" in w for w in words):
        said_of = "; ".join(found[:SHOWN]) + ("; ..." if len(found) > SHOWN else "")
        about = f" ({said_of})" if found else ""
        out.append(f"the picture is too small for its words{about}; give a larger --width or --height")
    return out
