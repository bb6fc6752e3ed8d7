from fairopt.methods.batch.allocate_many import Allocations as Allocations
from fairopt.methods.batch.allocate_many import allocate_many as allocate_many
from fairopt.methods.prepared import Prepared as Prepared
from fairopt.methods.sharded.solve import ShardedAllocation as ShardedAllocation
from fairopt.methods.sharded.solve import allocate_sharded as allocate_sharded
