"""Slurm: an instance from what ``scontrol show node --json`` and ``squeue --json`` give."""

from fairopt.io.slurm.reader import slurm

__all__ = ["slurm"]
