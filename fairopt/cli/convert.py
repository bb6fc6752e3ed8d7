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
from fairopt.io.files import FILES, files_to_write
from fairopt.report.tables import described_instance

CONVERT = """Read a cluster in any format and write it as tables, JSON or YAML.

\b
[bold]From Kubernetes[/]
  mkdir now
  kubectl get nodes -o json > now/nodes.json
  kubectl get pods -A -o json > now/pods.json
  fairopt convert now/ cluster/ --users namespace
  kubectl get nodes,pods,ns,resourcequotas,workloads,clusterqueues,localqueues,cohorts,resourceflavors -A -o json |
    fairopt convert - cluster/

\b
[bold]From Slurm[/]
  mkdir slurm
  scontrol show node --json > slurm/nodes.json
  squeue --json > slurm/jobs.json
  fairopt convert slurm/ cluster.yaml --users account

\b
[bold]From ClusterData 2019[/]: instance_events and machine_events (.parquet, .csv or .csv.gz)
  fairopt convert borg/ cluster.json --users tier --at 86400000000

\b
[bold]Inputs[/]
  a folder  {folders}
  a file    .json or .yaml, of fairopt, of kubectl get nodes,pods, or with nodes and jobs of Slurm
  -         standard input, as such a file

Numbers are kept exactly, and a header such as "memory \\[GiB]" keeps the unit of a resource. Notes on stderr say what \
was left out or assumed; they are not written to the output.

\b
[bold]Between formats of fairopt[/]
  fairopt convert cluster/ cluster.json
  fairopt convert cluster.json tables/ --to parquet
  fairopt convert openb/ contended/ --pods gpuspec33 --capacity-scale 0.5""".format(
    folders=FILES.replace("\n", "\n" + " " * 12)
)


@app.command(no_args_is_help=True, help=CONVERT)
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
