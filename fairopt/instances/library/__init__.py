"""Named instances with their sources and the certified answers of the main notions.

* `library`: `Library`, the collection; `cases`: `Case`, one instance, and its `Source`.
* `answers`: `Answer`, what is known of a notion on a case, and `Agreement`, how another answer compares with it.
* `families`: instances of any size, generated from a seed.
* The folder ``data`` has a file for each kind of cases, and ``index.json`` about all of them;
  ``benchmarks/library/make.py`` writes them.
"""
