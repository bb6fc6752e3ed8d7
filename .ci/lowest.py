"""Print the lowest version of each dependency and extra of both distributions, as constraints that pip takes."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
for file in (ROOT / "pyproject.toml", ROOT / "clusters" / "pyproject.toml"):
    project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    for line in [*project["dependencies"], *(line for name in extras for line in extras[name])]:
        if bound := re.match(r"([\w.-]+)(?:\[.*\])?>=([\d.]+)[^;]*(;.*)?", line):
            print(f"{bound[1]}=={bound[2]}{bound[3] or ''}")
