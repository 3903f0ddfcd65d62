"""Runs of several processes on this machine, which average their gradients over gloo."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.multiprocessing.spawn import spawn

from tests.trainer.exact import Case, Run, play


def play_together(cases: Sequence[Case], model: Path, folder: Path, processes: int) -> list[list[Run]]:
    """For each case the runs of all processes."""
    spawn(_one, (cases, model, folder, processes, _free_port()), nprocs=processes)
    return [[_read(folder, at, rank) for rank in range(processes)] for at in range(len(cases))]


def _one(rank: int, cases: Sequence[Case], model: Path, folder: Path, processes: int, port: int) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "ACCELERATE_USE_CPU": "true",
    }
    torch.set_num_threads(1)
    for at, case in enumerate(cases):
        torch.save(play(case, model, folder / f"out-{rank}"), folder / f"{at}-{rank}.pt")
    torch.distributed.destroy_process_group()


def _read(folder: Path, at: int, rank: int) -> Run:
    return torch.load(folder / f"{at}-{rank}.pt", weights_only=False)


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]
