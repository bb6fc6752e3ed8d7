from fairopt.networks.answers import flows as flows
from fairopt.networks.files import read as read
from fairopt.networks.paths import MAX_MIN as MAX_MIN
from fairopt.networks.paths import instance as instance
from fairopt.networks.picture import plot as plot
