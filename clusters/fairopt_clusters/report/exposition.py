"""An answer as metrics of Prometheus: what teams get, hold and wait for, its certificate, and how old its input is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from fairopt import Allocation
from fairopt.errors import InvalidBlock
from fairopt.policies import label
from fairopt.questions import by_team_else_user, held_now, team_sums

PREFIX = "fairopt_"
METRICS = {  # name: labels, and the help in the file
    "fair_amount": ("team resource", "Units of a resource that the policy gives a team, or a user without a team."),
    "held_amount": ("team resource", "Units of a resource that running tasks of a team take."),
    "waiting_amount": ("team resource", "Units of a resource that a team asked for and does not hold."),
    "difference_amount": ("team resource", "Units of a resource held above the fair amount, negative below it."),
    "held_fair_ratio": ("team resource", "Held by fair amount, of the one resource by which a team is over or under."),
    "capacity_amount": ("resource unit", "Units of a resource on all servers."),
    "certificate_gap_ratio": ("", "Proved bound on the distance of the answer from the optimum."),
    "certified": ("", "Whether the answer is certified: 1 or 0."),
    "answer_info": ("policy", "The policy of the answer."),
    "answer_timestamp_seconds": ("", "When the metrics were written, in seconds since 1970."),
    "input_timestamp_seconds": ("", "When the oldest file of the input was written, in seconds since 1970."),
    "input_age_seconds": ("", "Age of the oldest file of the input when the metrics were written."),
}
_Sample = tuple[str, Sequence[str], float]


def prometheus(answer: Allocation, *, input_time: float | None = None) -> str:
    """Metrics of an answer in the text format of Prometheus, as ``fairopt solve --metrics`` writes them.

    Parameters
    ----------
    answer : Allocation
        The answer. What is held, waiting and different is there if its instance says what runs now.
    input_time : float, optional
        When the input was written, in seconds since 1970, for its age.

    Returns
    -------
    str
        A row per team of the innermost label and resource, for users without a team by user.

    Raises
    ------
    InvalidBlock
        If ``answer`` is not an `Allocation`.

    Examples
    --------
    >>> import fairopt as fo, fairopt_clusters as fc
    >>> cluster = fo.Instance([[4, 1], [2, 1]], [48, 8], users=["train", "tune"], resources=["cpu", "gpu"], held=[6, 1])
    >>> for line in fc.prometheus(fo.DRF().allocate(cluster)).splitlines():
    ...     if line.startswith("fairopt_difference"):
    ...         print(line)
    fairopt_difference_amount{resource="cpu",team="train"} 8.0
    fairopt_difference_amount{resource="gpu",team="train"} 2.0
    fairopt_difference_amount{resource="cpu",team="tune"} -6.0
    fairopt_difference_amount{resource="gpu",team="tune"} -3.0
    """
    from prometheus_client import core, exposition  # takes a tenth of a second

    if not isinstance(answer, Allocation):
        raise InvalidBlock(f"prometheus({type(answer).__name__}): give an Allocation, such as DRF().allocate(instance)")
    families = {
        name: core.GaugeMetricFamily(PREFIX + name, help, labels=labels.split())
        for name, (labels, help) in METRICS.items()
    }
    for name, labels, value in _samples(answer, input_time):
        families[name].add_metric(labels, value)
    written = SimpleNamespace(collect=lambda: [one for one in families.values() if one.samples])
    return str(exposition.generate_latest(written).decode())


def _samples(answer: Allocation, input_time: float | None) -> Iterator[_Sample]:
    """Names, labels and values."""
    instance, now = answer.instance, time.time()
    by = by_team_else_user(instance)
    sums, held = team_sums(answer, by, alone=True), held_now(answer, by, alone=True)
    amounts = {"fair": sums.units}
    if held is not None:
        amounts |= {name: getattr(held, name)[:, 1:] for name in ("held", "waiting", "difference")}
        for team, resource, ratio in zip(held.names, held.judged, held.ratios.tolist(), strict=True):
            if ratio == ratio:
                yield "held_fair_ratio", (team, instance.resources[resource]), ratio
    for name, units in amounts.items():
        for team, row in zip(sums.names, units.tolist(), strict=True):
            for resource, amount in zip(instance.resources, row, strict=True):
                yield f"{name}_amount", (team, resource), amount
    named = zip(instance.resources, instance.units or [""] * instance.n_resources, strict=True)
    for of, total in zip(named, instance.total_capacities.tolist(), strict=True):
        yield "capacity_amount", of, total
    yield "certificate_gap_ratio", (), answer.certificate.gap
    yield "certified", (), float(answer.certificate.ok)
    yield "answer_info", (label(answer.policy),), 1.0
    yield "answer_timestamp_seconds", (), now
    if input_time is not None:
        yield "input_timestamp_seconds", (), input_time
        yield "input_age_seconds", (), max(0.0, now - input_time)
