"""An answer in whole tasks on individual servers, and what that loses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairopt import Allocation, Instance, Policy, Tasks, Total
from fairopt.blocks import beyond_limits, limited_units
from fairopt.errors import Infeasible, InvalidBlock, NotCertified
from fairopt.instance import Labelling
from fairopt.policies import label
from fairopt.questions import part_of_capacity
from fairopt.runtime import GAP_TOLERANCE, VIOLATION_TOLERANCE, Clock, Float, Indices, begin, first_of
from fairopt.solve.whole import FROM_WHOLE, Program, WholeTasks, decides_bundles, rounded
from fairopt_clusters.quotas.handed_out import handed_out


@dataclass(frozen=True, eq=False)
class WholeAnswer:
    """Whole tasks by individual server.

    ``servers`` is the instance with a row for each server, ``placement`` (n_users, number of servers) the tasks on
    them. ``notes`` say how they were found, what is lost against the certified answer and what could not be placed.
    """

    answer: Allocation
    servers: Instance
    placement: Float
    notes: tuple[str, ...]


def whole_answer(answer: Allocation, teams: Labelling, integral: bool | str, time_limit: float | None) -> WholeAnswer:
    """The answer itself if its tasks are whole, else its policy's in whole tasks, else the answer rounded.

    Policies are solved again with ``integral``, and if ``"rounded"`` breaks their constraints with True. Mechanisms
    and policies that decide bundles are rounded by largest remainders within each team.
    """
    each, name = as_divided(answer).servers, label(answer.policy)
    if answer.placement is not None:
        return WholeAnswer(answer, each, answer.placement, _of_whole(name, answer, None))
    policy = answer.policy
    made = _solved_whole(answer, integral, time_limit)
    if made is not None and made.placement is not None:
        placement = made.placement
        notes, words = _of_whole(name, made, answer), "fewer whole tasks than in the divisible answer, rounded down"
    else:
        placement = _rounded(answer, teams, time_limit)
        notes = (f"{name}: {_number(answer, placement)}, rounded by largest remainder within each team",)
        words = "could not be placed whole"
    free = not isinstance(policy, Policy) or not policy.constraints
    placement = _within_limits(each, placement, answer.tasks)
    moved = _where_they_run(answer.instance, placement) if free else placement
    placement = placement if beyond_limits(each, moved) > VIOLATION_TOLERANCE else moved
    if _may_grow(policy):
        before, placement = placement, handed_out(answer.instance, placement)
        notes = (*notes, *_more(answer, placement - before))
    return WholeAnswer(
        answer, each, placement, (*notes, *_lost(answer, placement, teams), *_below(answer, placement, teams, words))
    )


def as_divided(answer: Allocation) -> WholeAnswer:
    """A certified answer as it is, without whole tasks."""
    if not answer.certificate.ok:
        raise InvalidBlock(f"the answer is not certified ({answer.certificate}); quotas need one that is")
    each = answer.instance.individual()
    return WholeAnswer(answer, each, np.zeros((each.n_users, each.n_servers)), ())


def _may_grow(policy: Any) -> bool:
    """Whether more tasks never harm: there are no constraints, and the objective does not fall."""
    if not isinstance(policy, Policy):
        return True
    kinds = [term.kind for term in policy.objective.terms()]
    return not policy.constraints and all(kind.is_known and kind.is_concave for kind in kinds)


def _more(answer: Allocation, tasks: Float) -> tuple[str, ...]:
    """How many tasks were added to those of an answer, and of whom."""
    more, users = tasks.sum(axis=1), answer.instance.users
    names = [f"{more[j]:,.0f} of {users[j]}" for j in np.argsort(-more, kind="stable").tolist() if more[j] > 0]
    return tuple(
        [f"what is left goes to teams with the smallest shares whose tasks fit: {first_of(names)}"][: len(names)]
    )


def _solved_whole(answer: Allocation, integral: bool | str, time_limit: float | None) -> Allocation | None:
    """The answer of a policy of blocks in whole tasks; None of others, and if guarantees, limits or time leave none."""
    policy, instance = answer.policy, answer.instance
    if not isinstance(policy, Policy) or decides_bundles(policy.objective):
        return None
    parts_of_tasks = bool((instance.guarantees != np.floor(instance.guarantees)).any()) or bool(
        instance.team_guarantees
    )
    clock = Clock(time_limit)
    try:
        return policy.allocate(instance, integral=integral, time_limit=time_limit)  # type: ignore[arg-type]
    except (Infeasible, NotCertified):
        if integral is not True and policy.constraints:
            return _solved_whole(answer, True, time_limit)
        if not (parts_of_tasks or instance.limits or (clock.late and not policy.constraints)):
            raise
        return None


def _within_limits(each: Instance, placement: Float, tasks: Float) -> Float:
    """A placement without the tasks that limits of an instance do not allow: first of users most above their tasks."""
    if beyond_limits(each, placement) <= VIOLATION_TOLERANCE:
        return placement
    placement = placement.copy()
    for limit, units in zip(each.limits, limited_units(each), strict=True):
        while float((units * placement).sum()) > limit.amount * (1 + VIOLATION_TOLERANCE):
            able = ((units > 0) & (placement >= 1)).any(axis=1)
            j = int(np.argmax(np.where(able, placement.sum(axis=1) - tasks, -np.inf)))
            s = int(np.argmax((units[j] > 0) & (placement[j] >= 1)))
            placement[j, s] -= 1
    return placement


def _number(answer: Allocation, placement: Float) -> str:
    whole, before = float(placement.sum()), float(answer.tasks.sum())
    return f"{whole:,.0f} whole tasks ({before:,.6g} in the certified divisible answer)"


def _of_whole(name: str, made: Allocation, divisible: Allocation | None) -> tuple[str, ...]:
    """How a policy's whole tasks were found, and how much of its objective they lose."""
    whole = made.placement if made.placement is not None else made.tasks_by_server
    number = f"{whole.sum():,.0f} whole tasks" if divisible is None else _number(divisible, whole)
    lost = made.certificate.gap
    words = [f"at most {100 * lost:.3g}% of the objective is lost"] if lost > GAP_TOLERANCE else []
    return (f"{name}: {'; '.join([number, *words, *filter(None, [made.certificate.note])])}",)


def _rounded(answer: Allocation, teams: Labelling, time_limit: float | None) -> Float:
    """The tasks of an answer by individual server: rounded up for the largest remainders, as many as they add up to."""
    tasks, instance = answer.tasks, answer.instance
    down = np.minimum(np.floor(tasks + FROM_WHOLE), instance.task_limits)
    rest = np.maximum(tasks - down, 0.0)
    most = np.array(down)
    alone = len(teams.names) + np.arange(len(tasks))  # a user without a team is one
    team_of = np.where(teams.of_user >= 0, teams.of_user, alone)
    order = np.lexsort((np.arange(len(tasks)), -rest.round(9), team_of))
    ends = np.flatnonzero(np.diff(team_of[order])) + 1
    for members in np.split(order, ends):
        up = int(np.ceil(rest[members].sum() - FROM_WHOLE))
        most[members[:up]] += rest[members[:up]] > FROM_WHOLE
    limited = instance.replace(task_limits=np.minimum(most, instance.task_limits), guarantees=None)
    program = Program(limited, Total(Tasks()), ())
    size = part_of_capacity(instance.per_server_demands, instance.total_capacities, 0.0).max(axis=(1, 2))

    def missing(placement: Float) -> tuple[float, float]:
        """The largest part of a user's tasks that is left out, and the dominant share of all, below zero."""
        short = np.maximum(down - placement.sum(axis=1), 0.0)
        return -round(float(part_of_capacity(short, down, 0.0).max(initial=0.0)), 9), -float(short @ size)

    return rounded(program, program.gather(answer.tasks_by_server), missing, begin(time_limit))


def _where_they_run(instance: Instance, placement: Float) -> Float:
    """The same numbers of tasks, of which those that run now keep their servers, as far as the others then still fit.

    All of them, if the others then fit in the classes of servers of the given placement or elsewhere; else those that
    can move from the given placement to their servers one after another.
    """
    each, totals = instance.individual(), placement.sum(axis=1)
    if each.held is None or each.held.ndim == 1 or each.demands.ndim == 3 or each.rates is not None:
        return placement
    program = Program(instance.replace(task_limits=totals, guarantees=None), Total(Tasks()), ())
    if program.empty:
        return placement
    known = bool((each.held == np.rint(each.held)).all())  # and not divided among the servers of a row
    kept = np.where(each.eligible & known, each.held, 0.0)
    before = np.cumsum(kept, axis=1) - kept
    kept = np.clip(totals[:, None] - before, 0.0, kept)
    beyond = (kept.T @ each.demands > each.capacities).any(axis=1)
    kept[:, beyond] = 0.0
    whole = WholeTasks(program, kept[program.active])
    given = placement[program.active]
    in_rows = instance.derived.by_row(each.held)[program.active]
    for j in whole.large_ones_first:
        for row in np.flatnonzero(in_rows[j] >= 1).tolist():
            mine = whole.row == row
            left = min(in_rows[j, row] - whole.placed[j, mine].sum(), given[j].sum() - whole.held[j].sum())
            if left >= 1 and whole.instance.eligible[j, row]:
                whole.place_on(j, mine, left)
    wanted = np.array([given[:, mine].sum(axis=1) for mine in whole.members]).T
    for j in whole.large_ones_first:
        whole.place_anywhere(j, wanted[j], float(given[j].sum() - whole.held[j].sum()))
    if (whole.totals == given.sum(axis=1)).all():
        return whole.placement()
    whole = WholeTasks(program, given)
    for j in whole.large_ones_first:
        _move_home(whole, j, in_rows[j])
    return whole.placement()


def _move_home(whole: WholeTasks, user: int, in_rows: Float) -> None:
    """Move tasks of a user from rows of servers where more are placed than run now to those where fewer are."""
    over = np.bincount(whole.row, weights=whole.placed[user], minlength=len(in_rows)) - in_rows
    for row in np.flatnonzero((over <= -1) & whole.instance.eligible[user]).tolist():
        here = whole.row == row
        for server in np.flatnonzero((over[whole.row] >= 1) & (whole.placed[user] >= 1)).tolist():
            other = whole.row[server]
            most = min(-over[row], over[other], whole.placed[user, server])
            moved = whole.move(user, server, here, most)
            over[row] += moved
            over[other] -= moved
            if over[row] > -1 or moved + 1 <= most:  # all are back, or no more fit
                break


def _lost(answer: Allocation, placement: Float, teams: Labelling) -> tuple[str, ...]:
    """The team whose dominant share falls most."""
    instance = answer.instance
    shares = []
    for tasks in (answer.tasks_by_server, instance.derived.by_row(placement)):
        used = np.einsum("js,jsi->ji", tasks, instance.per_server_demands)
        units = np.array([used[teams.of_user == t].sum(axis=0) for t in range(len(teams.names))])
        units = units.reshape(len(teams.names), instance.n_resources)
        total = np.broadcast_to(instance.total_capacities, units.shape)
        shares.append(part_of_capacity(units, total, 0.0).max(axis=1, initial=0.0))
    before, after = shares
    fall = part_of_capacity(before - after, before, 0.0)
    if not len(fall) or fall.max() <= GAP_TOLERANCE:
        return ()
    t = int(fall.argmax())
    return (
        f"{teams.names[t]} loses most by it: its dominant share falls from {100 * before[t]:.4g}% to "
        f"{100 * after[t]:.4g}%",
    )


def _below(answer: Allocation, placement: Float, teams: Labelling, words: str) -> tuple[str, ...]:
    """Users with fewer whole tasks than the divisible answer rounded down, and users and teams with none at all."""
    whole, users = placement.sum(axis=1), answer.instance.users
    missing = np.floor(answer.tasks + FROM_WHOLE) - whole
    fewer = [f"{missing[j]:,.0f} of {users[j]}" for j in np.flatnonzero(missing > 0)]
    fair = answer.tasks > FROM_WHOLE
    in_vain = {t: rows for t in range(len(teams.names)) if not whole[rows := np.flatnonzero(teams.of_user == t)].any()}
    turns = [_turn(teams.names[t], rows[fair[rows]], answer) for t, rows in in_vain.items() if fair[rows].any()]
    none = fair & (whole == 0) & (missing <= 0) & ~np.isin(teams.of_user, list(in_vain))
    notes = {
        words: fewer,
        "no whole task for the part of one that is fair": [users[j] for j in np.flatnonzero(none)],
        "no whole task fits, so that the quota is 0 in each run with these tasks": turns,
    }
    return tuple(f"{text}: {first_of(names)}" for text, names in notes.items() if names)


def _turn(team: str, members: Indices, answer: Allocation) -> str:
    """How often a team without a whole task would have one, and how it gets one."""
    part, j = answer.tasks[members].sum(), members[answer.tasks[members].argmax()]
    instance = answer.instance
    user, owed = instance.users[j], bool(instance.guarantees.any() or instance.team_guarantees)
    room = ", if what others are owed leaves room" * owed
    often = f"one in {1 / part:.2g} runs" if part < 1 else "one in each run"
    return f"{team} ({part:.3g} of a task is fair, or {often}; --guarantee '{user}=1' makes this one its turn{room})"
