"""Slurm: output of ``scontrol``, ``squeue`` and ``sacctmgr show associations``, all with ``--json``, and of ``sacct``.

* `reader`: the arguments of an instance from both.
* `objects`: nodes and jobs. `accounts`: the tree of accounts, from any output of ``sacctmgr`` and ``sshare``.
* `texts`: ``slurm.conf`` and texts of ``scontrol``; `listings`: tables of ``squeue`` and ``sacctmgr``, of which
  `tables` has the rows. `partitions`: what these say of jobs that wait. `rules`: what a folder says of replays.
* `contracts`: promises and limits.
* `accounting`: jobs that ended, from ``sacct``.
* `devices`: what tasks take of generic resources: GPUs, slices of GPUs, types.
* `fields`: values as Slurm writes them: numbers, states, trackable resources, GRES, constraints on features.
"""
