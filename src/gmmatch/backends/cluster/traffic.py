"""How many bytes went to the workers and came back, counted by their contents."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np


def payload_bytes(value: Any) -> int:
    """Return the bytes of the numbers and texts in a value, without what it takes to pack them.

    Examples
    --------
    >>> payload_bytes((np.zeros((2, 3)), True, ["ab"]))
    58
    """
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(payload_bytes(item) for item in value)
    if isinstance(value, str):
        return len(value.encode())
    return 0 if value is None else 8


@dataclass
class MethodTraffic:
    """Bytes of one kind of call: to all workers, back from them, and the most that one message had."""

    calls: int = 0
    sent: int = 0
    received: int = 0
    largest_sent: int = 0
    largest_received: int = 0


@dataclass
class Traffic:
    """Bytes moved, by the kind of call.

    Examples
    --------
    >>> traffic = Traffic()
    >>> traffic.count("evaluate", sent=100, received=80)
    >>> traffic.sent, traffic.received
    (100, 80)
    """

    methods: dict[str, MethodTraffic] = field(default_factory=dict)

    def count(self, method: str, *, sent: int, received: int) -> None:
        """Add one worker's call."""
        found = self.methods.setdefault(method, MethodTraffic())
        found.calls += 1
        found.sent += sent
        found.received += received
        found.largest_sent = max(found.largest_sent, sent)
        found.largest_received = max(found.largest_received, received)

    @property
    def sent(self) -> int:
        """Bytes to the workers."""
        return sum(method.sent for method in self.methods.values())

    @property
    def received(self) -> int:
        """Bytes from the workers."""
        return sum(method.received for method in self.methods.values())

    def summary(self) -> dict[str, Any]:
        """Return the totals, and those of each kind of call, in what JSON can hold."""
        by_method = {name: asdict(found) for name, found in self.methods.items()}
        return {"sent": self.sent, "received": self.received, "by_call": by_method}
