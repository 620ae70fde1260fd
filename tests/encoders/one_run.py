"""One run of ``embed`` in a process of its own, to be killed: source, encoder, store as arguments."""

from __future__ import annotations

import sys
import time

import numpy as np


class Crowd:
    """Vectors that depend on the whole batch, so that a batch cut elsewhere shows."""

    kind, batch_size, fingerprint = "embedding", 16, "crowd"

    def __call__(self, rows):
        time.sleep(0.003)
        return np.hstack([rows, np.full((len(rows), 1), rows.sum())]).astype(np.float32)


def main(source_path: str, encoder_name: str, store_path: str) -> None:
    from gmmatch.data import open_source
    from gmmatch.encoders import load_encoder
    from gmmatch.store.run import embed

    source = open_source(source_path)
    encoder = load_encoder(Crowd() if encoder_name == "crowd" else encoder_name, device="cpu")
    # Files are written after every batch, so that a kill finds all stages of writing.
    report = embed(
        source,
        encoder,
        store_path,
        batch_size=16,
        workers=2,
        on_error="skip",
        rows_per_shard=50,
        checkpoint_seconds=0.0,
        progress=lambda done, total: print(done, flush=True),
    )
    print("finished", report.n_rows, len(report.skipped), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
