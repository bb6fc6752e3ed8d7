from fairopt_clusters.quotas.quota import Quota as Quota
from fairopt_clusters.quotas.team_quotas import Change as Change
from fairopt_clusters.quotas.team_quotas import QuotaChanges as QuotaChanges
from fairopt_clusters.quotas.team_quotas import Quotas as Quotas

from fairopt.questions.differences import Diff as Diff
from fairopt.questions.differences import diff as diff
from fairopt.questions.explanation import Binding as Binding
from fairopt.questions.explanation import Explanation as Explanation
from fairopt.questions.what_if import WhatIf as WhatIf
