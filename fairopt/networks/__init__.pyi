from fairopt.networks.files import read as read
from fairopt.networks.flows import flows as flows
from fairopt.networks.instance import MAX_MIN as MAX_MIN
from fairopt.networks.instance import instance as instance
from fairopt.networks.picture import plot as plot
