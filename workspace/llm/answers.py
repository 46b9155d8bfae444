"""Answers of a batch, kept in the object store as they come: a batch that was stopped goes on where it was.

    <storage>/<batch>/plan.json                     the batch: model, prompts, length; written once
    <storage>/<batch>/answers/<prompt>.<one>.json   an answer, complete from its first byte on

Every answer has a name of its own. A prompt that was answered twice would therefore have two, and be found.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from client import Answer


class Kept:
    """The folder of a batch."""

    def __init__(self, storage: str, batch: str, filesystem: Any = None) -> None:
        """`storage` is a URI, or a path on a `filesystem` of pyarrow's."""
        from pyarrow import fs

        path = storage
        if filesystem is None:
            if storage.startswith("s3://"):  # one request for an answer, not three as for an upload in parts
                storage += f"{'&' if '?' in storage else '?'}allow_delayed_open=true"
            filesystem, path = fs.FileSystem.from_uri(storage)
        self._fs, self._folder = filesystem, f"{path.rstrip('/')}/{batch}"

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Keep the plan of a new batch. Raises ValueError for one that was begun with another plan."""
        known = self._read("plan.json")
        if known is None:
            self.write("plan.json", plan)
            return
        changed = [f"{k} was {known.get(k)!r}, is {plan[k]!r}" for k in plan if known.get(k) != plan[k]]
        if changed:
            raise ValueError(
                f"the batch was begun with other settings: {'; '.join(changed)}; take another --name"
            )

    def keep(self, answer: Answer, session: str) -> None:
        """Keep an answer; `session` names the run of the client that got it."""
        t = answer.timing
        self.write(f"answers/{answer.id}.{uuid.uuid4().hex}.json", {
            "id": answer.id, "sha256": answer.sha256, "tokens": list(answer.tokens), "session": session,
            "sent_at": t.sent_at, "parts": list(t.parts), "input_tokens": t.input_tokens,
            "output_tokens": t.output_tokens, "attempts": t.attempts, "checkpoint_sha256": answer.checkpoint,
        })  # fmt: skip

    def ids(self) -> list[str]:
        """The prompts that have an answer; one twice that has two."""
        return sorted(name.split(".")[0] for name in self._names())

    def all(self) -> list[dict[str, Any]]:
        """Every answer, as `keep` wrote it."""
        answers = (self._read(f"answers/{name}") for name in self._names())
        return [answer for answer in answers if answer is not None]

    def _names(self) -> list[str]:
        from pyarrow import fs

        place = fs.FileSelector(f"{self._folder}/answers", allow_not_found=True)
        return sorted(file.base_name for file in self._fs.get_file_info(place) if file.is_file)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a document; it is there whole or not at all where the store is S3."""
        path = f"{self._folder}/{name}"
        if self._fs.type_name == "local":  # a store has no folders: it would make an empty object of each
            self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        with self._fs.open_output_stream(path) as out:
            out.write(json.dumps(document).encode())

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with self._fs.open_input_stream(f"{self._folder}/{name}") as file:
                document: dict[str, Any] = json.loads(file.read())
                return document
        except FileNotFoundError:
            return None
