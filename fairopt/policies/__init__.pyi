from fairopt.policies.bottleneck import bottleneck_fairness as bottleneck_fairness
from fairopt.policies.registry import known_policies as known_policies
from fairopt.policies.registry import named_policy as named_policy

# isort: split
# For packages that extend fairopt:
from fairopt.policies.mechanism import NotOfBlocks as NotOfBlocks
from fairopt.policies.mechanism import unproved as unproved
from fairopt.policy import accepted as accepted
from fairopt.policy import label as label
from fairopt.solve.form.no_whole_task import refuse_whole as refuse_whole
from fairopt.solve.form.program import require_instance as require_instance
