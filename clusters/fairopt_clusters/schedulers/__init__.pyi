from fairopt_clusters.schedulers.comparison import beside as beside
from fairopt_clusters.schedulers.kai import KAI as KAI
from fairopt_clusters.schedulers.kueue import Kueue as Kueue
from fairopt_clusters.schedulers.manifests import manifest as manifest
from fairopt_clusters.schedulers.slurm import Slurm as Slurm
from fairopt_clusters.schedulers.volcano import Volcano as Volcano
from fairopt_clusters.schedulers.yunikorn import YuniKorn as YuniKorn
