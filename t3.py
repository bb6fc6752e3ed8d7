import cProfile,pstats,numpy as np,time
import fairopt as fo
from fairopt.deployed.draws import drawn
from fairopt.deployed.trial import TRIALS
tr=TRIALS[0]
for s in (fo.deployed.Kueue(),fo.deployed.Slurm()):
    rng=np.random.default_rng(0); cs=[tr.drawn(rng,s) for _ in range(60)]
    t=time.process_time()
    ts=[]
    for c in cs:
        u=time.process_time(); tr.breach(s,c); ts.append(time.process_time()-u)
    print(s.name,time.process_time()-t,sorted(ts)[-5:])
    k=int(np.argmax(ts)); print(cs[k].tree)
