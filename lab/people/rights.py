"""The part of the bucket that a person's key reaches, by the one table of who may do what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lab.people.policy import TABLE, Action, Role, Whose
from lab.topology import LEDGER_PREFIX, RECEIPTS_PREFIX

PEOPLE = "people"
"""Folder of the bucket with a folder of each person."""

SHARED = "shared/"
"""Folder of the bucket that everybody reads."""


@dataclass(frozen=True)
class KeyRights:
    """Prefixes of the objects that a key may read, and write; the empty one is the whole bucket."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def may_read(self, name: str) -> bool:
        return name.startswith((*self.reads, *self.writes)) or name in self.folders

    def may_write(self, name: str) -> bool:
        return name.startswith(self.writes) or name in self.markers

    def may_delete(self, name: str) -> bool:
        """Tell if an object of this name may be deleted, or an upload of it be aborted."""
        return name.startswith(self.writes)

    def may_list(self, prefix: str) -> bool:
        """Tell if all names that begin so may be listed."""
        return prefix.startswith((*self.reads, *self.writes))

    @property
    def markers(self) -> tuple[str, ...]:
        """Names of the empty objects that stand for the folders above: pyarrow writes them with any file.

        They may be written and not deleted: MinIO deletes all below such a name when a header asks for it.
        """
        parents = {part for prefix in self.writes for part in _parents(prefix)}
        return tuple(sorted(parents))

    @property
    def folders(self) -> tuple[str, ...]:
        """Names of these folders, with and without a slash: pyarrow asks whether there is such an object."""
        return (*self.markers, *(marker[:-1] for marker in self.markers))


def home(name: str) -> str:
    return f"{PEOPLE}/{name}/"


def work(name: str) -> tuple[str, ...]:
    """Prefixes of what is a person's own: her folder, and the ledgers of her jobs."""
    return home(name), f"{LEDGER_PREFIX}/{name}-"


def rights(role: Role, name: str) -> KeyRights:
    areas: Mapping[Whose, tuple[str, ...]] = {
        Whose.OWN: work(name),
        Whose.OTHERS: (f"{PEOPLE}/", f"{LEDGER_PREFIX}/"),
        Whose.SHARED: (SHARED,),
    }
    receipts = {Whose.OWN: f"{RECEIPTS_PREFIX}/{name}-", Whose.OTHERS: f"{RECEIPTS_PREFIX}/"}

    def of(action: Action) -> tuple[str, ...]:
        whose = TABLE[action][role]
        if action is Action.WRITE_OBJECTS and whose == frozenset(Whose):
            return ("",)
        prefixes = tuple(prefix for kind in Whose if kind in whose for prefix in areas[kind])
        if action is Action.READ_OBJECTS:  # the lab alone writes receipts
            prefixes += tuple(prefix for kind, prefix in receipts.items() if kind in whose)
        return prefixes

    return KeyRights(of(Action.READ_OBJECTS), of(Action.WRITE_OBJECTS))


def policy(bucket: str, mine: KeyRights) -> dict[str, Any]:
    """These rights as a policy of S3, for MinIO and its forks."""
    there = f"arn:aws:s3:::{bucket}"
    listed = sorted({f"{prefix}*" for prefix in (*mine.reads, *mine.writes)})
    own = [f"{there}/{part}" for part in sorted({f"{prefix}*" for prefix in mine.writes})]
    return {
        "Version": "2012-10-17",
        "Statement": [
            _allow(there, "s3:GetBucketLocation", "s3:ListBucketMultipartUploads"),
            {
                **_allow(there, "s3:ListBucket"),
                "Condition": {"StringLike": {"s3:prefix": listed}},
            },
            {
                **_allow(there, "s3:ListBucket"),  # HEAD of the bucket, without which pyarrow writes nothing
                "Condition": {"Null": {"s3:prefix": ["true"]}},
            },
            {**_allow("", "s3:GetObject"), "Resource": [f"{there}/{p}" for p in (*listed, *mine.folders)]},
            {
                **_allow("", "s3:PutObject"),
                "Resource": sorted({*own, *(f"{there}/{marker}" for marker in mine.markers)}),
            },
            {
                **_allow("", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"),
                "Resource": own,
            },
            {"Effect": "Deny", "Action": ["admin:CreateServiceAccount"]},
        ],
    }


def _allow(resource: str, *actions: str) -> dict[str, object]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": [resource]}


def _parents(prefix: str) -> Iterator[str]:
    parts = prefix.split("/")[:-1]
    for end in range(1, len(parts) + 1):
        yield "/".join(parts[:end]) + "/"
