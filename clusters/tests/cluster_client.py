"""A program of somebody who runs a cluster, which ``make lint`` checks with ``mypy --strict`` and no other setting."""

import sys
from typing import assert_type

import fairopt_clusters as fc
from fairopt_clusters.quotas import Quota, QuotaChanges, Quotas, Trial
from fairopt_clusters.report import ClusterReport

import fairopt as fo


def apply(answer: fo.Allocation, present: list[Quota]) -> str:
    quotas = fc.quotas(answer, "kueue", resources=["gpu"], integral=True, time_limit=60.0)
    assert_type(quotas, Quotas)
    changes = quotas.diff([*present, fc.quotas.Quota("vision", "gpu", "", 8.0)])
    assert_type(changes, QuotaChanges)
    assert isinstance(changes.rows[0], fc.quotas.Change) and isinstance(quotas, fc.quotas.Quotas)
    assert_type(fc.quotas(answer, "kueue", caps=True).replay("weeks", resumes=True), Trial)
    assert all(isinstance(one, fc.quotas.Expected) for one in quotas.expected)
    fc.quotas(answer, format="slurm", team=["vision"])  # type: ignore[call-arg]  # no such option
    fc.quotas("answer.json")  # type: ignore[arg-type]
    print(fc.quotas.Quotums)  # type: ignore[attr-defined]
    return quotas.text() + fc.report.prometheus(answer)


def main() -> None:
    cluster = fc.read(sys.argv[1], labels=["org", "team"], full_demand=True, users="namespace")
    assert_type(cluster, fo.Instance)
    answer = fc.policies.Kueue().allocate(cluster)
    found = fc.report(answer, title="GPU cluster")
    assert_type(found, ClusterReport)
    assert_type(fc.report(["drf", fo.HDRF()], cluster), ClusterReport)
    fc.report(answer, solver=1)  # type: ignore[arg-type]
    tree = fc.read_queues("queues.yaml")
    assert_type(tree, fc.QueueTree)
    print(apply(answer, []), fc.schedulers.KAI().divide(tree), *found.sentences)


if __name__ == "__main__":
    main()
