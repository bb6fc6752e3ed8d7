"""Slurm's fair-share factors, classic and by level, and the shares that Fair Tree steers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from fairopt.online import Account, fair_shares
from fairopt_clusters.read.queues.tree import Queue, QueueTree
from fairopt_clusters.schedulers.base import Deployed, deepest_first, usable_of
from fairopt_clusters.schedulers.filling import by_level, by_weight

if TYPE_CHECKING:
    import pandas as pd

BILLED = "billing"


@dataclass(frozen=True)
class Slurm(Deployed):
    """What Slurm's accounts hold on average if all their jobs wait long: equal use per share among siblings.

    An account gets its part of what the account above it has, by shares, up to what it asks for; what it leaves goes
    to its siblings; accounts without shares are served when no others wait. Each resource is by itself.

    Notes
    -----
    From *Fair Tree Fairshare Algorithm* and *Classic Fairshare Algorithm* of Slurm's manual, and
    ``src/plugins/priority/multifactor/fair_tree.c`` of SchedMD/slurm; expected factors of its test 24.1 at 091d99a8.

    Examples
    --------
    >>> import fairopt_clusters as fc
    >>> from fairopt_clusters import Queue, QueueTree
    >>> accounts = Queue("bio", weight=3, request={"cpu": 30}), Queue("physics"), Queue("guests", weight=0)
    >>> fc.schedulers.Slurm().divide(QueueTree("Slurm", accounts, {"cpu": 100}))["cpu"].tolist()
    [30.0, 70.0, 0.0]
    """

    scheduler: ClassVar[str] = "Slurm"
    source: ClassVar[str] = "Fair Tree of Slurm's manual"

    def factors(self, tree: QueueTree) -> pd.DataFrame:
        """The factors of accounts by what they used, as ``sshare`` shows them.

        Parameters
        ----------
        tree : QueueTree
            Accounts with ``used``, of which ``"billing"`` counts, added up from below.

        Returns
        -------
        pandas.DataFrame
            By account: ``norm_shares``, ``norm_usage``, ``effective_usage`` and ``fairshare`` of the classic algorithm,
            and ``level_fs`` of Fair Tree.

        Examples
        --------
        >>> import fairopt_clusters as fc
        >>> from fairopt_clusters import Queue, QueueTree
        >>> accounts = Queue("a", weight=1, used={"billing": 30}), Queue("b", weight=3, used={"billing": 30})
        >>> table = fc.schedulers.Slurm().factors(QueueTree("Slurm", accounts, {"billing": 1}))
        >>> table[["fairshare", "level_fs"]].values.round(6).tolist()
        [[0.25, 0.5], [0.629961, 1.5]]
        """
        tree, used = self.checked(tree), dict[str, float]()
        for queue in deepest_first(tree):
            used[queue.name] = queue.used.get(BILLED, 0.0) + sum(used[one.name] for one in tree.children[queue.name])
        accounts = (Account(one.name, one.parent, one.weight, used[one.name]) for one in tree.queues)
        return fair_shares(accounts).loc[[one.name for one in tree.queues]]

    def _divided(self, tree: QueueTree) -> dict[str, dict[str, float]]:
        usable = usable_of(tree)

        def divide(name: str, _above: str, below: Sequence[Queue], amount: float) -> list[float]:
            return by_weight([one.weight for one in below], [usable[one.name][name] for one in below], amount)

        return by_level(tree, tree.total(), divide)
