from fairopt_clusters.quotas.quota import Quota as Quota
from fairopt_clusters.quotas.team_quotas import Change as Change
from fairopt_clusters.quotas.team_quotas import Expected as Expected
from fairopt_clusters.quotas.team_quotas import QuotaChanges as QuotaChanges
from fairopt_clusters.quotas.team_quotas import Quotas as Quotas
from fairopt_clusters.quotas.trial import Trial as Trial
