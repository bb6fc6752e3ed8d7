"""Slurm: output of ``scontrol``, ``squeue`` and ``sacctmgr show associations``, all with ``--json``, and of ``sacct``.

* `reader`: the arguments of an instance from both.
* `objects`: nodes and jobs. `accounts`: the tree of accounts.
* `texts`: ``slurm.conf`` and texts of ``scontrol``, ``sacctmgr`` and ``sshare``.
* `accounting`: jobs that ended, from ``sacct``.
* `devices`: what tasks take of generic resources: GPUs, slices of GPUs, types.
* `places`: constraints on features.
* `fields`: values as Slurm writes them: numbers, states, trackable resources, GRES.
"""
