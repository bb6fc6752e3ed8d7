"""Whole tasks over time: a scheduler and a simulator.

The names for users, beside `fairopt.Scheduler`, `fairopt.Job` and `fairopt.simulate`:

* `PlacedTask`: a task that starts, from `Scheduler.next_task`. `Timeline`: what `simulate` returns.
* `BackfillScheduler`, `HierarchicalScheduler` and `SlurmScheduler`, for `simulate` and for loops of your own; the last
  by `SlurmRules` of `Account`, `Priority`, `Partition` and `RunningLimit`. `ByRules`: policies that follow them.
* `read_jobs` reads jobs from a file, as a `JobTrace`.
* `Usage` and its members `VTC`, `DRR`, `Karma`, `Slurm`, `HTCondor`, `Kueue` and `KAI`: what a `Scheduler` remembers.
* `service`: what users were served over time, a `Service`. `service_gap` and `longest_wait`: what a replay kept of
  promises. `try_promise` searches the smallest trace that breaks one, a `BrokenPromise`.

The files:

* `scheduler`: lowest share first. `backfill`: EASY. `hierarchical`: teams by dominant shares. `slurm`: Slurm's
  priorities, by the shares and usage of `accounts`.
* `task_scheduler`: what all three have in common. `waiting`: what those of jobs have. `requests`: demands, checked.
* `jobs`: batches of equal tasks with arrival and duration. `files`: jobs from tables and traces.
* `simulation`: the event loop. `timeline`: its result. `frames`: its tables. `saved`: its files.
* `usage`: what is remembered of users. `memory`: its formulas. `promises`: checked on replays.
* `traces`: promises tried on random traces.
* `served`: service by user and window.
* `groups`: waiting and slowdown by team and user. `units`: seconds, hours and days.
* `fair`: the divisible optimum at moments of a timeline.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
