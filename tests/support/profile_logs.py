"""A profile log with known numbers."""

from __future__ import annotations

from pathlib import Path

from qnnrt.profile_log import ProfileLog
from qnnrt.qnn.profile import ProfileEvent


def event(
    kind: int, value: int, name: str, *parts: ProfileEvent, unit: str = "microseconds"
) -> ProfileEvent:
    return ProfileEvent(kind, unit, value, name, tuple(parts))


def write_log(path: Path) -> Path:
    """Two graphs: "a" executed twice with copies, "b" once."""
    with ProfileLog(path, "net-run", "1.2", "5.43.0") as out:
        out.add("context_create", None, 1000, 1400)
        out.add("compose_graphs", "a", 1500, 1700)
        out.add("finalize", "a", 2000, 2500, [event(300, 480, "finalize")])
        for i, start in enumerate((3000, 4000)):
            copies = [
                event(406, 64, "in x", unit="bytes"),
                event(408, 32, "out y", unit="bytes"),
            ]
            node = event(404, 70 + 20 * i, "conv")
            call = event(400, 100 + 50 * i, "execute", node, *copies)
            out.add("execute", "a", start, start + 200 + 100 * i, [call])
        out.add("execute", "b", 5000, 5010, [event(3003, 777, "cycles of it", unit="cycles")])
        out.add("execute_ips", None, 3000, 8000)
        out.add("deinit", None, 9000, 9003)
    return path
