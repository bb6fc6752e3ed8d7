from fairopt_clusters.policies.fair_tree import FairTree as FairTree
from fairopt_clusters.policies.kueue import Kueue as Kueue

from fairopt.policies.bottleneck import bottleneck_fairness as bottleneck_fairness
from fairopt.policies.registry import known_policies as known_policies
from fairopt.policies.registry import named_policy as named_policy
