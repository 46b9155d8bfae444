"""Digests of whole tensors: of those in memory, and of those in the files of a checkpoint.

Every word counts: a sample could miss the one table that was not loaded. On a CPU the digest is XXH3 of the
tensor's bytes (26 GB/s where they are in a cache, 13 GB/s where they are not; without the package `xxhash`
BLAKE2b, 0.3 GB/s), on another device a keyed sum by PyTorch's own operations, so that only eight bytes are
copied. Its first letter tells which: digests of two kinds cannot be compared. Of a tensor that is sharded
over ranks it is the part of this rank. Nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import mmap
import os
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

try:
    from xxhash import xxh3_64_hexdigest

    LETTER = "x"
except ImportError:  # a cluster of somebody else's may lack it
    LETTER = "b"

WORD_BYTES = 8
MOST_TENSORS = 4096
"""Most tensors of a rank, or of a checkpoint, that are recorded."""

SAMPLE = 256
"""Values of a tensor that are looked at before all of them are."""

CHUNK_WORDS = 1 << 22
"""Words of a tensor on another device that are mixed at once: 32 MB, and as much for what is computed."""

MIX = (-0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
"""The odd numbers of SplitMix64 (Steele, Lea, Flood 2014), as signed words: its step, and its two factors."""

STORAGE = re.compile(r"(?:.*/)?data/\d+")
"""Name of a tensor's memory in a file of `torch.save` (PyTorch 1.6 and newer), which is a ZIP archive."""

LOCAL_HEADER_BYTES = 30
"""Fixed part of what stands before a member of a ZIP archive; its last four bytes are two lengths."""


def digest_of_bytes(data: Any) -> str:
    """Digest of a buffer of bytes, and how many they are."""
    value = xxh3_64_hexdigest(data) if LETTER == "x" else hashlib.blake2b(data, digest_size=8).hexdigest()
    return f"{LETTER}{value}:{len(data)}"


def digest(tensor: Any) -> str:
    """Digest of a tensor's values, in the order of its dimensions, on whatever device."""
    torch: Any = sys.modules["torch"]
    part = local(tensor).detach()
    data = (
        part.reshape(-1).contiguous().view(torch.uint8) if part.numel() else torch.empty(0, dtype=torch.uint8)
    )
    return digest_of_bytes(data.numpy().data) if data.device.type == "cpu" else _on_device(torch, data)


def local(tensor: Any) -> Any:
    """The part of a tensor that this rank holds: of a DTensor, of FSDP's flat parameter, or all of it."""
    for shard in ("_local_shard", "_local_tensor"):
        if (part := getattr(tensor, shard, None)) is not None:
            return part
    return tensor


def rounded(tensor: Any) -> list[str]:
    """Digest of a tensor's values in bfloat16; none where they have no more digits than that."""
    torch: Any = sys.modules["torch"]
    part = local(tensor).detach()
    return [digest(part.to(torch.bfloat16))] if part.dtype in (torch.float32, torch.float64) else []


def halves(tensor: Any) -> list[str]:
    """Digests of a tensor in each of the half precisions whose digits are enough for all of its values."""
    torch: Any = sys.modules["torch"]
    part = local(tensor).detach()
    if part.dtype not in (torch.float32, torch.float64):
        return []
    kinds = (torch.bfloat16, torch.float16)
    few = part.reshape(-1)[:SAMPLE]  # what was trained needs all its digits: then the rest is not looked at
    fitting = [kind for kind in kinds if torch.equal(few.to(kind).to(part.dtype), few)]
    narrow = [part.to(kind) for kind in fitting]
    return [digest(half) for half in narrow if torch.equal(half.to(part.dtype), part)]


def _on_device(torch: Any, data: Any) -> str:
    """Sum of the words, each mixed with its place: SplitMix64's finalizer, in arithmetic modulo 2**64."""
    if data.storage_offset() % WORD_BYTES:
        data = data.clone()
    whole = data.numel() - data.numel() % WORD_BYTES
    words, total = data[:whole].view(torch.int64), torch.zeros((), dtype=torch.int64, device=data.device)
    for begin in range(0, words.numel(), CHUNK_WORDS):
        part = words[begin : begin + CHUNK_WORDS]
        mixed = torch.arange(begin, begin + part.numel(), device=data.device).mul_(MIX[0])
        mixed.bitwise_xor_(part)
        for shift, factor in ((30, MIX[1]), (27, MIX[2]), (31, 1)):
            mixed.bitwise_xor_(mixed >> shift).mul_(factor)
        total += mixed.sum()
    mixed = b"%d:%b" % (int(total), bytes(data[whole:].cpu().tolist()))
    return f"g{digest_of_bytes(mixed)[1:].partition(':')[0]}:{data.numel()}"


# What is in files


def in_files(folder: str | os.PathLike[str]) -> list[str] | None:
    """Digests of the tensors in the files below a folder; None where there are too many to record."""
    return _of_files(
        folder, lambda data, begin, size: digest_of_bytes(memoryview(data)[begin : begin + size])
    )


def sizes_in_files(folder: str | os.PathLike[str]) -> list[int] | None:
    """Sizes in bytes of the tensors in the files below a folder, as `in_files`; their values are not read."""
    return _of_files(folder, lambda data, begin, size: size)


def in_bytes(data: bytes) -> list[str]:
    """Digests of the tensors that `torch.save` has written into these bytes."""
    view = memoryview(data)
    return [digest_of_bytes(view[n : n + size]) for n, size in _in_archive(io.BytesIO(data), data)]


def _of_files(folder: str | os.PathLike[str], value: Callable[[Any, int, int], Any]) -> list[Any] | None:
    values: list[Any] = []
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        with (
            suppress(Exception),  # a file of some other kind, or none any more
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            safe = path.suffix == ".safetensors"
            for begin, size in _in_safetensors(data) if safe else _in_archive(file, data):
                values.append(value(data, begin, size))
                if len(values) > MOST_TENSORS:
                    return None
    return values


def _in_archive(file: IO[bytes], data: bytes | mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of the memory of each tensor in a file of `torch.save`, whose content `data` is."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED and STORAGE.fullmatch(member.filename):
            lengths = member.header_offset + LOCAL_HEADER_BYTES - 4
            name, extra = (int.from_bytes(data[n : n + 2], "little") for n in (lengths, lengths + 2))
            yield member.header_offset + LOCAL_HEADER_BYTES + name + extra, member.file_size


def _in_safetensors(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of each tensor: a header's length, a header in JSON, the tensors."""
    begin = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            yield begin + first, end - first
