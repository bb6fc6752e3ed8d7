# For packages that extend fairopt:
from fairopt.solve.form.bundle_program import decides_bundles as decides_bundles
from fairopt.solve.form.program import Program as Program
from fairopt.solve.whole.rounding import FROM_WHOLE as FROM_WHOLE
from fairopt.solve.whole.rounding import WholeTasks as WholeTasks
from fairopt.solve.whole.rounding import rounded as rounded
