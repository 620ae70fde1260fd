"""Disks that are full, read-only, forbidden, slow or gone while a command writes, and files that were damaged.

``python -m tests.reliability.disks --json tests/reliability/results/disks.json`` runs the commands of
:mod:`tests.reliability.killed_commands` on such disks. Each of them ends in one sentence (or does its work), leaves
what was there or a whole result, and, once the trouble is over, makes the bytes of an undisturbed run.
Needs root, to mount small disks.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gmmatch.errors import GMMatchError
from tests.reliability.counts import parser_of, report
from tests.reliability.killed_commands import COMMANDS, Command, gmmatch, prepare, refused
from tests.reliability.kills import KilledAt, Trial, contents, ended, part, started, warmed

PAGE = 4096
NOBODY = 65534


def attempt(command: Command, folder: Path, before: Callable[[], object] = lambda: None) -> None:
    """Run a command; exit with 0 if it does its work, with 2 if it says in one sentence that it cannot."""
    os.chdir(folder)
    before()
    try:
        command.run()
    except (GMMatchError, OSError) as error:  # the command line makes one line of both
        if "\n" in str(error):
            raise
        print(f"  {command.name}: {error}", flush=True)
        os._exit(2)


def small_disk(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


class Disk(Trial):
    """A trial of one command whose folder is a small disk."""

    def begin(self) -> None:
        """Put everything back, on a disk with room enough."""
        self.place.mkdir(exist_ok=True)
        if self.place.is_mount():
            subprocess.run(["umount", "-l", str(self.place)], check=True)
        small_disk(self.place, "size=64m")
        shutil.copytree(self.inputs, self.place, dirs_exist_ok=True)

    def over(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], check=False)

    def whole_or_as_before(self) -> None:
        """No result is half done or beside another's, and no temporary file takes room."""
        os.chdir(self.place)
        found, states = contents(self.place), set()
        for output in self.command.outputs:
            known = {"old": part(self.before, output), "new": part(self.after, output)}
            there = part(found, output)
            states.add(next((state for state, data in known.items() if data == there), "half"))
        if ("half" in states or (len(states) > 1 and self.command.together)) and not refused(self.command):
            raise AssertionError(f"{self.command.name}: {states} is taken for whole")

    def check(self, status: int) -> bool:
        """Return whether the command was refused; what it left must be sound, and repeating it must help."""
        if status not in (0, 2):
            raise AssertionError(f"{self.command.name} ended with {status}")
        if ended(started(self.whole_or_as_before)):
            raise AssertionError(f"{self.command.name} left something half done")
        self.repeat()
        return status == 2

    def full(self) -> int:
        """Run with a little more room each time, until it is enough; return how often it was not."""
        count, room = 0, 0
        while True:
            self.begin()
            used = int(subprocess.check_output(["df", "-B1", "--output=used", str(self.place)]).split()[-1])
            remount(self.place, f"size={used + room * PAGE}")
            status = ended(started(attempt, self.command, self.place))
            remount(self.place, "size=64m")
            if not self.check(status):
                return count
            count, room = count + 1, room + max(1, room // 8)

    def read_only(self) -> int:
        self.begin()
        remount(self.place, "ro")
        status = ended(started(attempt, self.command, self.place))
        remount(self.place, "rw")
        return int(self.check(status))

    def forbidden(self) -> int:
        self.begin()
        self.place.chmod(0o555)
        status = ended(started(attempt, self.command, self.place, lambda: os.setuid(NOBODY)))
        return int(self.check(status))

    def removed(self, draw: random.Random, times: int) -> int:
        """Remove the folder at some steps; a command ends, and says what is wrong."""
        count = 0
        for step in draw.sample(range(self.steps), min(times, self.steps)):
            self.begin()
            status = ended(started(attempt, self.command, self.place, _At(self.place, step, _remove).install))
            if status not in (0, 2):
                raise AssertionError(f"{self.command.name} ended with {status} when its folder was removed")
            self.begin()
            self.repeat()
            count += 1
        return count

    def slow(self) -> int:
        self.begin()
        wait = _At(self.place, None, lambda folder: time.sleep(0.02))
        return int(not self.check(ended(started(attempt, self.command, self.place, wait.install))))


class _At(KilledAt):
    """Does something else than killing at a step, or at every one."""

    def __init__(self, folder: Path, step: int | None, act: Callable[[str], object]) -> None:
        super().__init__(folder, step)
        self.act, self.acting = act, False

    def reached(self) -> None:
        if not self.acting and self.step in (None, self.count):
            self.acting = True
            self.act(self.folder)
            self.acting = False
        self.count += 1


def _remove(folder: str) -> None:
    for path in Path(folder).iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


# ------------------------------------------------------------------------------------------- damaged files


def damage(path: Path, kind: str, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    if kind == "missing":
        path.unlink()
        return
    if kind == "truncated":
        del data[draw.randrange(len(data)) :]
    else:
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def damaged(folder: Path, times: int, draw: random.Random) -> dict[str, int]:
    """Damage a file of a store so often; return how often that was refused, and how often it changed no pick."""
    os.chdir(folder)
    prepare(COMMANDS[0], folder)
    COMMANDS[0].run()
    ask = ("select", "photos.emb", "-k", 8, "--method", "gm-matching", "--force", "-o")
    gmmatch(*ask, "whole.csv")
    whole = Path("whole.csv").read_bytes()
    counts = {"refused by info --verify": 0, "refused by select": 0, "not read by select": 0}
    files = sorted(path.name for path in Path("photos.emb").iterdir())
    shutil.copytree("photos.emb", "kept.emb")
    for number in range(times):
        name, kind = draw.choice(files), ("missing", "truncated", "flipped")[number % 3]
        damage(Path("photos.emb", name), kind, draw)
        counts["refused by info --verify"] += _refuses(name, "info", "photos.emb", "--verify")
        refuses = _refuses(name, *ask, "found.csv")
        if not refuses and Path("found.csv").read_bytes() != whole:
            raise AssertionError(f"{name} is {kind}, and nobody noticed")
        counts["refused by select" if refuses else "not read by select"] += 1
        shutil.rmtree("photos.emb")
        shutil.copytree("kept.emb", "photos.emb")
    return counts


def _refuses(name: str, *arguments: object) -> bool:
    """Run a command; return whether it refuses a damaged file, which it must name."""
    try:
        gmmatch(*arguments)
    except GMMatchError as error:
        # A manifest that is missing, or is none any more, leaves a folder that is no store.
        if name not in str(error) and name != "manifest.json":
            raise AssertionError(f"{name} is damaged, and is not named: {error}") from None
        return True
    return False


def measure(
    folder: Path, removals: int, damages: int, names: list[str] | None, seed: int = 0
) -> dict[str, Any]:
    draw, found = random.Random(seed), {}
    for number, command in enumerate(warmed(folder, COMMANDS, names)):
        trial = Disk(command, folder / str(number))
        try:
            found[command.name] = {
                "full": trial.full(),
                "read_only": trial.read_only(),
                "forbidden": trial.forbidden(),
                "removed": trial.removed(draw, removals),
                "slow": trial.slow(),
            }
        finally:
            trial.over()
        print(command.name, found[command.name], flush=True)
    (folder / "damaged").mkdir()
    counts = damaged(folder / "damaged", damages, draw)
    print(counts, flush=True)
    os.chdir("/")
    kinds = ("full", "read_only", "forbidden", "removed", "slow")
    total = {kind: sum(one[kind] for one in found.values()) for kind in kinds}
    return {
        **total,
        "damaged": damages,
        "damaged_results": counts,
        "seed": seed,
        "commands": found,
    }


def main() -> None:
    parser = parser_of("disks", __doc__)
    parser.add_argument("--removals", type=int, default=10, help="for each command")
    parser.add_argument("--damages", type=int, default=300, help="files of a store that are damaged")
    parser.add_argument("--commands", nargs="*", help=", ".join(command.name for command in COMMANDS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        found = measure(Path(name), asked.removals, asked.damages, asked.commands)
    report("disks", found, asked.json)


if __name__ == "__main__":
    main()
