"""Named fairness notions, made of public blocks, and mechanisms that are not a single optimisation problem.

The names for users, beside the notions and mechanisms at the top of `fairopt`:

* `named_policy`: a policy from text, such as ``"kdf:k=3"``. `known_policies`: all of them by short name.
* `bottleneck_fairness`: whether an allocation is bottleneck fair.

The files:

* `dominant`: DRF, k-DF, TSF.
* `tradeoff`: FDS, GFJ, p-norm fairness, Nash welfare, most tasks.
* `bargaining`: the bargaining solutions of Nash, and of Kalai and Smorodinsky.
* `bundles`: MLF-DRS, FFMRA, H-FFMRA.
* `per_server`: any policy on separate servers. `psdsf`: PS-DSF. `bottleneck`: bottleneck fairness.
* `hierarchical`: HDRF. `sequential`: SequentialMinMax. `dynamic`: dynamic DRF.
* `loading`: saved answers, certified again.
* `measured`: values and levels of tasks that were found elsewhere, without a proof.
* `mechanism`: what mechanisms have in common.
* `registry`: policies by short name, from files and from entry points. `parse`: blocks from their repr. `amounts`:
  bounds such as ``MaxShare("vision=16gpu")``, as fractions of a cluster.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
