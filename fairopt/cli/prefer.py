"""``fairopt prefer``: points (beta, lambda) that reproduce the rankings of a survey."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fairopt import datasets, plots
from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.progress import complain, console_for, say, show_json, working, written
from fairopt.cli.values import VALUES, typed_values
from fairopt.errors import InvalidBlock, OutOfTime, nearest
from fairopt.instance import Instance
from fairopt.io.text_files import about
from fairopt.report import files
from fairopt.report.tables import Column, Table, numbers, percents
from fairopt.runtime.clock import Clock
from fairopt.runtime.display import shortened
from fairopt.tradeoff.preferences import Survey, consistency, read

PREFER = """Find the fairness notions that reproduce rankings from a survey.

OPTIONS is a CSV file with the columns question, option and one per user, which holds its tasks. RANKINGS is a CSV \
file with the columns person, question, option and rank (1 is best). The fairness-efficiency measure is evaluated on \
a grid of (beta, lambda). A point is compatible with a person if it ranks the options in the same order. Without \
--instance, weights are equal and capacities are not checked.

\b
[bold]Examples[/]
  fairopt prefer options.csv rankings.csv
  fairopt prefer options.csv rankings.csv --lam -1,0,1 --plot survey.png
  fairopt prefer options.csv rankings.csv --instance c/ --family fds
  fairopt prefer options.csv rankings.csv --instance 1=c/ --instance 2=d/"""
LEGEND = """efficiency, fairness: average over options, where better ranks count more, of the tasks and of minus their \
difference between users. These are not the percentages of fairopt frontier.
most at one point: the largest number of people compatible with the same point.
wrong pairs: the smallest number of pairs of options, over all people, that a point orders differently; points: how \
many points reach it; beta, lam: one of them (a cross in the picture). Most people may be compatible with another \
point."""


@app.command(no_args_is_help=True, help=PREFER)
@guarded
def prefer(
    options: Annotated[Path, typer.Argument(metavar="OPTIONS", help="CSV: question, option, tasks of each user.")],
    rankings: Annotated[Path, typer.Argument(metavar="RANKINGS", help="CSV: person, question, option, rank.")],
    instance: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[QUESTION=]INPUT", help="Demands and capacities for all questions, or for one; repeatable."
        ),
    ] = None,
    family: Annotated[str, typer.Option(help="gfj (tasks), fds (dominant shares) or pnorm:p=2.")] = "gfj",
    beta: Annotated[
        str,
        typer.Option(
            metavar=VALUES, help="Grid (0 is skipped, where the measure is undefined), or numbers such as 0.5,2."
        ),
    ] = "-5:5:41",
    lam: Annotated[str, typer.Option(metavar=VALUES, help="Grid, or numbers such as -1,0.")] = "-2:2:41",
    plot: Annotated[
        Path | None, typer.Option(help="Draw compatible people and clusters to a .png, .pdf or .svg file.")
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time limit for all questions; results so far are shown."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the points that reproduce rankings."""
    files.check_output(plot, files.PICTURES)
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
    of_questions = {question: _found(survey) for question, survey in surveys.items()}
    tau, points = np.array(list(consistency(surveys).values())).T
    together = {"explained": (points > 0).mean(), "tau": np.nanmean(tau) if np.isfinite(tau).any() else None}
    if as_json:
        show_json("fairopt.preferences/1", {"questions": of_questions, "all_questions": together})
    else:
        console_for().print(_table(of_questions))
        say(LEGEND, style="dim")
        if len(surveys) > 1:
            share, mean = percents([together["explained"]])[0], numbers([together["tau"]])[0]
            console_for().print(
                f"People compatible with one point in all their answers: {share}. Mean Kendall tau between questions "
                f"that differ only in scale: {mean}"
            )
    if plot is not None:
        files.write_picture(plots.questions(surveys), plot)
        written(plot)
    asked = sum(len(answers) for _, answers in questions.values())
    reached = sum(len(survey.people) for survey in surveys.values())
    if reached < asked:
        complain(f"stopped by the time limit after {reached} of {asked} answers")


def _instances(given: list[str], questions: Collection[str], clock: Clock) -> dict[str, Instance]:
    """The instance of each question for which one is given."""
    out: dict[str, Instance] = {}
    for text in given:
        question, named, path = text.partition("=")
        if named and question not in questions:
            raise InvalidBlock(f"--instance {text}: unknown question {question!r}; {nearest(question, questions)}")
        with working(f"reading {path or text}"):
            instance = datasets.read(path if named else text, time_limit=clock.left)
        out |= dict.fromkeys([question] if named else questions, instance)
    return out


def _found(survey: Survey) -> dict[str, Any]:
    """One question as plain data: everybody, each cluster and each person."""
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
    """Means over some people, and the points that fit them best."""
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
    """A row per question and per cluster."""
    rows, names = [], []
    for name, question in zip(shortened(list(found)), found.values(), strict=True):
        rows += [question, *question["clusters"]]
        names += [name, *(f"  cluster {c + 1}" for c in range(len(question["clusters"])))]
    titles = {"people": "people", "efficiency": "efficiency", "fairness": "fairness"}
    titles["most_compatible"] = "most at one point"
    columns = [Column(title, numbers([row[key] for row in rows])) for key, title in titles.items()]
    columns.insert(3, Column("compatible", percents(row["explained"] for row in rows)))
    best = [Column("wrong pairs", numbers([row["wrong_pairs"] for row in rows]))]
    best.append(Column("points", numbers([len(row["best"]) for row in rows])))
    best += [Column(name, [f"{row['best_point'][k]:g}" for row in rows]) for k, name in enumerate(("beta", "lam"))]
    title = "People compatible with some point of the grid, and a point that fits them best"
    return Table(title, Column("question", names, right=False), [columns, best])
