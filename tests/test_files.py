"""A file or folder is whole or not there, whatever happens while it is made."""

from __future__ import annotations

import os

import pytest

from gmmatch.files import is_leftover, replacing, replacing_folder, write_file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_several_files_take_their_places_together_or_not_at_all(tmp_path, monkeypatch):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text("old")

    def full_disk(_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(OSError, match="No space"), replacing(*paths) as temporary:
            for made in temporary:
                made.write_text("new")
    assert [path.read_text() for path in paths] == ["old", "old"]
    with replacing(*paths) as temporary:
        assert all(is_leftover(made.name) and made.parent == tmp_path for made in temporary)
        for made in temporary:
            made.write_text("new")
    assert [path.read_text() for path in paths] == ["new", "new"]
    assert names(tmp_path) == ["a", "b"]


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "a").write_bytes(b"old")

    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "a") as [temporary]:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError
    assert (tmp_path / "a").read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_folder_is_replaced_when_the_new_one_is_whole(tmp_path):
    target = tmp_path / "photos"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(ZeroDivisionError), replacing_folder(target) as folder:
        (folder / "new").touch()
        raise ZeroDivisionError
    assert names(target) == ["old"]
    with replacing_folder(target) as folder:
        (folder / "new").touch()
    assert names(target) == ["new"]
    assert names(tmp_path) == ["photos"]
