"""Readers of the files people have, and generators of instances.

`read` and `write`, `demo` (ships with the package), `kubernetes` and `slurm` (what a cluster says of itself),
`clusterdata2019` and `openb` (traces of production clusters), `log_uniform` (random),
the instances of Jiang and Wu (000): `jiang_wu`, `heavy_light`, `google_cluster`, and random rounds in the manner of
Hamzeh et al. (004): `RequestRounds`.
"""

from fairopt.instances.cloud_data_centers import (
    REQUEST_TYPES,
    GoogleServers,
    google_cluster,
    google_servers,
    heavy_light,
    heavy_light_demands,
    jiang_wu,
    jiang_wu_demands,
)
from fairopt.instances.random import log_uniform
from fairopt.instances.request_rounds import RequestRounds
from fairopt.io.clusterdata import clusterdata2019
from fairopt.io.files import demo, read, write
from fairopt.io.json_file import schema
from fairopt.io.kubernetes import kubernetes
from fairopt.io.openb import openb
from fairopt.io.slurm import slurm

__all__ = [
    "REQUEST_TYPES",
    "GoogleServers",
    "RequestRounds",
    "clusterdata2019",
    "demo",
    "google_cluster",
    "google_servers",
    "heavy_light",
    "heavy_light_demands",
    "jiang_wu",
    "jiang_wu_demands",
    "kubernetes",
    "log_uniform",
    "openb",
    "read",
    "schema",
    "slurm",
    "write",
]
