"""The guide to clusters can be followed: its commands start a cluster, use it and stop it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from gmmatch import Selection
from gmmatch.embeddings import StoreWriter

from ...docs.blocks import ROOT, blocks_of

pytest.importorskip("ray", reason="needs the extra gmmatch[ray]")
pytestmark = pytest.mark.slow

GUIDE = "docs/guides/cluster.md"
# A network and processes of one's own: `ray stop` ends every Ray process that it can see.
APART = ["unshare", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]


def blocks(language: str) -> list[str]:
    return [block.text for block in blocks_of(GUIDE) if block.language == language and block.reason is None]


@pytest.fixture
def folder():
    """A folder with a short name, for sockets have a limit, and with the store of the guide."""
    path = Path(tempfile.mkdtemp(prefix="gm"))
    random = np.random.default_rng(0)
    with StoreWriter(path / "photos.emb", encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(random.normal(size=(4000, 5)), ids=np.arange(4000), labels=np.arange(4000) % 2)
        writer.finish()
    yield path
    shutil.rmtree(path, ignore_errors=True)


def needs_room_of_its_own() -> None:
    try:
        done = subprocess.run([*APART, "ip", "link", "set", "lo", "up"], capture_output=True, check=False)
    except OSError:
        pytest.skip("needs unshare and ip")
    if done.returncode != 0:
        pytest.skip("processes and a network of one's own need root")


def test_a_cluster_is_started_used_and_stopped_as_the_guide_says(folder):
    needs_room_of_its_own()
    commands = [line.replace("HEAD", "127.0.0.1") for block in blocks("") for line in block.splitlines()]
    assert [line.split()[0] for line in commands] == [
        *("gmmatch", "gmmatch"),
        *("export", "ray", "ray"),
        *("export", "ray"),
        *("ray", "gmmatch"),
    ]
    stop = "ray stop"
    assert f"`{stop}`" in (ROOT / GUIDE).read_text(encoding="utf-8")
    python = blocks("python")
    assert len(python) == 1
    (folder / "guide.py").write_text(python[0] + "\nselection.save('picks-python.json')\n")
    count_processes = "ps -eo args | grep -c '[r]aylet --' > left.txt || true"
    script = ["set -e", "ip link set lo up", *commands, "python guide.py", stop, count_processes]
    settings = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),  # where Ray keeps its token: this cluster has one of its own
        "RAY_TMPDIR": str(folder / "r"),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES": "80000000",
    }
    (folder / "r").mkdir()
    done = subprocess.run(
        [*APART, "bash", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (folder / "left.txt").read_text().strip() == "0"
    names = ("picks.parquet", "picks-ray.parquet", "picks-all.parquet", "picks-python.json")
    local, *others = (Selection.load(folder / name) for name in names)
    assert local.counts == {0: 20, 1: 20}
    # The command takes the random seed 0 by default, and the code of the guide names it.
    assert all(other.order.tolist() == local.order.tolist() for other in others)
    assert [other.provenance["engine"]["name"] for other in others] == ["ray"] * 3
