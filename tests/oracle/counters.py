"""Virtual token counters (Sheng et al. 2024, Algorithm 2) on one slot in exact fractions, by plain loops."""

from fractions import Fraction

import fairopt as fo


def served(jobs: list[fo.Job], cost: dict[str, int]) -> list[int]:
    """The job of each task in order of start; ties go to whoever was served least recently, then came first."""
    coming = sorted(range(len(jobs)), key=lambda k: jobs[k].arrival)
    left = {k: jobs[k].tasks for k in coming}
    queue: list[int] = []
    counters: dict[str, Fraction] = {}
    last: dict[str, int] = {}
    users: list[str] = []
    now, out, latest = Fraction(0), list[int](), ""

    def waiting() -> set[str]:
        return {jobs[k].user for k in queue if left[k]}

    while coming or waiting():
        if not waiting():
            now = max(now, Fraction(jobs[coming[0]].arrival))
        while coming and jobs[coming[0]].arrival <= now:
            k, others = coming.pop(0), waiting()
            user = jobs[k].user
            if user not in users:
                users.append(user)
            if user not in others:
                least = min((counters[other] for other in others), default=counters.get(latest, Fraction(0)))
                counters[user] = max(counters.get(user, Fraction(0)), least)
            queue.append(k)
        user = min(waiting(), key=lambda one: (counters[one], last.get(one, -1), users.index(one)))
        k = next(k for k in queue if left[k] and jobs[k].user == user)
        units = dict(jobs[k].demands)
        counters[user] += sum(Fraction(units[name]) * rate for name, rate in cost.items()) / Fraction(jobs[k].weight)
        left[k] -= 1
        last[user] = len(out)
        out.append(k)
        latest = latest if user in waiting() else user
        now += Fraction(jobs[k].duration)
    return out
