from fairopt.networks.answers import flows as flows
from fairopt.networks.files import read as read
from fairopt.networks.paths import MAX_MIN as MAX_MIN
from fairopt.networks.paths import instance as instance
from fairopt.networks.picture import plot as plot

# isort: split
# For packages that extend fairopt:
from fairopt.networks.answers import demands_met as demands_met
from fairopt.networks.paths import FLOW as FLOW
from fairopt.networks.paths import on_network as on_network
