"""Damaged and hostile inputs by the thousand: every reader of files, and the arguments of a selection.

``python -m tests.reliability.fuzz --inputs 100000 --json tests/reliability/results/fuzz.json`` changes valid files at
random (bits, pieces, and values of their JSON), and calls selections with odd arguments. Each input must be read, or
be refused by one sentence of gmmatch's own: no other error, at most ten seconds of processor time, and at most four
gigabytes of memory. What has a checksum must be read as it was written. An input is made from its case and number
alone: ``--cases x.npy --first 17 --inputs 1`` repeats one.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import resource
import signal
import sys
import tarfile
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import gmmatch as gm
from gmmatch.errors import GMMatchError
from tests.reliability.counts import parser_of, report
from tests.reliability.fuzzed_arguments import fuzz_arguments

Draw = random.Random
ODD = (
    None, True, -1, 0, 2**63, 10**40, 0.5, -1e308, float("inf"), "", "x", "../x", "\x00", "9" * 400, [], {}, [[]],
    {"a": 1}, [None], ["x"] * 3,
)  # fmt: skip
PIECES = (
    b"\x00", b"\xff", b"\xff" * 8, b"\x80", b"-", b"-1", b"999999999999", b"(", b"[" * 50, b"{", b"}", b'"', b"'",
    b",", b"\n", b"\r", b"NaN", b"null", b"e999", b"PK\x03\x04", b"\x93NUMPY", b"PAR1", b"\xf0\x9f", b"\x1f\x8b",
)  # fmt: skip
SECONDS, GIGABYTES = 10, 4


class TooLongError(BaseException):
    """An input took too much processor time; no reader catches this."""


# ------------------------------------------------------------------------------------------- changes


def change_bytes(data: bytes, draw: Draw) -> bytes:
    """Change one to four places of a file."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        n = len(changed)
        # Headers are short, and at the ends.
        start = draw.randrange(min(n, 600)) if draw.random() < 0.5 and n else draw.randrange(n + 1)
        stop = min(n, start + draw.choice((1, 1, 4, 16, 512)))
        kind = draw.randrange(7)
        if kind == 0 and start < n:
            changed[start] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[start:]
        elif kind == 2:
            del changed[start:stop]
        elif kind == 3:
            changed[start:start] = changed[start:stop]
        elif kind == 4:
            changed[start:start] = draw.choice(PIECES)
        elif kind == 5:
            piece = draw.choice(PIECES)
            changed[start : start + len(piece)] = piece
        else:
            changed[start:stop] = draw.randbytes(stop - start)
    return bytes(changed)


def change_json(value: Any, draw: Draw) -> Any:
    """Replace, remove or add one value somewhere in a JSON document."""
    if not isinstance(value, (dict, list)) or not value or draw.random() < 0.15:
        return draw.choice(ODD)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key, changed = draw.choice(keys), value.copy()
    kind = draw.random()
    if kind < 0.1:
        del changed[key]
    elif kind < 0.2 and isinstance(changed, dict):
        changed[draw.choice(("x", "type", "shape", "format", ""))] = draw.choice(ODD)
    else:
        changed[key] = change_json(changed[key], draw)
    return changed


def change_text(data: bytes, draw: Draw) -> bytes:
    """Change the bytes of a JSON document, or one of its values."""
    if draw.random() < 0.4:
        return change_bytes(data, draw)
    lines = data.splitlines() if data.count(b"\n{") else [data]
    at = draw.randrange(len(lines))
    lines[at] = json.dumps(change_json(json.loads(lines[at]), draw)).encode()
    return b"\n".join(lines)


# ------------------------------------------------------------------------------------------- readers


def read_source(path: Path) -> None:
    """Read a source in every way."""
    from gmmatch.data import open_source

    source = open_source(path)
    source.describe()
    source.fingerprint()
    rows = sum(len(batch.rows) for batch in source.batches(5))
    assert source.n_rows in (None, rows), f"{source.n_rows} rows are {rows}"
    assert source.ids is not None
    assert source.labels is None or len(source.labels) == rows


def select_from(path: Path) -> None:
    assert gm.select(path, k=1, method="easy").k == 1


def read_image(path: Path) -> None:
    from gmmatch.data import load_image

    picture = load_image(path)
    assert picture.mode == "RGB"


def read_store(path: Path) -> None:
    store = gm.open_store(path)
    rows = store.to_numpy()
    known = np.arange(36.0, dtype=np.float32).reshape(12, 3)
    assert np.array_equal(rows, known) and store.ids.tolist() == [f"id {i}" for i in range(12)], "other rows"
    assert store.labels is not None and store.labels.tolist() == ["cat", "dog"] * 6, "other labels"


def read_forged_store(path: Path) -> None:
    """A store of somebody else, whose checksums are right, may hold anything."""
    store = gm.open_store(path, allow_incomplete=True)
    repr(store)
    store.verify()
    gm.select(store, k=1, method="easy")
    assert len(store.ids) == len(store.source_rows) == len(store.to_numpy())


def read_picks(path: Path) -> None:
    picks = gm.Selection.load(path)
    repr(picks)
    assert len(picks.indices) == picks.k
    picks.to_frame("pyarrow")


def read_decisions(path: Path) -> None:
    for decision in gm.read_decisions(path):
        repr(decision)


def check_model(path: Path) -> None:
    from gmmatch.encoders.models import check_trusted
    from gmmatch.encoders.registry import _guess_kind

    check_trusted(path, trust_pickle=False)
    _guess_kind(str(path))


# ------------------------------------------------------------------------------------------- valid files


def _arrays() -> dict[str, np.ndarray]:
    return {"x": np.arange(24.0).reshape(8, 3), "label": np.arange(8) % 2, "id": np.array(list("abcdefgh"))}


def make_npy(path: Path) -> None:
    np.save(path, _arrays()["x"])


def make_npz(path: Path) -> None:
    np.savez(path, **_arrays())


def make_compressed(path: Path) -> None:
    np.savez_compressed(path, **_arrays())


def make_safetensors(path: Path) -> None:
    header = {"x": {"dtype": "F32", "shape": [8, 3], "data_offsets": [0, 96]},
              "label": {"dtype": "I64", "shape": [8], "data_offsets": [96, 160]}}  # fmt: skip
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(range(160)))


def make_table(path: Path, kind: str = "text") -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"a text, number {i}" for i in range(9)]
    columns = {"id": list(range(9)), "label": ["a", "b", None] * 3}
    columns[kind] = [[float(i), 0.5, 2.0] for i in range(9)] if kind == "embedding" else texts  # type: ignore[list-item]
    pq.write_table(pa.table(columns), path, row_group_size=4)


def make_vectors(path: Path) -> None:
    make_table(path, "embedding")


def make_csv(path: Path) -> None:
    path.write_text(
        "id,text,label\n" + "".join(f'{i},"a ""text"",\nof two lines",{i % 2}\n' for i in range(9))
    )


def make_jsonl(path: Path) -> None:
    chat = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    lines = [{"id": i, "text": f"a text {i}", "label": i % 2, "messages": chat} for i in range(9)]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")


def make_gzip(path: Path) -> None:
    import gzip

    make_jsonl(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


def make_tar(path: Path, mode: str = "w") -> None:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for i in range(6):
            for name, data in ((f"{i:03d}.txt", b"a text"), (f"{i:03d}.cls", b"%d" % (i % 2))):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


def make_tgz(path: Path) -> None:
    make_tar(path, "w:gz")


def make_image(path: Path) -> None:
    from PIL import Image

    shades = np.random.default_rng(0).integers(0, 255, (12, 10, 3), dtype=np.uint8)
    picture = Image.fromarray(shades)
    (picture.quantize(16) if path.suffix == ".gif" else picture).save(path)


def make_store(path: Path) -> None:
    from gmmatch.store import StoreWriter

    rows = np.arange(36.0, dtype=np.float32).reshape(12, 3)
    with StoreWriter(
        path, encoder="mine", encoder_fingerprint="1", rows_per_shard=4, dtype="float32",
        source={"kind": "text", "location": "x.csv", "how": "a table", "opened_with": {"text_column": "a"}},
    ) as writer:  # fmt: skip
        writer.append(rows, [f"id {i}" for i in range(12)], ["cat", "dog"] * 6)
        writer.finish()


def make_picks(path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    gm.select(X, np.arange(20) % 2, k=6, method="herding", ids=[f"id {i}" for i in range(20)]).save(path)


def make_decisions(path: Path) -> None:
    path.write_text(
        "id,row,given,answer,label,keep\na.png,0,cat,wrong,dog,\nb.png,1,cat,right,,\nc.png,2,dog,drop,,\n"
    )


def make_answers(path: Path) -> None:
    task = {"data": {"row": 1, "id": "a.png", "given": "cat"}}
    done = [{"was_cancelled": False, "result": [{"value": {"choices": ["dog"]}}]}]
    path.write_text(json.dumps([{**task, "annotations": done}, {**task, "annotations": []}]))


def make_model(path: Path) -> None:
    (path / "0").mkdir(parents=True)
    modules = [{"idx": 0, "name": "0", "path": "0", "type": "sentence_transformers.models.Transformer"}]
    (path / "modules.json").write_text(json.dumps(modules))
    (path / "0" / "config.json").write_text(
        json.dumps({"types": {"0": "torch.nn.Linear"}, "architectures": ["X"]})
    )
    (path / "processor_config.json").write_text(json.dumps({"image_processor": {}}))


# ------------------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Files:
    """A reader, a valid file or folder, and how it is changed."""

    name: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    change: Callable[[bytes, Draw], bytes] = change_bytes

    def inputs(self, folder: Path) -> Callable[[Draw], object]:
        """Make the valid file; return what tries one input."""
        path = folder / self.name
        self.make(path)
        self.read(path)
        files = [path] if path.is_file() else [file for file in sorted(path.rglob("*")) if file.is_file()]
        contents = {file: file.read_bytes() for file in files}

        def attempt(draw: Draw) -> object:
            file = draw.choice(files)
            file.write_bytes(self.change(contents[file], draw))
            try:
                return self.read(path)
            finally:
                file.write_bytes(contents[file])

        return attempt


def forge_manifest(folder: Path) -> Callable[[Draw], object]:
    """Change what a manifest says, and make its checksum anew."""
    path = folder / "forged.emb"
    make_store(path)
    manifest = path / "manifest.json"
    document = json.loads(manifest.read_bytes())
    del document["sha256"]

    def attempt(draw: Draw) -> object:
        changed = change_json(document, draw)
        if isinstance(changed, dict) and draw.random() < 0.8:
            changed["sha256"] = hashlib.sha256(json.dumps(changed).encode()).hexdigest()
        manifest.write_text(json.dumps(changed))
        return read_forged_store(path)

    return attempt


def forge_picks(folder: Path) -> Callable[[Draw], object]:
    """Change the header of picks, which is JSON in the metadata of a Parquet file."""
    import pyarrow.parquet as pq

    path = folder / "forged.parquet"
    make_picks(path)
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"gmmatch"])

    def attempt(draw: Draw) -> object:
        forged = table.drop_columns([draw.choice(table.column_names)]) if draw.random() < 0.1 else table
        metadata = {b"gmmatch": json.dumps(change_json(header, draw)).encode()}
        pq.write_table(forged.replace_schema_metadata(metadata), path)
        return read_picks(path)

    return attempt


READERS = (
    Files("x.npy", make_npy, read_source), Files("selected.npy", make_npy, select_from),
    Files("x.npz", make_npz, read_source), Files("compressed.npz", make_compressed, read_source),
    Files("x.safetensors", make_safetensors, read_source), Files("texts.parquet", make_table, read_source),
    Files("vectors.parquet", make_vectors, read_source), Files("x.csv", make_csv, read_source),
    Files("x.jsonl", make_jsonl, read_source, change_text), Files("x.jsonl.gz", make_gzip, read_source),
    Files("x.tar", make_tar, read_source), Files("x.tgz", make_tgz, read_source),
    *(Files(f"x.{suffix}", make_image, read_image) for suffix in ("png", "jpg", "gif", "bmp", "tiff", "webp", "ppm")),
    Files("x.emb", make_store, read_store), Files("picks.parquet", make_picks, read_picks),
    Files("decisions.csv", make_decisions, read_decisions),
    Files("answers.json", make_answers, read_decisions, change_text),
    Files("model", make_model, check_model, change_text),
)  # fmt: skip
CASES: dict[str, Callable[[Path], Callable[[Draw], object]]] = {
    **{case.name: case.inputs for case in READERS},
    "forged.emb": forge_manifest,
    "forged.parquet": forge_picks,
    "arguments": fuzz_arguments,
}


def outcome(attempt: Callable[[Draw], object], name: str, number: int) -> str:
    """Try one input; return "read", "refused", or where an error came from that is not gmmatch's."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        attempt(random.Random(f"{name} {number}"))
        return "read"
    except GMMatchError as error:
        return "refused" if str(error).strip() else f"{type(error).__name__} says nothing"
    except (Exception, TooLongError) as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "gmmatch" in frame.filename]
        at = ours[-1] if ours else place
        return f"{type(error).__name__}: {str(error)[:100]!r} at {Path(at.filename).name}:{at.lineno}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _stop(*_: object) -> None:
    raise TooLongError(f"more than {SECONDS} seconds")


def measure(folder: Path, n_inputs: int, first: int, names: list[str]) -> dict[str, Any]:
    """Try as many inputs of each case; count what became of them."""
    signal.signal(signal.SIGPROF, _stop)
    words = Path("/proc/self/status").read_text().split()
    data = int(words[words.index("VmData:") + 1]) * 1024
    limit = data + (GIGABYTES << 30)
    found: dict[str, Any] = {}
    for name, share in zip(names, shares(n_inputs, len(names)), strict=True):
        attempt, counts = CASES[name](folder), Counter[str]()
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY))
        for number in range(first, first + share):
            result = outcome(attempt, name, number)
            if result not in ("read", "refused"):
                print(f"--cases {name} --first {number} --inputs 1: {result}", flush=True)
                result = "failed"
            counts[result] += 1
        found[name] = dict(sorted(counts.items()))
        print(name, found[name], flush=True)
    return found


def shares(n: int, parts: int) -> Iterator[int]:
    yield from (n // parts + (part < n % parts) for part in range(parts))


def main() -> None:
    parser = parser_of("fuzz", __doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="of all cases together")
    parser.add_argument("--first", type=int, default=0, help="the number of the first input of each case")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES), metavar="CASE")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), asked.inputs, asked.first, asked.cases)
    totals = {
        kind: sum(counts.get(kind, 0) for counts in found.values()) for kind in ("read", "refused", "failed")
    }
    report("fuzz", {"inputs": asked.inputs, **totals, "first": asked.first, "cases": found}, asked.json)
    sys.exit(totals["failed"] > 0)


if __name__ == "__main__":
    main()
