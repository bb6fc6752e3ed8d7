"""What fairopt itself says, for the documentation: names, layers, commands, claims, cases; the README's picture.

`write` is called when the documentation is built: pages include these files from `_build`, and none is kept.
"""

import inspect
import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from rich.text import Text

import fairopt as fo
from fairopt.cli import app
from fairopt.cli.application import EXIT_CODES
from fairopt.properties.literature import claims as literature
from fairopt.properties.names import TABLE
from fairopt.runtime.lazy import public_places

DOCS = Path(__file__).parent
BUILT = DOCS / "_build"
COMMON = 3  # commands with the same option; such options are listed once
OPTIONS_OF_THE_INPUT = "Options of the input"  # a panel, of several commands
KINDS = {  # of cases, by tag
    "Examples of papers": "paper",
    "Deployed schedulers": "deployed",
    "Witnesses of claims": "claim",
    "Hard in floats": "hard",
    "Clusters": "cluster",
}
TOP = (  # modules and packages whose names are at the top, in the order of the page
    "instance",
    "datasets",
    "policy",
    "blocks.shares",
    "blocks.teams",
    "blocks.objectives",
    "blocks.efficiency",
    "blocks.constraints",
    "blocks.bundles",
    "blocks.model",
    "policies",
    "allocation",
    "certificate",
    "proof",
    "questions",
    "properties",
    "tradeoff",
    "derivatives",
    "online",
    "scale",
    "report",
    "runtime",
    "errors",
)
PACKAGES = (  # with further public names
    *("online", "datasets", "blocks", "policies", "certificate", "checker", "exact", "questions", "report", "networks"),
    *(
        "metrics",
        "properties",
        "tradeoff",
        "tradeoff.preferences",
        "derivatives",
        "scale",
        "testing",
        "plots",
        "errors",
    ),
    *("io", "cli", "runtime", "instance", "solve.whole"),
)
OF_CLUSTERS = ("", ".quotas", ".report", ".policies", ".schedulers")
CALLED = ("quotas", "report")  # packages of fairopt-clusters that the page shows as the functions that they are, too
PLOTS = ("draw_services", "draw_timelines", "questions")  # its other functions draw what `plot` methods ask for
OPTION = re.compile(r"(?<![\w-])(--?[a-z][\w-]*)")


def main() -> None:
    """The demo's cluster under three notions, by fairopt's own picture."""
    import matplotlib

    matplotlib.use("Agg")
    result = fo.compare(["drf", "fds:alpha=1", "most-tasks"], fo.datasets.demo())
    result.plot().savefig(DOCS / "_static" / "shares.png", dpi=110, metadata={"Software": None})


def write() -> None:
    """Write what pages include."""
    sys.path += [str(DOCS.parent / "benchmarks"), str(DOCS.parent / "benchmarks" / "papers")]
    import published
    import trial

    BUILT.mkdir(exist_ok=True)
    tables = {
        "api": api(),
        "bibliography": bibliography(),
        "claims": claimed_properties(),
        "commands": commands(),
        "layers": layers(),
        "library": cases(),
        "metrics": metrics(),
        "papers": published.details(),
        "properties": properties(),
        "results": results(),
        "trial": trial.markdown(),
    }
    for name, text in tables.items():
        (BUILT / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")


def api() -> str:
    """All public names as Markdown: those at the top by the module or package that defines them, others by package."""
    found: dict[str, list[str]] = {module: [] for module in TOP}
    for name, module in public_places("fairopt").items():
        place = module.removeprefix("fairopt.")
        if name not in ("datasets", "metrics"):
            found[place if place in found else place.partition(".")[0]].append(name)
    parts = ["## At the top"]
    for module, names in found.items():
        parts += [about(f"fairopt.{module}"), _autosummary("fairopt", names)]
    parts.append("## In packages")
    for package in PACKAGES:
        names = PLOTS if package == "plots" else further(f"fairopt.{package}")
        parts += [f"### fairopt.{package}", about(f"fairopt.{package}"), _autosummary(f"fairopt.{package}", names)]
    for part in OF_CLUSTERS if find_spec("fairopt_clusters") else ():
        package = f"fairopt_clusters{part}"
        parts += [f"### {package}", about(package), _autosummary(package, further(package))]
    return "\n\n".join(parts)


def about(module: str) -> str:
    """The first sentence of a module's docstring, as Markdown."""
    return str(import_module(module).__doc__).partition("\n")[0].replace("``", "`")


def further(package: str) -> list[str]:
    """The public names of a package that are not also those of the one around it; no packages, no types of arrays."""
    module = import_module(package)
    outer = import_module(package.rpartition(".")[0] or "fairopt")
    found = {name: getattr(module, name) for name in module.__all__ if name not in ("Bool", "Float", "Indices", "app")}
    known = [getattr(around, name, None) for around in (fo, outer) for name in getattr(around, "__all__", ())]
    of_others = {id(value) for value in known}
    packages = {name for name, value in found.items() if isinstance(value, ModuleType) and name not in CALLED}
    return [name for name, value in found.items() if id(value) not in of_others and name not in packages]


def _autosummary(module: str, names: Sequence[str]) -> str:
    lines = ["```{eval-rst}", f".. currentmodule:: {module}", ".. autosummary::", "   :toctree: generated"]
    return "\n".join([*lines, "   :nosignatures:", "", *(f"   {name}" for name in names), "```"])


def works() -> dict[str, dict[str, str]]:
    """The entries of bibliography.bib, a field on each line, by key."""
    text = (DOCS / "bibliography.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@misc\{(.*),\n((?:  \w+ = \{.*\},\n)+)\}$", text, re.MULTILINE)
    return {key: dict(re.findall(r"^  (\w+) = \{(.*)\},$", fields, re.MULTILINE)) for key, fields in entries}


def bibliography() -> str:
    """The works as Markdown, by topic, each with a name for links."""
    parts, topic = [], ""
    for key, work in works().items():
        if work["keywords"] != topic:
            topic = work["keywords"]
            parts.append(f"## {topic}")
        *others, last = work["author"].replace(" and others", " et al.").split(" and ")
        authors = f"{', '.join(others)} and {last}" if others else last
        rest = " ".join(f"{work[field]}." for field in ("howpublished", "note") if field in work)
        parts.append(f"({key})=\n**{authors} ({work['year']}).** *{work['title']}.* {rest}")
    return "\n\n".join(parts)


def layers() -> str:
    """The packages as a table, from the docstring of `fairopt`."""
    rows = re.findall(r"^\* (.*?): ((?:.|\n(?=  ))*)", str(fo.__doc__), re.MULTILINE)
    lines = (f"| {names} | {' '.join(text.split()).rstrip('.')} |" for names, text in rows)
    return "\n".join(["| package or module | contents |", "|---|---|", *lines])


def results() -> str:
    """What results can tell, print, plot and save, as a Markdown table, from their docstrings."""
    rows = ["| result | `.ok` | `to_frame(by)` | `plot(kind)` | `save`, `load` |", "|---|---|---|---|---|"]
    places = [import_module(f"fairopt.{package}") for package in PACKAGES] + [fo]
    found = {name: getattr(place, name) for place in places for name in getattr(place, "__all__", ())}
    for name, kind in sorted(found.items()):
        if not isinstance(kind, type):
            continue
        offers = [getattr(kind, key, None) for key in ("ok", "to_frame", "plot", "save")]
        if any(offers):
            told = (inspect.getdoc(offers[0]) or "").partition("\n\n")[0] if offers[0] else ""
            says = " ".join(re.split(r"\.( |$)", told.replace("``", "`"), maxsplit=1)[0].split())
            saved = ", ".join(f"`{key}`" for key in ("save", "load") if hasattr(kind, key))
            rows.append(f"| `{name}` | {says} | {_takes(offers[1], 'by')} | {_takes(offers[2], 'kind')} | {saved} |")
    return "\n".join(rows)


def _takes(method: Any, parameter: str) -> str:
    """What a method's parameter may be, from its docstring."""
    if method is None:
        return ""
    given = re.search(rf"^{parameter} : (.*)$", inspect.getdoc(method) or "", re.MULTILINE)
    if not given:
        return "yes"
    return re.sub(r'"(\w+)"', r"`\1`", re.sub(r"[{}]", "", given[1]).replace("str,", "several,"))


def properties() -> str:
    """The properties as a Markdown table: names, what they mean, and who tests them."""
    rows = ["| property | short | meaning | |", "|---|---|---|---|"]
    for one in TABLE:
        tested = "of mechanisms" if not one.check else "" if one.usual else "`fo.check` only by name"
        short = "".join(f"`{alias}`" for alias in one.aliases.split()[:1] if len(alias) < len(one.name))
        rows.append(f"| `{one.name}` | {short} | {one.meaning} | {tested} |")
    return "\n".join(rows)


def metrics() -> str:
    """The metrics for Prometheus as a Markdown table."""
    from fairopt_clusters.report.exposition import METRICS, PREFIX

    rows = ["| metric | labels | |", "|---|---|---|"]
    for name, (labels, meaning) in METRICS.items():
        named = ", ".join(f"`{label}`" for label in labels.split())
        rows.append(f"| `{PREFIX}{name}` | {named} | {meaning} |")
    return "\n".join(rows)


def claimed_properties() -> str:
    """The claims of the literature as a Markdown table, and a numbered list of the evidence against refuted ones.

    Claims that are not refuted share a line if only their places and properties differ. Proofs are by z3 for 2, 3 and 4
    resources unless the table says otherwise.
    """
    lines = ["| paper | claim | verdict | by machine |", "|---|---|---|---|"]
    paper, last = "", dict[tuple[str, str], None]()
    refuted: dict[str, int] = {}  # evidence, numbered
    alike: dict[Any, list[literature.Claim]] = {}
    for claim in literature.claims():
        alike.setdefault(_but_property(claim), []).append(claim)
    for first, *others in alike.values():
        verdict = first.verdict
        if verdict == "refuted":
            verdict = f"**refuted** ({refuted.setdefault(literature.evidence(first), len(refuted) + 1)})"
        places = dict.fromkeys((claim.paper, claim.where) for claim in (first, *others))
        shown = []
        for each, where in places if places != last else ():
            shown.append(where if each == paper else f"{each}, {where}")
            paper = each
        last = places
        machine = re.sub(" by z3|: m = 2, 3, 4|refuted: m = 2, 3, 4; (?=refuted)", "", first.machine)
        machine = machine.replace("n = 2; proved, n = 3;", "n = 2, 3;")
        lines.append(f"| {'; '.join(shown)} | {literature.claimed(first, others)} | {verdict} | {machine} |")
    if refuted:
        lines += ["", "Refuted by:", ""]
        lines += [f"{number}. {evidence}" for evidence, number in refuted.items()]
    return "\n".join(lines)


def _but_property(claim: literature.Claim) -> Any:
    """All that a line shows of a claim but its place and property, unless it is refuted or quotes the paper."""
    if claim.verdict == "refuted" or claim.says not in ("satisfies", "violates"):
        return claim
    return claim.about, claim.says, claim.conditions, claim.verdict, claim.machine


def cases() -> str:
    """The kinds of cases of the library as Markdown, counted."""
    library = fo.datasets.library()
    lines = [f"| {title} | `{tag}` | {len(library.tagged(tag))} |" for title, tag in KINDS.items()]
    return "\n".join(
        [
            f"{len(library)} cases, {sum(1 for _ in library.answers())} answers.\n",
            "| cases | tag | number |",
            "|---|---|---:|",
            *lines,
        ]
    )


def commands() -> str:
    """All commands as Markdown, from their help."""
    found: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    shared = {p.name: p for one in found.values() for p in one.params if _is_shared(p)}
    readers = ", ".join(f"`{name}`" for name, one in found.items() if any(map(_is_shared, one.params)))
    parts = [
        escaped(EXIT_CODES),
        "## Options of the input",
        f"Commands that read a cluster take these options too: {readers}.",
        _table(_rows(list(shared.values()))),
    ]
    own = {
        name: _rows([p for p in one.params if p.name != "help" and not _is_shared(p)]) for name, one in found.items()
    }
    common = [row for row, count in Counter(row for rows in own.values() for row in rows).items() if count >= COMMON]
    parts += ["## Common options", "A line below the options of a command names those of these that it takes."]
    parts.append(_table(common))
    for name, command in found.items():
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        usage = " ".join([f"fairopt {name}", *(p.metavar or p.name.upper() for p in arguments)])
        parts += [f"## {name}", f"```text\n{usage} [OPTIONS]\n```", _prose(command.help)]
        parts.append(_table([row for row in own[name] if row not in common]))
        taken = ", ".join(row.split("`")[1] for row in own[name] if row in common)
        parts.append(f"Common options: {', '.join(f'`{option}`' for option in taken.split(', '))}." if taken else "")
    return "\n\n".join(filter(None, parts))


def escaped(text: str) -> str:
    """Text without Rich's markup, as Markdown; options are code."""
    words = OPTION.split(Text.from_markup(text).plain)
    return "".join(f"`{w}`" if k % 2 else re.sub(r"([\\`*_<>$\[\]|#~{}])", r"\\\1", w) for k, w in enumerate(words))


def _is_shared(parameter: Any) -> bool:
    panel = getattr(parameter, "rich_help_panel", None)
    return panel == OPTIONS_OF_THE_INPUT and parameter.name != "input"


def _prose(text: str) -> str:
    r"""The help of a command: paragraphs, and lines after ``\b`` as they stand."""
    out = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.split("\n")
        if lines[0] != "\b":
            out.append(escaped(paragraph))
            continue
        title, *rest = lines[1:]
        out.append(f"**{escaped(title)}**")
        if rest:
            code = "\n".join(Text.from_markup(line).plain.removeprefix("  ") for line in rest)
            alone = all(line.startswith(("fairopt ", " ")) for line in code.split("\n")) and " > " not in code
            out.append(f"```{'bash' if alone else 'text'}\n{code}\n```")
    return "\n\n".join(out)


def _table(rows: list[str]) -> str:
    return "\n".join(["| | |", "|---|---|", *rows]) if rows else ""


def _rows(parameters: list[Any]) -> list[str]:
    """Rows of arguments and options, with defaults that are not empty."""
    rows = []
    for p in parameters:
        names = ", ".join(f"`{name}`" for name in (p.opts if p.param_type_name == "option" else [p.metavar or p.name]))
        takes = p.metavar or "VALUE"
        flag = p.param_type_name == "argument" or getattr(p, "is_flag", False)
        given = (
            p.default if isinstance(p.default, (str, int, float, Path)) and not isinstance(p.default, bool) else None
        )
        default = f" Default: `{given}`." if given not in (None, "") and "Default:" not in (p.help or "") else ""
        required = " Required." if p.required and p.param_type_name == "option" else ""
        rows.append(f"| {names}{'' if flag else ' ' + escaped(takes)} | {escaped(p.help or '')}{required}{default} |")
    return rows


if __name__ == "__main__":
    main()
