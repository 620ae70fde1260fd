"""What the commands refuse, each in one line that names the option."""

from __future__ import annotations

import numpy as np


def test_errors_name_options_of_their_own_command(tmp_path, photos, refused):
    assert "--jobs 0" in refused("reproduce", "robust-mean", "-o", tmp_path / "studies", "--jobs", 0)
    assert "--kind 'zz'" in refused("corrupt", photos, "-o", tmp_path / "bad", "--kind", "zz")


def test_a_setting_of_a_corruption_that_is_no_number(vectors, tmp_path, refused):
    arguments = ["corrupt", vectors, "-o", tmp_path / "bad.npy", "--kind", "far-cluster"]
    assert "--set distance=far: expected a number" in refused(*arguments, "--set", "distance=far")


def test_a_matrix_that_is_none(tmp_path, refused):
    np.savez(tmp_path / "x.npz", x=np.eye(4), label=[0, 1, 0, 1])
    (tmp_path / "empty.csv").touch()
    np.save(tmp_path / "wide.npy", np.ones((2, 3)))
    for name, words in (("empty.csv", "is empty"), ("wide.npy", "shape (2, 3)")):
        options = ["--kind", "transition", "--matrix", tmp_path / name]
        line = refused("corrupt", tmp_path / "x.npz", "-o", tmp_path / "y.npz", *options)
        assert f"--matrix {tmp_path / name}" in line and words in line


def test_a_copy_is_not_written_without_its_mask(vectors, tmp_path, refused):
    (tmp_path / "mask.csv").mkdir()
    options = ["--kind", "far-cluster", "--mask", tmp_path / "mask.csv", "--force"]
    assert "--mask" in refused("corrupt", vectors, "-o", tmp_path / "bad.npy", *options)
    assert not (tmp_path / "bad.npy").exists()


def test_results_of_studies_go_to_a_folder(tmp_path, refused):
    (tmp_path / "file").touch()
    line = refused("reproduce", "robust-mean", "-o", tmp_path / "file")
    assert "is a file: give a folder" in line
