"""The command ``fairopt``: the one room that prints."""

from fairopt.cli import audit, claims, convert, plot, shards
from fairopt.cli.commands import app, main

__all__ = ["app", "audit", "claims", "convert", "main", "plot", "shards"]
