"""Recompute every published number: run the script of each paper, two at a time, and write the page.

Run: make papers
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from published import write_page

HERE = Path(__file__).parent
SCRIPTS = ("hamzeh_2021", "joe_wong_2013", "jiang_wu_2021", "jiang_wu_2018", "hamzeh_2019")  # the longest first


def ran(script: str) -> tuple[str, int, str, float]:
    """Name, exit code, output and seconds of one paper's script."""
    print(f"== {script} ...", flush=True)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, HERE / f"{script}.py"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return script, done.returncode, done.stdout, time.perf_counter() - start


def main() -> None:
    """Run them all, print what each found, and end with 1 if one failed; Ctrl-C keeps the papers that are done."""
    argparse.ArgumentParser(description="Recompute every published number, two papers at a time.").parse_args()
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        try:
            for job in as_completed([pool.submit(ran, script) for script in SCRIPTS]):
                script, code, output, seconds = job.result()
                print(f"{output}== {script}: {'failed' if code else 'done'} in {seconds:.0f} s", flush=True)
                failed |= code
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            sys.exit("interrupted; papers that are done are kept")
    write_page()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
