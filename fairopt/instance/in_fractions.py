"""The numbers of an instance as fractions (`Instance.in_fractions`)."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairopt.errors import OutOfDomain

Fractions = NDArray[np.object_]  # `fractions.Fraction`

INFINITE = float("inf")


def as_fraction(value: Any) -> Fraction:
    """A number as exact answers read it: a Fraction as it was given, a float as the shortest decimal that prints it."""
    given = getattr(value, "fraction", value)  # of a parameter of a block that was given as a Fraction
    if isinstance(given, (float, np.floating)):
        return Fraction(*Decimal(repr(float(given))).as_integer_ratio())
    return Fraction(int(given) if isinstance(given, np.integer) else given)


class InFractions:
    """Numbers of an instance in arrays of `fractions.Fraction`, with the names and shapes that they have there.

    Floats are the shortest decimals that print them (0.1 is 1/10), unless Fractions were given; float32 numbers are
    decimals of their own precision.
    """

    def __init__(self, instance: Any, of_floats: bool = False) -> None:
        self._of, self.of_floats = instance, of_floats
        self._given = {} if of_floats else instance.derived.exact_numbers()

    @property
    def given_as_fractions(self) -> bool:
        """Whether some numbers were given as Fractions."""
        return bool(self._of._fractions)

    @cached_property
    def demands(self) -> Fractions:
        """Demands per task, as `Instance.demands`."""
        return self._read("demands", self._of.demands)

    @property
    def per_server_demands(self) -> Fractions:
        """Demands as a view of shape (n_users, n_servers, n_resources)."""
        of = self._of
        rows = self.demands if of.demands.ndim == 3 else self.demands[:, None, :]
        return np.broadcast_to(rows, (of.n_users, of.n_servers, of.n_resources))

    @cached_property
    def capacities(self) -> Fractions:
        """Capacities, (n_servers, n_resources)."""
        return self._read("capacities", self._of.capacities)

    @property
    def counts(self) -> Fractions:
        """Numbers of identical servers, (n_servers,)."""
        return _as_array([Fraction(q) for q in self._of.counts.tolist()])

    @cached_property
    def total_capacities(self) -> Fractions:
        """The capacity of all servers together, (n_resources,)."""
        return (self.capacities * self.counts[:, None]).sum(axis=0)

    @cached_property
    def ratios(self) -> Fractions:
        """Demands over total capacities, 0 where there is no demand."""
        whole = self.total_capacities
        return self.demands / (whole + (whole == 0).astype(int))  # nobody needs what there is none of

    @cached_property
    def weights(self) -> Fractions:
        """Weights of users, with those of teams divided among their members, outer teams last."""
        if self._of.taken_from is not None:  # as divided among all members of teams
            parent, rows = self._of.taken_from
            return self.alike(parent).in_fractions.weights[rows]
        out, members = self.own_weights.copy(), self._of.teams.names
        given = [team for team in members if team in self._of.team_weights]
        for name in sorted(given, key=lambda team: len(members[team])):
            mine = members[name]
            out[mine] *= self.team_weights[name] / out[mine].sum()
        return out

    @property
    def total_weight(self) -> Fraction:
        """The sum of all weights, including those of users left out for a solve."""
        whole = self if self._of.taken_from is None else self.alike(self._of.taken_from[0]).in_fractions
        return Fraction(whole.weights.sum())

    def alike(self, instance: Any) -> Any:
        """Another instance, of which floats are read as of this one."""
        return instance.derived.of_floats() if self.of_floats else instance

    @cached_property
    def own_weights(self) -> Fractions:
        """Weights of users before those of teams are divided."""
        return self._read("weights", self._of.own_weights)

    @cached_property
    def team_weights(self) -> dict[str, Fraction]:
        """Weights of teams."""
        return {team: self.number("weights", w) for team, w in self._of.team_weights.items()}

    @cached_property
    def task_limits(self) -> Fractions:
        """Limits of tasks; an infinite float for users without one."""
        return self._read("task_limits", self._of.task_limits)

    @cached_property
    def guarantees(self) -> Fractions:
        """Guaranteed tasks of users."""
        return self._read("guarantees", self._of.guarantees)

    @cached_property
    def team_guarantees(self) -> dict[str, dict[str, Fraction]]:
        """Guarantees of teams, by resource."""
        return {
            team: {what: self.number("guarantees", units) for what, units in of.items()}
            for team, of in self._of.team_guarantees.items()
        }

    @cached_property
    def rates(self) -> Fractions | None:
        """Rates by user and server; None without any."""
        return None if self._of.rates is None else self._read("rates", self._of.rates)

    def tasks_alone(self, everywhere: bool = False) -> Fractions:
        """`Instance.tasks_alone`; ``everywhere`` ignores eligibility."""
        of, room = self._of, (self.capacities * self.counts[:, None]).tolist()
        out = np.full((of.n_users, of.n_servers), Fraction(0), dtype=object)
        for j, rows in enumerate(self.per_server_demands.tolist()):
            for s in range(of.n_servers) if everywhere else np.flatnonzero(of.eligible[j]).tolist():
                needs = zip(room[s], rows[s], strict=True)
                out[j, s] = min((c / d for c, d in needs if d), default=Fraction(0))
        return out

    def per_user(self, values: Any, name: str, default: Any) -> Fractions:
        """`Instance.per_user` of a parameter of a block; infinite numbers stay floats."""
        held = list(values.values()) if isinstance(values, Mapping) else list(np.atleast_1d(np.array(values, object)))
        places: Any = list(range(len(held)))
        if isinstance(values, Mapping):
            places = dict(zip(values, places, strict=True))
        at = self._of.per_user(places if isinstance(values, Mapping) or np.ndim(values) else 0, name, len(held))
        read = _as_array([v if v == INFINITE else self.parameter(v) for v in (*held, default)])
        return read[at.astype(int)]

    def parameter(self, value: Any) -> Fraction:
        """A parameter of a block, read as the numbers of the instance are."""
        return Fraction(float(value)) if self.of_floats else as_fraction(value)

    def number(self, argument: str, value: float) -> Fraction:
        """A float of an argument as it is read; `OutOfDomain` if it is the rounding of two different Fractions."""
        if self.of_floats:
            return Fraction(float(value))
        fraction = self._given.get(argument, {}).get(float(value), value)
        if fraction is None:
            raise OutOfDomain(
                f"{argument} hold two different Fractions that are both {value!r} as floats; give one of them"
            )
        return as_fraction(fraction)

    def _read(self, argument: str, values: NDArray[Any]) -> Fractions:
        """An array of an argument; each of its different numbers is read once."""
        different, place = np.unique(values, return_inverse=True)
        read = _as_array([v if v == INFINITE else self.number(argument, v) for v in different.tolist()])
        return read[place].reshape(values.shape)


def _as_array(values: list[Any]) -> Fractions:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
