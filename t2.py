import fairopt as fo
from fairopt.datasets import Queue, QueueTree
t=QueueTree("Kueue",(Queue("all",guarantee={"cpu":1}),Queue("a","all",guarantee={"cpu":1}),Queue("b","all",guarantee={"cpu":1}),Queue("c","a",guarantee={"cpu":1})))
print(fo.deployed.beside(fo.deployed.Kueue(),t))
print(fo.deployed.Kueue().as_owed(t).queues)
for g in (0,1,2):
  I=fo.Instance([[1.0]]*2,[4],users=["tc","tb"],resources=["cpu"],teams={"l1":["a","b"],"l2":["c",None]} ,innermost_first=["l2","l1"],guarantees={"a":{"cpu":2},"b":{"cpu":1},"c":{"cpu":g}})
  print(fo.policies.Kueue().allocate(I).tasks)
I=fo.Instance([[1.0]]*2,[4],users=["tc","tb"],resources=["cpu"],teams={"l0":["all","all"],"l1":["a","b"],"l2":["c",None]} ,innermost_first=["l2","l1","l0"],guarantees={"all":{"cpu":4},"a":{"cpu":2},"b":{"cpu":1},"c":{"cpu":1}})
print(fo.policies.Kueue().allocate(I).tasks)
I=fo.Instance([[1.0]]*2,[4],users=["tc","tb"],resources=["cpu"],teams={"l0":["all","all"],"l1":["a","b"],"l2":["c",None]} ,innermost_first=["l2","l1","l0"],guarantees={"a":{"cpu":2},"b":{"cpu":1},"c":{"cpu":1}})
print(fo.policies.Kueue().allocate(I).tasks)
