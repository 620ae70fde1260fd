"""What the commands refuse, each in one line that names the option."""

from __future__ import annotations


def test_errors_name_options_of_their_own_command(tmp_path, photos, refused):
    assert "--jobs 0" in refused("reproduce", "robust-mean", "-o", tmp_path / "studies", "--jobs", 0)
    assert "--kind 'zz'" in refused("corrupt", photos, "-o", tmp_path / "bad", "--kind", "zz")


def test_a_setting_of_a_corruption_that_is_no_number(vectors, tmp_path, refused):
    arguments = ["corrupt", vectors, "-o", tmp_path / "bad.npy", "--kind", "far-cluster"]
    assert "--set distance=far: expected a number" in refused(*arguments, "--set", "distance=far")


def test_a_matrix_that_is_none(tmp_path, refused):
    (tmp_path / "x.csv").write_text("text,label\n" + "a,0\nb,1\n" * 5)
    for content, words in (
        ("", "shape (0,)"),
        ("1,0,0\n0,1,0\n", "shape (2, 3)"),
        ("a,b\n", "could not convert"),
    ):
        (tmp_path / "m.csv").write_text(content)
        options = ["--kind", "transition", "--matrix", tmp_path / "m.csv"]
        line = refused("corrupt", tmp_path / "x.csv", "-o", tmp_path / "y.csv", *options)
        assert f"--matrix {tmp_path / 'm.csv'}" in line and words in line


def test_a_copy_is_not_written_without_its_mask(vectors, tmp_path, refused):
    (tmp_path / "mask.csv").mkdir()
    options = ["--kind", "far-cluster", "--mask", tmp_path / "mask.csv", "--force"]
    assert "--mask" in refused("corrupt", vectors, "-o", tmp_path / "bad.npy", *options)
    assert not (tmp_path / "bad.npy").exists()


def test_results_of_studies_go_to_a_folder(tmp_path, refused):
    (tmp_path / "file").touch()
    line = refused("reproduce", "robust-mean", "-o", tmp_path / "file")
    assert "is a file: give a folder" in line
