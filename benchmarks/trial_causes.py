"""Where in a scheduler's source each refutation of `trial.py` comes from, and what its documents say of it.

KAI at 72de64fc (the same arithmetic as at d5bc503a), Kueue at ff69552e, YuniKorn's core at be3bb487, Volcano at
ed72c7c8.
"""

SHARED = {  # causes of several refutations of a scheduler
    "kai": {
        "Rounding": (
            "A part that is smaller than the request is rounded down (`getResourceToGiveInCurrentRound`, line 292 of "
            "`resource_division.go`), and what is then left goes in single GPUs to the largest fractions "
            "(`divideRemainingResource`, line 264), of equal ones to that of the queue made first "
            "(`remainingRequestedOrderFn`, line 335). The pseudocode in `docs/fairness` does not round, so this does "
            "not follow from it."
        ),
        "Last unit": (
            "`divideRemainingResource` (line 276) gives a whole GPU, or all that is left, without a look at what a "
            "queue may have and asks for. In the pseudocode of `docs/fairness` no queue gets more than it asks for."
        ),
    },
    "volcano": {
        "Guarantees": (
            "A queue's part by weight is raised to its guarantee (lines 230 to 237 of `proportion.go`), while the "
            "parts of the others are of all that there was before. What a queue may have at most is what others do not "
            "reserve (line 132), for each queue by itself. A queue starts tasks up to its part (line 351), so that "
            "others can use what is reserved. It contradicts the design document on guarantees: only the queue itself "
            "can use what is reserved for it."
        )
    },
    "volcano-capacity": {
        "Nothing deserved": (
            "A queue without `deserved` has the share 1 whatever it uses (`updateQueueAttrShare`, line 1835 of "
            "`capacity.go`), so that the one made first stays first (`QueueOrderFn`, line 791 of "
            "`session_plugins.go`). "
            "A comment says that such queues come after others; what happens among them no document says."
        )
    },
    "yunikorn": {
        "Guarantees": (
            "Queues are served by use over the guarantee, or over the maximum where there is none (`getFairShare`, "
            "line 526 of `resources.go`), so that a guarantee is a weight. Where preemption is on, a queue below its "
            "guarantee may get it back later, which is not modelled."
        ),
        "Maxima": (
            "The maximum that counts is a queue's own, else that of the queue above, else the cluster's "
            "(`internalGetFairMaxResource`, line 1582 of `queue.go`). Its comment calls the ratio the rough "
            "utilisation of a queue."
        ),
    },
}

CAUSES = {
    ("kai", "max-min-fair"): "Rounding.",
    ("kai", "feasible"): (
        "`setDeservedResource` (line 92 of `resource_division.go`) gives each queue the smaller of its quota and its "
        "request, whatever there is, and `queue_webhook.go` does not compare the quotas of queues below with that of "
        "the queue above. It follows from `docs/fairness`: the quota will always be allocated."
    ),
    ("kai", "within-limits"): (
        "Last unit. By `docs/queues` a limit is a hard cap. Jobs are held to it when they start "
        "(`max_allowed_check.go`), so that the rest of the GPU is promised to a queue that may not have it."
    ),
    ("kai", "non-wasteful"): "Last unit.",
    ("kai", "keeps-priorities"): (
        "`divideOverQuotaResource` (line 111) rounds for each priority before any fraction is served: two queues with "
        "parts of one half get nothing in their turn, and all goes to the next priority. It contradicts "
        "`docs/fairness`: surplus resources are allocated by priority."
    ),
    ("kai", "sharing-incentive"): "Rounding.",
    ("kai", "strategy-proof"): (
        "Rounding. A queue that asks for no more than its part gets all of it (line 286), and one that asks for more "
        "gets its part without the fraction."
    ),
    ("kai", "split-proof"): "Rounding. The two halves have the larger fractions.",
    ("kai", "merge-proof"): "Rounding. One queue has the larger fraction.",
    ("kai", "resource-monotone"): "Rounding. This is the Alabama paradox of largest remainders.",
    ("kai", "population-monotone"): "Rounding. The fraction of a queue may fall in rank when its part grows.",
    ("kai", "equal-treatment"): "Rounding.",
    ("volcano", "feasible"): "Guarantees.",
    ("volcano", "split-proof"): "Guarantees. Together the halves may have more than the whole queue.",
    ("volcano-capacity", "max-min-fair"): "Nothing deserved.",
    ("volcano-capacity", "sharing-incentive"): "Nothing deserved.",
    ("volcano-capacity", "equal-treatment"): "Nothing deserved.",
    ("volcano-capacity", "order-independent"): "Nothing deserved. The order of the list stands for that of creation.",
    ("yunikorn", "max-min-fair"): "Guarantees.",
    ("yunikorn", "keeps-guarantees"): "Guarantees.",
    ("yunikorn", "sharing-incentive"): "Maxima. A maximum lowers the share even where it does not bind.",
    ("yunikorn", "split-proof"): "Maxima. Two queues count twice, and there are no weights to halve.",
    ("yunikorn", "resource-monotone"): (
        "Maxima. In a larger cluster a queue without a guarantee counts for more, and its siblings with guarantees for "
        "less, level by level."
    ),
    ("volcano-hdrf", "sharing-incentive"): (
        "The shares of jobs below a queue are scaled to the smallest one before they are added up (line 537 of "
        "`drf.go`), without their weights. A job of weight 3 uses three times as much as its sibling, and two thirds "
        "of that do not count for their queue. The design document scales likewise; its examples have equal weights."
    ),
    ("volcano-hdrf", "resource-monotone"): "DRF itself is not resource-monotone, so this follows from the design.",
    ("volcano-hdrf", "population-monotone"): (
        "DRF itself is not population-monotone where users need nothing of some resource, so this follows from the "
        "design."
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
        "share comes first (`less`, line 176 of `fair_sharing_iterator.go` of Kueue), unless the gate "
        "`PrioritizePreemptorWorkloads`, which is off by default, puts who preempts first. `concepts/fair_sharing` "
        "speaks of workloads that are admitted after they preempt, so this does not contradict it."
    ),
}
