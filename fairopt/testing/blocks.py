"""Shares, objectives and policies that are defined for an instance."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar, get_type_hints

import numpy as np
from hypothesis import strategies as st

from fairopt.blocks import constraints
from fairopt.blocks import shares as shares_of_ours
from fairopt.blocks.base import Block, PerUser
from fairopt.blocks.constraints import Constraint, EnvyFree, SharingIncentive
from fairopt.blocks.efficiency import FairnessEfficiency
from fairopt.blocks.objectives import AlphaFair, Leximin, MaxMin, Objective, OrderedWeighted, Total
from fairopt.blocks.shares import DominantShare, KDominantShare, Share
from fairopt.errors import NotConcave, OutOfDomain
from fairopt.instance import Instance
from fairopt.policies.bottleneck import BottleneckFairness
from fairopt.policies.bundles import FFMRA, HFFMRA, MLFDRS
from fairopt.policies.dominant import DRF, KDF, TSF
from fairopt.policies.per_server import NaivePerServer
from fairopt.policies.psdsf import PSDSF
from fairopt.policies.tradeoff import FDS, GFJ, MostTasks, NashWelfare, PNormFairness
from fairopt.policy import Policy

Shipped = TypeVar("Shipped", bound=Block)


def shares(instance: Instance | None = None) -> st.SearchStrategy[Share]:
    """Shares that are defined for an instance and positive for every user.

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; without one, shares are defined for every instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import shares
    >>> find(shares(fo.Instance([[1, 0], [1, 1]], [2, 2])), lambda share: share != fo.DominantShare())
    Tasks()
    """
    some = shipped_shares(0 if instance is None else instance.n_resources)
    where = Instance([[1, 0], [0, 1]], [1, 1]) if instance is None else instance  # a share of 0 is not defined for all
    return st.sampled_from([s for s in some if _defined(Leximin(s).check, where)])


def shipped_shares(n_resources: int) -> list[Share]:
    """Every share of `fairopt.blocks.shares` with some parameters, the dominant share first."""
    kinds = sorted(of_kind(Share, shares_of_ours), key=lambda kind: kind is not DominantShare)
    made = [share for kind in kinds for share in _made(kind, n_resources, {float: (1, 2, 0.5, 0, np.inf)})]
    return [*made, *(KDominantShare(k, short="positive") for k in range(2, n_resources + 1))]


def of_kind(base: type[Shipped], place: ModuleType) -> list[type[Shipped]]:
    """The classes that a module of blocks makes public, in the order of their definitions."""
    return [
        kind
        for kind in vars(place).values()
        if isinstance(kind, type) and issubclass(kind, base) and kind is not base and kind.__name__ in place.__all__
    ]


def _made(kind: type[Any], n_resources: int, values: dict[Any, tuple[Any, ...]]) -> Iterator[Any]:
    """Blocks of a class for each choice of parameters, by the types of these; a default stands where none is given.

    Resources and numbers of them are chosen only if ``n_resources`` are known.
    """
    values = {int: (*range(1, n_resources + 1),), str | int: (*range(n_resources),)} | values
    types = {name: of for name, of in get_type_hints(kind).items() if name in kind.__dataclass_fields__}
    choices = {name: values[of] for name, of in types.items() if of in values}
    for chosen in itertools.product(*choices.values()):
        yield kind(**dict(zip(choices, chosen, strict=True)))


def objectives(instance: Instance | None = None) -> st.SearchStrategy[Objective]:
    """Objectives with an optimum: single ones, sums of two, and two tiers.

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; without one, what is drawn is defined for every instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import objectives
    >>> find(objectives(), lambda objective: isinstance(objective, fo.AlphaFair))
    AlphaFair(0)
    """
    share = shares(instance)
    alpha = st.sampled_from([0, 0.5, 1, 2, 3])
    natural = st.one_of(  # those whose values may be added
        st.builds(Total, share),
        st.builds(AlphaFair, alpha, share),
        st.builds(MaxMin, share),
        st.builds(OrderedWeighted, st.sampled_from([(1, 0.5), (3, 2, 1)]), share),
    )
    plane = st.sampled_from([(0.5, 1), (0.5, 2), (1, 1), (2, -0.5), (2, -1), (2, -0.25), (-1, 1)])  # (beta, lam)
    return st.one_of(
        st.builds(Leximin, share),
        natural,
        st.builds(lambda at, s: FairnessEfficiency(at[0], at[1], s), plane, share),
        st.builds(lambda a, factor, b: a + factor * b, natural, st.sampled_from([1, 0.5, 2]), natural),
        st.builds(lambda a, b: a.then(b), natural, natural),
    )


def notions(instance: Instance | None = None) -> st.SearchStrategy[Any]:
    """The named notions of fairopt: policies, and other mechanisms (`PSDSF`, `NaivePerServer`, ...).

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; without one, what is drawn is defined for every instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import notions
    >>> find(notions(), lambda notion: not isinstance(notion, fo.Policy))
    PSDSF()
    """
    one_pool = instance is not None and instance.merged().n_servers == 1
    others: list[Any] = [PSDSF(), NaivePerServer(DRF()), *([BottleneckFairness()] if one_pool else [])]
    return st.sampled_from([*_shipped(instance), *others])


def policies(instance: Instance | None = None) -> st.SearchStrategy[Policy]:
    """Policies: the named ones, and random compositions of blocks.

    Parameters
    ----------
    instance : Instance, optional
        Users and servers; without one, what is drawn is defined and feasible for every instance.

    Examples
    --------
    >>> import fairopt as fo
    >>> from hypothesis import find
    >>> from fairopt.testing import policies
    >>> find(policies(), lambda policy: len(policy.constraints) > 0)
    Policy(Leximin(), constraints=[SharingIncentive()])
    """
    return st.one_of(
        st.sampled_from(list(_shipped(instance))), st.builds(Policy, objectives(instance), _feasible_together(instance))
    )


def _feasible_together(instance: Instance | None) -> st.SearchStrategy[list[Constraint]]:
    """Constraints that cannot conflict: floors that all own slices meet, or ceilings and no envy."""
    unlimited = instance is not None and bool(np.isinf(instance.task_limits).all())
    # with task limits, own slices may violate EnvyFree
    floors: list[list[Constraint]] = [[SharingIncentive()], *([[SharingIncentive(), EnvyFree()]] if unlimited else [])]
    values = {float: (0.25, 0.5), PerUser: (0.25, 0.5, 1, 2, 3, 4)}
    kinds = [kind for kind in of_kind(Constraint, constraints) if kind._holds_at_zero]
    ceiling = st.sampled_from([one for kind in kinds for one in _made(kind, 1, values)])
    ceilings = st.lists(ceiling, min_size=1, max_size=2, unique_by=type)
    return st.one_of(st.just([]), st.sampled_from(floors), ceilings)


def _defined(check: Callable[[Instance], Any], instance: Instance) -> bool:
    try:
        check(instance)
    except (OutOfDomain, NotConcave):
        return False
    return True


def _shipped(instance: Instance | None) -> Iterator[Policy]:
    """The named policies that are defined for an instance."""
    always = (
        DRF(),
        TSF(),
        NashWelfare(),
        MostTasks(),
        FDS(0.5),
        FDS(2),
        FDS(beta=0.5, lam=2),
        GFJ(1),
        GFJ(2),
        PNormFairness(1, 0.5),
        PNormFairness(2, 1),
    )
    some = KDF(2), KDF(3), KDF(2, short="positive"), MLFDRS(), MLFDRS("equal"), FFMRA(), HFFMRA(), HFFMRA("raw")
    for policy in always if instance is None else (*always, *some):
        if instance is None or _defined(policy.objective.check, instance):
            yield policy
