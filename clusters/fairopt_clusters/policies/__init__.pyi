from fairopt_clusters.policies.fair_tree import Billed as Billed
from fairopt_clusters.policies.fair_tree import FairTree as FairTree
from fairopt_clusters.policies.kueue import Kueue as Kueue
