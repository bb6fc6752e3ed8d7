"""``fairopt prefer``: the points of the (beta, lambda) plane that rank options as people did."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fairopt import datasets, plots
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.progress import complain, console_for, working
from fairopt.cli.values import VALUES, typed_values
from fairopt.errors import InvalidBlock, OutOfTime, nearest
from fairopt.instance import Instance
from fairopt.io.text_files import about
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers, percents, shortened
from fairopt.runtime.clock import Clock
from fairopt.tradeoff.preferences import Survey, consistency, read

PREFER = """Find the fairness notions that rank allocations as people did.

OPTIONS is a CSV file with the columns question, option and one for each user, with its tasks; RANKINGS one with the \
columns person, question, option and rank (1 is the best). The measure of fairness and efficiency is evaluated on a \
grid of (beta, lambda); a point is compatible with people whose ranking it shares. Without --instance weights are \
equal, and capacities are not checked.

\b
[bold]Examples[/]
  fairopt prefer options.csv rankings.csv
  fairopt prefer options.csv rankings.csv --lam -1,0,1 --plot survey.png
  fairopt prefer options.csv rankings.csv --instance c/ --family fds
  fairopt prefer options.csv rankings.csv --instance 1=c/ --instance 2=d/"""
WORDS = """efficiency, fairness: of options, the best counting most: tasks, and minus their difference between users; \
not the percentages of fairopt frontier.
most at one point: people compatible with one and the same point, the largest number in the heat map.
wrong pairs: the fewest pairs of options that a point orders otherwise than people, all together; points: how many \
have so few; beta, lam: one of them (a cross in the picture), not always where most people are compatible."""


@app.command(no_args_is_help=True, help=PREFER)
@guarded
def prefer(
    options: Annotated[Path, typer.Argument(metavar="OPTIONS", help="CSV: question, option, tasks of each user.")],
    rankings: Annotated[Path, typer.Argument(metavar="RANKINGS", help="CSV: person, question, option, rank.")],
    instance: Annotated[
        list[str] | None,
        typer.Option(metavar="[QUESTION=]INPUT", help="Demands and capacities of all questions or one; repeat it."),
    ] = None,
    family: Annotated[str, typer.Option(help="gfj (tasks), fds (dominant shares) or pnorm:p=2.")] = "gfj",
    beta: Annotated[
        str, typer.Option(metavar=VALUES, help="The grid, less 0 where there is no measure; or numbers as 0.5,2.")
    ] = "-5:5:41",
    lam: Annotated[str, typer.Option(metavar=VALUES, help="The grid, or numbers as -1,0.")] = "-2:2:41",
    plot: Annotated[
        Path | None, typer.Option(help="Draw compatible people and clusters, as .png, .pdf or .svg.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Seconds for all questions; what was compared by then is shown."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the points that rank options as people did."""
    files.check(plot, files.PICTURES)
    grid = {"betas": typed_values("--beta", beta), "lams": typed_values("--lam", lam)}
    grid["betas"] = [b for b in grid["betas"] if b != 0 or ":" not in beta]
    clock, questions = Clock(time_limit), read(options, rankings)
    instances = _instances(instance or [], questions, clock)
    surveys: dict[str, Survey] = {}
    for question, (choices, answers) in questions.items():
        try:
            with working(f"question {question}"), about(f"question {question!r}"):
                surveys[question] = Survey(
                    choices, answers, family, **grid, instance=instances.get(question), time_limit=clock.left
                )
        except OutOfTime:
            if not surveys:
                raise
            break
    found = {question: _found(survey) for question, survey in surveys.items()}
    tau, points = np.array(list(consistency(surveys).values())).T
    together = {"explained": (points > 0).mean(), "tau": np.nanmean(tau) if np.isfinite(tau).any() else None}
    if as_json:
        typer.echo(files.as_json({"questions": found, "all_questions": together}))
    else:
        console_for().print(_table(found))
        console_for().print(WORDS, markup=False, style="dim")
        if len(surveys) > 1:
            share, mean = percents([together["explained"]])[0], numbers([together["tau"]])[0]
            console_for().print(
                f"Compatible with one point in all their answers: {share} of people; mean Kendall tau "
                f"between questions that differ in scale only: {mean}"
            )
    if plot is not None:
        files.write_picture(plots.questions(surveys), plot)
        if not as_json:
            console_for().print(f"written: {plot}", markup=False, soft_wrap=True)
    asked = sum(len(answers) for _, answers in questions.values())
    reached = sum(len(survey.people) for survey in surveys.values())
    if reached < asked:
        complain(f"stopped by the time limit after {reached} of {asked} answers")


def _instances(given: list[str], questions: Collection[str], clock: Clock) -> dict[str, Instance]:
    """The instance of each question that has one."""
    out: dict[str, Instance] = {}
    for text in given:
        question, named, path = text.partition("=")
        if named and question not in questions:
            raise InvalidBlock(f"--instance {text}: there is no question {question!r}; {nearest(question, questions)}")
        with working(f"reading {path or text}"):
            instance = datasets.read(path if named else text, time_limit=clock.left)
        out |= dict.fromkeys([question] if named else questions, instance)
    return out


def _found(survey: Survey) -> dict[str, Any]:
    """One question as plain data: all people, each cluster, and each person."""
    cluster, _ = survey.clusters()
    rows = zip(survey.people, cluster.tolist(), survey.tastes.tolist(), survey.wrong, strict=True)
    return {
        "options": list(survey.options),
        "betas": survey.betas.tolist(),
        "lams": survey.lams.tolist(),
        "counts": survey.counts.tolist(),
        **_people(survey),
        "clusters": [_people(survey.select(cluster == c)) for c in range(cluster.max() + 1)],
        "answers": [
            {
                "person": person,
                "cluster": c + 1,
                "fairness": fairness,
                "efficiency": efficiency,
                "compatible_points": int((wrong == 0).sum()),
                "wrong_pairs": int(wrong.min()),
            }
            for person, c, (fairness, efficiency), wrong in rows
        ],
    }


def _people(survey: Survey) -> dict[str, Any]:
    """Some people together: what they ask for, and the points that fit them best."""
    wrong, best = survey.best()
    fairness, efficiency = survey.tastes.mean(axis=0).tolist()
    return {
        "people": len(survey.people),
        "fairness": fairness,
        "efficiency": efficiency,
        "explained": float(survey.explained.mean()),
        "most_compatible": int(survey.counts.max()),
        "wrong_pairs": wrong,
        "best": [list(point) for point in best],
        "best_point": list(survey.best_point),
    }


def _table(found: Mapping[str, dict[str, Any]]) -> Table:
    """A row for each question and each of its clusters."""
    rows, names = [], []
    for name, question in zip(shortened(list(found)), found.values(), strict=True):
        rows += [question, *question["clusters"]]
        names += [name, *(f"  cluster {c + 1}" for c in range(len(question["clusters"])))]
    told = {"people": "people", "efficiency": "efficiency", "fairness": "fairness"}
    told["most_compatible"] = "most at one point"
    columns = [Column(title, numbers([row[key] for row in rows])) for key, title in told.items()]
    columns.insert(3, Column("compatible", percents(row["explained"] for row in rows)))
    best = [Column("wrong pairs", numbers([row["wrong_pairs"] for row in rows]))]
    best.append(Column("points", numbers([len(row["best"]) for row in rows])))
    best += [Column(name, [f"{row['best_point'][k]:g}" for row in rows]) for k, name in enumerate(("beta", "lam"))]
    title = "People who are compatible with some point of the grid, and a point that fits them best"
    return Table(title, Column("question", names, right=False), [columns, best])
