"""Print the lowest version of each dependency and extra in pyproject.toml, as constraints that pip takes with -c."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
for line in [*project["dependencies"], *(line for name in extras for line in extras[name])]:
    if bound := re.match(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)[^;]*(;.*)?", line):
        print(f"{bound[1]}=={bound[2]}{bound[3] or ''}")
