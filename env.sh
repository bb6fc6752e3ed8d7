export PYTHONPATH=/work/wt/tr OPENBLAS_NUM_THREADS=1 P=/work/main/.venv/bin/python
