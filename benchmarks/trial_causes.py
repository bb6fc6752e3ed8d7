"""Where in a scheduler's source each refutation of `trial.py` comes from, and what its documents say of it.

KAI at 72de64fc (the same arithmetic as at d5bc503a), Kueue at ff69552e, YuniKorn's core at be3bb487, Volcano at
ed72c7c8.
"""

_KAI = "`resource_division.go` of KAI"
_ROUNDS = (
    f"A part that is smaller than the request is rounded down (`getResourceToGiveInCurrentRound`, line 292 of "
    f"{_KAI}), "
    "and what is then left goes to the largest fractions in single GPUs (`divideRemainingResource`, line 264)."
)
_PSEUDOCODE = "The pseudocode in `docs/fairness` of KAI does not round, so this does not follow from it."
_LAST = (
    f"`divideRemainingResource` (line 276 of {_KAI}) gives a whole GPU, or all that is left, without a look "
    f"at what a "
    "queue may still have."
)
_BEST_EFFORT = (
    "A queue without `deserved` has the share 1 whatever it uses (`updateQueueAttrShare`, line 1835 of "
    "`capacity.go` of "
    "Volcano), so the queue that was made first stays first (`QueueOrderFn`, line 791 of `session_plugins.go`). A "
    "comment there says that such queues come last, and the design document compares use with `deserved`; "
    "neither says "
    "what happens among them."
)
_RATIO = (
    "Queues are ordered by use over the guarantee, or over the maximum where there is none (`getFairShare`, "
    "line 526 of "
    "`resources.go` of YuniKorn's core), so that a guarantee is a weight."
)
_RESERVED = (
    "A queue's part by weight is raised to its guarantee (lines 230 to 237 of `proportion.go` of Volcano), "
    "while the parts "
    "of the others are of all that there was before."
)

CAUSES = {
    ("kai", "max-min-fair"): f"{_ROUNDS} {_PSEUDOCODE}",
    ("kai", "feasible"): (
        f"`setDeservedResource` (line 92 of {_KAI}) gives each queue the smaller of its quota and its "
        f"request, whatever "
        "there is, and `queue_webhook.go` does not compare the quotas of queues below with that of the queue "
        "above. It "
        "follows from `docs/fairness`: the quota will always be allocated."
    ),
    ("kai", "within-limits"): (
        f"{_LAST} It contradicts `docs/queues`, where the limit is a hard cap. What exceeds the limit is the "
        f"fair share; "
        "jobs are held to the limit when they start, so that the rest of the GPU is promised to a queue that may not "
        "have it."
    ),
    ("kai", "non-wasteful"): f"{_LAST} In the pseudocode of `docs/fairness` no queue gets more than it still asks for.",
    ("kai", "keeps-priorities"): (
        f"`divideOverQuotaResource` (line 111 of {_KAI}) rounds for each priority before fractions are served: two "
        "queues with parts of one half get nothing in their turn, and all goes to the next priority. It contradicts "
        "`docs/fairness`: surplus resources are allocated by priority."
    ),
    ("kai", "sharing-incentive"): f"{_ROUNDS} {_PSEUDOCODE}",
    ("kai", "strategy-proof"): (
        f"A queue that asks for no more than its part gets all of it (line 286 of {_KAI}), and one that asks "
        f"for more "
        f"gets its part without the fraction. {_PSEUDOCODE}"
    ),
    ("kai", "split-proof"): f"{_ROUNDS} The two halves have the larger fractions. {_PSEUDOCODE}",
    ("kai", "merge-proof"): f"{_ROUNDS} One queue has the larger fraction. {_PSEUDOCODE}",
    ("kai", "resource-monotone"): (
        f"{_ROUNDS} This is the method of largest remainders, and the witness its Alabama paradox. {_PSEUDOCODE}"
    ),
    ("kai", "population-monotone"): (
        f"{_ROUNDS} The fraction of a queue may fall in rank when its part grows. {_PSEUDOCODE}"
    ),
    ("kai", "equal-treatment"): (
        f"{_ROUNDS} Of equal fractions that of the queue made first is served (`remainingRequestedOrderFn`, "
        f"line 335). "
        f"{_PSEUDOCODE}"
    ),
    ("volcano", "feasible"): (
        f"{_RESERVED} What a queue may have at most is what others do not reserve, but only for each queue by "
        f"itself. A "
        "queue starts tasks up to its part, so that two queues can use what is reserved for the third. The design "
        "document of guarantees says that only a queue itself can use what is reserved for it."
    ),
    ("volcano", "split-proof"): (
        f"{_RESERVED} Each half may have as much as the whole queue, namely all that others do not reserve."
    ),
    ("volcano-capacity", "max-min-fair"): _BEST_EFFORT,
    ("volcano-capacity", "sharing-incentive"): _BEST_EFFORT,
    ("volcano-capacity", "equal-treatment"): _BEST_EFFORT,
    ("volcano-capacity", "order-independent"): f"{_BEST_EFFORT} The order of the list stands for that of creation.",
    ("yunikorn", "max-min-fair"): _RATIO,
    ("yunikorn", "keeps-guarantees"): (
        f"{_RATIO} Where preemption is on, a queue below its guarantee may get it back later; that is not modelled."
    ),
    ("yunikorn", "sharing-incentive"): (
        "Without a guarantee the use of a queue is divided by its own maximum (`internalGetFairMaxResource`, "
        "line 1582 "
        "of `queue.go` of YuniKorn's core), so that a maximum lowers the share even where it does not bind. "
        "The comment "
        "of the function calls the ratio the rough utilisation of a queue."
    ),
    ("yunikorn", "split-proof"): (
        "Without a guarantee the use of each queue is divided by the same maximum, that of the cluster "
        "(`getFairShare`, "
        "line 526 of `resources.go`), so that two queues count twice. YuniKorn has no weights that could be halved."
    ),
    ("yunikorn", "resource-monotone"): (
        "The use of a queue without a guarantee is divided by the maximum of the cluster (`getFairShare`, line 526 of "
        "`resources.go` of YuniKorn's core), so that it weighs more in a larger cluster, and its siblings with "
        "guarantees less, level by level."
    ),
    ("volcano-hdrf", "sharing-incentive"): (
        "The shares of jobs below a queue are scaled to the smallest one before they are added up (line 537 "
        "of `drf.go` "
        "of Volcano), without their weights. A job of weight 3 has three times the share of its sibling, and "
        "two thirds "
        "of that do not count for the queue. The design document scales to the smallest share too, and its "
        "examples have "
        "equal weights."
    ),
    ("volcano-hdrf", "resource-monotone"): "DRF itself is not resource-monotone, so this follows from the design.",
    ("volcano-hdrf", "population-monotone"): (
        "DRF itself is not population-monotone where users need nothing of some resource, so this follows "
        "from the design."
    ),
    ("kueue", "preemption-by-rules"): (
        "Workloads of the preemptor's own queue are taken without a look at shares (`runFirstFsStrategy`, line 384 of "
        "`preemption.go` of Kueue), which lowers its share, so that others may be taken; `fillBackWorkloads` (line "
        "341) then leaves those of its own queue where they are, if the workload fits all the same, and compares no "
        "shares. This is issue 14543 of Kueue. `concepts/fair_sharing` proves that two workloads do not preempt each "
        "other, from rules that this preemption does not keep."
    ),
    ("kueue", "preemption-ends"): (
        "Who preempts holds nothing after its cycle: what is preempted waits again, and at the next cycle the smaller "
        "share comes first (`less`, line 176 of `fair_sharing_iterator.go` of Kueue). `concepts/fair_sharing` speaks "
        "of workloads in different queues that are admitted after they preempt, so this does not contradict it."
    ),
}
