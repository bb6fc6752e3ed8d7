from fairopt.online.files import JobTrace as JobTrace
from fairopt.online.files import read_jobs as read_jobs
from fairopt.online.scheduler import PlacedTask as PlacedTask
from fairopt.online.timeline import Timeline as Timeline
