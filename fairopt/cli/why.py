"""``fairopt why``: what stops a user or team."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from fairopt.allocation import Allocation
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import DEFAULT, WHAT_POLICY, AsJson, Constraints, asked
from fairopt.cli.inputs import USUAL, Solving, Source, reading, say_notes
from fairopt.cli.progress import console_for, say, show_json, working
from fairopt.instance import Instance
from fairopt.policy import accepted
from fairopt.questions.explain import Explainer
from fairopt.questions.explained_answer import subject_of
from fairopt.questions.explanation import Explanation
from fairopt.questions.next_account import NextAccounts
from fairopt.report.held import held_sentence
from fairopt.report.why import explanation_tables
from fairopt.runtime.display import visible

_ACCOUNT = "account"  # the owners that Slurm's tree names
MAX_NAMES = 100  # teams or users, if none are named
WHY = """Say what stops a user or a team, and what would give it more.

Each full resource, each reached limit and each constraint is raised by 1%, and the policy is solved again; shares \
remain fractions of the present capacities. What is said to stop a user gives it more when raised; the table also has \
what that costs the others. What is named neither in the sentences nor in the table leaves the user as it is.

Where the input has Slurm's accounts with past usage (sshare) and no policy is named: which account is before which, \
by what level of Fair Tree, and what it would take.

Without NAME: one sentence for each team (for each user if there are no teams), the worst off first.

\b
[bold]Examples[/]
  fairopt why cluster/
  fairopt why cluster/ web
  fairopt why cluster/ vision nlp --policy hdrf
  fairopt why cluster/ web -p drf -p fds:alpha=2
  fairopt why cluster/ web -p drf --constraint "MaxShare(0.3)" --json"""


@app.command(no_args_is_help=True, help=WHY)
@guarded
@reading
def why(
    source: Source,
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", show_default=False, help="Users or teams; default: all teams.")
    ] = None,
    policy: Annotated[
        list[str] | None, typer.Option("--policy", "-p", help=WHAT_POLICY + DEFAULT + " Repeatable.")
    ] = None,
    constraint: Constraints = None,
    how: Solving = USUAL,
    as_json: AsJson = False,
) -> None:
    """Say what stops a user or a team."""
    given: list[str | None] = [*policy] if policy else [None]
    chosen = [asked([one], constraint) for one in given]
    instance = source.read()
    turns = None if policy or constraint else _turns(source, instance)
    if turns is not None and all(one in turns.tree.index for one in name or ()):
        found_there = [turns.sentences(one) for one in name or ()]
        if as_json:
            shown = dict(zip(name or (), found_there, strict=True))
            show_json("fairopt.explanations/1", {"explanations": [], "next": turns.to_dict() | {"sentences": shown}})
            return
        for line in (turns.in_order(), *(line for lines in found_there for line in lines)):
            say(visible(line))
        say("By past usage and shares; -p drf, say, tells what stops a fair division of this moment.", style="dim")
        return
    for one in name or ():  # before anything is solved
        subject_of(instance, one)
    found, answers = list[Explanation](), list[Allocation]()
    for of in chosen:
        ((title, mechanism),) = of(instance, source).items()
        with working(title, how.verbose):
            options = accepted(mechanism, **how.options)
            about = Explainer(mechanism.allocate(instance, **options), how.time_limit)
            found += [about.explain(one, bool(name)) for one in name or about.worst_first()[:MAX_NAMES]]
            answers += [about.allocation] * (len(found) - len(answers))
    kind = "teams" if instance.teams.mixed else "users"
    if not name and len(about.worst_first()) > MAX_NAMES:
        say_notes([f"at most {MAX_NAMES} {kind} are explained, the worst off; name others"])
    if as_json:
        show_json("fairopt.explanations/1", {"explanations": [e.to_dict() for e in found]})
        return
    for k, each in enumerate(found):
        lines = each.sentences if name else each.sentences[:1]
        if len(chosen) > 1 and (k == 0 or found[k - 1].policy != each.policy):
            say(f"{each.policy}:", style="bold")
        for line in lines:
            say(visible(line))
        if name and (held := held_sentence(answers[k], each.name)):
            say(visible(held))
        if name:
            for table in explanation_tables(each):
                console_for().print(table)


def _turns(source: Source, instance: Instance) -> NextAccounts | None:
    """Which accounts are next, if the input has their past usage."""
    rules = source.rules(instance, None) if source.options.get("users", _ACCOUNT) == _ACCOUNT else None
    if rules is None or not any(one.usage for one in rules.accounts):
        return None
    held = 0.0 if instance.held_tasks is None else instance.held_tasks
    waits = np.asarray(instance.task_limits > held).tolist()
    by = instance.teams.outermost_first[-1] if instance.teams.names else None
    owners = instance.users if by is None else instance.teams[by]
    return NextAccounts(rules.accounts, [str(owner) for owner, one in zip(owners, waits, strict=True) if one and owner])
