from fairopt.online.backfill import BackfillScheduler as BackfillScheduler
from fairopt.online.files import JobTrace as JobTrace
from fairopt.online.files import read_jobs as read_jobs
from fairopt.online.hierarchical import HierarchicalScheduler as HierarchicalScheduler
from fairopt.online.task_scheduler import PlacedTask as PlacedTask
from fairopt.online.timeline import Timeline as Timeline
