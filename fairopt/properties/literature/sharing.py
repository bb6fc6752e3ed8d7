"""What is claimed of DRF, CEEI, DRFH, k-DF, MLF-DRS and H-FFMRA."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from fairopt.properties.literature.claim import GHODSI, H_FFMRA, JIANG_WU, MLF_DRS, SLIDES, WANG, Case, Claim

__all__ = ["ONE_POOL", "exact"]

# At least so many per search: half on positive demands, half with zeros, 2 to 4 users, 2 or 3 resources, small
# integers; for lies six families each. The code is in tests/properties/literature/test_claims.py.
SEARCHED = 100_000
SERVERS_SEARCHED = 5_000  # 2 users, 2 servers, 2 resources, six lies each: a linear program each


def exact(numbers: str) -> tuple[Fraction, ...]:
    """Numbers in a row: ``"1/6 2/3"``."""
    return tuple(map(Fraction, numbers.split()))


# -- cases, smallest first by the largest number, then by the sum of all ---------------------------------------------

SCALED = ((2, 2), (1, 1))
TWO_DF = Case(
    SCALED, (1, 1), exact("1/6 2/3"), "sharing-incentive", "user 1 runs 1/6 of a task, on half of everything 1/4",
    mechanism="2df", user=0,
)  # fmt: skip
TWO_DF_LIE = Case(
    SCALED, (1, 1), exact("1/6 2/3"), "strategy-proof",
    "user 1 runs 1/6; reporting (1, 1), a task cut in two, it holds 1/2 of everything and runs 1/4, 50% more",
    mechanism="2df", user=0, misreport=(1, 1), after=exact("1/4"),
)  # fmt: skip
TWO_DF_ENVY = Case(
    SCALED, (1, 1), exact("1/6 2/3"), "envy-free", "user 1 runs 1/6; on what user 2 holds, 2/3 of both, 1/3",
    mechanism="2df", user=0,
)  # fmt: skip
LEVELS = ((1, 1), (2, 2))
UNEVEN = exact("4/3 1")  # bundles (2, 4/3) and (2, 8/3)
ENVY = Case(
    LEVELS, (4, 4), UNEVEN, "envy-free",
    "user 1 holds (2, 4/3) and runs 4/3 tasks; on what user 2 holds, (2, 8/3), it would run 2",
    mechanism="mlf-drs", user=0,
)  # fmt: skip
SLICE = Case(
    LEVELS, (4, 4), UNEVEN, "sharing-incentive", "user 1 runs 4/3 tasks, on its half of everything 2",
    mechanism="mlf-drs", user=0,
)  # fmt: skip
DOMINATED = Case(
    LEVELS, (4, 4), UNEVEN, "pareto", "4/3 and 1 task use 10/3 of 4 units of both resources; 2 and 1 would fit",
    mechanism="mlf-drs", instead=exact("2 1"),
)  # fmt: skip
WASTE = Case(
    LEVELS, (4, 4), UNEVEN, "full-use", "all is handed out, but tasks use 10/3 of 4 units of both",
    mechanism="mlf-drs",
)  # fmt: skip
REQUEST = Case(
    LEVELS, (4, 4), UNEVEN, "strategy-proof", "user 1 runs 4/3 tasks; reporting (2, 2) it holds (2, 2) and runs 2",
    mechanism="mlf-drs", user=0, misreport=(2, 2), after=exact("2"),
)  # fmt: skip
SWAPPED = ((1, 2), (2, 1))
GROWS = {
    name: Case(
        SWAPPED, (1, 1), exact("1/3 1/3"), "resource-monotone",
        "tasks are 1/3 and 1/3; with twice as much of resource 1 they are 1/4 and 1/2: user 1 loses",
        mechanism=name, user=0, more=(2, 1), after=exact("1/4 1/2"),
    )
    for name in ("drf", "nash")
}  # fmt: skip
DRF_LEAVES = Case(
    ((0, 1), (1, 0), (1, 2)), (1, 1), exact("1/2 3/4 1/4"), "population-monotone",
    "tasks are 1/2, 3/4, 1/4; without user 1, user 3 grows to 1/3 and user 2 falls to 2/3",
    mechanism="drf", user=1, leaves=0, after=exact("2/3 1/3"),
)  # fmt: skip
NASH_LEAVES = Case(
    ((0, 1), (1, 0), (1, 1)), (1, 1), exact("2/3 2/3 1/3"), "population-monotone",
    "tasks are 2/3, 2/3, 1/3; without user 1, users 2 and 3 run 1/2 each: user 2 falls",
    mechanism="nash", user=1, leaves=0, after=exact("1/2 1/2"),
)  # fmt: skip
NASH_LIE = Case(
    ((1, 3), (2, 1)), (1, 1), exact("1/5 2/5"), "strategy-proof",
    "user 1 runs 1/5; reporting (1, 2) it holds (1/3, 2/3) and runs 2/9, 11% more",
    mechanism="nash", user=0, misreport=(1, 2), after=exact("2/9"),
)  # fmt: skip
BOTTLENECK = Case(
    ((1, 2), (3, 1)), (1, 1), exact("1/3 2/9"), "bottleneck",
    "only resource 1 is full, and user 1 has 1/3 of it where 1/2 is its due",
    mechanism="drfh", user=0,
)  # fmt: skip
DRF_WASTE = Case(
    ((1, 2), (3, 1)), (1, 1), exact("1/3 2/9"), "full-use", "tasks are 1/3 and 2/9, and 1/9 of resource 2 is free",
    mechanism="drf",
)  # fmt: skip
DRFH_SLICE = Case(
    ((1, 1), (1, 2)), ((1, 2), (2, 1)), exact("4/3 2/3"), "sharing-incentive",
    "user 2 runs 2/3 of a task, on half of each server 1/2 + 1/4", mechanism="drfh", user=1,
)  # fmt: skip
NAIVE = Case(
    ((1, 1), (1, 2)), ((1, 1), (1, 2)), exact("1 3/4"), "pareto",
    "tasks are (1/2, 1/2) and (1/4, 1/2) on the servers; user 1 with (1, 1/4) and user 2 with (0, 3/4) is better",
    mechanism="per-server:policy=drf", instead=exact("5/4 3/4"),
)  # fmt: skip
PSDSF = Case(
    ((1, 2), (3, 1)), ((1, 1), (2, 1)), exact("1/2 2/3"), "pareto",
    "user 1 fills server 1 and user 2 server 2; (2/5, 1/5) and (1/5, 3/5) by server gives 3/5 and 4/5",
    mechanism="ps-dsf", instead=exact("3/5 4/5"),
)  # fmt: skip

# -- arguments --------------------------------------------------------------------------------------------------------

LEXIMIN_PARETO = "Shares rise with tasks, and leximin of shares leaves no share that could rise alone."
LEXIMIN_SLICE = "Dominant shares of 1/n for all are feasible, so the smallest is at least 1/n."
LEXIMIN_ENVY = (
    "Who envies holds less of every resource it needs, so of its own full resource, where nobody has a larger share "
    "(water-filling); but the envied has a larger share of its dominant one."
)
LEXIMIN_LIE = (
    "To gain, the liar takes more of a resource that was full, so others lose; follow the loser who ends with the "
    "smallest share: where it is stopped then, somebody smaller has gained, and so somebody smaller still has lost."
)
BOOST = (
    "A report d' with r = min d'/d >= 1 is d' / r >= d on r x' tasks, with a k-dominant share at least as large per "
    "task, since r^k >= r; from there as for DRF: who gains ends with more share and takes it from a full resource."
)
FITS = "All requests fit, and each is at most the fair share: the case for which eq. 3 is written."


def _four(paper: str, where: str) -> tuple[Claim, ...]:
    """The four properties of DRF, which everybody cites."""
    why = {
        "pareto": LEXIMIN_PARETO, "sharing-incentive": LEXIMIN_SLICE, "envy-free": LEXIMIN_ENVY,
        "strategy-proof": LEXIMIN_LIE,
    }  # fmt: skip
    return tuple(
        Claim(paper, where, "drf", "DRF", name, "satisfies", "", "proved", argument, searched=SEARCHED)
        for name, argument in why.items()
    )


ONE_POOL = (
    *_four(GHODSI, "sec. 3, Table 2"),
    Claim(GHODSI, "sec. 4.3", "drf", "weighted DRF", "sharing-incentive", "satisfies", "slices by weight", "proved",
          "As DRF, with shares divided by weights.", searched=SEARCHED),
    Claim(GHODSI, "sec. 4.3", "drf", "weighted DRF", "strategy-proof", "satisfies", "any lie", "proved",
          "As DRF, with shares divided by weights.", searched=SEARCHED),
    Claim(GHODSI, "Table 2", "drf", "DRF", "bottleneck", "satisfies", "all have the same dominant resource", "proved",
          "It is full when all have 1/n of it, and no other resource is full before.", searched=SEARCHED,
          note="Ghodsi et al. ask it only where everybody has the same dominant resource; Dolev et al. always, and "
          "that DRF violates (see Hamzeh et al. on DRFH)."),
    Claim(GHODSI, "Table 2", "drf", "DRF", "population-monotone", "satisfies", "positive demands", "proved",
          "All stop at the same level, the least over resources of 1 / (sum of d_ji / mu_j), which grows when one "
          "leaves.", searched=SEARCHED),
    Claim(GHODSI, "Table 2", "drf", "DRF", "population-monotone", "satisfies", "demands of zero allowed", "refuted",
          "Who leaves frees one neighbour, who presses on another.", (DRF_LEAVES,),
          note="Read without a condition; where all demands are positive it is true."),
    Claim(GHODSI, "Table 2", "drf", "DRF", "resource-monotone", "violates", "", "proved",
          "Shares are relative to capacities, so more of a resource changes them.", (GROWS["drf"],)),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "sharing-incentive", "satisfies", "", "proved",
          "At prices that sum to n incomes of 1, a slice of everything costs 1.", searched=SEARCHED),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "envy-free", "satisfies", "", "proved",
          "All have the same income, so anyone could have bought the other's bundle.", searched=SEARCHED),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "pareto", "satisfies", "", "proved",
          "The objective rises with every user's tasks.", searched=SEARCHED),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "strategy-proof", "violates", "", "proved", "", (NASH_LIE,)),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "population-monotone", "violates", "", "proved", "", (NASH_LEAVES,)),
    Claim(GHODSI, "Table 2", "nash", "CEEI", "resource-monotone", "violates", "", "proved", "", (GROWS["nash"],)),
    Claim(WANG, "abstract", "drfh", "DRFH", "pareto", "satisfies", "", "proved", LEXIMIN_PARETO),
    Claim(WANG, "abstract", "drfh", "DRFH", "envy-free", "satisfies", "positive demands", "proved",
          "No server has room left in every resource, and tasks can pass from user to user, so all shares are equal; "
          "on k's bundle, j's share is at most k's share of j's dominant resource."),
    Claim(WANG, "abstract", "drfh", "DRFH", "strategy-proof", "satisfies", "positive demands",
          f"holds on {SERVERS_SEARCHED:,} instances", "Lies of one user, six for each instance.",
          searched=SERVERS_SEARCHED, note="Claimed of coalitions too, which was not searched."),
    Claim(WANG, "properties", "drfh", "DRFH", "sharing-incentive", "not guaranteed", "", "proved", "", (DRFH_SLICE,),
          note="With slices of every server; for one way of cutting the cluster into n parts it is claimed."),
    Claim(JIANG_WU, "Theorem 1", "2df", "k-DF", "pareto", "satisfies", "", "proved", LEXIMIN_PARETO, searched=SEARCHED,
          note="Users of fewer than k resources have no k-dominant share and are refused."),
    Claim(JIANG_WU, "Theorem 2", "2df", "k-DF", "strategy-proof-boosting", "satisfies", "boosting some component",
          "proved", BOOST, searched=SEARCHED),
    Claim(JIANG_WU, "abstract, Def. 4, sec. 7", "2df", "2-DF", "strategy-proof",
          '"no user can run more tasks by lying"',
          "any lie", "refuted", "The product of k ratios goes with the k-th power of a task's size, so who cuts its "
          "tasks gets more: Theorem 2 is about larger reports only.", (TWO_DF_LIE,),
          note="The theorem says boosting, its proof any D' != D, the abstract and conclusion any lie."),
    Claim(JIANG_WU, "Theorem 3", "2df", "2-DF", "envy-free", "satisfies",
          "no completely dominant user: of d1, d2 each has one at least as large", "proved",
          "If j envies k, x_k d_k1 > x_j d_j1 and x_k d_k2 > x_j d_j2, while j's full resource gives "
          "c_k x_k <= c_j x_j; divided, d_k2 < d_j2 and d_k1 < d_j1.", searched=SEARCHED,
          note="The proof takes all shares as equal; with zeros they are not, and it holds all the same."),
    Claim(JIANG_WU, "Theorem 4", "kdf:k=3", "k-DF", "envy-free", "satisfies", "no completely dominant user, eq. 7",
          "proved", "As Theorem 3, with the product of all but one of the k ratios.", searched=SEARCHED),
    Claim(JIANG_WU, "secs. 1, 7", "2df", "2-DF", "envy-free", '"in certain scenarios"', "without the condition",
          "proved", "With a completely dominant user there is envy.", (TWO_DF_ENVY,)),
    Claim(JIANG_WU, "secs. 6.1.2, 6.2.1", "2df", "2-DF", "sharing-incentive", "not guaranteed", "", "proved", "",
          (TWO_DF,)),
    *_four(JIANG_WU, "sec. 3"),
    *_four(SLIDES, "slide DRF"),
    Claim(SLIDES, "slide Properties", "2df", "2-DF", "pareto", "satisfies", "", "proved", LEXIMIN_PARETO,
          searched=SEARCHED),
    Claim(SLIDES, "slide Properties", "2df", "2-DF", "strategy-proof", "satisfies", "any lie", "refuted",
          "As in their paper; the slide's example, (8, 5, 1) to (10, 9, 9), boosts.", (TWO_DF_LIE,)),
    Claim(MLF_DRS, "Theorem 1", "mlf-drs", "MLF-DRS", "envy-free", "satisfies", "", "refuted", FITS,
          (ENVY,)),
    Claim(MLF_DRS, "Theorem 2", "mlf-drs", "MLF-DRS", "sharing-incentive", "satisfies", "", "refuted", FITS,
          (SLICE,),
          note="Read as tasks. Its proof is about what is held of the dominant resource, at least C/n here; what of "
          "it can be used is less."),
    Claim(MLF_DRS, "Theorem 3", "mlf-drs", "MLF-DRS", "pareto", "satisfies", "", "refuted", FITS,
          (DOMINATED,), note="Its bundles fill every resource, but in proportions nobody can use."),
    Claim(MLF_DRS, "Theorem 4", "mlf-drs", "MLF-DRS", "strategy-proof", "satisfies", "any lie", "refuted",
          FITS + " So do those of the lie.", (REQUEST,)),
    Claim(MLF_DRS, "sec. IV", "drf", "DRF", "full-use", "violates", "", "proved", "", (DRF_WASTE,)),
    Claim(MLF_DRS, "abstract, sec. VI", "mlf-drs", "MLF-DRS", "full-use", '"full utilization of resources"', "",
          "refuted", "True of what is handed out, not of what tasks can use.", (WASTE,)),
    Claim(H_FFMRA, "sec. IV, Def. 6", "h-ffmra", "H-FFMRA", "pareto", '"cannot be maximised without decreasing"', "",
          "refuted", "On one server it is FFMRA. " + FITS, (replace(DOMINATED, mechanism="h-ffmra"),),
          note="A definition of feasible, read as a claim: no property is proved."),
    Claim(H_FFMRA, "sec. III", "ffmra", "FFMRA on each server", "pareto", '"meets efficiency"', "", "refuted", FITS,
          (replace(DOMINATED, mechanism="ffmra"),)),
    Claim(H_FFMRA, "abstract, sec. VI", "h-ffmra", "H-FFMRA", "full-use", '"full utilization of resources"', "",
          "refuted", "True of what is handed out, not of what tasks can use.", (replace(WASTE, mechanism="h-ffmra"),)),
    Claim(H_FFMRA, "sec. I", "drf", "DRF", "resource-monotone", "satisfies", "", "refuted",
          "Ghodsi et al. say themselves that it does not.", (GROWS["drf"],)),
    *_four(H_FFMRA, "sec. I"),
    Claim(H_FFMRA, "sec. II", "drfh", "DRFH", "sharing-incentive", "not guaranteed", "", "proved", "", (DRFH_SLICE,)),
    Claim(H_FFMRA, "sec. II", "drfh", "DRFH", "bottleneck", "violates", "", "proved",
          "As Dolev et al. define it, already on one pool.", (BOTTLENECK,)),
    Claim(H_FFMRA, "sec. II", "ps-dsf", "PS-DSF", "pareto", "violates", "", "proved", "", (PSDSF,)),
    Claim(H_FFMRA, "sec. III", "per-server:policy=drf", "DRF on each server", "pareto", "violates", "", "proved", "",
          (NAIVE,)),
)  # fmt: skip
