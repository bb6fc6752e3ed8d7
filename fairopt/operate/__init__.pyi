from fairopt.io.quotas.quota import Quota as Quota
from fairopt.operate.explanation import Binding as Binding
from fairopt.operate.explanation import Explanation as Explanation
from fairopt.operate.team_quotas import Change as Change
from fairopt.operate.team_quotas import QuotaChanges as QuotaChanges
from fairopt.operate.team_quotas import Quotas as Quotas
from fairopt.operate.what_if import WhatIf as WhatIf
