"""What follows from an answer: why, what if, what changed, what more brings, what is held, sums by team and server.

The names for users, beside `Allocation.explain` and `fairopt.what_if`, which return them: `Explanation`, with a
`Binding` for each cause; `WhatIf`; and `diff`, what changed between two answers, a `Diff`.

The names for packages that report on answers:

* `team_sums`, a `TeamSums`, of `team_members` under the label that `teams_shown` names; `guaranteed_units` of teams.
* `server_names`, `server_kinds`: servers in sentences. What is in use, as a part, is `part_of_capacity` or `part_of`.
* `held_now`, a `HeldNow` whose rows are `OVER`, `UNDER` or `EVEN`; `described_held`: the same as plain data;
  `by_team_else_user`: its label. `most_used`: the resource that is used most.
* `idle_sentence`: what limits leave idle though users wait for it.
* `Explainer`: explanations of many users and teams. `too_large`, `why_too_large`: users whose tasks fit nowhere.
* `purchases`: what to buy next, `Purchases`, led by the resource that `leading` names, or by `TASKS`; `BY_ANSWERS` says
  that a number was found by solving again.
* `number`, `figure`, `plural`, `listed` and `tasks_of` write numbers and names in sentences.

The files:

* `by_team`, `by_server`: answers summed by team and by server. `naming`: rows of servers in sentences.
* `held`: what runs now beside what a policy gives. `waiting`: what users wait for, and what
  limits leave idle.
* `explain`: what stops a user or team (`explained_answer`), by answers after small changes (`raised`).
* `explanation`: the result; `words`: its sentences.
* `next_account`: which account is next by past usage.
* `fitting`: tasks that fit on no server.
* `what_if`: the answers before and after a change, and who gains and loses; `changed`: the changed instance.
  `differences`: the same of two answers, and because of what.
* `buying`: what more of each resource and one more of each server bring, by solving again. `new_servers`: servers of
  types that the cluster has not.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
