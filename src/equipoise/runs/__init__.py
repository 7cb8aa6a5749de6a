"""Run folders: the files of a long command, so that it can be stopped, resumed and read.

    runs/example/
      config.json         the settings; resuming with other settings is refused
      metrics.jsonl       one row per logged step, written immediately
      checkpoints/        the exact state after some steps: the last few, until the run ends
      record.json, .npz   the final record: scalars, arrays, tables
      environment.json    versions, machine, command line and seconds of every session

Every file is replaced atomically, nothing is pickled, and only one process at a time may write.
Importing this package does not import JAX; taking a checkpoint does.
"""

from equipoise.runs import engines
from equipoise.runs._checkpoint import DamagedCheckpoint
from equipoise.runs._folder import FolderInUse, read_metrics
from equipoise.runs._loop import (
    Interrupt,
    Progress,
    Reached,
    Unfinished,
    interruptible,
    progress,
    resumable,
)
from equipoise.runs._record import Record, Table
from equipoise.runs._run import Format, OtherConfig, Run, kept
from equipoise.runs._sweep import Sweep, read_sweep, sweep

__all__ = [
    "DamagedCheckpoint",
    "FolderInUse",
    "Format",
    "Interrupt",
    "OtherConfig",
    "Progress",
    "Reached",
    "Record",
    "Run",
    "Sweep",
    "Table",
    "Unfinished",
    "engines",
    "interruptible",
    "kept",
    "progress",
    "read_metrics",
    "read_sweep",
    "resumable",
    "sweep",
]
