"""Where in a scheduler's source each refutation of `trial.py` comes from, and what its documents say of it.

KAI at d5bc503a, Kueue at ff69552e, YuniKorn's core at be3bb487, Volcano at ed72c7c8.
"""

SHARED = {  # causes of several refutations of a scheduler
    "kai": {
        "Rounding": (
            "A part that is smaller than the request is rounded down (`getResourceToGiveInCurrentRound`, line 296 of "
            "`resource_division.go`), and what is then left goes in single GPUs to the largest fractions "
            "(`divideRemainingResource`, line 268), of equal ones to that of the queue made first "
            "(`remainingRequestedOrderFn`, line 339). The pseudocode in `docs/fairness` does not round, so this does "
            "not follow from it."
        ),
        "Last unit": (
            "`divideRemainingResource` (line 280) gives a whole GPU, or all that is left, without a look at what a "
            "queue may have and asks for. In the pseudocode of `docs/fairness` no queue gets more than it asks for."
        ),
    },
    "volcano": {
        "Guarantees": (
            "A queue's part by weight is raised to its guarantee (lines 230 to 237 of `proportion.go`), while the "
            "parts of the others are of all that there was before. What a queue may have at most is what others do not "
            "reserve (line 132), for each queue by itself. A queue starts tasks up to its part (line 350), so that "
            "others can use what is reserved. It contradicts the design document "
            "`queue-guarantee-resource-reservation-design`: what is reserved can only be used by its queue."
        )
    },
    "volcano-capacity": {
        "Nothing deserved": (
            "A queue without `deserved` has the share 1 whatever it uses (`updateQueueAttrShare`, line 1835 of "
            "`capacity.go`), so that the one made first stays first (`QueueOrderFn`, line 791 of "
            "`session_plugins.go`), unless another plugin orders them. "
            "A comment says that such queues come after others; what happens among them no document says."
        )
    },
    "yunikorn": {
        "Guarantees": (
            "Queues are served by use over the guarantee, or over the maximum where there is none (`getFairShare`, "
            "line 526 of `resources.go`), so that a guarantee is a weight. This follows from the manual: guaranteed "
            "resources are one of the inputs for deciding which queue comes next. By preemption, which is on by "
            "default, a queue below its guarantee may get it back later, which is not modelled."
        ),
        "Maxima": (
            "The maximum that counts is a queue's own, else that of the queue above, else the cluster's "
            "(`internalGetFairMaxResource`, line 1582 of `queue.go`). Its comment calls the ratio the rough "
            "utilisation of a queue; the manual has maxima as hard limits only."
        ),
    },
}

CAUSES = {
    ("kai", "max-min-fair"): "Rounding.",
    ("kai", "feasible"): (
        "`setDeservedResource` (line 96 of `resource_division.go`) gives each queue the smaller of its quota and its "
        "request, whatever there is. `queue_validator.go` compares the quotas of queues below with that of the queue "
        "above only with `--enable-quota-validation`, which is off by default, and then warns. It follows from "
        "`docs/fairness`: the quota will always be allocated."
    ),
    ("kai", "within-limits"): (
        "Last unit. By `docs/queues` a limit is a hard cap. Jobs are held to it when they start "
        "(`max_allowed_check.go`), so that the rest of the GPU is promised to a queue that may not have it."
    ),
    ("kai", "non-wasteful"): "Last unit.",
    ("kai", "keeps-priorities"): (
        "`divideOverQuotaResource` (line 115) rounds for each priority before any fraction is served: two queues with "
        "parts of one half get nothing in their turn, and all goes to the next priority. It contradicts "
        "`docs/fairness`: surplus resources are allocated by priority; and `docs/scheduling-deep-dive`: all surplus "
        "goes to the highest priority before any reaches the next."
    ),
    ("kai", "sharing-incentive"): "Rounding.",
    ("kai", "strategy-proof"): (
        "Rounding. A queue that asks for no more than its part gets all of it (line 290), and one that asks for more "
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
        "of that do not count for their queue. The design document scales likewise; its examples have equal weights. "
        "Against that document, shares of inner nodes are the largest over all resources (line 542), not those alone "
        "of which some is left; here there is one."
    ),
    ("volcano-hdrf", "resource-monotone"): "DRF itself is not resource-monotone, so this follows from the design.",
    ("volcano-hdrf", "population-monotone"): (
        "DRF itself is not population-monotone where users need nothing of some resource: the numbers are those of "
        "DRF. So this follows from the design."
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
        "`PrioritizePreemptorWorkloads`, which is off by default, puts who preempts first. The proof in "
        "`concepts/fair_sharing` is of workloads of different queues that are admitted after they preempt; here one "
        "preempts in its own queue, and is not admitted, so this does not contradict it."
    ),
}

READ = {  # again, by hand: lines of the source, and whether a run of the scheduler shows what its division does
    ("kai", "max-min-fair"): (
        "`resource_division.go` 296, 268",
        "yes: tasks of half a GPU of `a` fill it, since `b`, with a part of 0, comes last (`queue_order.go` 72), and "
        "may not reclaim (`reclaimable.go` 40)",
    ),
    ("kai", "feasible"): ("`resource_division.go` 108", "no: the second GPU is promised, and there is none"),
    ("kai", "within-limits"): (
        "`resource_division.go` 280",
        "no: `a` stops at its limit (`max_allowed_check.go` 61), and `b` may use the rest beyond its part of 0",
    ),
    ("kai", "non-wasteful"): (
        "`resource_division.go` 280",
        "no: `b` may use what `a` does not need, beyond its part of 0",
    ),
    ("kai", "keeps-priorities"): (
        "`resource_division.go` 121, 130",
        "yes: a job of `a` starts first (`queue_order.go` 66), then `c` reclaims the GPU, since the part of `a` is 0",
    ),
    ("kai", "sharing-incentive"): ("`resource_division.go` 296, 268", "yes, as for max-min-fair"),
    ("kai", "strategy-proof"): ("`resource_division.go` 290, 296", "yes: half a GPU each when `b` asks for half"),
    ("kai", "split-proof"): ("`resource_division.go` 268", "yes: the second half reclaims a GPU of `a`"),
    ("kai", "merge-proof"): ("`resource_division.go` 268", "yes: the larger queue reclaims the GPU of `a`"),
    ("kai", "resource-monotone"): (
        "`resource_division.go` 268",
        "yes: when a GPU is added, `c` reclaims the one that `a` has",
    ),
    ("kai", "population-monotone"): (
        "`resource_division.go` 268, 339",
        "yes: `a`, if it was made before `b`, reclaims the GPU of `b`",
    ),
    ("kai", "equal-treatment"): ("`resource_division.go` 339", "yes, as for max-min-fair"),
    ("kueue", "preemption-by-rules"): ("`preemption.go` 399, 505, 341", "yes"),
    ("kueue", "preemption-ends"): (
        "`preemption.go` 413, 399; `fair_sharing_iterator.go` 203",
        "yes, where evictions end before the next cycle",
    ),
    ("yunikorn", "max-min-fair"): ("`resources.go` 540", "yes, of small tasks in an empty cluster, before preemption"),
    ("yunikorn", "keeps-guarantees"): ("`resources.go` 540", "yes, as for max-min-fair"),
    ("yunikorn", "sharing-incentive"): ("`queue.go` 1592", "yes, of small tasks; with tasks of 1 cpu each has one"),
    ("yunikorn", "split-proof"): ("`sorters.go` 69", "yes, of small tasks"),
    ("yunikorn", "resource-monotone"): (
        "`resources.go` 540, `queue.go` 1578",
        "no: what runs goes on; `c` has less only of what starts in the larger cluster",
    ),
    ("volcano", "feasible"): (
        "`proportion.go` 237, 260",
        "no: the cluster is full before; small tasks use 0.857, 0.571 and 0.571, of `a` less than is reserved",
    ),
    ("volcano", "split-proof"): ("`proportion.go` 132, 237", "yes, of small tasks: 1.143 in place of 1"),
    ("volcano-capacity", "max-min-fair"): (
        "`capacity.go` 1835, 1565",
        "yes: `b` waits while anything of `a` does, and may not reclaim (`capacity.go` 677)",
    ),
    ("volcano-capacity", "sharing-incentive"): ("`capacity.go` 1835, 1565", "yes, as for max-min-fair"),
    ("volcano-capacity", "equal-treatment"): ("`session_plugins.go` 794", "yes, as for max-min-fair"),
    ("volcano-capacity", "order-independent"): (
        "`session_plugins.go` 794",
        "yes, by the time at which queues were made, of the same second by name",
    ),
    ("volcano-hdrf", "sharing-incentive"): (
        "`drf.go` 517, 537",
        "yes, of small tasks of jobs that may start with one (`minAvailable` 1)",
    ),
    ("volcano-hdrf", "resource-monotone"): ("`drf.go` 180, 569", "yes, as for sharing-incentive, when all starts anew"),
    ("volcano-hdrf", "population-monotone"): ("`drf.go` 90, 569", "yes, as for resource-monotone"),
}
