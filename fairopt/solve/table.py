"""The table of methods, in the order in which they are tried, and of what is done to an answer afterwards.

`fairopt.solve.dispatch` asks each `Method` whether it is exact for a program, and the gate judges what it proposes. The
first certified answer is taken. Without the methods of ``only_speed`` the table still answers every policy: these add
speed and no meaning. Functions of methods are imported when they are first called.

The order is by cost where several are exact: closed forms and passes over users on a pool, prices and levels on
servers, then programs for solvers. What solvers are known not to resolve goes to methods of our own before or after
them, and SCS, a first-order method, is last. docs/methods/index.md lists what each is exact for and costs.

A method that applies may still fail: it then proposes a point that the gate does not certify, or none, and the next one
is asked. An answer that is certified, but may be decided by rounding, is `doubtful`: levels in fractions are tried, and
the better of both is kept. Applying is decided by terms and shapes alone and takes no time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairopt.instance.validation import distinct
from fairopt.proof.gate import JudgedPoint
from fairopt.proof.proposal import MOVED
from fairopt.runtime.lazy import later
from fairopt.solve.form import solvers
from fairopt.solve.settings import Proposals, Settings

ROUGH = 1e-10  # violation of a constraint: a tenth of a percent of the 1e-7 that earlier tiers leave
FEW, FEW_PAIRS = 50, 1_000  # users, and pairs with servers, up to which one cone program takes less than the search
MOST_ROWS = 200_000  # of constraints with many rows: HiGHS takes 4 s for a sum of shares of 2,000 users under 120,000


def uncertified(answer: JudgedPoint) -> bool:
    """Whether another method is tried after an answer."""
    return not answer.ok


def partly_proved(answer: JudgedPoint) -> bool:
    """Whether an answer is not certified, and SCS may be more accurate.

    It is not where points of other solvers prove nothing at all, as with variables that nothing bounds: of 1,500 draws
    of the fuzzer it certified one after others, whose gap was 2e-6.
    """
    gaps = [one.gap for one in answer.tried if one.gap is not None]
    return not answer.ok and (not gaps or min(gaps) < float("inf"))


def doubtful(answer: JudgedPoint) -> bool:
    """Whether an answer is not certified, or is of cone programs and rough.

    Rounding may move its levels, or it misses a constraint by a part of what earlier tiers leave, about 1e-7.
    """
    rough = MOVED in answer.assumed or answer.block_violation > ROUGH
    return not answer.ok or (rough and answer.method == "cone")


@dataclass(frozen=True)
class Method:
    """A way to solve programs.

    Parameters
    ----------
    name : str
        Its name as ``method=``. Methods may share a name.
    exact_for : str
        Ends the sentence "prices is ...". Of methods that share a name the first has it.
    applies : callable
        Of a `Program` and `Settings`: whether the method is exact for it. Quick.
    solve : callable
        Of the same: a generator of `Proposal`s. Each is judged, and the `JudgedPoint` is sent back. One that proposes
        nothing counts as one that does not apply.
    under : tuple of str, optional
        The values of ``method=``, beside "auto", under which it is tried; default: its name.
    only_speed : bool, optional
        Whether later methods of the table answer the same programs.
    takes_solver : bool, optional
        Whether it is tried if a solver is given.
    by_cones : bool, optional
        Whether it writes programs for CVXPY.
    of_bundles : bool, optional
        Whether it is for policies that decide bundles, and for no others.
    above_base : bool, optional
        Whether it solves programs of one pool above a base, in place of the programs themselves.
    reduces : bool, optional
        Whether it asks the table for answers to other programs of the same policy: then its own need no `PASSES`.
    due : callable, optional
        Whether it is tried after the best `JudgedPoint` so far.

    Examples
    --------
    >>> [method.name for method in TABLE if method.exact_for][:3]
    ['water-filling', 'prices', 'linear']
    """

    name: str
    exact_for: str
    applies: Callable[[Any, Settings], bool]
    solve: Callable[[Any, Settings], Proposals]
    under: tuple[str, ...] = ()
    only_speed: bool = False
    takes_solver: bool = False
    by_cones: bool = False
    of_bundles: bool = False
    above_base: bool = False
    reduces: bool = False
    due: Callable[[JudgedPoint], bool] = uncertified

    def is_asked(self, settings: Settings) -> bool:
        """Whether a call asks for it."""
        if settings.solver is not None and not self.takes_solver:
            return False
        return settings.method == "auto" or settings.method in (self.under or (self.name,))


@dataclass(frozen=True)
class Pass:
    """What is done to the answer of a program before it is returned: ``change`` returns it, or a better one."""

    applies: Callable[[Any, JudgedPoint, Settings], bool]
    change: Callable[[Any, JudgedPoint, Settings], JudgedPoint]


TABLE: list[Method] = []


def register(method: Method) -> None:
    """Put a method before all others of the table.

    Examples
    --------
    >>> import numpy as np, fairopt as fo
    >>> from fairopt.proof.dual import Dual
    >>> from fairopt.proof.evidence.prices import Prices
    >>> from fairopt.proof.proposal import Proposal
    >>> def one_resource(program, settings):  # logarithms share one resource by weight
    ...     weights, price = program.instance.weights, program.instance.weights.sum()
    ...     tasks = weights / price / program.pairs.loads[0]
    ...     yield Proposal("by weight", tasks, Prices(program, Dual(np.array([price]))))
    >>> def applies(program, settings):
    ...     term = program.term
    ...     return program.pool_share is not None and term.alpha == 1 and program.instance.n_resources == 1
    >>> register(Method("by weight", "exact for AlphaFair(1) of one resource", applies, one_resource))
    >>> fo.NashWelfare().allocate(fo.Instance([[1], [2]], [12])).certificate.method
    'by weight'
    >>> del TABLE[0]
    """
    TABLE.insert(0, method)


def names() -> tuple[str, ...]:
    """What ``method=`` may be."""
    return ("auto", "cone", *dict.fromkeys(method.name for method in TABLE if method.exact_for))


def exact_for(name: str) -> str:
    """What the methods of a name are exact for."""
    return next(method.exact_for for method in TABLE if method.name == name and method.exact_for)


def is_fast(method: Method) -> bool:
    """Whether a method proposes answers of its own, without a solver, where others would take longer."""
    return method.only_speed and not (method.reduces or method.takes_solver or method.of_bundles)


# -- when methods apply ------------------------------------------------------------------------------------------------


def at(place: str) -> Callable[..., Any]:
    """The function at ``"module:name"`` of `fairopt.solve`, imported when it is called."""
    return lambda *given: later(f"fairopt.solve.{place}")(*given)


def of_program(place: str) -> Callable[[Any, Settings], bool]:
    """`at` for a function of the program alone."""
    return lambda program, _: bool(later(f"fairopt.solve.{place}")(program))


def parametric_applies(program: Any) -> bool:
    """Whether the objective is a `FairnessEfficiency` without an equivalent alpha-fair objective."""
    return program.term.measure is not None and program.term.alpha is None and program.of_users


def only_parametric(program: Any) -> bool:
    """Whether the search is the only method: the measure is not concave."""
    return parametric_applies(program) and not program.term.kind.is_concave


def _searched_first(program: Any, settings: Settings) -> bool:
    """Whether the search along the sum of shares comes before one program: by prices and not for few users, or alone.

    FDS(2, -1) takes 0.025 s for 10 users by one program, and 0.1 s by the search; 0.03 and 0.08 s for 50. Of 300 users
    the program is often refused, after 0.5 s. On 3 servers 10 users take 0.025 and 0.27 s.
    """
    if not parametric_applies(program) or only_parametric(program):
        return parametric_applies(program)
    n, pairs = program.instance.n_users, program.instance.n_users * program.instance.n_servers
    few = n <= FEW and pairs <= FEW_PAIRS
    return not few and at("cone.parametric:search_by_prices")(program, settings)


def _number_on_servers(program: Any) -> bool:
    """Whether the objective is a number, on several servers."""
    return not (program.single or program.term.is_order)


def _written_out(program: Any) -> bool:
    """Whether a cone program may have all rows of the constraints."""
    return not program.many_rows or program.instance.n_users**2 <= MOST_ROWS


def _of_number(program: Any) -> bool:
    """Whether the objective is a number that cone programs maximise."""
    return not program.term.is_order and not only_parametric(program) and _written_out(program)


def _by_orders(program: Any) -> bool:
    """Whether ordered weights have too many rows."""
    return any(term.ranks for term in program.objective.terms()) and bool(at("cone.orders:orders_apply")(program))


def _levels_of_users(program: Any) -> bool:
    """Whether the objective is a leximin of users' shares."""
    return bool(program.term.is_order and program.of_users and _written_out(program))


def _linear_levels(program: Any) -> bool:
    """Whether it is, under linear constraints alone."""
    return _levels_of_users(program) and at("numbers.leximin:linear_only")(program)


def _differs_by_server(program: Any) -> bool:
    """Whether a task gives a user more on one server than on another."""
    return bool(program.term.share.coefficients(program.instance).ndim == 2)


def _is_bounded(program: Any) -> bool:
    """Whether a user may be left without a share."""
    return bool(program.low.any() or program.instance.derived.has_guarantees)


# -- the tables --------------------------------------------------------------------------------------------------------

TABLE += [
    Method(  # constraints with very many rows, of which violated ones are added
        "rows on demand",
        "",
        lambda program, _: bool(program.many_rows) and not only_parametric(program),
        at("many_rows:solve_with_rows"),
        under=("cone",),
        only_speed=True,
        takes_solver=True,
        reduces=True,
    ),
    Method(
        "water-filling",
        "exact for Leximin, and MaxMin and its multiples, on one pool (or identical servers), under EnvyFree too",
        lambda program, _: program.term.is_smallest and program.pool_share is not None,
        at("pool.waterfilling:solve_waterfilling"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # the same under EnvyFree, where users rise along points without envy
        "water-filling",
        "",
        lambda program, _: program.single and bool(program.rest) and at("pool.envy:envy_free_applies")(program),
        at("pool.envy:solve_envy_free"),
        only_speed=True,
        above_base=True,
    ),
    Method(
        "prices",
        "exact for AlphaFair with alpha > 0, OrderedWeighted, their multiples and sums of one concave function "
        "per user (`by_user`) on one pool (or identical servers), and on several servers for MaxMin, AlphaFair with "
        "alpha from 0.05 to 5, OrderedWeighted without lower bounds, their multiples and such sums",
        lambda program, _: (
            program.term.is_curved and program.pool_share is not None and bool((program.usable > 0).all())
        ),
        at("pool.alpha_fair:solve_alpha_fair"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # ordered weights on a pool, or of many users on few servers, by cutting planes in prices
        "prices",
        "",
        at("pool.ordered:ordered_applies"),
        at("pool.ordered:solve_ordered"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # and on servers, by an interior point
        "prices",
        "",
        at("cluster.ordered:ordered_on_servers_applies"),
        at("cluster.ordered:solve_ordered_on_servers"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # alpha-fairness and max-min on servers, by an interior point in prices
        "prices",
        "",
        lambda program, _: (
            _number_on_servers(program) and at("cluster.alpha_fair:alpha_fair_on_servers_applies")(program)
        ),
        at("cluster.alpha_fair:solve_alpha_fair_on_servers"),
        only_speed=True,
        above_base=True,
    ),
    Method(
        "linear",
        "exact for Total, AlphaFair(0) and their multiples on one pool (or identical servers), and on several servers "
        "if no user has a limit or a lower bound",
        lambda program, _: program.term.is_linear and program.pool_share is not None,
        at("pool.max_sum:solve_max_sum"),
        only_speed=True,
        above_base=True,
    ),
    # a total that nothing couples is a program for each server
    Method("linear", "", of_program("cluster.totals:totals_apply"), at("cluster.totals:solve_totals"), only_speed=True),
    Method(  # sums of one function per user on a pool, where closed forms end
        "prices",
        "",
        lambda program, _: (
            program.single
            and not program.rest
            and program.pool_share is None
            and bool((program.usable > 0).all())
            and program.marginal is not None
        ),
        at("pool.interior:solve_sum"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # and on servers
        "prices",
        "",
        lambda program, _: _number_on_servers(program) and at("cluster.alpha_fair:sum_on_servers_applies")(program),
        at("cluster.alpha_fair:solve_sum_on_servers"),
        only_speed=True,
        above_base=True,
    ),
    Method(
        "levels",
        "exact for Leximin on several servers, and under linear constraints of teams, of what is above a base, or of a "
        "share that differs by server",
        lambda program, _: (
            program.term.is_order
            and program.of_users
            and not (program.single or program.rest)
            and not _differs_by_server(program)
        ),
        at("cluster.leximin:solve_leximin_on_servers"),
        only_speed=True,
        above_base=True,
    ),
    Method(  # leximin of teams or above a base: no other method has it
        "levels",
        "",
        lambda program, _: (
            program.term.is_order and not program.of_users and at("numbers.leximin:linear_only")(program)
        ),
        at("numbers.leximin:solve_leximin_of_numbers"),
    ),
    Method(  # of a share that differs by server; cone programs of 200 and 1,000 users on 8 servers take 9 times as long
        "levels",
        "",
        lambda program, _: not program.single and _linear_levels(program) and _differs_by_server(program),
        at("numbers.leximin:solve_leximin_of_numbers"),
        only_speed=True,
    ),
    Method(
        "parametric",
        "exact for FairnessEfficiency wherever it has an optimum, but for AlphaFair's edge and beta = 1",
        _searched_first,
        at("cone.parametric:solve_parametric"),
        under=("parametric", "cone"),
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # where slopes of what earlier tiers leave vary by more than solvers resolve
        "prices",
        "",
        lambda program, settings: _of_number(program) and at("cone.interior:interior_applies")(program),
        at("cone.interior:solve_by_interior"),
        under=("cone",),
    ),
    Method(  # ordered weights by programs in which the order of users is fixed
        "orders",
        "",
        lambda program, _: _of_number(program) and _by_orders(program),
        at("cone.orders:solve_by_orders"),
        under=("cone",),
        only_speed=True,
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # leximin level by level, under any constraints
        "cone",
        "",
        lambda program, _: _levels_of_users(program),
        at("cone.leximin:solve_leximin"),
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # where bounds may leave a user without a share
        "levels of numbers",
        "",
        lambda program, _: _is_bounded(program) and _linear_levels(program),
        at("numbers.leximin:solve_leximin_of_numbers"),
        under=("cone",),
    ),
    Method(  # what rounding of a solver's levels leaves open
        "levels in fractions",
        "",
        lambda program, _: _linear_levels(program),
        at("levels_in_fractions:solve_levels_in_fractions"),
        under=("cone",),
        due=doubtful,
    ),
    Method(  # everything else that is one concave program
        "cone",
        "",
        lambda program, _: _of_number(program),
        at("cone.solve:solve_cone_program"),
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # a concave measure whose program was not certified
        "parametric",
        "",
        lambda program, settings: parametric_applies(program) and not _searched_first(program, settings),
        at("cone.parametric:solve_parametric"),
        under=("parametric", "cone"),
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # where slopes vary by more than solvers resolve
        "newton",
        "",
        lambda program, settings: (
            _of_number(program)
            and settings.solver in (None, *solvers.CONE_CHAIN)
            and not (parametric_applies(program) or _by_orders(program))
            and at("cone.newton:newton_applies")(program)
        ),
        at("cone.newton:solve_by_newton"),
        under=("cone",),
        takes_solver=True,
        by_cones=True,
    ),
    Method(  # a first-order method, of few digits
        "cone",
        "",
        lambda program, settings: _of_number(program) and not parametric_applies(program),
        at("cone.solve:solve_by_scs"),
        by_cones=True,
        due=partly_proved,
    ),
    Method(
        "closed",
        "exact for WeightedLog, alone or under GlobalAggregateResource and AtMostRequested",
        lambda program, settings: True,
        at("bundles:solve_divided"),
        only_speed=True,
        of_bundles=True,
    ),
    Method(  # bundles with other objectives or constraints
        "cone",
        "",
        lambda program, settings: True,
        at("bundles:solve_bundles"),
        takes_solver=True,
        of_bundles=True,
    ),
]

PASSES = (
    Pass(  # what a solver left unused
        lambda program, answer, _: answer.ok and answer.method == "cone" and not program.term.is_order,
        at("leftover:distribute_leftover"),
    ),
    Pass(  # whether the answer is Pareto-dominated, as a note
        lambda program, answer, _: answer.ok and answer.method == "parametric" and only_parametric(program),
        at("dominated:note_if_dominated"),
    ),
    Pass(  # numbers that the constraints leave nothing
        lambda program, answer, settings: (
            (answer.ok or not settings.clock.late)
            and not program.many_rows
            and (bool(program.rest) or bool(distinct(program.low).any()))
        ),
        at("not_certified:refuse_if_starved"),
    ),
    Pass(  # how the totals of teams are split inside them
        lambda program, answer, settings: answer.ok and settings.last_tier and not program.of_users,
        at("numbers.split:split_inside_teams"),
    ),
)
