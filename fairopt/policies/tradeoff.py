"""Families between fairness and efficiency (Joe-Wong et al. 2013): FDS, GFJ, p-norm fairness, and their extremes."""

from __future__ import annotations

from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Total
from fairopt.blocks.shares import DominantShare, PNormShare, Share, Tasks
from fairopt.errors import InvalidBlock
from fairopt.policy import Policy, makes_policies


@makes_policies
def FDS(alpha: float | None = None, *, beta: float | None = None, lam: float | None = None) -> Policy:
    """Fairness on Dominant Shares (Joe-Wong et al. 2013, eq. 3).

    Parameters
    ----------
    alpha : float, optional
        alpha-fairness, the case ``lam = (1-beta)/beta`` of the family.
    beta, lam : float, optional
        Type of fairness and emphasis on efficiency, instead of alpha; see `FairnessEfficiency`.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.FDS(1).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4])).tasks.round(4)
    array([0.6667, 2.    ])
    """
    return _family("FDS", DominantShare(), alpha, beta, lam)


@makes_policies
def GFJ(alpha: float | None = None, *, beta: float | None = None, lam: float | None = None) -> Policy:
    """Generalized Fairness on Jobs: the family of `FDS` on numbers of tasks (Joe-Wong et al. 2013, eq. 7).

    Parameters
    ----------
    alpha, beta, lam
        As in `FDS`.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.GFJ(2).allocate(fo.Instance([[1, 4], [3, 1]], [9, 18])).tasks.round(4)
    array([3.2942, 1.9019])
    """
    return _family("GFJ", Tasks(), alpha, beta, lam)


@makes_policies
def PNormFairness(
    p: float, alpha: float | None = None, *, beta: float | None = None, lam: float | None = None
) -> Policy:
    """The family of `FDS` on p-norms of users' demand/capacity ratios (after Joe-Wong et al. 2013, eq. 19).

    Parameters
    ----------
    p : float
        At least 0: infinity is FDS, 0 is GFJ.
    alpha, beta, lam
        As in `FDS`.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.PNormFairness(1, 0.5).allocate(fo.Instance([[2, 3], [2, 1]], [6, 4])).tasks.round(4)
    array([0.5098, 2.4706])
    """
    share = PNormShare(p)
    return _family(f"p-norm({share.p:g})", share, alpha, beta, lam)


@makes_policies
def MostTasks() -> Policy:
    """The largest number of tasks, without fairness (NFC of Jiang and Wu 2021, sec. 6.1.1).

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.MostTasks().allocate(fo.Instance([[40, 8, 8], [8, 5, 1]], [200, 200, 200])).tasks
    array([ 0., 25.])
    """
    return Policy(Total(Tasks()), name="most tasks")


@makes_policies
def NashWelfare() -> Policy:
    """Weighted Nash welfare: the largest product of tasks to the power of the weights.

    It is the optimum of alpha = 1 for every share that is linear in tasks (Joe-Wong et al. 2013), and the competitive
    equilibrium with incomes equal to the weights.

    Examples
    --------
    >>> import fairopt as fo
    >>> fo.NashWelfare().allocate(fo.Instance([[2, 3], [2, 1]], [6, 4])).tasks.round(4)
    array([0.6667, 2.    ])
    """
    return Policy(AlphaFair(1, Tasks()), name="Nash welfare")


def _family(name: str, share: Share, alpha: float | None, beta: float | None, lam: float | None) -> Policy:
    objective: AlphaFair | FairnessEfficiency
    if alpha is not None and beta is None and lam is None:
        objective = AlphaFair(alpha, share)
        parameters = f"alpha={objective.alpha:g}"
    elif alpha is None and beta is not None and lam is not None:
        objective = FairnessEfficiency(beta, lam, share)
        parameters = f"beta={objective.beta:g}, lam={objective.lam:g}"
    else:
        raise InvalidBlock(f"{name} takes either alpha, or beta and lam together; got {alpha=}, {beta=}, {lam=}")
    return Policy(objective, name=f"{name}({parameters})")
