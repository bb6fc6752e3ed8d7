"""``fairopt prefer``: the points of the (beta, lambda) plane that rank options as people did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fairopt import datasets, plots
from fairopt.cli.commands import AsJson, app, guarded
from fairopt.cli.progress import console_for, working
from fairopt.errors import InvalidBlock, nearest
from fairopt.instance import Instance
from fairopt.io.text_files import about
from fairopt.plots.common import matplotlib_or_missing
from fairopt.report import files
from fairopt.report.frames import csv_text
from fairopt.report.tables import Column, Table, numbers, percents, shortened
from fairopt.tradeoff.preferences import Survey, consistency, read

PREFER = """Find the fairness notions that rank allocations as people did.

OPTIONS is a CSV file with the columns question, option and one for each user, with its tasks; RANKINGS one with the \
columns person, question, option and rank (1 is the best). The measure of fairness and efficiency is evaluated on a \
grid of (beta, lambda); a point is compatible with people whose ranking it shares.

\b
[bold]Examples[/]
  fairopt prefer options.csv rankings.csv
  fairopt prefer options.csv rankings.csv --lam -1,0,1 --plot survey.png
  fairopt prefer options.csv rankings.csv --instance c/ --family fds
  fairopt prefer options.csv rankings.csv --instance 1=c/ --instance 2=d/"""
MOST = 10_000  # numbers of a grid along each axis
NOT_CHECKED = "questions without --instance: weights are equal, and capacities are not checked"


@app.command(no_args_is_help=True, help=PREFER)
@guarded
def prefer(
    options: Annotated[Path, typer.Argument(metavar="OPTIONS", help="CSV: question, option, tasks of each user.")],
    rankings: Annotated[Path, typer.Argument(metavar="RANKINGS", help="CSV: person, question, option, rank.")],
    instance: Annotated[list[str] | None, typer.Option(
        metavar="[QUESTION=]INPUT", help="Demands and capacities of all questions, or of one; repeat it.")] = None,
    family: Annotated[str, typer.Option(help="gfj (tasks), fds (dominant shares) or pnorm:p=2.")] = "gfj",
    beta: Annotated[str, typer.Option(metavar="LOW:HIGH:NUMBER", help="The grid, or numbers as 0.5,2.")] = "-5:5:41",
    lam: Annotated[str, typer.Option(metavar="LOW:HIGH:NUMBER", help="The grid, or numbers as -1,0.")] = "-2:2:41",
    plot: Annotated[Path | None, typer.Option(
        help="Draw compatible people, clusters and ranks, as .png, .pdf or .svg.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a line for each answer (.csv), or all (.json).")] = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Find the points that rank options as people did."""
    files.check(out, (".csv", ".json"))
    files.check(plot, files.PICTURES)
    if plot is not None:
        matplotlib_or_missing()
    betas, lams, aside = _grid(beta, "--beta"), _grid(lam, "--lam"), console_for(stderr=True)
    if ":" in beta and (betas == 0).any():
        betas = betas[betas != 0]
        aside.print("note: beta = 0 is left out, where the measure is undefined", style="dim", soft_wrap=True)
    questions = read(options, rankings)
    instances = _instances(instance or [], list(questions))
    if len(instances) < len(questions):
        aside.print(f"note: {NOT_CHECKED}", style="dim", soft_wrap=True)
    surveys: dict[str, Survey] = {}
    for question, (choices, answers) in questions.items():
        with working(f"question {question}"), about(f"question {question!r}"):
            surveys[question] = Survey(
                choices, answers, family, betas=betas, lams=lams, instance=instances.get(question)
            )
    described, rows = {question: _described(survey) for question, survey in surveys.items()}, _rows(surveys)
    taus, points = zip(*consistency(surveys).values(), strict=True)
    tau = float(np.nanmean(taus)) if np.isfinite(taus).any() else None
    together = {"tau": tau, "explained": float((np.array(points) > 0).mean())}
    text = files.as_json({"questions": described, "all_questions": together, "answers": rows})
    if as_json:
        typer.echo(text)
    else:
        for table in _tables(described):
            console_for().print(table)
        mean = "" if tau is None else f"; mean Kendall tau between questions that differ in scale: {tau:.2f}"
        if len(surveys) > 1:
            share = percents([together["explained"]])[0]
            console_for().print(f"Compatible with one point in all their answers: {share} of people{mean}")
    if out is not None:
        out.write_text(text + "\n" if out.suffix.lower() == ".json" else csv_text(rows), encoding="utf-8", newline="")
    if plot is not None:
        plots.questions(surveys).savefig(plot, dpi=150)
    for path in filter(None, (out, plot)) if not as_json else ():
        console_for().print(f"written: {path}", markup=False, soft_wrap=True)


def _grid(text: str, option: str) -> Any:
    """Numbers of ``low:high:number``, or with commas; a number that rounding keeps from 0 is 0."""
    try:
        low, *rest = text.split(":")
        if not rest:
            return np.array([float(x) for x in text.split(",")])
        high, number = rest
        if int(number) > MOST:
            raise ValueError(number)
        out = np.linspace(float(low), float(high), int(number))
    except (ValueError, TypeError) as error:
        raise InvalidBlock(f"{option} {text}: give low:high:number (at most {MOST:,}), or numbers, as 0.5,2") from error
    return np.where(np.abs(out) < 1e-12 * np.abs(out).max(initial=0.0), 0.0, out)


def _instances(given: list[str], questions: list[str]) -> dict[str, Instance]:
    """The instance of each question that has one."""
    out: dict[str, Instance] = {}
    for text in given:
        question, named, path = text.partition("=")
        if named and question not in questions and not Path(text).exists():
            raise InvalidBlock(f"--instance {text}: there is no question {question!r}; {nearest(question, questions)}")
        own = named and question in questions
        with working(f"reading {path if own else text}"):
            instance = datasets.read(path if own else text)
        out |= {question: instance} if own else {q: out.get(q, instance) for q in questions}
    return out


def _described(survey: Survey) -> dict[str, Any]:
    """One question as plain data."""
    cluster, centres = survey.clusters()
    counts, (wrong, best) = survey.counts, survey.best()
    groups = [{"people": int((cluster == c).sum()), "fairness": centre[0], "efficiency": centre[1],
               "explained": float(survey.select(cluster == c).explained.mean())}
              for c, centre in enumerate(centres.tolist())]  # fmt: skip
    return {
        "people": len(survey.people), "options": list(survey.options), "rankings": len(survey.rankings),
        "explained": float(survey.explained.mean()), "most_compatible": int(counts.max()),
        "betas": survey.betas.tolist(), "lams": survey.lams.tolist(), "counts": counts.tolist(),
        "wrong_pairs": wrong, "best": [list(point) for point in best], "clusters": groups,
    }  # fmt: skip


def _rows(surveys: Mapping[str, Survey]) -> list[dict[str, Any]]:
    """A row for each answer."""
    out = []
    for question, survey in surveys.items():
        cluster = survey.clusters()[0]
        for p, (person, taste) in enumerate(zip(survey.people, survey.tastes.tolist(), strict=True)):
            wrong = survey.wrong[survey.ranking_of[p]]
            out.append({
                "person": person, "question": question, "cluster": int(cluster[p]) + 1, "fairness": taste[0],
                "efficiency": taste[1], "compatible_points": int((wrong == 0).sum()), "wrong_pairs": int(wrong.min()),
            })  # fmt: skip
    return out


def _tables(found: Mapping[str, dict[str, Any]]) -> list[Table]:
    """People, and the points that fit them best, by question; clusters below."""
    names, rows = shortened(list(found)), list(found.values())
    best = [np.array(row["best"]) for row in rows]
    columns = [
        Column("people", numbers([row["people"] for row in rows])),
        Column("compatible", percents(row["explained"] for row in rows)),
        Column("most at a point", numbers([row["most_compatible"] for row in rows])),
        Column("best points", numbers([len(points) for points in best])),
        *(Column(name, [_span(points[:, k]) for points in best]) for k, name in enumerate(("beta", "lam"))),
    ]
    groups = [(f"{name}, {c + 1}", group) for name, row in zip(names, rows, strict=True)
              for c, group in enumerate(row["clusters"])]  # fmt: skip
    about_groups = [
        *(Column(key, numbers([group[key] for _, group in groups])) for key in ("people", "efficiency", "fairness")),
        Column("compatible", percents(group["explained"] for _, group in groups)),
    ]
    best_title = "People who are compatible with some point, and the points with the fewest pairs in the wrong order"
    return [
        Table(best_title, Column("question", names, right=False), [columns]),
        Table("Clusters of people", Column("question, cluster", [n for n, _ in groups], right=False), [about_groups]),
    ]


def _span(values: Any) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
