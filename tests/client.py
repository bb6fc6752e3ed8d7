"""A program of a user's, which ``make lint`` checks with ``mypy --strict`` and no other setting."""

from dataclasses import dataclass
from typing import assert_type

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import fairopt as fo
from fairopt.datasets import demo


@dataclass(frozen=True, repr=False)
class MeanShare(fo.Share):
    """The mean of a user's shares of all resources."""

    def per_task(self, instance: fo.Instance) -> NDArray[np.float64]:
        return np.asarray(instance.ratios.mean(axis=-1))


def tasks_of(instance: fo.Instance, policy: fo.Policy) -> NDArray[np.float64]:
    allocation = policy.allocate(instance, method="auto", time_limit=60.0)
    assert_type(allocation, fo.Allocation)
    assert_type(allocation.prices, NDArray[np.float64] | None)
    assert_type(allocation.certificate.ok, bool)
    assert_type(allocation.tasks, NDArray[np.float64])
    return allocation.tasks


def main() -> None:
    cluster = fo.Instance([[40, 8], [8, 5]], capacities={"cpu": 200, "memory": 200}, users=["batch", "web"])
    balanced = fo.Policy(fo.AlphaFair(2, MeanShare()), [fo.SharingIncentive(), fo.MaxTasks({"web": 10})])
    total: float = tasks_of(cluster, balanced).sum()
    try:
        answer = fo.DRF().with_constraints(fo.MaxShare(0.3)).allocate(demo())
    except fo.errors.Infeasible as error:
        print(total, error)
        return
    inline = fo.Policy(lambda model: model.share(MeanShare())[0], [lambda model: model.tasks <= 3, fo.MinShare(0.1)])
    assert_type(inline.with_constraints(lambda model: [], [fo.SharingIncentive()]), fo.Policy)
    report = fo.check(answer, ["pareto", "envy"])
    assert_type(report["pareto"].holds, bool | None)
    compared = fo.compare([fo.DRF(), balanced], cluster)
    latex: str = compared.to_latex()
    changed: fo.questions.WhatIf = fo.what_if(balanced, cluster, add_servers={"pool": 1}, weights={"web": 2})
    prepared = fo.FDS(5).prepare(cluster)
    again = prepared.allocate(capacities={"cpu": 150, "memory": 200}, weights={"web": 2})
    assert_type(again.usage, NDArray[np.float64])
    assert_type(report["pareto"].ok, bool)
    assert_type(report.to_frame(), pd.DataFrame)
    found: fo.checker.Verification = fo.verify("answer.json")
    print(latex, [str(finding) for finding in fo.audit(balanced).findings], found.ok, *changed.sentences)


if __name__ == "__main__":
    main()
