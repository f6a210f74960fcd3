"""Be a Dask cluster of N workers, one thread each, until stdin ends: `cluster.py N`.

Prints the scheduler's address. Each worker is a process of its own, as on machines of a cluster.
"""

from __future__ import annotations

import sys

from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
