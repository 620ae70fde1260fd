"""Files that are not what they say: one error that names the file, never a traceback, a hang or rows that vanish."""

from __future__ import annotations

import gzip
import json
import os
import struct
import tarfile
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch as gm
from gmmatch.data import open_source
from gmmatch.errors import DataFileNotFoundError, InvalidInputError

from .helpers import check_protocol, png, read_all, write_tar

BLOCK = tarfile.BLOCKSIZE


def npy(header: str, data: bytes = b"") -> bytes:
    """A .npy file with a header of our choice."""
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def shaped(shape: str, dtype: str = "<f4") -> bytes:
    return npy(f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}", bytes(64))


def safetensors(entry: dict[str, object] | bytes, data: bytes = bytes(64)) -> bytes:
    header = entry if isinstance(entry, bytes) else json.dumps({"x": entry}).encode()
    return len(header).to_bytes(8, "little") + header + data


HEADERS = {
    "negative": shaped("(-1, 4)"),
    "both negative": shaped("(-4, -4)"),
    "boolean": shaped("(True, 4)"),
    "huge": shaped("(9999999999, 2)"),
    "beyond 64 bits": shaped("(9999999999999999999999, 2)"),
    "an open bracket": npy("{'descr': '<f4', 'fortran_order': False, 'shape': ((4, 4)"),
    "objects": shaped("(2, 2)", "|O"),
    "no dictionary": npy("[]"),
    "many brackets": npy("(" * 5_000),
    "a zip's magic": b"PK\x03\x04" + bytes(60),
}


class TestArrays:
    @pytest.mark.parametrize("name", HEADERS)
    def test_npy(self, tmp_path, name):
        (tmp_path / "x.npy").write_bytes(HEADERS[name])
        with pytest.raises(
            InvalidInputError, match=r"x\.npy is not a \.npy file of numbers, or is"
        ) as caught:
            open_source(tmp_path / "x.npy")
        assert "\n" not in str(caught.value) and "allow_pickle" not in str(caught.value)
        with pytest.raises(InvalidInputError) as selecting:
            gm.select(tmp_path / "x.npy", k=1, method="easy")
        assert str(selecting.value) == f"X: {caught.value}"

    def test_a_whole_zip_named_npy(self, tmp_path):
        np.savez(tmp_path / "x.npz", x=np.eye(3))
        (tmp_path / "x.npz").rename(tmp_path / "x.npy")
        with pytest.raises(InvalidInputError, match=r"x\.npy is not a \.npy file"):
            open_source(tmp_path / "x.npy")

    @pytest.mark.parametrize("name", HEADERS)
    @pytest.mark.parametrize("member", ["x", "label"])
    def test_npz(self, tmp_path, name, member):
        np.savez(tmp_path / "x.npz", **({} if member == "x" else {"x": np.eye(3)}))
        with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
            archive.writestr(f"{member}.npy", HEADERS[name])
        with pytest.raises(InvalidInputError, match=r"x\.npz"):
            list(open_source(tmp_path / "x.npz", label_column=None if member == "x" else "label").batches(2))

    def test_labels_that_claim_more_than_is_there(self, tmp_path):
        """The header asks for 3.2 GB: two labels of 400 million characters."""
        np.savez(tmp_path / "x.npz", x=np.eye(2))
        with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
            archive.writestr("label.npy", shaped("(2,)", "<U400000000"))
        with pytest.raises(InvalidInputError, match=r"x\.npz is not a \.npz archive.*its header claims"):
            open_source(tmp_path / "x.npz")

    @pytest.mark.parametrize(("offset", "value"), [(6, b"\x01"), (8, b"\x63")])
    def test_encrypted_and_unknown_compression(self, tmp_path, offset, value):
        np.savez(tmp_path / "x.npz", x=np.eye(3))
        data = bytearray((tmp_path / "x.npz").read_bytes())
        for start in (data.index(b"PK\x03\x04") + offset, data.index(b"PK\x01\x02") + offset + 2):
            data[start : start + 1] = value
        (tmp_path / "x.npz").write_bytes(data)
        with pytest.raises(InvalidInputError, match=r"x\.npz is not a \.npz archive"):
            open_source(tmp_path / "x.npz")

    @pytest.mark.parametrize(
        "content",
        [
            safetensors({"dtype": "F32", "shape": [4, 4], "data_offsets": [-64, 0]}),
            safetensors({"dtype": "F32", "shape": [4, 4], "data_offsets": [64, 0]}),
            safetensors({"dtype": "F32", "shape": [-4, -4], "data_offsets": [0, 64]}),
            safetensors({"dtype": "F32", "shape": [True, 16], "data_offsets": [0, 64]}),
            safetensors({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 64]}),
            safetensors({"dtype": "F32", "shape": [4.0, 4], "data_offsets": [0, 64]}),
            safetensors({"dtype": "F32", "shape": "ab", "data_offsets": [0, 64]}),
            safetensors({"dtype": ["F32"], "shape": [4, 4], "data_offsets": [0, 64]}),
            (1 << 62).to_bytes(8, "little") + b"{}",  # a header of 4 exabytes
            safetensors({"dtype": "F32"}),
            safetensors(b'"no object"'),
            safetensors(b"[]"),
            safetensors(b'{"x": 3}'),
            safetensors({"dtype": "F8_E4M3", "shape": [1, 1]}),
            safetensors(b"[" * 100_000),
            safetensors(b'{"x": ' * 100_000),
        ],
    )
    def test_safetensors(self, tmp_path, content):
        (tmp_path / "x.safetensors").write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"x\.safetensors"):
            open_source(tmp_path / "x.safetensors")


def test_parquet_with_two_columns_of_a_name(tmp_path):
    for columns in (["text", "text"], ["text", "n", "n"]):
        table = pa.Table.from_arrays([pa.array(["a"])] * len(columns), columns)
        pq.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(InvalidInputError, match=rf"x\.parquet has two columns named '{columns[-1]}'"):
            list(open_source(tmp_path / "x.parquet").batches(1))


@pytest.mark.parametrize("name", ["x.csv", "x.npy", "x.tar", "x.parquet"])
def test_a_link_to_itself_is_no_file(tmp_path, name):
    (tmp_path / name).symlink_to(tmp_path / name)
    with pytest.raises(DataFileNotFoundError, match="there is no such file"):
        open_source(tmp_path / name)


def test_a_link_to_itself_in_a_folder(tmp_path):
    (tmp_path / "1.png").write_bytes(png())
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert open_source(tmp_path).ids == ["1.png"]


class TestPipes:
    @pytest.mark.parametrize(
        "name", ["x.npy", "x.npz", "x.safetensors", "x.csv", "x.jsonl.gz", "x.tar", "x.parquet"]
    )
    def test_a_pipe_is_refused_before_it_is_read(self, tmp_path, name):
        os.mkfifo(tmp_path / name)
        with pytest.raises(InvalidInputError, match=r"is not a file that can be read twice"):
            open_source(tmp_path / name)

    def test_a_link_to_a_pipe_in_a_folder_is_passed_over(self, tmp_path):
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "1.png").write_bytes(png())
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "photos" / "2.png").symlink_to(tmp_path / "pipe")
        assert open_source(tmp_path / "photos").ids == ["1.png"]


@pytest.fixture
def shard(tmp_path):
    """100 texts of 10 bytes: a header and a block of content each."""
    return write_tar(tmp_path / "x.tar", [(f"{i:03d}.txt", b"%010d" % i) for i in range(100)])


class TestTars:
    @pytest.mark.parametrize("number", [1, 10, 50, 99])
    @pytest.mark.parametrize("place", [0, 100, 148, 200])
    def test_one_flipped_bit_in_a_header(self, shard, number, place):
        data = bytearray(shard.read_bytes())
        position = number * 2 * BLOCK
        data[position + place] ^= 1
        shard.write_bytes(data)
        with pytest.raises(InvalidInputError, match=rf"x\.tar .* after byte {position:,}: bad checksum"):
            read_all(open_source(shard))

    def test_joined_tars(self, shard, tmp_path):
        shard.write_bytes(2 * shard.read_bytes())
        with pytest.raises(InvalidInputError, match=r"x\.tar .*more follows its end, maybe another tar file"):
            len(open_source(shard))

    @pytest.mark.parametrize(
        "n_bytes", [100 * 2 * BLOCK, 60 * BLOCK, 61 * BLOCK, 60 * BLOCK + 100, 100 * 2 * BLOCK + BLOCK]
    )
    def test_cut_and_then_compressed(self, shard, tmp_path, n_bytes):
        path = tmp_path / "y.tar.gz"
        path.write_bytes(gzip.compress(shard.read_bytes()[:n_bytes]))
        with pytest.raises(
            InvalidInputError, match=r"y\.tar\.gz is not a tar file, or is truncated or damaged"
        ):
            read_all(open_source(path))

    def test_zeros_after_the_end_are_nothing(self, shard):
        shard.write_bytes(shard.read_bytes() + bytes(100 * BLOCK))
        assert len(check_protocol(open_source(shard))[0]) == 100

    @pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.SYMTYPE])
    def test_links(self, tmp_path, kind):
        with tarfile.open(write_tar(tmp_path / "x.tar", [("1.txt", b"a")]), "a") as tar:
            link = tarfile.TarInfo("2.txt")
            link.type, link.linkname = kind, "1.txt"
            tar.addfile(link)
        with pytest.raises(
            InvalidInputError, match=r"its member 2\.txt is a link or a device: write it as a file"
        ):
            read_all(open_source(tmp_path / "x.tar"))

    def test_a_member_that_is_too_large(self, tmp_path):
        """A file with a hole, of a few kilobytes on disk."""
        header = tarfile.TarInfo("1.txt")
        header.size = 3 << 29
        with (tmp_path / "x.tar").open("wb") as file:
            file.write(header.tobuf())
            file.truncate(BLOCK + header.size + 2 * BLOCK)
        tracemalloc.start()
        try:
            with pytest.raises(
                InvalidInputError, match=r"1\.txt has 1,610,612,736 bytes, and 268,435,456 are the most"
            ):
                read_all(open_source(tmp_path / "x.tar"))
            assert tracemalloc.get_traced_memory()[1] < 10_000_000
        finally:
            tracemalloc.stop()

    def test_a_name_that_is_too_long(self, tmp_path):
        header = tarfile.TarInfo("././@LongLink")
        header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 30
        with (tmp_path / "x.tar").open("wb") as file:
            file.write(header.tobuf())
            file.truncate(BLOCK + header.size + 2 * BLOCK)
        with pytest.raises(InvalidInputError, match=r"a header of 1,073,741,824 bytes"):
            open_source(tmp_path / "x.tar")
