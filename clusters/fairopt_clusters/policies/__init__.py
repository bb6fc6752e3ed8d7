"""Rules of schedulers as policies, ``kueue`` and ``slurm`` on the command line.

* `kueue`: `Kueue`, the fair sharing of Kueue.
* `fair_tree`: `FairTree`, the rule of Slurm's Fair Tree.
"""

from fairopt.runtime import public_names

__getattr__, __dir__ = public_names(__name__)
