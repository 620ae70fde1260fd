"""The guide to clusters can be followed: its commands start a cluster, use it and stop it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm
from tests.ray_processes import SETTINGS

from .blocks import ROOT, blocks_of
from .stand_ins import write_photos, write_store

pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
pytestmark = pytest.mark.slow

GUIDE = "docs/guides/cluster.md"
# Its own network and processes: `ray stop` ends every Ray process that it can see.
SEPARATE = ["unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]


def blocks(language: str) -> list[str]:
    return [block.text for block in blocks_of(GUIDE) if block.language == language]


@pytest.fixture
def folder():
    """A folder with a short name, since sockets have a limit, and with the store of the guide."""
    path = Path(tempfile.mkdtemp(prefix="gm"))
    write_store(path / "photos.emb")
    write_photos(path / "photos")
    store = gm.open_store(path / "photos.emb")
    columns = {"id": store.ids.astype(str), "label": store.labels, "vector": store.to_numpy().tolist()}
    pq.write_table(pa.table(columns), path / "photos.parquet")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def skip_without_namespaces() -> None:
    try:
        done = subprocess.run([*SEPARATE, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    except OSError:
        pytest.skip("needs unshare and ip")
    if done.returncode != 0:
        pytest.skip("separate processes and networks need root")


def test_a_cluster_is_started_used_and_stopped_as_the_guide_says(folder):
    skip_without_namespaces()
    commands = [line.replace("HEAD", "127.0.0.1") for block in blocks("") for line in block.splitlines()]
    programs = [line.split()[0] for line in commands]
    assert programs == [
        "gmmatch",
        *("export", "ray", "ray"),
        *("export", "ray"),
        *("ray", "gmmatch"),
        "gmmatch",
    ]
    stop = "ray stop"
    assert f"`{stop}`" in (ROOT / GUIDE).read_text(encoding="utf-8")
    plain, dataset, batched = blocks("python")
    save = "selection.save('picks-{}.parquet')"
    guide = [
        plain,
        save.format("python"),
        batched,
        save.format("batches"),
        dataset,
        "assert kept.count() == 20",
    ]
    (folder / "guide.py").write_text("\n".join(guide))
    count_processes = "ps -eo args | grep -c '[r]aylet --' > left.txt || true"
    script = ["set -e", "ip link set lo up", *commands, "python guide.py", stop, count_processes]
    settings = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),  # where Ray keeps the token of this cluster
        "RAY_TMPDIR": str(folder / "r"),
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "80000000",
    }
    (folder / "r").mkdir()
    done = subprocess.run(
        [*SEPARATE, "bash", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, **SETTINGS, **settings},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (folder / "left.txt").read_text().strip() == "0"
    names = ("picks.parquet", "picks-all.parquet", "picks-python.parquet")
    here, *others = (gm.Selection.load(folder / name) for name in names)
    assert here.counts == {0: 10, 1: 10}
    # The command takes the random seed 0 by default, and the code of the guide names it.
    assert all(other.order.tolist() == here.order.tolist() for other in others)
    assert gm.Selection.load(folder / "picks-batches.parquet").k == 20
    assert len(gm.open_store(folder / "photos-cluster.emb", verify=True)) == 24
