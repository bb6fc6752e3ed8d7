"""A page on a cluster for those who run it, and metrics of an answer.

Called with an answer, or with policies and an instance, the package makes a `ClusterReport`, which writes the page.
`prometheus` makes metrics.

* `cluster`: everything that the page says. `words`: its sentences. `page`: its HTML, by Jinja2 from the folder
  ``templates``.
* `exposition`: metrics for Prometheus, for ``fairopt solve --metrics``.
"""

from fairopt.runtime import public_names
from fairopt_clusters.callable import callable_room

__getattr__, __dir__ = public_names(__name__)
callable_room(__name__, "fairopt_clusters.report.cluster:report")
