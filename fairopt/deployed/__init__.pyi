from fairopt.deployed.comparison import beside as beside
from fairopt.deployed.kai import KAI as KAI
from fairopt.deployed.kueue import Kueue as Kueue
from fairopt.deployed.manifests import manifest as manifest
from fairopt.deployed.slurm import Slurm as Slurm
from fairopt.deployed.volcano import Volcano as Volcano
from fairopt.deployed.yunikorn import YuniKorn as YuniKorn
