"""Run folders: what a long command writes down, so that it can be stopped, resumed and read.

    runs/example/
      config.json         what was asked for; a resume with anything else is refused
      metrics.jsonl       one row at a time, as they come
      checkpoints/        the state after some step, bit for bit; the last few, until the end
      record.json, .npz   the final record: scalars, arrays, tables
      environment.json    versions, machine, command line and seconds of every session

Every file is replaced atomically, nothing is pickled, and one process at a time may write.
Importing this package does not import JAX; taking a checkpoint does.
"""

from equipoise.runs._checkpoint import DamagedCheckpoint
from equipoise.runs._folder import FolderInUse, read_metrics
from equipoise.runs._loop import (
    Interrupt,
    Progress,
    Reached,
    interruptible,
    progress,
    resumable,
)
from equipoise.runs._record import Record, Table
from equipoise.runs._run import OtherConfig, Run

__all__ = [
    "DamagedCheckpoint",
    "FolderInUse",
    "Interrupt",
    "OtherConfig",
    "Progress",
    "Reached",
    "Record",
    "Run",
    "Table",
    "interruptible",
    "progress",
    "read_metrics",
    "resumable",
]
