"""``fairopt plot``: draw the answers of one or several policies."""

from __future__ import annotations

import shlex
import textwrap
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt import plots
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import DEFAULT, WHAT_POLICY, AsJson, ask, asked
from fairopt.cli.inputs import USUAL, Solving, Source, reading, say_notes
from fairopt.cli.progress import complain, show_json, working, written
from fairopt.errors import InvalidBlock, nearest
from fairopt.io.text_files import DASH
from fairopt.report import files
from fairopt.report.comparison import Comparison

MOST_PIXELS = 20_000  # per side: larger pictures take gigabytes, and viewers refuse them
PLOT = """Draw the answers of policies in one picture, with a panel for each policy.

\b
[bold]Kinds[/]
{kinds}

Without --out the picture is a .png file in the current folder, named after INPUT and the kind.

\b
[bold]Examples[/]
  fairopt plot cluster/
  fairopt plot cluster/ -p drf -p 2df -p most-tasks --out shares.pdf
  fairopt plot cluster/ -p drf --kind utilisation --width 8 --height 4
  fairopt plot cluster/ -p nash --kind prices
  fairopt plot cluster/ -p drf -p nash --kind region --axis web --axis batch
  fairopt plot cluster/ -p drf --kind demands --axis cpu --axis memory""".format(
    kinds="\n".join(
        textwrap.fill(text, 75, initial_indent=f"  {kind:<12} ", subsequent_indent=" " * 15)
        for kind, text in plots.KINDS.items()
    )
)


@app.command("plot", no_args_is_help=True, help=PLOT)
@guarded
@reading
def plot(
    source: Source,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", "-p", help=WHAT_POLICY + " Repeatable, one panel each." + DEFAULT),
    ] = None,
    kind: Annotated[str, typer.Option(help="A kind of picture listed above.")] = "shares",
    out: Annotated[Path | None, typer.Option(help="A .png, .pdf or .svg file.")] = None,
    axis: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="region: a user; demands: a resource. Give it twice.")
    ] = None,
    width: Annotated[float | None, typer.Option(metavar="INCHES", help="Default: to fit the panels.")] = None,
    height: Annotated[float | None, typer.Option(metavar="INCHES", help="Default: to fit the panels.")] = None,
    dpi: Annotated[int, typer.Option(help="Dots per inch, for .png.")] = 150,
    how: Solving = USUAL,
    as_json: AsJson = False,
) -> None:
    """Draw the answers of policies."""
    size, path = _size(width, height, dpi), out or _named(source.path, kind)
    files.check_output(path, files.PICTURES)
    two = _two(kind, axis)
    of = asked(policy or [None], solver=how.solver)
    instance = source.read()
    chosen = of(instance, source)
    plots.check(instance, kind, how=_how, **two)

    def show(result: Comparison) -> None:
        complaints: list[str] = []
        if result.allocations:
            with working(f"drawing {path}"):
                complaints = _save(lambda: plots.comparison(result, kind=kind, size=size, **two), path, dpi)
            say_notes(complaints)
        made = [str(path)] if result.allocations else []
        if as_json:
            about = {"kind": kind, "written": made, "notes": [*instance.notes, *complaints], "rows": result.rows()}
            show_json("fairopt.picture/1", about)
        elif made:
            written(path)
        for name, error in result.errors.items():
            complain(f"{name}: {type(error).__name__}: {error}")

    ask(chosen, instance, show, **how.options)


def _size(width: float | None, height: float | None, dpi: int) -> tuple[float | None, float | None]:
    """Check the size before anything is solved."""
    if not 10 <= dpi <= 2400:
        raise InvalidBlock(f"--dpi {dpi}: give 10 to 2400 dots per inch")
    for option, inches in (("--width", width), ("--height", height)):
        if inches is not None and not 1 <= inches <= MOST_PIXELS / dpi:
            most = f"{MOST_PIXELS / dpi:.0f} (at {dpi} dots per inch)"
            raise InvalidBlock(f"{option} {inches:g}: give inches, from 1 to {most}")
    return width, height


def _named(input: str, kind: str) -> Path:
    """The default file name, made of INPUT and the kind."""
    if kind not in plots.KINDS:
        raise InvalidBlock(f"--kind {kind}: unknown kind of picture; {nearest(kind, plots.KINDS)}")
    whole = Path("input" if input == DASH else input).resolve()
    return Path(f"{(whole.name if whole.is_dir() else whole.stem) or 'picture'}-{kind}.png")


def _two(kind: str, axis: Sequence[str] | None) -> dict[str, Any]:
    """The argument that ``--axis`` sets for this kind of picture."""
    if not axis:
        return {}
    if kind not in plots.PLANES:
        raise InvalidBlock(f"--axis {axis[0]}: the axes of {kind} are fixed; use --axis with region or demands")
    if len(axis) != 2:
        given = ", ".join(axis)
        raise InvalidBlock(f"--axis {given}: {kind} has two axes; give --axis twice")
    return {plots.PLANES[kind]: tuple(axis)}


def _how(one: str, other: str) -> str:
    """The options that select two names, for messages."""
    return f"--axis {shlex.quote(one)} --axis {shlex.quote(other)}"


def _save(draw: Callable[[], Any], path: Path, dpi: int) -> list[str]:
    """Draw and write the picture; return messages for matplotlib's warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        figure = draw()
        dpi = min(dpi, int(MOST_PIXELS / max(figure.get_size_inches())))  # pictures with many panels are large
        files.write_picture(figure, path, dpi)
    words = list(dict.fromkeys(str(w.message) for w in caught))
    out = [f"{w}: install a font that has it, such as Noto Sans CJK" for w in words if w.startswith("Glyph")][:1]
    if any("layout not applied" in w for w in words):
        out.append("the picture is too small for its text; give a larger --width or --height")
    return out
