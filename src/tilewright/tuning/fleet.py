"""Where a search runs: on this machine's GPU with its cores compiling, or on a cluster's GPUs."""

from __future__ import annotations

import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack

from tilewright.device import require_device
from tilewright.device.standin import gpu_of
from tilewright.errors import DeviceError
from tilewright.gpus import Gpu
from tilewright.tuning.search import Workers


def local_workers(jobs: int | None, stack: ExitStack) -> tuple[Workers, Gpu]:
    """Return this machine's GPU, and processes that compile for it until `stack` closes.

    Raises:
        DeviceError: no GPU.
    """
    card = gpu_of(require_device())
    # Spawned, not forked: a process that holds a CUDA context cannot be forked.
    pool = ProcessPoolExecutor(
        jobs or os.cpu_count() or 1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_leave_interrupts_to_the_parent,
    )
    stack.callback(pool.shutdown, cancel_futures=True)
    return Workers(compiling=pool), card


def cluster_workers(address: str, stack: ExitStack) -> tuple[Workers, Gpu]:
    """Return the workers of a Dask cluster, each with a GPU of its own, all of one kind.

    Raises:
        DeviceError: no Dask, no cluster at that address, or one without workers or GPUs.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise DeviceError("--cluster needs Dask: pip install distributed") from error
    try:
        client = stack.enter_context(Client(address, timeout=10))
    except (OSError, ValueError) as error:
        raise DeviceError(f"no Dask cluster at {address}: {error}") from error
    executor = client.get_executor()
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    if not workers:
        raise DeviceError(f"the cluster at {address} has no workers: start some with a GPU each")
    card = executor.submit(_card).result()
    return Workers(measuring=executor, lanes=len(workers)), card


def _card() -> Gpu:
    return gpu_of(require_device())


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
