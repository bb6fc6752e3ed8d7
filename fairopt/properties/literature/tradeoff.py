"""What Joe-Wong et al. claim of FDS, GFJ and p-norm fairness."""

from __future__ import annotations

from fractions import Fraction

from fairopt.properties.literature.claim import JOE_WONG, Case, Claim
from fairopt.properties.literature.sharing import SEARCHED, exact

__all__ = ["TRADEOFF"]

EQUALS = "lam = (1-beta)/beta"
SIGN = "lam counted with the sign of 1 - beta"

# -- cases ------------------------------------------------------------------------------------------------------------

HALF = ((1, 3), (2, 1)), (1, 2), exact("3/5 1/5")
FDS_HALF = Case(
    *HALF, "sharing-incentive", "user 2 runs 1/5 of a task, 2/5 of resource 1 where 1/2 is its due",
    mechanism="fds:alpha=0.5", user=1,
)  # fmt: skip
FDS_HALF_ENVY = Case(
    *HALF, "envy-free", "user 2 runs 1/5; on what user 1 holds, (3/5, 9/5), it would run 3/10",
    mechanism="fds:alpha=0.5", user=1,
)  # fmt: skip
FDS_LARGE = Case(
    ((1, 1), (1, 0), (0, 1)), (1, 1), exact("1/3 2/3 2/3"), "sharing-incentive",
    "at beta = 2, lam = -3 the best answer with a third for user 1 is worse than (1/5, 4/5, 4/5)",
    mechanism="fds:beta=2,lam=-3", user=0, instead=exact("1/5 4/5 4/5"),
)  # fmt: skip
FDS_LARGE_ENVY = Case(
    ((1, 0), (1, 0), (1, 2)), (2, 2), exact("2/3 2/3 2/3"), "envy-free",
    "at beta = 2, lam = -3 the best answer without envy is worse than (1/2, 1/2, 1), where user 1 envies user 3",
    mechanism="fds:beta=2,lam=-3", user=0, instead=exact("1/2 1/2 1"),
)  # fmt: skip


def _one_resource(mechanism: str, breaks: str, big: int, tasks: str, instead: str | None = None) -> Case:
    """One unit of one resource, of which a task of user 2 takes ``big`` times as much."""
    cost = (Fraction(1), Fraction(big))
    answer = exact(tasks if instead is None else instead)
    first, second = (x * c for x, c in zip(answer, cost, strict=True))
    if instead is None:
        why = f"the users hold {first} and {second} of the only resource"
    else:
        why = f"equal shares, tasks {tasks.replace(' ', ' and ')}, are worse than shares {first} and {second}"
    return Case(
        ((1,), (big,)), (1,), exact(tasks), breaks, why, mechanism=mechanism, user=0 if first < second else 1,
        instead=None if instead is None else answer,
    )  # fmt: skip


def _gfj(breaks: str) -> dict[str, tuple[Case, ...]]:
    return {
        "a": (_one_resource("gfj:alpha=2", breaks, 4, "1/3 1/6"), _one_resource("gfj:alpha=0.5", breaks, 2, "2/3 1/6")),
        "b": (_one_resource("gfj:beta=0.5,lam=2", breaks, 4, "1/2 1/8", "16/25 9/100"),),
        "c": (_one_resource("gfj:beta=2,lam=-0.25", breaks, 4, "1/2 1/8", "1/5 1/5"),),
        "d": (_one_resource("gfj:beta=2,lam=-2", breaks, 4, "1/2 1/8", "3/4 1/16"),),
        "e": (_one_resource("gfj:beta=2,lam=0", breaks, 2, "1/3 1/3"),),
    }


GFJ = _gfj("sharing-incentive")
GFJ_ENVY = _gfj("envy-free")
WRONG_SIGN = Case(
    ((1,), (1,)), (2,), exact("1/2 1/2"), "pareto", "at beta = 2, lam = 1/2, (1/2, 1/2) has a larger f than (1, 1)",
    mechanism="gfj:beta=2,lam=0.5", instead=exact("1 1"),
)  # fmt: skip
BELOW = Case(
    ((1, 0), (0, 1)), (1, 4), exact("1 2"), "pareto",
    "at beta = 2, lam = -1/4 the best answer is (1, 2), though (1, 4) is feasible",
    mechanism="gfj:beta=2,lam=-0.25", instead=exact("1 4"),
)  # fmt: skip
HOMOGENEOUS = Case(
    ((1,), (4,)), (1,), exact("4/5 1/20"), "answer",
    "at beta = 1/2, lam = 2 the formula gives (4/5, 1/20), where f is below that of (9/10, 1/40)",
    mechanism="gfj:beta=0.5,lam=2", instead=exact("9/10 1/40"),
)  # fmt: skip
CAPACITY = Case(
    ((1, 2), (3, 3)), (2, 3), exact("1 1/3"), "efficiency",
    "tasks are 1 and 1/3; with one more unit of resource 1 they are 3/4 and 1/2, fewer in total",
    mechanism="fds:alpha=1", more=(3, 3), after=exact("3/4 1/2"),
)  # fmt: skip
SLOPE = Case(
    ((2, 3), (2, 1)), (6, 4), exact("4/7 16/7"), "efficiency",
    "at alpha = 1/2 the sum of eq. 14 is 1.32, and yet the total falls from 20/7 there to 8/3 at alpha = 1",
    mechanism="fds:alpha=0.5", after=exact("2/3 2"),
)  # fmt: skip
PARALLEL = Case(
    ((1, 1), (2, 2)), (1, 1), exact("1 0"), "answer",
    "sums of eq. 15 are 2 and 2, of eq. 16 3 and 3; both resources are full at the most tasks, (1, 0), which are equal "
    "neither in shares nor in tasks",
    mechanism="most-tasks",
)  # fmt: skip
P_NORM = Case(
    ((1, 2), (4, 1)), (1, 2), exact("3/7 1/7"), "sharing-incentive",
    "user 1 has 3/7 of both resources where 1/2 is its due", mechanism="pnorm:p=1,alpha=2", user=0,
)  # fmt: skip

# -- arguments --------------------------------------------------------------------------------------------------------

BUDGET = (
    "With g = d/C / mu, optimal shares are s^-alpha = g.p, and P = sum of prices = sum of s^(1-alpha). As g.p <= P, "
    "s >= P^(-1/alpha), so P <= n P^(1-1/alpha) for alpha >= 1: s >= 1/n."
)
PRICED = (
    "Who envies k holds less of all it needs: at prices, s_j^(1-alpha) < s_k^(1-alpha), so s_j > s_k for alpha > 1 "
    "(absurd at 1); in its dominant resource s_j < s_k."
)
BELOW_ONE = (
    "For every alpha < 1: demands (1,1), (1,0), (0,1) on (1,1) give user 1 s / (1-s) = 2^(-1/alpha), so s < 1/3."
)
BELOW_ONE_ENVY = (
    "For every alpha < 1: r users who need only resource 1 and one with b < 1 of it per share give shares 1 to "
    "b^(-1/alpha), so b^(1-1/alpha) > 1 times as much of resource 1; r large keeps resource 2 free."
)
EFFICIENT = "As lam grows the answer tends to the largest sum of shares, which is unfair here."
ON_ONE = "On one resource both properties ask for equal shares, and f is not stationary there unless tasks cost alike."
NASH = (
    "At beta = 1 alpha-fairness is Nash welfare, which is CEEI and the same for GFJ and FDS: every system is "
    "sharing-incentive compatible and envy-free."
)
UNEQUAL = "beta not 1"
AT_ONE = "beta = 1, the limit: proportional fairness"


def _prop5() -> tuple[Claim, ...]:
    """Prop. 5 on the sharing incentive of GFJ, and Cor. 4, which says the same of envy."""
    lines = {
        "a": (f"{EQUALS}, {UNEQUAL}", "gfj:alpha=2", ON_ONE, ""),
        "b": ("abs(lam) > abs(1-beta)/beta, 0 < beta < 1", "gfj:beta=0.5,lam=2", ON_ONE, "For lam > 0."),
        "c": ("abs(lam) < abs(1-beta)/beta, beta > 1", "gfj:beta=2,lam=-0.25", ON_ONE, "For lam < 0."),
        "d": ("abs(lam) large", "gfj:beta=2,lam=-2", "It tends to the most tasks: all to the cheapest.", SIGN + "."),
        "e": ("lam = 0", "gfj:beta=2,lam=0", "Tasks are equal, so shares are not.", "The largest are meant."),
    }  # fmt: skip
    found = []
    for where, word, cases in (("Prop. 5", "sharing-incentive", GFJ), ("Cor. 4", "envy-free", GFJ_ENVY)):
        for letter, (when, mechanism, why, note) in lines.items():
            found.append(Claim(
                JOE_WONG, f"{where} ({letter}), Table I", mechanism, "GFJ", word, "violates", when, "proved", why,
                cases[letter], note=note,
            ))  # fmt: skip
        found.append(Claim(
            JOE_WONG, f"{where} (a), Table I", "gfj:alpha=1", "GFJ", word, "violates", AT_ONE, "refuted", NASH,
            searched=SEARCHED, note="Printed for every beta > 0; read as the limit, since f is constant at 1.",
        ))  # fmt: skip
    return tuple(found)


TRADEOFF = (
    Claim(JOE_WONG, "Prop. 1", "fds:alpha=2", "FDS and DRF", "answer", "equal dominant shares", "all users alike up to "
          "size (eq. 9)", "proved", "One resource decides, and f is symmetric in shares and rises with their sum.",
          note='"Resource 1" must be the one with the largest eta; ' + SIGN + "."),
    Claim(JOE_WONG, "Prop. 1", "gfj:alpha=2", "GFJ", "answer", "x_j ~ mu_j^(-1/beta)", f"{EQUALS}", "proved",
          "x_j^-beta is proportional to mu_j at the optimum, and the resource is full."),
    Claim(JOE_WONG, "Prop. 1", "gfj:beta=0.5,lam=2", "GFJ", "answer", "x_j ~ mu_j^(-1/beta)", "any lam, as printed",
          "refuted", "The formula does not hold lam.", (HOMOGENEOUS,)),
    Claim(JOE_WONG, "Prop. 3, sec. VII", "gfj:alpha=2", "FDS, GFJ, p-norm", "pareto", "satisfies",
          "l >= abs(1-beta)/beta, l = lam sgn(1-beta)", "proved",
          "f is a log M(s) + (l - a) log(sum s) with a = abs(1-beta)/beta, up to an increasing transform; both rise.",
          searched=SEARCHED, note="Where some share is 0 and beta >= 1, f is -infinity and does not rise strictly."),
    Claim(JOE_WONG, "Prop. 3", "gfj:beta=2,lam=0.5", "FDS, GFJ", "pareto", "satisfies",
          "abs(lam) >= abs(1-beta)/beta, as printed", "refuted", "For beta > 1 a positive lam asks for less of all.",
          (WRONG_SIGN,)),
    Claim(JOE_WONG, "Prop. 3", "gfj:beta=2,lam=-0.25", "FDS, GFJ", "pareto", "violates", "0 < l < abs(1-beta)/beta",
          "proved", "Let one share grow among enough others: M hardly moves, and the second term falls.", (BELOW,)),
    Claim(JOE_WONG, "Prop. 4 (a)", "fds:alpha=2", "FDS", "sharing-incentive", "satisfies", f"{EQUALS}, beta > 1",
          "proved", BUDGET, searched=SEARCHED, note="And at beta = 1."),
    Claim(JOE_WONG, "Prop. 4 (b), Table I", "fds:alpha=0.5", "FDS", "sharing-incentive", "violates",
          f"{EQUALS}, 0 < beta < 1", "proved", BELOW_ONE, (FDS_HALF,)),
    Claim(JOE_WONG, "Prop. 4 (c), Table I", "fds:beta=2,lam=-3", "FDS", "sharing-incentive", "violates",
          "any beta > 0, abs(lam) large", "proved", EFFICIENT, (FDS_LARGE,),
          note=SIGN + "; with the other sign there is no optimum."),
    Claim(JOE_WONG, "Prop. 4 (d)", "fds:beta=2,lam=0", "FDS", "sharing-incentive", "satisfies", "lam = 0", "proved",
          "Equal shares, of which 1/n for all is feasible.",
          note="Every point of equal shares is optimal, also nearly nothing for all: the largest is meant."),
    Claim(JOE_WONG, "Cor. 2", "fds:alpha=0.5", "FDS", "efficiency", "X >= 1 / max mu", f"{EQUALS}, beta > 0", "proved",
          "Dominant shares of the users of a full resource add up to at least 1, and x_j = s_j / mu_j; so for any "
          "Pareto efficient answer.",
          searched=SEARCHED),
    Claim(JOE_WONG, "Cor. 3", "fds:alpha=2", "FDS", "envy-free", "satisfies", f"{EQUALS}, beta > 1", "proved", PRICED,
          searched=SEARCHED, note="And at beta = 1. Definition 4 has max for min and > for >=: taken literally, two "
          "equal users envy each other."),
    Claim(JOE_WONG, "Cor. 3", "fds:beta=2,lam=0", "FDS", "envy-free", "satisfies", "lam = 0, any beta", "proved",
          "Equal shares: nobody holds more of my dominant resource than I do.",
          note="The largest equal shares are meant."),
    Claim(JOE_WONG, "Cor. 3, Table I", "fds:alpha=0.5", "FDS", "envy-free", "violates", f"{EQUALS}, 0 < beta < 1",
          "proved", BELOW_ONE_ENVY, (FDS_HALF_ENVY,)),
    Claim(JOE_WONG, "Cor. 3, Table I", "fds:beta=2,lam=-3", "FDS", "envy-free", "violates",
          "any beta > 0, abs(lam) large", "proved", EFFICIENT, (FDS_LARGE_ENVY,), note=SIGN + "."),
    *_prop5(),
    Claim(JOE_WONG, "Prop. 6, eq. 14", "fds:alpha=0.5", "any U(x, alpha)", "efficiency",
          "total rises with alpha iff the sum >= 0", "", "refuted",
          "The sign is wrong: by Cramer's rule on eq. 12 the derivative is minus the sum over det A > 0.", (SLOPE,)),
    Claim(JOE_WONG, "Prop. 6", "fds:alpha=1", "alpha-fairness", "efficiency", "total may fall as capacity grows", "",
          "proved", "", (CAPACITY,)),
    Claim(JOE_WONG, "Prop. 6", "fds:alpha=2", "alpha-fairness", "efficiency", "total does not fall",
          "all capacities grow in proportion", "proved", "Tasks grow in the same proportion: f is homogeneous in them.",
          note="For U in general it takes such a U."),
    Claim(JOE_WONG, "Prop. 7", "most-tasks", "most tasks", "answer", "equal shares iff eq. 15; equal tasks if eq. 16",
          "n independent constraints tight", "proved", "Then they have one solution, and equal shares (tasks) solve "
          "them just if the sums agree.", note="Sums over the tight resources."),
    Claim(JOE_WONG, "Prop. 7", "most-tasks", "most tasks", "answer", "equal shares iff eq. 15; equal tasks if eq. 16",
          "n constraints tight, as printed", "refuted", "Tight constraints may coincide.", (PARALLEL,),
          note='The same instance refutes the remark after it, "if sigma_1 = ... = sigma_n".'),
    Claim(JOE_WONG, "Prop. 8", "most-tasks", "most tasks", "answer", "some x_j = 0 if unique",
          "m < n constraints tight",
          "proved", "A unique optimum is a vertex: n independent tight constraints, of which n - m are x_j >= 0. The "
          "second part, that equal answers are best where they lie on the optimal face, follows by definition."),
    Claim(JOE_WONG, "Cor. 5", "most-tasks", "most tasks", "answer", "x_j = 0 if R_ij > R_ik for all i", "", "proved",
          "What j holds runs more tasks of k.", searched=SEARCHED),
    Claim(JOE_WONG, "Cor. 6", "most-tasks", "most tasks", "answer", "equal shares or tasks iff all mu alike",
          "one resource", "proved", "Only the cheapest users run; if all are, equal shares are among the best.",
          note='"The" best allocation is not unique then: (1, 0) is as good.'),
    Claim(JOE_WONG, "sec. VII", "pnorm:p=1,alpha=2", "p-norm", "envy-free",
          '"we expect" above thresholds of p and beta',
          f"{EQUALS}, beta >= 1, every p > 0", "proved", "As Cor. 3: a bundle with more of all has a larger norm, "
          "and at prices s_j^(1-alpha) < s_k^(1-alpha).", searched=SEARCHED),
    Claim(JOE_WONG, "sec. VII", "pnorm:p=1,alpha=2", "p-norm", "sharing-incentive",
          '"we expect" above thresholds of p and beta', f"{EQUALS}", "refuted",
          "For every finite p and beta > 1: where resource 1 alone is full, shares (1, 1) and (1, b) are taken as "
          "c^(1/beta - 1) of their norms c, so user 1 has less than half. It holds at p = infinity (FDS) and beta = 1.",
          (P_NORM,), note="For shares of capacity, not raw units as printed; with raw units the same instance serves."),
)  # fmt: skip
