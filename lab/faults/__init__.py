"""The catalogue of faults. To add one: a file here, an entry in FAULTS, a test, a paragraph in the docs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lab.errors import NotFoundError
from lab.faults.base import Fault, FaultKind, Parameter, RankProcess, Scene, Scope
from lab.faults.checkpoint_corrupt import CheckpointCorrupt
from lab.faults.checkpoint_delete import CheckpointDelete
from lab.faults.checkpoint_truncate import CheckpointTruncate
from lab.faults.crash_restart import CrashRestart
from lab.faults.disk_full import DiskFull
from lab.faults.exception_at_epoch import ExceptionAtEpoch
from lab.faults.head_kill import HeadKill
from lab.faults.kill import Kill
from lab.faults.nan_at_epoch import NanAtEpoch
from lab.faults.oom import Oom
from lab.faults.partition import Partition
from lab.faults.pause import Pause
from lab.faults.rank_hang import RankHang
from lab.faults.rank_kill import RankKill
from lab.faults.s3_credentials_revoked import S3CredentialsRevoked
from lab.faults.s3_down import S3Down
from lab.faults.s3_slow import S3Slow
from lab.faults.slow_network import SlowNetwork
from lab.faults.stop import Stop

FAULTS: Mapping[str, Callable[[], Fault]] = {
    "kill": Kill,
    "stop": Stop,
    "pause": Pause,
    "crash-restart": CrashRestart,
    "partition": Partition,
    "slow-network": SlowNetwork,
    "oom": Oom,
    "disk-full": DiskFull,
    "rank-kill": RankKill,
    "rank-hang": RankHang,
    "exception-at-epoch": ExceptionAtEpoch,
    "nan-at-epoch": NanAtEpoch,
    "s3-down": S3Down,
    "s3-slow": S3Slow,
    "s3-credentials-revoked": S3CredentialsRevoked,
    "checkpoint-corrupt": CheckpointCorrupt,
    "checkpoint-delete": CheckpointDelete,
    "checkpoint-truncate": CheckpointTruncate,
    "head-kill": HeadKill,
}


def catalogue() -> tuple[FaultKind, ...]:
    """Every fault there is."""
    return tuple(make().kind for make in FAULTS.values())


def find_fault(name: str) -> Fault:
    """The fault called `name`. Raises NotFoundError that lists the known ones."""
    if name not in FAULTS:
        raise NotFoundError(f"there is no fault {name!r}", f"known: {', '.join(FAULTS)}")
    return FAULTS[name]()


__all__ = [
    "FAULTS",
    "Fault",
    "FaultKind",
    "Parameter",
    "RankProcess",
    "Scene",
    "Scope",
    "catalogue",
    "find_fault",
]
