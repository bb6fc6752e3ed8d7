"""Slurm: what ``scontrol show node --json`` and ``squeue --json`` give.

* `reader`: from both to the arguments of an instance.
* `servers`, `jobs`: servers and tasks. `places`: lists of hosts, and constraints on features.
* `fields`: values as Slurm writes them: numbers, states, lists of resources, GRES.
"""

from fairopt.io.slurm.reader import read_slurm

__all__ = ["read_slurm"]
