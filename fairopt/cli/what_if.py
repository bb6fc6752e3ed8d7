"""``fairopt what-if``: the answers before and after a change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson, Constraints, Integral, OnePolicy, asked
from fairopt.cli.inputs import USUAL, Solving, Source, changes_of, reading
from fairopt.cli.progress import console_for, say, show_json, working, written
from fairopt.cli.values import labelled_number
from fairopt.errors import InvalidBlock
from fairopt.io.saving import write_whole
from fairopt.policy import accepted
from fairopt.questions import WhatIf, idle_sentence
from fairopt.questions.changed import changed
from fairopt.questions.new_servers import with_limits_raised
from fairopt.questions.what_if import answered
from fairopt.report import files
from fairopt.report import what_if as report
from fairopt.report.frames import csv_lines
from fairopt.runtime.display import sentence

PANEL = "Changes"
WHAT_IF = """Show what a change would do: the answers before and after it, both certified, and who gains and loses.

Give one or several changes; together they are one change. Tables show tasks, units of each resource and dominant \
shares before and after, by team and by user. Users gain or lose by their tasks; a team whose members do both, by \
units of the most used resource.

A line warns if somebody's dominant share moves only because a total capacity did, as after adding servers: shares are \
fractions of the total. Compare tasks and units then.

\b
[bold]Examples[/]
  fairopt what-if cluster/ --add a100-00=4
  fairopt what-if cluster/ -p hdrf --weight nlp=2 --plot nlp.png
  fairopt what-if now.json --guarantee web=10 --guarantee vision=16gpu
  fairopt what-if now.json -p drf --drop-resource efa --without audio
  fairopt what-if cluster.json --limit batch=500 --json"""


def _change(name: str, help: str, metavar: str) -> object:
    return typer.Option(name, help=help + "; repeatable.", metavar=metavar, rich_help_panel=PANEL)


@app.command("what-if", no_args_is_help=True, help=WHAT_IF)
@guarded
@reading
def what_if(
    source: Source,
    policy: OnePolicy = None,
    add: Annotated[
        list[str] | None,
        _change("--add", "Add servers like one, such as a100-00=4 for four more", "SERVER=NUMBER"),
    ] = None,
    weight: Annotated[
        list[str] | None, _change("--weight", "Change the weight of a user or a team, such as nlp=2", "NAME=NUMBER")
    ] = None,
    limit: Annotated[
        list[str] | None,
        _change(
            "--limit",
            "Change the task limit of a user (web=100), or what a user or a team takes at most (vision=16gpu)",
            "NAME=NUMBER",
        ),
    ] = None,
    guarantee: Annotated[
        list[str] | None,
        _change(
            "--guarantee",
            "Change what a user (web=10, in tasks) or a team (vision=16gpu, all its units) gets first",
            "NAME=NUMBER",
        ),
    ] = None,
    drop_resource: Annotated[
        list[str] | None,
        _change(
            "--drop-resource",
            "Do not share a resource, such as efa; tasks that need it still run only where it is",
            "RESOURCE",
        ),
    ] = None,
    without: Annotated[list[str] | None, _change("--without", "Leave out a user or a team", "NAME")] = None,
    constraint: Constraints = None,
    plot: Annotated[Path | None, typer.Option(help="Draw who gains and loses to a .png, .pdf or .svg file.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save everything as .json, or the table by user as .csv.")] = None,
    how: Solving = USUAL,
    integral: Integral = False,
    as_json: AsJson = False,
) -> None:
    """Show what a change would do."""
    files.check_output(plot, files.PICTURES)
    files.check_output(out, (".json", ".csv"), source.path)
    if not any((add, weight, limit, guarantee, drop_resource, without)):
        raise InvalidBlock(
            "no change is given; give one, such as --add SERVER=4, --weight NAME=2, --limit, --guarantee, "
            "--drop-resource or --without"
        )
    chosen = asked([policy], constraint)
    added: dict[str, float] = {}
    for one in add or ():
        server, number = labelled_number("--add", one, "server", "a100-00=4")
        added[server] = added.get(server, 0) + number
    given = replace(source, pooled=False).read_as_given()  # servers are named before they are pooled
    numbers = changes_of(given, weight, limit, guarantee)
    other = changed(given, added, drop_resource or (), without or (), **numbers)
    before, after = (source.fitted(source.limited(one.pooled() if source.pooled else one)) for one in (given, other))
    ((name, mechanism),) = chosen(before, source).items()
    with working(name, how.verbose):
        answers = answered(mechanism, before, after, **how.options, integral=integral)
        raised = _with_quotas_raised(answers, mechanism, how.options) if added and not as_json else ""
    if as_json:
        show_json(report.FORMAT, answers.to_dict())
    else:
        say(f"What if: {sentence('; '.join(answers.changes))}", style="bold")
        for table in report.what_if_tables(answers):
            console_for().print(table)
        for line in report.certificates(answers):
            say(line)
        for line in (raised, *answers.sentences):
            if line:
                say(sentence(line), style="yellow" if line in answers.warnings else "")
    if out is not None and out.suffix.lower() == ".json":  # after the answer is shown, in case it cannot be written
        write_whole(out, files.as_json(answers.to_dict()) + "\n")
    elif out is not None:
        columns = report.columns_by(answers, "user")
        write_whole(out, csv_lines(columns, zip(*columns.values(), strict=True)))
    if plot is not None:
        files.write_picture(answers.plot().figure, plot)
    for path in (out, plot):
        written(path)


def _with_quotas_raised(answers: WhatIf, mechanism: Any, options: Mapping[str, Any]) -> str:
    """What more servers bring with quotas as they are, and raised in proportion; empty where these leave nothing idle.

    Such quotas leave what is added idle, so that the change alone says nothing of its worth.
    """
    idle, now, then = idle_sentence(answers.after), answers.before, answers.after
    if not idle:
        return ""
    larger = with_limits_raised(now.instance, then.instance)
    raised = mechanism.allocate(larger, **accepted(mechanism, **options)).tasks.sum()
    return (
        f"{idle}; with quotas raised in proportion to the capacity {raised:,.6g} tasks run, {then.tasks.sum():,.6g} as "
        f"they are and {now.tasks.sum():,.6g} before"
    )
