"""Writing: going on where it stopped, one writer at a time, and full disks."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmmatch.errors import GMMatchError, InvalidInputError
from gmmatch.store import (
    StoreLockedError,
    StoreWriteError,
    StoreWriter,
    delete_store,
    open_store,
)

X = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)


def writer(path, **options):
    return StoreWriter(
        path, **{"encoder": "clip", "encoder_fingerprint": "f1", "rows_per_shard": 16, **options}
    )


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def write_whole(path, **options):
    with writer(path, **options) as one:
        one.append(X, range(50), [i % 3 for i in range(50)])
        one.finish()
    return path


class TestGoingOn:
    @settings(max_examples=30, deadline=None)
    @given(stops=st.lists(st.integers(0, 50), max_size=5), batch=st.integers(1, 20), often=st.booleans())
    def test_interruptions_leave_no_trace(self, tmp_path_factory, stops, batch, often):
        folder = tmp_path_factory.mktemp("store")
        reference = contents(write_whole(folder / "a.emb"))
        for stop in [*stops, 50]:
            with writer(folder / "b.emb", checkpoint_seconds=0.0 if often else 1e9) as one:
                for start in range(one.resume_at(batch), stop, batch):
                    rows = range(start, min(50, start + batch))
                    one.append(X[rows], rows, [i % 3 for i in rows], source_rows=rows)
                if stop == 50:
                    one.finish()
        assert contents(folder / "b.emb") == reference

    def test_where_it_goes_on(self, tmp_path):
        with writer(tmp_path / "x.emb") as one:
            assert (one.n_done, one.n_rows, one.next_row, one.complete) == (0, 0, 0, False)
            one.append(X[:20], range(20))
            assert (one.n_done, one.n_rows, one.next_row) == (16, 20, 20)
            one.checkpoint()
            assert one.n_done == 20
        with writer(tmp_path / "x.emb") as one:
            assert (one.n_done, one.next_row) == (20, 20)
            assert [one.resume_at(batch_size) for batch_size in (8, 7, 1)] == [16, 14, 20]
            one.append(X[16:24], range(16, 24), source_rows=range(16, 24))  # four of them are there already
            one.append(X[:20], range(20), source_rows=range(20))  # all of them are
            assert one.n_rows == 24
            one.finish()
        np.testing.assert_array_equal(open_store(tmp_path / "x.emb").to_numpy(), X[:24].astype(np.float16))

    def test_skipped_rows_are_not_asked_for_again(self, tmp_path):
        with writer(tmp_path / "x.emb") as one:
            one.append(X[[0, 2]], [0, 2], source_rows=[0, 2])
            one.append(X[[7]], [7], source_rows=[7])
        with writer(tmp_path / "x.emb") as one:
            assert (one.n_done, one.next_row) == (3, 8)
            one.append(X[[8]], [8])
            one.finish()
        store = open_store(tmp_path / "x.emb")
        assert store.source_rows.tolist() == store.ids.tolist() == [0, 2, 7, 8]

    def test_rows_appended_to_a_finished_store(self, tmp_path):
        reference = contents(write_whole(tmp_path / "a.emb"))
        for stop in (20, 50):
            with writer(tmp_path / "b.emb") as one:
                start = one.next_row
                one.append(X[start:stop], range(start, stop), [i % 3 for i in range(start, stop)])
                one.finish()
            assert len(open_store(tmp_path / "b.emb", verify=True)) == stop
        assert contents(tmp_path / "b.emb") == reference

    def test_leftovers_of_a_killed_writer_are_removed_and_other_files_kept(self, tmp_path):
        reference = contents(write_whole(tmp_path / "a.emb"))
        foreign = {"notes.txt": b"mine"}
        ours = ("shard-000003-000001.arrow", ".gmmatch-manifest.json.tmp", "writer.lock")
        for name in (*foreign, *ours):
            (tmp_path / "a.emb" / name).write_bytes(b"mine")
        with writer(tmp_path / "a.emb"):
            pass
        assert contents(tmp_path / "a.emb") == {**reference, **foreign}

    def test_a_damaged_last_shard_is_not_built_upon(self, tmp_path):
        with writer(tmp_path / "x.emb") as one:
            one.append(X[:20], range(20))
        path = tmp_path / "x.emb" / "shard-000001-000004.arrow"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        with pytest.raises(InvalidInputError, match=r"000004\.arrow is damaged"):
            writer(tmp_path / "x.emb")

    def test_tensors_of_half_precision(self, torch, tmp_path):
        with writer(tmp_path / "x.emb") as one:
            one.append(torch.from_numpy(X[:3]).bfloat16().requires_grad_(), range(3))
            one.finish()
        expected = torch.from_numpy(X[:3]).bfloat16().half().numpy()
        np.testing.assert_array_equal(open_store(tmp_path / "x.emb").to_numpy(), expected)

    def test_a_closed_writer_refuses(self, tmp_path):
        one = writer(tmp_path / "x.emb")
        one.append(X[:5], range(5))
        one.finish()
        one.close()
        for call in (one.finish, one.checkpoint, lambda: one.append(X[:1], [0])):
            with pytest.raises(GMMatchError, match="closed"):
                call()


class TestOtherStores:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"encoder": "dino"}, r"another encoder \('clip', and 'dino' now\)"),
            ({"encoder_fingerprint": "f2"}, "another encoder fingerprint"),
            ({"dtype": "float32"}, "another dtype .'float16', and 'float32' now"),
            ({"n_features": 5}, "another n features .4, and 5 now"),
            ({"rows_per_shard": 8}, "another rows per shard"),
            ({"source_fingerprint": "s2"}, "another source fingerprint"),
        ],
    )
    def test_they_are_refused_with_a_reason_and_left_alone(self, tmp_path, options, message):
        with writer(tmp_path / "x.emb", source_fingerprint="s1") as one:
            one.append(X[:20], range(20))
        before = contents(tmp_path / "x.emb")
        with pytest.raises(InvalidInputError, match=message) as caught:
            writer(tmp_path / "x.emb", **{"source_fingerprint": "s1", **options})
        assert "\n" not in str(caught.value)
        assert contents(tmp_path / "x.emb") == before

    def test_what_is_left_open_is_taken_over(self, tmp_path):
        with writer(tmp_path / "x.emb", source_fingerprint="s1") as one:
            one.append(X[:20], range(20))
        with writer(tmp_path / "x.emb", rows_per_shard=None, source_fingerprint=None) as one:
            assert (one.n_done, one.manifest.rows_per_shard) == (20, 16)


class TestOneWriter:
    def test_a_second_one_in_this_process_is_refused(self, tmp_path):
        with writer(tmp_path / "x.emb"):
            with pytest.raises(StoreLockedError, match=f"is being written by process {os.getpid()} on "):
                writer(tmp_path / "x.emb")
            with pytest.raises(StoreLockedError):
                delete_store(tmp_path / "x.emb")
        with writer(tmp_path / "x.emb"):
            pass

    def test_a_second_process_is_refused_while_the_first_lives(self, tmp_path):
        program = (
            "import sys\nfrom gmmatch.store import StoreWriter\n"
            f"settings = dict(encoder='clip', encoder_fingerprint='f1', rows_per_shard=16)\n"
            f"w = StoreWriter({str(tmp_path / 'x.emb')!r}, **settings)\n"
            "w.append([[1.0, 2.0, 3.0, 4.0]], [0]); w.checkpoint()\n"
            "print('ready', flush=True)\nsys.stdin.read()\n"
        )
        other = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert other.stdout.readline() == b"ready\n"
            with pytest.raises(StoreLockedError, match=f"process {other.pid} on "):
                writer(tmp_path / "x.emb")
            # Reading is allowed meanwhile.
            assert len(open_store(tmp_path / "x.emb", allow_incomplete=True)) == 1
        finally:
            other.kill()
            other.communicate()
        assert (tmp_path / "x.emb" / "writer.lock").exists()
        with writer(tmp_path / "x.emb") as one:  # the lock of a dead process is taken over
            assert one.n_done == 1
        assert not (tmp_path / "x.emb" / "writer.lock").exists()

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_child_neither_holds_the_lock_nor_writes(self, tmp_path):
        one = writer(tmp_path / "x.emb")
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            refused = b"no"
            try:
                one.append(X[:1], [0])
            except GMMatchError:
                refused = b"yes"
            one.close()
            os.write(writing, refused)
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reading, 3) == b"yes"
        assert (tmp_path / "x.emb" / "writer.lock").exists()  # the child's close() did not touch it
        with pytest.raises(StoreLockedError):
            writer(tmp_path / "x.emb")
        one.close()
        writer(tmp_path / "x.emb").close()


class TestFullDisk:
    def check(self, folder, make_room, reference):
        """A writer that meets a full disk, and one that goes on when there is room again."""
        with pytest.raises(StoreWriteError) as caught, writer(folder, checkpoint_seconds=0.0) as one:
            for start in range(0, 50, 5):
                rows = range(start, start + 5)
                one.append(X[rows], rows, [i % 3 for i in rows])
        message = str(caught.value)
        assert "\n" not in message
        assert "No space left on device" in message
        assert "free some space and run the same again" in message
        assert caught.value.errno == errno.ENOSPC
        safe = int(message.split(" rows are safe")[0].split()[-1])
        on_disk = len(open_store(folder, verify=True, allow_incomplete=True))
        # More only if the very last step failed, that which makes a rename survive a power cut.
        assert safe <= on_disk <= safe + 5
        make_room()
        with writer(folder) as one:
            assert one.n_done == on_disk
            rows = range(one.next_row, 50)
            one.append(X[rows], rows, [i % 3 for i in rows])
            one.finish()
        assert contents(folder) == reference

    @pytest.mark.parametrize("write", range(2, 16))
    def test_at_any_write(self, tmp_path, monkeypatch, write):
        reference = contents(write_whole(tmp_path / "a.emb"))
        original = os.fsync
        calls = []

        def full(descriptor):
            calls.append(descriptor)
            if len(calls) >= write:
                raise OSError(errno.ENOSPC, "No space left on device")
            original(descriptor)

        (tmp_path / "b.emb").mkdir()
        with writer(tmp_path / "b.emb"):
            pass
        monkeypatch.setattr(os, "fsync", full)
        self.check(tmp_path / "b.emb", lambda: monkeypatch.setattr(os, "fsync", original), reference)

    def test_a_failed_writer_refuses_to_go_on(self, tmp_path, monkeypatch):
        def full(descriptor):
            raise OSError(errno.ENOSPC, "No space left on device")

        one = writer(tmp_path / "x.emb")
        one.append(X[:5], range(5))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StoreWriteError, match="0 rows are safe"):
            one.checkpoint()
        with pytest.raises(GMMatchError, match="open the store again"):
            one.append(X[:5], range(5))
        one.close()
        assert not (tmp_path / "x.emb" / "writer.lock").exists()
