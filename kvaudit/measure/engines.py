"""Where the requests of a sweep are measured: here, one after the other, or on a Ray cluster, as it has room.

Ray gets the same requests as the local engine. The model, the prompts and this version of kvaudit must lie at the same
paths on every node; records carry the digests of the first two, and one that has others is refused. A task asks for as
many CPUs as the plan has threads, and for one GPU if the plan runs on CUDA.
"""

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

from kvaudit.errors import KvauditError
from kvaudit.measure import process
from kvaudit.measure.process import Progress, Request
from kvaudit.measure.sweep import Done
from kvaudit.model import Document

INSTALL = "pip install 'kvaudit[measure,ray]'"


def local(requests: tuple[Request, ...], progress: Progress) -> Iterator[Done]:
    """Measure requests one after the other on this machine."""
    for index, request in enumerate(requests):
        try:
            yield Done(index, process.measure(request, progress), None)
        except KvauditError as error:
            if process.missing_packages():
                raise
            yield Done(index, (), str(error))


def ray_cluster(
    requests: tuple[Request, ...], progress: Progress, *, address: str | None = None, workers: int | None = None
) -> Iterator[Done]:
    """Measure requests as tasks of Ray, and yield each as it is done.

    `address` None starts Ray on this machine, unless the environment names a cluster (RAY_ADDRESS); `workers` is how
    many CPUs a Ray that is started here has, None all of them. Raises `KvauditError` if Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise KvauditError(f"`--engine ray` needs ray: {INSTALL}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    import ray

    options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
    try:
        ray.init(**options, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError) as error:
        raise KvauditError(f"Ray cannot be started or reached: {str(error).splitlines()[0]}") from error
    try:
        pending = {}
        for index, request in enumerate(requests):
            task = ray.remote(_measured).options(
                num_cpus=request.threads or 1, num_gpus=1 if request.device == "cuda" else 0, max_retries=0
            )
            pending[task.remote(request)] = index
        while pending:
            [ready], _ = ray.wait(list(pending), num_returns=1)
            index = pending.pop(ready)
            progress(f"group {index + 1} of {len(requests)} is done")
            try:
                records, failure = ray.get(ready)
            except ray.exceptions.RayError as error:
                records, failure = (), f"Ray lost the task: {str(error).splitlines()[0]}"
            yield Done(index, records, failure)
    finally:
        ray.shutdown()


def _measured(request: Request) -> tuple[tuple[Document, ...], str | None]:
    """Measure in a worker of Ray. Runs on another machine: it knows nothing but its argument."""
    try:
        return process.measure(request), None
    except KvauditError as error:
        return (), str(error)
