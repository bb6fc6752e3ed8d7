import sys, time
import fairopt as fo
D=fo.deployed
S=[D.KAI(),D.Kueue(),D.YuniKorn(),D.Volcano(),D.Volcano("capacity"),D.Volcano("hdrf"),D.Slurm()]
names=sys.argv[1:] or None
for s in S:
    t=time.time()
    try:
        from fairopt.deployed.search import trials_of
        r=fo.audit(s,[n for n in (names or trials_of(s)) if n in trials_of(s)],max_examples=int(__import__("os").environ.get("N","600")))
    except fo.errors.InvalidBlock as e:
        print(s.name,e); continue
    print(s.name,f"{time.time()-t:.1f}s")
    for f in r.findings: print("  ",f.property,f.verdict,"|",f.witness, f"{f.seconds:.1f}s")
