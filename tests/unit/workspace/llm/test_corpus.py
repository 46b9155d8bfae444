"""The recipe `llm`: its text, and the order in which it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture
def order(llm: Any) -> Any:
    return llm.corpus.Order(size=1000, context=10, rows=4, seed=7)


def starts(order: Any, steps: range) -> list[int]:
    return [int(start) for step in steps for start in order.starts(step)]


def test_an_epoch_reads_every_window_at_most_once_and_almost_all_of_them(order: Any) -> None:
    read = starts(order, range(order.steps_per_epoch))
    assert len(read) == len(set(read)) == 96
    assert min(read) >= 0
    assert max(read) + 10 < 1000
    assert {start % 10 for start in read} == {read[0] % 10}, "windows overlap"


def test_the_next_epoch_has_another_order_and_other_cuts(order: Any) -> None:
    first = starts(order, range(24))
    second = starts(order, range(24, 48))
    assert first[0] % 10 != second[0] % 10
    assert [s // 10 for s in first] != [s // 10 for s in second]


def test_a_step_reads_the_same_whichever_steps_were_read_before(llm: Any, order: Any) -> None:
    everything = [order.starts(step).tolist() for step in range(60)]
    llm.corpus._drawn.cache_clear()
    assert [order.starts(step).tolist() for step in range(31, 60)] == everything[31:]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_share_the_rows_of_a_step(order: Any, ranks: int) -> None:
    parts = [order.starts(30, rank, ranks).tolist() for rank in range(ranks)]
    assert sorted(start for part in parts for start in part) == sorted(order.starts(30).tolist())
    assert {len(part) for part in parts} == {4 // ranks}


def test_ranks_that_cannot_share_the_rows_are_refused(order: Any) -> None:
    with pytest.raises(ValueError, match=r"4 rows .* 3 ranks"):
        order.starts(0, 0, 3)


def test_a_text_too_short_for_one_step_is_refused(llm: Any) -> None:
    with pytest.raises(ValueError, match=r"40 bytes, .* 51"):
        llm.corpus.Order(size=40, context=10, rows=4, seed=7)


def test_targets_are_the_bytes_that_follow(llm: Any) -> None:
    text = torch.arange(50, dtype=torch.uint8)
    tokens, targets = llm.corpus.windows(text, torch.tensor([3, 20]), 5)
    assert tokens.tolist() == [[3, 4, 5, 6, 7], [20, 21, 22, 23, 24]]
    assert torch.equal(targets, tokens + 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    for number in range(40):
        (tmp_path / "sub" / f"{number:02}.md").write_text(f"document {number}\0")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path


def test_a_folder_gives_its_documents_in_order_with_an_end_between(llm: Any, folder: Path) -> None:
    corpus = llm.corpus.read_corpus(str(folder))
    read = bytes(corpus.training).decode().split("\0")
    assert read[0] == read[-1] == ""
    assert read[1:-1] == [f"document {n}" for n in range(40) if n % 20 != 19]
    assert bytes(corpus.held_out) == b"\0document 19\0document 39\0"


def test_another_text_has_another_sha256(llm: Any, folder: Path) -> None:
    before = llm.corpus.read_corpus(str(folder)).sha256
    assert llm.corpus.read_corpus(str(folder)).sha256 == before
    (folder / "sub" / "07.md").write_text("document 8")
    assert llm.corpus.read_corpus(str(folder)).sha256 != before


def test_no_more_is_read_than_was_asked_for(llm: Any, folder: Path) -> None:
    corpus = llm.corpus.read_corpus(str(folder), 300)
    assert sum(byte != 0 for part in (corpus.training, corpus.held_out) for byte in part.tolist()) == 300


@pytest.mark.parametrize(
    ("files", "says"),
    [([], "no folder on this node that has files"), (["one.md"], "one document is too few")],
)
def test_a_folder_without_enough_text_is_refused(
    llm: Any, tmp_path: Path, files: list[str], says: str
) -> None:
    for name in files:
        (tmp_path / name).write_text("text")
    with pytest.raises(ValueError, match=says):
        llm.corpus.read_corpus(str(tmp_path))


def test_pythons_own_text_is_there_without_a_download(llm: Any) -> None:
    first = [next(llm.corpus.documents(kind)) for kind in ("code", "prose")]
    assert b"import" in first[0]
    assert first[1]
    assert first[0] != first[1]
