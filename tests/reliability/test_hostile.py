"""What strangers put into data: nothing of it is run, nothing leaves its folder, and memory stays bounded."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import gmmatch as gm
from gmmatch.data import load_image
from gmmatch.errors import FarRowWarning, InvalidInputError
from tests.encoders.models import Executed

NAMES = (
    "two\nlines.png",
    "<img src=x onerror=alert(1)>.png",
    "\u202egnp.exe.png",
    "\x1b[2J\x1b]0;owned\x07.png",
    "=HYPERLINK(1).png",
    "-- rm -rf ~;$(touch owned)`touch owned`.png",
    "{{ 7 * 7 }}.png",
    "%2e%2e%2fup.png",
    "ü" * 125 + ".png",
    "x" * 251 + ".png",  # 255 bytes, the most that a name can have
)


def bomb(path: Path, side: int) -> Path:
    """A PNG file of some kilobytes whose header promises side × side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes(1 << 20))
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [9_500, 50_000])
def test_an_image_bomb_is_refused_before_it_is_decoded(photos, tmp_path, refused, side):
    bomb(photos / "cat" / "bomb.png", side)
    line = refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", "pixels:4x4")
    assert "bomb.png" in line and f"{side * side:,} pixels" in line and "--max-pixels" in line


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_the_limit_can_be_raised_and_lowered(photos, tmp_path, refused, succeeds, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)  # which the command sets
    options = ("--encoder", "pixels:4x4", "--max-pixels")
    assert "has 99 pixels, and 98 are allowed" in refused(
        "embed", photos, "-o", tmp_path / "x.emb", *options, 98
    )
    succeeds("embed", photos, "-o", tmp_path / "y.emb", *options, 99)
    succeeds("embed", photos, "-o", tmp_path / "z.emb", *options, 10**12)


def test_names_of_any_kind_go_through_every_command(tmp_path, succeeds, refused):
    folder = tmp_path / "photos"
    label = folder / "<script>alert(1)\x1b[2J"
    label.mkdir(parents=True)
    random = np.random.default_rng(0)
    for name in NAMES:
        Image.fromarray(random.integers(0, 255, (6, 6, 3), dtype=np.uint8)).save(label / name, format="PNG")
    store, picks, out = tmp_path / "x.emb", tmp_path / "picks.parquet", tmp_path / "out"
    succeeds("embed", folder, "-o", store, "--encoder", "pixels:4x4")
    options = ("--method", "herding", "--weights", "--report", tmp_path / "picks.html")
    said = succeeds("select", store, "-k", len(NAMES), "-o", picks, *options)
    assert "<script>alert(1)\\x1b" in said and "\x1b" not in said
    succeeds("export", picks, folder, "-o", out)
    exported = {str(path.relative_to(out)) for path in out.rglob("*.png")}
    assert exported == {str(path.relative_to(folder)) for path in folder.rglob("*.png")}
    with (out / "labels.csv").open(encoding="utf-8", newline="") as file:
        assert {row["file"] for row in csv.DictReader(file)} == exported
    page = (tmp_path / "picks.html").read_text(encoding="utf-8")
    assert "<img src=x onerror" not in page and "<script>alert" not in page
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "out",
        "photos",
        "picks.html",
        "picks.parquet",
        "x.emb",
    ]
    (label / NAMES[3]).write_bytes(b"no image")
    line = refused("embed", folder, "-o", tmp_path / "y.emb", "--encoder", "pixels:4x4")
    assert "\\x1b[2J" in line and "\x1b" not in line  # what it names cannot steer a terminal


@pytest.mark.slow
def test_no_cell_of_a_table_is_a_formula(tmp_path, succeeds):
    random = np.random.default_rng(0)
    folder = tmp_path / "photos"
    for label in ("=1+1", "@SUM(A1)", "plain"):
        (folder / label).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 255, (6, 6, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
            Image.fromarray(pixels).save(folder / label / f"{number} again.png")
    store, picks = tmp_path / "x.emb", tmp_path / "picks.parquet"
    succeeds("embed", folder, "-o", store, "--encoder", "pixels:4x4")
    succeeds("select", store, "-k", 9, "-o", picks, "--method", "herding", "--weights")
    succeeds("export", picks, folder, "-o", tmp_path / "out")
    succeeds("certify", picks, "-o", tmp_path / "check.csv", "--sample", 6)
    succeeds("duplicates", store, "-o", tmp_path / "groups.csv", "--threshold", 0.99)
    tables = [tmp_path / "out" / "labels.csv", *tmp_path.glob("*.csv")]
    assert len(tables) == 3
    for path in tables:
        cells = [cell for line in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) for cell in line]
        assert not any(cell.startswith(("=", "@", "+", "-")) for cell in cells), path
        assert any(cell.startswith("'=1+1") for cell in cells), path


def test_members_of_a_tar_file_stay_in_it(tmp_path, succeeds, refused):
    data = io.BytesIO()
    Image.new("RGB", (6, 6)).save(data, format="PNG")
    shard = tmp_path / "shards" / "a.tar"
    shard.parent.mkdir()
    with tarfile.open(shard, "w") as tar:
        for name in ("../up.png", "/abs.png", "in/../../up2.png", "fine.png"):
            member = tarfile.TarInfo(name)
            member.size = len(data.getvalue())
            tar.addfile(member, io.BytesIO(data.getvalue()))
    facts = succeeds("embed", shard, "-o", tmp_path / "x.emb", "--encoder", "pixels:4x4", "--json")
    assert facts["n_rows"] <= 4
    succeeds("select", tmp_path / "x.emb", "-k", 1, "-o", tmp_path / "picks.parquet")
    assert "cannot be exported" in refused(
        "export", tmp_path / "picks.parquet", shard, "-o", tmp_path / "out"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picks.parquet", "shards", "x.emb"]
    assert not (tmp_path.parent / "up.png").exists() and not Path("/abs.png").exists()
    with tarfile.open(shard, "a") as tar:
        link = tarfile.TarInfo("link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    assert "link.png is a link" in refused(
        "embed", shard, "-o", tmp_path / "y.emb", "--encoder", "pixels:4x4"
    )


def test_picks_cannot_name_files_outside_of_the_source(photos, tmp_path, refused):
    (tmp_path / "secret.png").write_bytes(b"secret")
    picks = gm.select(
        np.eye(24), k=24, method="random", ids=["../secret.png", "/etc/hostname", *map(str, range(22))]
    )
    picks.save(tmp_path / "picks.parquet")
    assert "are not in" in refused("export", tmp_path / "picks.parquet", photos, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_pickles_in_arrays_are_never_loaded(tmp_path, refused):
    mark = tmp_path / "executed"
    array = np.array([[Executed(mark)]], dtype=object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", x=array)
    np.save(tmp_path / "good.npy", np.eye(3))
    for name in ("x.npy", "x.npz"):
        refused("select", tmp_path / name, "-k", 1, "-o", tmp_path / "p.csv")
        refused("embed", tmp_path / name, "-o", tmp_path / "x.emb", "--encoder", "identity")
        refused(
            "select", tmp_path / "good.npy", "-k", 1, "-o", tmp_path / "p.csv", "--labels", tmp_path / name
        )
    assert not mark.exists() and not (tmp_path / "p.csv").exists()


@pytest.fixture
def model(tmp_path):
    pytest.importorskip("transformers")
    from tests.encoders.models import MODELS

    MODELS["resnet"](tmp_path / "model")
    return tmp_path / "model"


def test_pickled_weights_are_refused_unless_they_are_trusted(model, photos, tmp_path, refused, succeeds):
    import torch
    from safetensors.torch import load_file

    mark, weights = tmp_path / "executed", model / "model.safetensors"
    good = load_file(weights)
    weights.unlink()
    torch.save({**good, "x": Executed(mark)}, model / "pytorch_model.bin")
    command = ("embed", photos, "-o", tmp_path / "x.emb", "--encoder", model)
    assert "pickle (pytorch_model.bin)" in refused(*command)
    refused(*command, "--trust-pickle")  # even then, nothing but numbers is taken from it
    assert not mark.exists()
    torch.save(good, model / "pytorch_model.bin")
    assert succeeds(*command, "--trust-pickle", "--json")["n_rows"] == 24


def test_code_of_a_model_is_never_run(model, photos, tmp_path, refused):
    mark = tmp_path / "executed"
    for name in ("configuration_x.py", "modeling_x.py", "processing_x.py"):
        (model / name).write_text(f"import os\nos.mkdir({str(mark)!r})\n")
    config = json.loads((model / "config.json").read_text())
    names = {"AutoConfig": "configuration_x.C", "AutoModel": "modeling_x.M"}
    (model / "config.json").write_text(json.dumps({**config, "model_type": "mine", "auto_map": names}))
    refused("embed", photos, "-o", tmp_path / "x.emb", "--encoder", model)
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "a"}\n{"text": "b"}\n')
    (model / "modules.json").write_text(
        json.dumps([{"idx": 0, "name": "0", "path": "", "type": "modeling_x.M"}])
    )
    line = refused("embed", texts, "-o", tmp_path / "x.emb", "--encoder", model)
    assert "code of its own (modeling_x.M)" in line
    assert not mark.exists()


MEMORY = """
import resource, sys
from gmmatch.data import open_source
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
source = open_source(sys.argv[1], text_column="text")
length = sum(len(text) for batch in source.batches(4) for text in batch.rows)
print(length, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.slow
def test_a_line_of_a_hundred_megabytes_takes_a_few_times_its_size(tmp_path):
    path = tmp_path / "x.jsonl"
    with path.open("w") as file:
        for n in (1, 100_000_000, 1):
            file.write('{"text": "' + "x" * n + '"}\n')
    done = subprocess.run([sys.executable, "-c", MEMORY, path], capture_output=True, text=True, check=True)
    length, taken = map(int, done.stdout.split())
    assert length == 100_000_002 and taken < 6 * length


def test_a_value_that_marks_what_is_missing_is_warned_of_by_its_row():
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    X[17, 3] = 3.4e38
    with pytest.warns(FarRowWarning, match=r"\b17\b"):
        gm.select(X, k=20, method="gm-matching")


def test_an_eps_file_is_no_picture_for_a_command(photos, tmp_path, refused, monkeypatch):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("it was started"))
    Image.new("RGB", (4, 4)).save(photos / "cat" / "x.png", format="EPS")
    for command in (("embed", "--encoder", "pixels:4x4"), ("corrupt", "--kind", "fog", "--rate", 1.0)):
        line = refused(command[0], photos, "-o", tmp_path / "out", *command[1:])
        assert "x.png" in line and "no known image format" in line
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


def forge(store, location, **more):
    """Make the store of a stranger, who names a file of this machine as what it was made from."""
    manifest = json.loads((store / "manifest.json").read_text())
    del manifest["sha256"]
    source = {**manifest["source"], "location": str(location), "kind": "text", **more}
    manifest.update(source=source, source_fingerprint=None)
    (store / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("command", ["select", "review"])
def test_a_store_cannot_put_files_of_its_choice_into_a_page(store, tmp_path, gmmatch, command):
    secret = tmp_path / "secret.csv"
    secret.write_text("text\n" + "".join(f"the secret {number}\n" for number in range(24)))
    forge(store, secret, opened_with={"text_column": "text"})
    page = tmp_path / "page.html"
    options = {
        "select": ("-k", 4, "-o", tmp_path / "p.parquet", "--report", page),
        "review": ("-o", tmp_path / "d.csv", "--static", page),
    }
    result = gmmatch(command, store, *options[command])
    assert result.exit_code == 0, result.stderr
    assert "is not what was embedded" in result.stderr and "--source" in result.stderr
    assert "the secret" not in page.read_text()
    with pytest.raises(InvalidInputError, match="has changed since"):
        gm.clean(gm.open_store(store), tmp_path / "out")


@pytest.mark.parametrize("opened_with", [{"text_column": 3}, {"evil": "x"}, ["text"], {"streaming": True}])
def test_how_a_source_was_opened_is_checked(store, tmp_path, refused, opened_with):
    forge(store, tmp_path / "photos", opened_with=opened_with)
    command = ("select", store, "-k", 4, "-o", tmp_path / "p.parquet", "--report", tmp_path / "page.html")
    assert "is not recorded" in refused(*command)


def test_a_pipe_that_a_store_names_is_not_waited_for(store, tmp_path, gmmatch):
    os.mkfifo(tmp_path / "pipe.csv")
    forge(store, tmp_path / "pipe.csv")
    options = ("-k", 4, "-m", "easy", "-o", tmp_path / "p.parquet", "--report", tmp_path / "page.html")
    assert "is not a file that can be read twice" in gmmatch("select", store, *options).stderr


def test_a_picture_that_claims_two_gigabytes_of_data_takes_no_memory(tmp_path):
    path = tmp_path / "x.png"
    Image.new("RGB", (6, 6)).save(path)
    data = bytearray(path.read_bytes())
    start = data.index(b"IDAT") - 4
    data[start : start + 4] = (0x7F00017F).to_bytes(4, "big")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with suppress(InvalidInputError):  # Pillow may read what is there
            load_image(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
