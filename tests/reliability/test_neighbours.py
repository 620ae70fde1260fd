"""What else runs in the process of a user is left alone: threads, forks, workers, global state, Ctrl-C, memory."""

from __future__ import annotations

import gc
import multiprocessing
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import gmmatch as gm
from tests.reliability.counts import counted

needs_fork = pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
X = np.random.default_rng(0).standard_normal((400, 8))
Y = (X[:, 0] > np.quantile(X[:, 0], 1 / 3)).astype(int) + (X[:, 0] > np.quantile(X[:, 0], 2 / 3))
METHODS = ["random", "moderate", "gm-matching", "kernel-herding", "robust", "self-supervised"]


def picks(method: str) -> list[int]:
    """What a neighbour selects."""
    return gm.select(X, y=Y, k=30, method=method, random_state=0, n_jobs=2).order.tolist()


def run(code: str, timeout: float = 120.0) -> str:
    """Run code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_threads_that_select_at_once_get_what_each_gets_alone():
    alone = [picks(method) for method in METHODS]
    with ThreadPoolExecutor(len(METHODS)) as pool:
        for _ in range(3):
            assert list(pool.map(picks, METHODS)) == alone


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks in processes with threads
def test_a_forked_child_selects_after_its_parent_has():
    expected = picks("gm-matching")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(picks, ["gm-matching"] * 4).get(timeout=60) == [expected] * 4


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_while_another_thread_computes_a_property_computes_its_own():
    """Before Python 3.12, functools.cached_property has one lock for all objects, which a child would wait for."""
    computing, forked = threading.Event(), threading.Event()

    class Slow(np.ndarray):
        def argsort(self, **options):
            computing.set()
            forked.wait(60)
            return np.asarray(self).argsort(**options)

    slow, quick = (gm.select(X, k=5, method="random", random_state=0) for _ in range(2))
    vars(slow)["order"] = slow.order.view(Slow)
    thread = threading.Thread(target=lambda: slow.indices)
    thread.start()
    computing.wait(60)
    child = multiprocessing.get_context("fork").Process(target=lambda: quick.indices)
    child.start()
    child.join(30)
    forked.set()
    thread.join()
    stuck = child.is_alive()
    child.kill()
    child.join()
    assert not stuck and slow.indices.tolist() == quick.indices.tolist()


def test_no_property_of_functools_has_its_lock_here():
    for path in Path(gm.__file__).parent.rglob("*.py"):
        if path.name != "_threads.py" and path.parent.name != "store":
            assert "functools import cached_property" not in path.read_text(), path


@pytest.mark.slow
def test_workers_of_joblib_select():
    joblib = pytest.importorskip("joblib")
    found = joblib.Parallel(n_jobs=2)(joblib.delayed(picks)("gm-matching") for _ in range(4))
    assert found == [picks("gm-matching")] * 4


@needs_fork
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_data_loader_select():
    data = pytest.importorskip("torch.utils.data")

    class Picking(data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, number):
            return np.array(picks("gm-matching"))

    expected = picks("gm-matching")
    loader = data.DataLoader(Picking(), batch_size=None, num_workers=2, timeout=60)
    assert [one.tolist() for one in loader] == [expected] * 4


def test_nothing_global_changes():
    """By the import, and by a call of every method."""
    run(
        """
        import multiprocessing, os, random, signal, sys, warnings
        import numpy as np, sklearn, threadpoolctl, scipy.linalg

        def state():
            numbers = range(1, signal.NSIG)
            return {
                "BLAS threads": [(one["filepath"], one["num_threads"]) for one in threadpoolctl.threadpool_info()],
                "warnings filters": list(warnings.filters),
                "showwarning": warnings.showwarning,
                "signal handlers": [signal.getsignal(n) for n in numbers if n in signal.valid_signals()],
                "random state": (random.getstate(), [str(part) for part in np.random.get_state()]),
                "errors of floats": np.geterr(),
                "print options": str(np.get_printoptions()),
                "start method": multiprocessing.get_start_method(allow_none=True),
                "sklearn": sklearn.get_config(),
                "environment": dict(os.environ),
                "folder": os.getcwd(),
                "recursion limit": sys.getrecursionlimit(),
                "hooks": (sys.excepthook, sys.unraisablehook),
                "umask": os.umask(0o22),
            }

        def call(method):
            scores = {"scores": X[:, 0]} if method in ("forgetting", "grand", "el2n", "by-score") else {}
            gm.select(X, y=(X[:, 0] > 0).astype(int), k=6, method=method, **scores)

        before = state()
        import gmmatch as gm
        assert state() == before, "import"
        X = np.random.default_rng(0).standard_normal((60, 4))
        for method in gm.methods():
            call(method)  # what others do when they are imported (rich draws a random number) is theirs
        before = state()
        for method in gm.methods():
            call(method)
            after = state()
            changed = [name for name in before if before[name] != after[name]]
            assert not changed, (method, changed)
        """
    )


INTERRUPTED = {
    "match": "gm.select(np.tile(X, (3, 1)), k=len(X), method='gm-matching')",
    "two classes": "gm.select(np.tile(X, (3, 1)), y=np.arange(3 * len(X)) % 2, k=len(X), method='gm-matching')",
    "one thread": "gm.select(X[:30_000], k=len(X) // 4, method='herding', n_jobs=1)",
    "kernel": "gm.select(X, k=len(X) // 3, method='kernel-herding')",
    "robust": "gm.select(np.repeat(X, 8, axis=0), y=np.arange(8 * len(X)) % 50, k=0.5, method='robust')",
}


@pytest.mark.slow
@pytest.mark.parametrize("call", INTERRUPTED)
def test_ctrl_c_ends_a_long_call_within_a_second(call):
    """Two seconds into a call that takes far longer; it was made on few rows before, so that all is compiled.

    A machine on which a call takes less than two seconds makes it again.
    """
    said = run(
        f"""
        import os, signal, threading, time
        import numpy as np, gmmatch as gm

        def call(X):
            {INTERRUPTED[call]}

        def interrupt():
            sent.extend([time.monotonic(), time.process_time()])
            os.kill(os.getpid(), signal.SIGINT)

        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
        random, sent = np.random.default_rng(0), []
        call(random.standard_normal((200, 64)))
        X = random.standard_normal((60_000, 64))
        threading.Timer(2.0, interrupt).start()
        try:
            while True:
                call(X)
        except KeyboardInterrupt:
            # On a busy machine a second of work may take many.
            print(min(time.monotonic() - sent[0], time.process_time() - sent[1]))
        """,
        timeout=300,
    )
    assert float(said) < 1.0


@pytest.mark.slow
def test_memory_is_returned():
    """Work that embeds, selects and updates goes on and on; open files and threads do not become more either."""
    gained = counted("load", "--minutes", 0.4, "--every", 1)["gained"]
    assert gained["megabytes"] < 20.0 and gained["files"] <= 0 and gained["threads"] <= 0


def test_files_are_closed_when_a_store_goes(tmp_path):
    """At once, and not when Python collects circles of references."""
    from gmmatch.store import StoreWriter, open_store

    with StoreWriter(tmp_path / "x.emb", encoder="mine", encoder_fingerprint="1") as writer:
        writer.append(X, ids=list(range(len(X))))
        writer.finish()

    def open_files() -> int:
        links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return sum(str(tmp_path) in str(link.readlink()) for link in links)

    gc.disable()
    try:
        picks = gm.select(open_store(tmp_path / "x.emb"), k=10, method="gm-matching")
        assert picks.k == 10 and open_files() == 0
    finally:
        gc.enable()


def test_a_table_is_read_by_the_thread_that_asks():
    """A thread of PyArrow that still holds Python's bytes when the interpreter ends aborts the process."""
    started = run(
        """
        import io, os, pathlib, tempfile
        import numpy as np
        import pyarrow as pa, pyarrow.parquet as pq
        from gmmatch.files import parquet_table
        from gmmatch.store.shard import RowTable, write_shard
        folder = pathlib.Path(tempfile.mkdtemp())
        shard = write_shard(folder, 0, RowTable([7], ["row 7"]), np.zeros((1, 4), np.float16))
        buffer = io.BytesIO()
        pq.write_table(pa.table({"id": [f"row {i}" for i in range(1000)]}), buffer)
        threads = len(os.listdir("/proc/self/task"))
        assert parquet_table(buffer.getvalue())["id"][999].as_py() == "row 999"
        assert shard.read_table(folder).ids == ["row 7"]
        print(len(os.listdir("/proc/self/task")) - threads)
        """
    )
    assert int(started) == 0
