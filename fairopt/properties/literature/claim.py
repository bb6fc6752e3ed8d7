"""One claim of the literature, what we found, and the instance that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fairopt.instance import Instance
from fairopt.policies.registry import named_policy
from fairopt.properties.names import PROPERTIES

__all__ = ["OTHER", "PAPERS", "Case", "Claim"]

GHODSI, WANG = "Ghodsi et al. 2011", "Wang et al. 2014"
JIANG_WU, SLIDES = "Jiang and Wu 2021", "Jiang and Wu 2018"
MLF_DRS, H_FFMRA = "Hamzeh et al. 2019", "Hamzeh et al. 2020"
JOE_WONG = "Joe-Wong et al. 2013"
PAPERS = {
    GHODSI: "Dominant Resource Fairness (DRF, CEEI), NSDI",
    WANG: "Dominant Resource Fairness with Heterogeneous Servers (DRFH), INFOCOM",
    JIANG_WU: "Multi-resource Allocation in Cloud Data Centers (2-DF, k-DF)",
    SLIDES: "2-Dominant Resource Fairness (2-DF), slides",
    MLF_DRS: "MLF-DRS: A Multi-level Fair Resource Allocation Algorithm",
    JOE_WONG: "Multi-Resource Allocation: Fairness-Efficiency Tradeoffs in a Unifying Framework (FDS, GFJ)",
    H_FFMRA: "H-FFMRA: A Multi Resource Fully Fair Resources Allocation Algorithm (FFMRA)",
}
# What papers claim beside the properties that `check` and `audit` know.
OTHER = {
    "answer": "what the answer is",
    "efficiency": "how many tasks run in total",
    "full-use": "every resource is handed out and used",
}
VERDICTS = ("proved", "refuted")  # or "holds on N instances"


@dataclass(frozen=True)
class Case:
    """An instance that decides a claim, in numbers that can be checked by hand.

    Attributes
    ----------
    demands : tuple of tuples of int
        By user and resource.
    capacities : tuple of int, or of tuples of int by server
    tasks : tuple of Fraction
        The mechanism's answer, exactly; or, where it has no short form, the best answer that has the property.
    breaks : str
        The property that fails here.
    why : str
        In one sentence, in what way.
    mechanism : str, optional
        As for `named_policy`; without it that of the claim.
    user : int, optional
        Who loses, envies or lies.
    misreport : tuple of int, optional
        The demands that ``user`` reports instead.
    leaves : int, optional
        The user who leaves.
    more : tuple of int, optional
        The larger capacities.
    after : tuple of Fraction, optional
        Tasks then, of those who are still there: true tasks of the liar.
    instead : tuple of Fraction, optional
        Tasks that are feasible, and better: they dominate ``tasks``, or have a larger objective.
    """

    demands: tuple[tuple[int, ...], ...]
    capacities: tuple[Any, ...]
    tasks: tuple[Fraction, ...]
    breaks: str
    why: str
    mechanism: str | None = None
    user: int | None = None
    misreport: tuple[int, ...] | None = None
    leaves: int | None = None
    more: tuple[int, ...] | None = None
    after: tuple[Fraction, ...] | None = None
    instead: tuple[Fraction, ...] | None = None

    @property
    def instance(self) -> Instance:
        """The instance, for the package.

        Examples
        --------
        >>> from fairopt.properties.literature.claims import claims
        >>> claims("k-DF")[2].cases[0].instance
        Instance(2 users x 2 resources on 1 server)
        """
        return Instance(np.array(self.demands, dtype=float), np.array(self.capacities, dtype=float))

    def __str__(self) -> str:
        return f"Demands {_rows(self.demands)}; capacities {_rows(self.capacities)}: {self.why}"


@dataclass(frozen=True)
class Claim:
    """What a paper says of a mechanism, and whether it is so.

    Attributes
    ----------
    paper : str
        A key of `PAPERS`.
    where : str
        Theorem, section or table.
    mechanism : str
        One of the family claimed about, as for `named_policy`: ``claim.make()`` makes it.
    about : str
        The mechanism in the paper's words, as ``FDS, beta > 1``.
    property : str
        A name of `PROPERTIES` or of `OTHER`.
    says : str
        The paper's word: ``satisfies``, ``violates``, ``not guaranteed`` or a short quotation.
    conditions : str
        Under which it is claimed, or under which it is true; empty for none.
    verdict : str
        Of the claim, not of the property: ``proved``, ``refuted``, or ``holds on N instances``. A claim that something
        fails is proved by an instance where it does.
    argument : str
        Why.
    cases : tuple of Case
        Instances that decide it.
    searched : int
        Instances searched for a counterexample; none was found unless the verdict is ``refuted``.
    note : str
        What is ambiguous, and the reading taken.
    """

    paper: str
    where: str
    mechanism: str
    about: str
    property: str
    says: str
    conditions: str
    verdict: str
    argument: str
    cases: tuple[Case, ...] = ()
    searched: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        if self.paper not in PAPERS:
            raise ValueError(f"unknown paper {self.paper!r}")
        if self.property not in PROPERTIES and self.property not in OTHER:
            raise ValueError(f"unknown property {self.property!r}")
        if self.verdict not in (*VERDICTS, f"holds on {self.searched:,} instances"):
            raise ValueError(f"unknown verdict {self.verdict!r}")

    def make(self) -> Any:
        """The mechanism.

        Returns
        -------
        Policy or other mechanism

        Raises
        ------
        InvalidBlock
            Where the parameters as printed have no optimum (Prop. 3 of Joe-Wong et al., taken literally).

        Examples
        --------
        >>> from fairopt.properties.literature.claims import claims
        >>> claims("k-DF")[0].make()
        Policy(Leximin(KDominantShare(2)), name='2-DF')
        """
        return named_policy(self.mechanism)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with fractions as text.

        Returns
        -------
        dict

        Examples
        --------
        >>> from fairopt.properties.literature.claims import claims
        >>> claims("k-DF")[2].to_dict()["cases"][0]["tasks"]
        ['1/6', '2/3']
        """
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "cases"}
        return plain | {"cases": [_plain(case) for case in self.cases]}


def _plain(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in case.__dataclass_fields__:
        value = getattr(case, name)
        if value is not None:
            found[name] = (
                [str(v) if isinstance(v, Fraction) else v for v in value] if isinstance(value, tuple) else value
            )
    return found


def _rows(rows: tuple[Any, ...]) -> str:
    if rows and isinstance(rows[0], tuple):
        return ", ".join(map(_rows, rows))
    return "(" + ", ".join(map(str, rows)) + ")"
