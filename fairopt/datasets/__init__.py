"""Readers of the files people have, and generators of instances.

`read` and `write`, `demo` (ships with the package), `openb` (a production GPU cluster), `log_uniform` (random),
the instances of Jiang and Wu (000): `jiang_wu`, `heavy_light`, `google_cluster`, and random rounds in the manner of
Hamzeh et al. (004): `RequestRounds`.
"""

from fairopt.datasets.alibaba import openb
from fairopt.datasets.files import demo, read, write
from fairopt.datasets.generators import log_uniform
from fairopt.datasets.hffmra import RequestRounds
from fairopt.datasets.jsonfile import schema
from fairopt.datasets.scenarios import (
    REQUEST_TYPES,
    GoogleServers,
    google_cluster,
    google_servers,
    heavy_light,
    heavy_light_demands,
    jiang_wu,
    jiang_wu_demands,
)

__all__ = [
    "REQUEST_TYPES",
    "GoogleServers",
    "RequestRounds",
    "demo",
    "google_cluster",
    "google_servers",
    "heavy_light",
    "heavy_light_demands",
    "jiang_wu",
    "jiang_wu_demands",
    "log_uniform",
    "openb",
    "read",
    "schema",
    "write",
]
