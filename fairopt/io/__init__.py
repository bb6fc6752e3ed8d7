"""Everything that comes from or goes to files and frames. Readers give the arguments of an `Instance`, not one.

* `files`: whatever kind of file or folder a path is. `arguments`: what readers return.
* `csv_folder`, `json_file`, `yaml_file`, `parquet`, `frames`: instances in each of these.
* `kubernetes`, `slurm`: what a cluster says of itself. `clusterdata`, `openb`: traces of production clusters.
* `assemble`: from tables to arguments, and back. `work`: from tasks that owners have to users.
* `notes`: what a reader left out. `tables`: tables whose errors name the place.
* `text_files`, `json_text`: text in bounded memory, errors with places. `saving`: files written whole or not at all.
"""
