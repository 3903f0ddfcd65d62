"""Handles that cannot be guessed, and the files of keys that they are signed with."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
from gymwire.servers.signing import Signer, SigningKeyError, read_keys, warn_if_anybody_reads
from gymwire.servers.store import HANDLE_PATTERN

KEY, OLDER = b"k" * 32, b"o" * 32


def test_handles_differ_and_fit_every_wire() -> None:
    signer = Signer()
    handles = {signer.new_handle() for _ in range(1000)}
    assert len(handles) == 1000
    assert all(re.fullmatch(HANDLE_PATTERN, handle.encode()) for handle in handles)


def test_a_handle_shows_whose_it_is() -> None:
    mine, other = Signer(), Signer()
    handle = mine.new_handle()
    assert mine.is_ours(handle) and not other.is_ours(handle)
    assert Signer(KEY).is_ours(Signer(KEY).new_handle())


@pytest.mark.parametrize("forged", ["", ".", "x", "x.", ".x", "ä.ö", "\ud800.00", "x.\ud800", "a" * 10_000, "a.b.c"])
def test_forgeries_are_refused_without_a_fuss(forged: str) -> None:
    assert not Signer().is_ours(forged)


def test_the_first_key_signs_and_all_are_believed() -> None:
    rotated = Signer(KEY, OLDER)
    assert rotated.is_ours(Signer(OLDER).new_handle()) and Signer(KEY).is_ours(rotated.new_handle())
    assert not Signer(OLDER).is_ours(rotated.new_handle())
    assert rotated.fingerprints == (*Signer(KEY).fingerprints, *Signer(OLDER).fingerprints)
    assert not any(word in str(rotated.fingerprints) for word in ("kkk", "ooo", KEY.hex(), OLDER.hex()))


def test_a_file_has_a_key_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_bytes(b"# the new one\n " + KEY + b" \n\n" + OLDER)
    assert read_keys(file) == (KEY, OLDER)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "holds no key"),
        (b"# only a comment\n\n", "holds no key"),
        (KEY + b"\n" + KEY[1:], "line 2: a key has at least 32 bytes, not 31"),
        (b"\xff" * 40, "is not text"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_without_a_key(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SigningKeyError) as caught:
        read_keys(file)
    assert sentence in str(caught.value) and str(file) in str(caught.value)
    assert "kkk" not in str(caught.value)


@pytest.mark.parametrize(("mode", "warned"), [(0o644, True), (0o440, False), (0o400, False)])
def test_a_file_that_anybody_reads_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    file = tmp_path / "keys"
    file.write_bytes(KEY)
    file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        warn_if_anybody_reads(file)
    assert [f"chmod 600 {file}" in record.message for record in caplog.records] == [True] * warned
