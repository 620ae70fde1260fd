"""The pipeline: order, bounded look-ahead, broken rows, memory that runs out."""

from __future__ import annotations

import _thread
import random
import signal
import threading
import time
import warnings

import numpy as np
import pytest

from gmmatch.data.source import Batch
from gmmatch.encoders import CallableEncoder, SmallerBatchWarning, encode_batches
from gmmatch.encoders.pipeline import OutOfMemoryError
from gmmatch.errors import InvalidInputError


def batches_of(rows, size, labels=None):
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        ids = [f"id{number}" for number in range(start, start + len(rows[part]))]
        yield Batch(rows[part], ids, None if labels is None else labels[part], start)


OUT_OF_MEMORY = RuntimeError("CUDA out of memory")


class Lengths:
    """Texts to (length, number in the text); ``delay`` makes some rows slow to prepare."""

    name, kind, fingerprint, n_features, batch_size = "lengths", "text", "0" * 64, 2, 8

    def __init__(self, delay=0.0, most=None, error=OUT_OF_MEMORY):
        self.delay, self.most, self.error = delay, most, error
        self.calls: list[int] = []
        self.prepared = 0
        self.lock = threading.Lock()

    def prepare(self, items):
        for item in items:
            if self.delay:
                time.sleep(random.Random(item).random() * self.delay)
        with self.lock:
            self.prepared += len(items)
        return list(items)

    def encode(self, batch):
        self.calls.append(len(batch))
        if self.most is not None and len(batch) > self.most:
            raise self.error
        return np.array([[len(text), int(text)] for text in batch], dtype=np.float32)

    def describe(self):
        return {}


TEXTS = [str(number) for number in range(203)]


def joined(results):
    results = list(results)
    return np.concatenate([result.vectors for result in results]), [i for r in results for i in r.ids]


@pytest.mark.parametrize("workers", [1, 3, 16])
@pytest.mark.parametrize("size", [1, 7, 64, 500])
def test_rows_come_in_order_however_long_each_takes(workers, size):
    results = list(encode_batches(batches_of(TEXTS, size), Lengths(delay=0.002), workers=workers))
    vectors, ids = joined(results)
    assert vectors[:, 1].tolist() == list(range(203))
    assert ids == [f"id{number}" for number in range(203)]
    assert [result.start for result in results] == list(range(0, 203, size))
    assert results[-1].stop == 203


def test_little_is_prepared_ahead():
    encoder, workers, size = Lengths(), 2, 10
    results = encode_batches(batches_of(TEXTS * 20, size), encoder, workers=workers)
    next(results)
    time.sleep(0.2)  # time in which everything could be prepared
    most = 2 * workers * 8 + 3 * size  # rows ready, one batch for the model, one being handed in
    assert 0 < encoder.prepared <= most + size
    results.close()


def test_ctrl_c_waits_for_no_more_than_a_few_rows_and_leaves_no_thread():
    class Interrupted(Lengths):
        def prepare(self, items):
            if not self.prepared:
                _thread.interrupt_main()
            time.sleep(0.02)
            return super().prepare(items)

    before, encoder = threading.active_count(), Interrupted()
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            list(encode_batches(batches_of(TEXTS * 20, 64), encoder, workers=2))
    finally:
        signal.signal(signal.SIGINT, handler)
    assert 0 < encoder.prepared <= 64
    assert threading.active_count() == before


# ------------------------------------------------------------------------------------------ bad rows


def test_numbers_that_do_not_fit_into_float16_are_found():
    def large(texts):
        return np.array([[float(text) * 1000] for text in texts])

    encoder = CallableEncoder(large, "text")
    with pytest.raises(InvalidInputError, match=r"row 66 \(id66\).*dtype='float32' would help"):
        list(encode_batches(batches_of(TEXTS, 50), encoder, dtype=np.float16))
    vectors, _ = joined(encode_batches(batches_of(TEXTS, 50), encoder, dtype=np.float32))
    assert vectors.dtype == np.float32
    assert len(vectors) == 203


# ------------------------------------------------------------------------------------- out of memory


def cuda_error():
    torch = pytest.importorskip("torch", reason="needs the extra gmmatch[torch]")
    return torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


@pytest.mark.parametrize(
    "make_error", [cuda_error, lambda: RuntimeError("MPS backend out of memory"), MemoryError]
)
def test_batches_are_halved_until_they_fit(torch, make_error):
    encoder = Lengths(most=10, error=make_error())
    with pytest.warns(SmallerBatchWarning) as caught:
        results = list(encode_batches(batches_of(TEXTS, 64), encoder))
    vectors, _ = joined(results)
    assert vectors[:, 1].tolist() == list(range(203))
    assert encoder.calls[:3] == [64, 32, 16]
    assert set(encoder.calls[3:]) <= {8, 203 % 64 % 8}
    assert results[-1].rows_at_once == 8
    assert len(caught) == 1
    assert str(caught[0].message).startswith("Memory ran out with 64 rows at a time; going on with 32")


def test_pieces_begin_where_their_size_says_wherever_memory_ran_out():
    """So that a second run over the same batches gives the same pieces, hence the same bits."""
    seen = []

    class Recording(Lengths):
        def encode(self, batch):
            result = super().encode(batch)
            seen.append((int(batch[0]), len(batch)))
            return result

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallerBatchWarning)
        list(encode_batches(batches_of(TEXTS[:20], 10), Recording(most=3)))
    assert seen == [(0, 3), (3, 3), (6, 3), (9, 1), (10, 3), (13, 3), (16, 3), (19, 1)]


def test_one_row_that_does_not_fit_is_an_error():
    with (
        pytest.warns(SmallerBatchWarning),
        pytest.raises(OutOfMemoryError, match="one row alone does not fit into the memory of device='cpu'"),
    ):
        list(encode_batches(batches_of(TEXTS, 4), Lengths(most=0)))


def test_other_errors_do_not_count_as_memory():
    encoder = Lengths(most=10, error=RuntimeError("shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        list(encode_batches(batches_of(TEXTS, 64), encoder))
    assert encoder.calls == [64]
