"""Readers and writers of files and data frames. Readers return the arguments of an `Instance`.

* `files`: the reader or writer for a path, by its content; its tables name the file of each format.
* `csv_folder`, `json_file` (with ``instance.schema.json``), `yaml_file`, `parquet`, `frames`: one format each.
* `kubernetes`: output of ``kubectl``. `slurm`: output of ``scontrol`` and ``squeue``.
* `queues`: queues of other schedulers as teams. `quantities`: amounts such as ``500m`` and ``64Gi``.
* `quotas`: quotas of teams for CSV, Kubernetes, Kueue and Slurm.
* `clusterdata`, `openb`: traces of production clusters. `jobs`: jobs with times, from a table or openb.
* `gavel`: throughputs of jobs by type of device.
* `assemble`: tables of users, servers and demands to arguments, and back; the table of optional columns.
* `work`: tasks of owners (namespaces, accounts) to users. `secured`: what quotas secure for them.
* `notes`: what readers return: arguments, and sentences on omissions and assumptions.
* `tables`: tables whose errors name file, row and column.
* `times`: dates as seconds.
* `text_files`: text of files and of standard input.
* `json_text`: JSON documents, checked by models whose errors name the place. `yaml_documents`: those of YAML.
  `documents`: the documents of an input in either, and the objects of Kubernetes in them. `snapshot`: those of KAI.
* `saving`: files written as a whole or not at all.
"""
