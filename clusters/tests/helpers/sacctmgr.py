"""A model of Slurm's accounting database: what lines of ``sacctmgr modify account`` change, and what is then shown."""

import json
import re
import shlex
from dataclasses import dataclass, field


@dataclass
class One:
    """An account of a cluster."""

    parent: str
    shares: int = 1
    tres: dict[str, int] = field(default_factory=dict)


class Database:
    """Accounts by cluster; a line without a cluster changes all clusters."""

    def __init__(self, accounts, others=("other",)):
        self.accounts = {
            of: {name: One(parent, shares, dict(tres)) for name, (parent, shares, tres) in accounts.items()}
            for of in ("hpc", *others)
        }
        self.changes = 0

    def run(self, text):
        """Apply a script; the number of lines that did so."""
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        for line in lines:
            words = shlex.split(line)
            assert words[:5] == ["sacctmgr", "-i", "modify", "account", "where"] and words[-2] == "set"
            where = dict(word.split("=", 1) for word in words[5:-2])
            key, value = words[-1].split("=", 1)
            for of in [where["cluster"]] if "cluster" in where else self.accounts:
                one = self.accounts[of][where["name"]]
                if key == "Fairshare":
                    one.shares = int(value)
                    continue
                assert key == "GrpTRES"
                for name, amount in (part.split("=") for part in value.split(",")):  # others stay
                    one.tres.pop(name, None)
                    if amount != "-1":
                        one.tres[name] = int(re.sub("M$", "", amount))
        return len(lines)

    def state(self, of="hpc"):
        return {name: (one.parent, one.shares, dict(one.tres)) for name, one in self.accounts[of].items()}

    def as_json(self):
        entries = [{"account": "root", "user": "", "parent_account": "", "cluster": "hpc"}]
        for name, one in self.accounts["hpc"].items():
            parts = ((*key.partition("/"), amount) for key, amount in one.tres.items())
            total = [{"type": of, "name": kind, "count": amount} for of, _, kind, amount in parts]
            entries.append(
                {"account": name, "user": "", "parent_account": one.parent, "cluster": "hpc", "shares_raw": one.shares}
                | ({"max": {"tres": {"total": total}}} if total else {})
            )
        return "associations.json", json.dumps({"associations": entries})

    def as_dump(self):
        lines, above = ["Cluster - 'hpc':Fairshare=1:QOS='normal'"], dict.fromkeys(["root", *self.accounts["hpc"]])
        for parent in above:
            mine = [(name, one) for name, one in self.accounts["hpc"].items() if one.parent == parent]
            lines += [f"Parent - '{parent}'"] * bool(mine)
            for name, one in mine:
                tres = ",".join(f"{key}={n}{'M' * (key == 'mem')}" for key, n in one.tres.items())
                lines.append(f"Account - '{name}':Fairshare={one.shares}" + f":GrpTRES='{tres}'" * bool(tres))
        return "cluster.cfg", "\n".join(lines)

    def as_sshare(self):
        shares = [
            {"cluster": "hpc", "name": name, "parent": one.parent, "shares": one.shares, "type": ["ASSOCIATION"]}
            for name, one in self.accounts["hpc"].items()
        ]
        return "sshare.json", json.dumps({"shares": {"shares": shares}})
