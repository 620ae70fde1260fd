"""What the commands refuse, each in one line that names the option."""

from __future__ import annotations


def test_errors_name_options_of_their_own_command(tmp_path, photos, refused):
    assert "--jobs 0" in refused("reproduce", "robust-mean", "-o", tmp_path / "studies", "--jobs", 0)
    assert "--kind 'zz'" in refused("corrupt", photos, "-o", tmp_path / "bad", "--kind", "zz")


def test_results_of_studies_go_to_a_folder(tmp_path, refused):
    (tmp_path / "file").touch()
    line = refused("reproduce", "robust-mean", "-o", tmp_path / "file")
    assert "is a file: give a folder" in line
