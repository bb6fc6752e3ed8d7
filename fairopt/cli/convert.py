"""``fairopt convert``: translate clusters between formats."""

from __future__ import annotations

from typing import Annotated

import typer

from fairopt.cli.application import app, guarded
from fairopt.cli.commands import AsJson
from fairopt.cli.inputs import Source, reading
from fairopt.cli.progress import console_for, show_json, working, written
from fairopt.datasets import write
from fairopt.errors import InvalidInstance
from fairopt.io.files import files_to_write, inputs_shown
from fairopt.io.readers import readers
from fairopt.report.tables import described_instance


def _help() -> str:
    """The help, with what each reader takes and how to get it."""
    known = readers()
    inputs = [f"{shown:<39} {kind}" for shown, kind in inputs_shown()]
    documents = ["a file    .json or .yaml, of fairopt", *(one.shown for one in known if one.documents and one.shown)]
    examples = {one.name: one.examples for one in known if one.examples}
    parts = [
        "Read a cluster in any format and write it as tables, JSON or YAML.",
        *(f"\b\n[bold]From {name}[/]\n{lines}" for name, lines in examples.items()),
        "\b\n[bold]Inputs[/]\n  a folder  "
        + "\n".join(inputs).replace("\n", "\n" + " " * 12)
        + "\n  "
        + ",\n            ".join(documents)
        + "\n  -         standard input, as such a file",
        'Numbers are kept exactly, and a header such as "memory \\[GiB]" keeps the unit of a resource. Notes on stderr '
        "say what was left out or assumed; they are not written to the output.",
        "\b\n[bold]Between formats of fairopt[/]\n  fairopt convert cluster/ cluster.json\n"
        "  fairopt convert cluster.json tables/ --to parquet",
    ]
    return "\n\n".join(parts)


@app.command(no_args_is_help=True, help=_help())
@guarded
@reading
def convert(
    source: Source,
    output: Annotated[
        str,
        typer.Argument(
            show_default=False, metavar="OUTPUT", help="A name that ends in .json or .yaml, or a folder for tables."
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="csv, parquet, json or yaml. Default: from the name of OUTPUT; csv for a folder."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Read a cluster and write it in another format."""
    kind, files = files_to_write(output, to)
    existing = [str(file) for file in files if file.exists()]
    if existing and not force:
        raise InvalidInstance(f"{' and '.join(existing)} would be replaced; give --force or another name")
    instance = source.fitted(source.read_as_given())
    if not as_json:
        console_for().print(f"read: {instance!r}", markup=False, soft_wrap=True)
    with working(f"writing {output}"):
        write(instance, output, kind)
    made = [file for file in files if file.exists()]
    if as_json:
        show_json("fairopt.conversion/1", {**described_instance(instance), "written": [*map(str, made)]})
    else:
        written(*made)
