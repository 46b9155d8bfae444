"""The errors of labctl, each with its exit code.

LabError
 |- UsageError            2   a flag or value that makes no sense
 |- NotFoundError         3   unknown service, fault, recipe, job or file
 |- UnsupportedError      4   this runtime, machine or version cannot do it
 |- LabDownError          5   the lab (or the service) is not running
 |- PortTakenError        6   a port is in use
 |- WaitTimeoutError      7   something did not happen before its deadline
 |- ServiceError          8   a service did not start, or died
 |- JobError              9   a job failed or was stopped
 |- VerdictError         10   the recovery was not proven
 |- RefusedError         11   possible, but not now: the reason says why
 |- SetupError           12   what labctl needs could not be installed
 |- StoreError           13   the object store: unreachable, wrong key, full, unwritable
 |- GpuError             14   the GPUs asked for are not there
 |- CheckError           15   a check of `doctor` failed
 |- ClusterError         16   Ray's API did not answer or refused the token
 |- PinningError         17   a worker sees another GPU than the one it is pinned to
 |- EngineError          18   Docker or its Compose plugin: missing, not running, too old, not permitted
 |- LessonError          19   a lesson is not passed yet, or a report does not fit
 |- StateError           20   the lab's state file is damaged or gone
 |- OutputError          21   the result could not be written to stdout
 |- ManifestError        22   manifests of Kubernetes that could not work
 |- KubernetesError      23   kubectl, or a cluster: missing, not reachable, not permitted
 |- PatchError           24   a patch that keeps something closed does not fit this Ray
 |- HeadDownError        25   Ray's head takes no connection
 |- MovedError           26   the lab was started on the other runtime meanwhile
 |- CertificateError     27   a certificate, of the object store or the class, is not trusted here

An interrupt (Ctrl-C) is 130, as in a shell. 1 is kept for bugs in labctl itself.
"""

from __future__ import annotations


class LabError(Exception):
    """An error with a message (what is wrong, and where) and a hint (what to do)."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        """`message` says what is wrong and where, in one line; `hint` says what to do, in one line."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LabError):
    """A flag or value that makes no sense."""

    exit_code = 2


class NotFoundError(LabError):
    """An unknown service, fault, recipe, job or file."""

    exit_code = 3


class UnsupportedError(LabError):
    """This runtime, machine or version cannot do it."""

    exit_code = 4


class LabDownError(LabError):
    """The lab, or the service asked for, is not running."""

    exit_code = 5


class PortTakenError(LabError):
    """A port the lab was told to use belongs to somebody else."""

    exit_code = 6


class WaitTimeoutError(LabError):
    """Something did not happen before its deadline; the message carries the last state and log lines."""

    exit_code = 7


class ServiceError(LabError):
    """A service did not start, or died."""

    exit_code = 8


class JobError(LabError):
    """A job failed or was stopped."""

    exit_code = 9


class VerdictError(LabError):
    """The fault was injected, but recovery was not proven."""

    exit_code = 10


class RefusedError(LabError):
    """Possible in general, but not now; nothing was changed."""

    exit_code = 11


class SetupError(LabError):
    """A package or tool that labctl needs could not be installed."""

    exit_code = 12


class StoreError(LabError):
    """The object store is unreachable, refuses the key, or cannot store."""

    exit_code = 13


class CertificateError(StoreError):
    """The certificate of the object store, or of a class, is not trusted here, or is for another name."""

    exit_code = 27


class GpuError(LabError):
    """The GPUs asked for are not there."""

    exit_code = 14


class CheckError(LabError):
    """A check of `doctor` failed."""

    exit_code = 15


class ClusterError(LabError):
    """Ray's API did not answer, or refused the token."""

    exit_code = 16


class PinningError(LabError):
    """A worker sees no GPU, or another one than the plan pins it to."""

    exit_code = 17


class EngineError(LabError):
    """The Docker Engine or its Compose plugin is missing, does not run, is too old, or refuses."""

    exit_code = 18
    late = False
    """True for an engine that is there and does not answer in time: what runs in it goes on."""


class LessonError(LabError):
    """A lesson is not passed yet: a check or its notebook failed; or a handed-in report does not fit."""

    exit_code = 19


class StateError(LabError):
    """The lab's state file is damaged or gone, so what runs of the lab can only be stopped."""

    exit_code = 20


class OutputError(LabError):
    """The result could not be written: stdout is closed, or what it leads to is full."""

    exit_code = 21


class ManifestError(LabError):
    """Manifests of Kubernetes could not work: a check found why."""

    exit_code = 22


class KubernetesError(LabError):
    """kubectl is missing, or the cluster does not answer or does not permit it."""

    exit_code = 23


class PatchError(LabError):
    """A patch of Ray without which something would be open to others does not fit the installed Ray."""

    exit_code = 24


class HeadDownError(ClusterError):
    """Nobody takes a connection at the address of Ray's head: it is down, not slow."""

    exit_code = 25


class MovedError(RefusedError):
    """The lab was started on the other runtime since this one was chosen for it; nothing was changed."""

    exit_code = 26


INTERRUPTED = 130
"""Exit code after Ctrl-C."""


def message_of(error: BaseException) -> str:
    """The message of a LabError; of any other error what Python calls it."""
    return error.message if isinstance(error, LabError) else repr(error)
