from fairopt.scale.many import Allocations as Allocations
from fairopt.scale.many import allocate_many as allocate_many
from fairopt.scale.sharded import ShardedAllocation as ShardedAllocation
from fairopt.scale.sharded import allocate_sharded as allocate_sharded
from fairopt.solve.prepared import Prepared as Prepared
