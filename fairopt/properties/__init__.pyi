from fairopt.properties.audit.findings import AuditReport as AuditReport
from fairopt.properties.audit.findings import Finding as Finding
from fairopt.properties.audit.findings import Witness as Witness
from fairopt.properties.audit.replay import replay as replay
from fairopt.properties.misreports.best import Misreport as Misreport
from fairopt.properties.misreports.best import best_misreport as best_misreport
from fairopt.properties.monotone import population_monotone as population_monotone
from fairopt.properties.monotone import resource_monotone as resource_monotone
from fairopt.properties.prove.proof import Proof as Proof
from fairopt.properties.prove.proof import ProofReport as ProofReport
from fairopt.properties.verdicts import PropertyReport as PropertyReport
from fairopt.properties.verdicts import Verdict as Verdict

# isort: split
# For packages that extend fairopt:
from fairopt.properties.audit.findings import Evidence as Evidence
from fairopt.properties.checks import without_envy as without_envy
from fairopt.properties.envy import Envy as Envy
from fairopt.properties.names import MEANING as MEANING
from fairopt.properties.names import percent as percent
from fairopt.properties.names import require_whole as require_whole
from fairopt.properties.names import spelled as spelled
from fairopt.properties.names import texts as texts
from fairopt.properties.names import when_late as when_late
