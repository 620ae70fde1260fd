"""A recorded model gives the bits of the model itself."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no CUDA device on this machine", allow_module_level=True)

from gmmatch.encoders.replay import Replayed  # noqa: E402


@torch.inference_mode()
def test_replayed_work_gives_the_same_bits() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 32)).cuda()
    replayed = Replayed(model, torch)
    batches = [torch.randn(size, 64, device="cuda") for size in (50, 50, 50, 7, 50, 50)]
    found = [replayed(batch) for batch in batches]
    for vectors, batch in zip(found, batches, strict=True):
        assert torch.equal(vectors, model(batch))
    assert replayed.works


@torch.inference_mode()
def test_what_cannot_be_recorded_is_called() -> None:
    replayed = Replayed(lambda rows: rows * float(rows.sum().item() > 0), torch)
    rows = torch.ones(5, 3, device="cuda")
    for _ in range(4):
        assert torch.equal(replayed(rows), rows)
    assert not replayed.works
