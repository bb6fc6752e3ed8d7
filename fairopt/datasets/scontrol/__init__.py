"""Slurm: an instance from what ``scontrol show node --json`` and ``squeue --json`` give."""

from fairopt.datasets.scontrol.reader import slurm

__all__ = ["slurm"]
