"""The packages with public names beside those at the top, for users and for packages that extend fairopt."""

import re
from pathlib import Path

import fairopt

ROOMS = (
    "blocks",
    "checker",
    "derivatives",
    "exact",
    "io",
    "online",
    "policies",
    "properties",
    "questions",
    "report",
    "scale",
    "tradeoff",
)
KITS = ("blocks", "cli", "exact", "networks", "policies", "properties", "questions", "report", "runtime", "solve.whole")


def kit_of(package: str) -> dict[str, str]:
    """The names of a package for others that extend fairopt, which its stub has below a comment, with their modules."""
    stub = Path(fairopt.__file__).parent.joinpath(*package.split("."), "__init__.pyi").read_text(encoding="utf-8")
    below = stub.partition("# For packages that extend fairopt:")[2]
    return {name: module for module, name in re.findall(r"^from (fairopt\S*) import (\w+) as \2$", below, re.MULTILINE)}
