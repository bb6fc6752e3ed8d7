"""Readers and writers of files and data frames, and the kit that readers of other distributions are made of.

A `Reader` says how its inputs are recognised; what it calls returns `Arguments` of an `Instance`, with `Notes` on what
was left out. The rest helps to read: texts, tables, JSON and YAML, whose errors name the file, the place, the value and
the fix.

* `readers`: what a reader says of itself; our own, and those of other distributions.
* `files`: the reader or writer for a path, by its content.
* `csv_folder`, `json_file` (with ``instance.schema.json``), `yaml_file`, `parquet`, `frames`: one format each.
* `jobs`: jobs with times, from a table. `request_traces`: those of requests to language models.
* `quantities`: amounts such as ``500m`` and ``64Gi``.
* `assemble`: tables of users, servers and demands to arguments, and back; the table of optional columns.
* `notes`: what readers return: arguments, and sentences on omissions and assumptions.
* `tables`: tables whose errors name file, row and column.
* `times`: dates as seconds.
* `text_files`: text of files and of standard input.
* `json_text`: JSON documents, checked by models whose errors name the place. `yaml_documents`: those of YAML.
  `documents`: the documents of an input in either.
* `saving`: files written as a whole or not at all.
"""

from fairopt.runtime.lazy import public_names

__getattr__, __dir__ = public_names(__name__)
