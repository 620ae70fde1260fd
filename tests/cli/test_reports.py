"""The page that `select` and `compare` write."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm


@pytest.fixture
def store(photos, tmp_path, succeeds) -> Path:
    """The photos as embeddings, but for one that is no picture."""
    (photos / "cat" / "0.png").write_bytes(b"no picture")
    path = tmp_path / "p.emb"
    succeeds("embed", photos, "-o", path, "--encoder", "pixels:4x4", "--on-error", "skip")
    return path


def data_of(page: Path) -> dict:
    text = page.read_text(encoding="utf-8").partition('id="map-data">')[2].partition("</script>")[0]
    return json.loads(text)


def command_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return shlex.split(html.unescape(re.findall(r'<code dir="ltr">(.*?)</code>', text, flags=re.DOTALL)[0]))


def test_select_shows_the_pictures_that_were_embedded(store, tmp_path, succeeds):
    picks, page = tmp_path / "picks.parquet", tmp_path / "picks.html"
    summary = succeeds("select", store, "-k", 6, "-o", picks, "--report", page, "--json")
    assert summary["report"] == str(page)
    data = data_of(page)
    # Row 0 of the store is the second picture of the folder: the first could not be read.
    assert data["ids"][0] == "cat/1.png" and len(data["ids"]) == 23
    assert {kind for kind, _, _ in data["contents"].values()} == {"image"} and len(data["contents"]) == 23
    assert data["classes"] == ["cat", "dog"]
    assert "pixels:4x4" in page.read_text(encoding="utf-8")
    assert gm.Selection.load(picks).k == 6


def test_a_picture_is_that_of_its_row(photos, store, tmp_path, succeeds):
    import base64
    import io

    from PIL import Image

    page = tmp_path / "picks.html"
    succeeds("select", store, "-k", 6, "-o", tmp_path / "picks.parquet", "--report", page)
    data = data_of(page)
    for place in (0, 22):
        shown = Image.open(io.BytesIO(base64.b64decode(data["contents"][str(place)][1].partition(",")[2])))
        original = Image.open(photos / data["ids"][place])
        assert np.array_equal(np.asarray(shown.convert("RGB")), np.asarray(original.convert("RGB")))


def test_the_page_has_the_command_that_made_it(store, tmp_path, succeeds):
    page = tmp_path / "my page.html"
    typed = ["select", store, "-k", "25%", "-o", tmp_path / "a.json", "--seed", 4, "--set", "normalize=True"]
    typed += ["--set", "start=zero", "--report", page, "--map", "tsne", "--per-class", "balanced"]
    succeeds(*typed)
    command = command_of(page)
    assert command[:3] == ["gmmatch", "select", str(store)]
    assert sorted(command[1:]) == sorted(map(str, typed))
    assert command[command.index("--report") + 1] == str(page)
    before = data_of(page)
    succeeds(*command[1:], "--force")
    assert data_of(page) == before
    assert "t-SNE" in page.read_text(encoding="utf-8")


def test_pictures_that_have_moved_are_left_out_with_a_note_and_found_by_name(
    photos, store, tmp_path, gmmatch
):
    moved = photos.rename(tmp_path / "moved")
    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    result = gmmatch("select", store, "-k", 3, "-o", tmp_path / "1.json", "--report", pages[0])
    assert result.exit_code == 0 and "--source" in result.stderr and "not here any more" in result.stderr
    assert data_of(pages[0])["contents"] == {}
    result = gmmatch(
        "select", store, "-k", 3, "-o", tmp_path / "2.json", "--report", pages[1], "--source", moved
    )
    assert result.exit_code == 0 and len(data_of(pages[1])["contents"]) == 23


def test_pictures_that_have_changed_are_not_shown_for_others(photos, store, tmp_path, gmmatch):
    (photos / "cat" / "5.png").unlink()
    page = tmp_path / "page.html"
    result = gmmatch("select", store, "-k", 3, "-o", tmp_path / "1.json", "--report", page)
    assert result.exit_code == 0 and "Name them by --source" in result.stderr
    assert data_of(page)["contents"] == {}


def test_embeddings_from_a_file_can_have_texts(vectors, tmp_path, succeeds):
    texts = tmp_path / "texts.jsonl"
    texts.write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(40)), encoding="utf-8")
    page = tmp_path / "page.html"
    succeeds("select", vectors, "-k", 4, "-o", tmp_path / "p.npy", "--report", page, "--source", texts)
    contents = data_of(page)["contents"]
    assert contents["17"] == ["text", "text 17", 0] and len(contents) == 40


def test_compare_puts_its_own_figures_on_the_page(vectors, tmp_path, succeeds):
    page = tmp_path / "page.html"
    np.save(tmp_path / "given.npy", np.arange(40) % 2)
    np.save(tmp_path / "true.npy", np.where(np.arange(40) % 5 == 0, 1, np.arange(40) % 2))
    result = succeeds(
        "compare", vectors, "-k", 8, "--methods", "random,easy,gm-matching", "--labels", tmp_path / "given.npy",
        "--truth", tmp_path / "true.npy", "--report", page, "--json",
    )  # fmt: skip
    text = page.read_text(encoding="utf-8")
    table = text.partition('aria-label="Figures of the methods"')[2].partition("</table>")[0]
    lines = re.findall(r"<bdi>(.*?)</bdi></th>(.*?)</tr>", table)
    keys = ("contamination", "moment_error", "mmd", "coverage_mean", "coverage_max", "seconds")
    for (name, cells), row in zip(lines, result["rows"], strict=True):
        assert name == row["method"]
        found = [float(value) for value in re.findall(r'value="([^"]*)"', cells)]
        assert found == pytest.approx([row[key] for key in keys], rel=1e-12)
    assert [panel["title"] for panel in data_of(page)["panels"]] == ["random", "easy", "gm-matching"]
    assert command_of(page)[:2] == ["gmmatch", "compare"]
    wrong = [
        f"<bdi>{name}</bdi> <small>{count or 'none'} of 8 picks"
        for name, count in ((row["method"], round(8 * row["contamination"])) for row in result["rows"])
    ]
    assert all(words in text for words in wrong)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--report", "page.txt"], "--report page.txt: expected a file that ends in .html or .htm"),
        (["--report", "nowhere/page.html"], "there is no folder nowhere"),
        (["--report", "there.html"], "--report there.html exists already"),
        (["--map", "tsne"], "--map goes with --report"),
        (["--source", "photos"], "--source goes with --report"),
        (["--report", "page.html", "--source", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (
            ["--report", "page.html", "--source", "two.jsonl"],
            "has 2 rows, but the selection was made from 40",
        ),
    ],
)
def test_what_cannot_become_a_page_is_refused(vectors, tmp_path, monkeypatch, refused, options, words):
    monkeypatch.chdir(tmp_path)
    Path("there.html").touch()
    Path("two.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    assert words in refused("select", vectors, "-k", 4, "-o", "picks.npy", *options)
    assert not Path("page.html").exists() and not Path("picks.npy").exists()
    assert Path("there.html").read_text() == ""


def test_a_missing_umap_is_named_as_it_was_typed(vectors, tmp_path, monkeypatch, refused):
    import sys

    monkeypatch.setitem(sys.modules, "umap", None)
    line = refused(
        "select", vectors, "-k", 4, "-o", tmp_path / "p.npy", "--report", tmp_path / "p.html", "--map", "umap"
    )
    assert line.startswith("Error: --map umap needs the package umap-learn") and "projection" not in line
    assert not (tmp_path / "p.npy").exists()
