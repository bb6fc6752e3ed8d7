"""Slurm: output of ``scontrol show node --json``, ``squeue --json`` and ``sacctmgr show associations --json``.

* `reader`: the arguments of an instance from both.
* `objects`: nodes and jobs. `accounts`: the tree of accounts.
* `places`: constraints on features.
* `fields`: values as Slurm writes them: numbers, states, trackable resources, GRES.
"""

from fairopt.io.slurm.reader import read_slurm, read_together

__all__ = ["read_slurm", "read_together"]
