"""Commands that are killed (``kill -9``) at random moments and at every step on the disk.

``python -m tests.reliability.kills --kills 500 --json tests/reliability/results/kills.json`` kills the commands of
:mod:`tests.reliability.killed_commands`, repeats them, and compares what they wrote with what an undisturbed run
writes, byte by byte; it fails at the first difference. Every command runs in a process of its own, forked from this
one so that it does not wait for imports and compiled code, which this one loads by running each command once.

A step on the disk is a file opened for writing, flushed, renamed, linked or removed, or a folder made or removed,
below the folder of the run. A process is killed before each of them, and at each flush once more with half of the
file gone, as if it had been killed while it wrote.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gmmatch.files import is_leftover
from tests.reliability.counts import parser_of, report
from tests.reliability.killed_commands import COMMANDS, STORES, Command, prepare, refused

KILLED = (*COMMANDS, *STORES)

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
EVENTS = (
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "shutil.rmtree",
)


class KilledAt:
    """Kills its process at one of its steps on the disk, counted from 0; with None it only counts them."""

    def __init__(self, folder: Path, step: int | None) -> None:
        self.folder, self.step, self.count = str(folder), step, 0

    def install(self) -> None:
        flush = os.fsync

        def fsync(file: int) -> None:
            self.reached()
            if self.step == self.count and os.path.isfile(f"/proc/self/fd/{file}"):  # noqa: PTH113
                os.ftruncate(file, os.fstat(file).st_size // 2)
            self.reached()
            flush(file)

        os.fsync = fsync
        sys.addaudithook(self.heard)

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING and self.within(path):
                self.reached()
        elif event in EVENTS and self.within(arguments[0]):
            self.reached()

    def within(self, path: object) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(self.folder)  # noqa: PTH100

    def reached(self) -> None:
        if self.step == self.count:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def started(work: Callable[..., object], *arguments: Any) -> int:
    """Start a forked process that does this work, and return its number; its status is 1 if that raises."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        work(*arguments)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def done(work: Callable[..., object], *arguments: Any) -> None:
    """Do this work in a process of its own, which must not fail."""
    status = ended(started(work, *arguments))
    if status:
        raise AssertionError(f"{getattr(work, '__name__', work)}{arguments[1:]} ended with {status}")


def run(command: Command, folder: Path, step: int | None = None, count: Path | None = None) -> None:
    """Run a command whose files lie below a folder, and die at one of its steps."""
    os.chdir(folder)
    if step is not None or count is not None:
        killer = KilledAt(folder, step)
        killer.install()
    command.run()
    if count is not None:
        count.write_text(str(killer.count))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return what lies below a folder, without temporary names; folders are None."""
    return {
        str(path.relative_to(folder)): _timeless(path) if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if not any(is_leftover(part) for part in path.relative_to(folder).parts)
    }


def _timeless(path: Path) -> bytes:
    """Return what a file holds; a page without when it was written and how long that took."""
    data = path.read_bytes()
    return re.sub(rb"20\d\d-\d\d-\d\d \d\d:\d\d|[\d.]+ s\b", b"", data) if path.suffix == ".html" else data


def part(contents: dict[str, bytes | None], output: str) -> dict[str, bytes | None]:
    """Return what belongs to one output."""
    return {name: data for name, data in contents.items() if name == output or name.startswith(f"{output}/")}


class Trial:
    """One command, what lies there before it, and what an undisturbed run makes of that."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.inputs, self.place = command, folder / "inputs", folder / "run"
        self.kills = self.leftovers = 0
        self.inputs.mkdir(parents=True)
        done(prepare, command, self.inputs)
        self.begin()
        self.before = contents(self.place)
        began = time.monotonic()
        done(run, command, self.place, None, folder / "steps")
        self.seconds = time.monotonic() - began
        self.steps = int((folder / "steps").read_text())
        self.after = contents(self.place)
        same = [name for name in command.outputs if part(self.before, name) == part(self.after, name)]
        if same:
            raise AssertionError(f"{command.name} changes nothing in {same}")

    def begin(self) -> None:
        """Put the folder of the run back to what it was before; always the same one, as paths are written down."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self.inputs, self.place)

    def judge(self) -> None:
        """Each output is the old one, the new one or not there, and they belong together; or reading is refused."""
        os.chdir(self.place)
        found, states = contents(self.place), set()
        for output in self.command.outputs:
            there = part(found, output)
            for state, known in (("new", part(self.after, output)), ("old", part(self.before, output))):
                # Who reads a whole result passes over what else lies in its folder: a lock, a shard not yet deleted.
                if there == known or (self.command.reads and known and known.items() <= there.items()):
                    states.add(state)
                    break
            else:
                states.add("half" if there else "none")
        mixed = self.command.together and {"old", "new"} <= states
        if ("half" in states or mixed) and not refused(self.command):
            raise AssertionError(f"{self.command.name}: {states} is taken for whole")
        outside = {
            name for name in found.keys() | self.before.keys() if found.get(name) != self.before.get(name)
        }
        for output in (*self.command.outputs, *self.command.beside):
            outside -= part(found, output).keys() | part(self.before, output).keys()
        if outside:
            raise AssertionError(f"{self.command.name}: {sorted(outside)[:5]} are not its own")

    def repeat(self) -> None:
        """Repeated, the command ends with what an undisturbed run writes."""
        done(run, self.command, self.place)
        found = contents(self.place)
        wrong = [name for name in found.keys() | self.after.keys() if found.get(name) != self.after.get(name)]
        if wrong:
            raise AssertionError(f"{self.command.name}: {sorted(wrong)[:5]} differ after it was repeated")
        self.leftovers += sum(is_leftover(path.name) for path in self.place.rglob("*"))

    def killed_at(self, step: int) -> None:
        """Kill the command at one of its steps."""
        self.begin()
        status = ended(started(run, self.command, self.place, step))
        if status != -signal.SIGKILL:
            raise AssertionError(f"{self.command.name} ended with {status} before its step {step}")
        self.kills += 1
        done(self.judge)
        self.repeat()

    def killed_at_random(self, draw: random.Random, most: int) -> int:
        """Kill the command at random moments until it is done in spite of that, but not more often than told."""
        self.begin()
        kills = 0
        while kills < most:
            child = started(run, self.command, self.place)
            time.sleep(draw.uniform(0.0, self.seconds))
            os.kill(child, signal.SIGKILL)
            status = ended(child)
            if status == 0:
                break
            if status != -signal.SIGKILL:
                raise AssertionError(f"{self.command.name} ended with {status} after {kills} kills")
            kills += 1
            done(self.judge)
        self.kills += kills
        self.repeat()
        return kills


def warmed(folder: Path, commands: Sequence[Command], names: list[str] | None) -> list[Command]:
    """Run the commands with these names once here, so that forked processes find all that they need loaded."""
    commands = [command for command in commands if names is None or command.name in names]
    for number, command in enumerate(commands):
        place = folder / f"warm-{number}"
        place.mkdir(parents=True)
        prepare(command, place)
        run(command, place)
    return commands


def measure(folder: Path, kills: int, stride: int, seed: int, names: list[str] | None) -> dict[str, Any]:
    """Kill every command at its steps, and all of them together so often at random moments."""
    draw, found, made = random.Random(seed), {}, []
    commands = warmed(folder, KILLED, names)
    for number, command in enumerate(commands):
        trial = Trial(command, folder / str(number))
        for step in range(0, trial.steps, stride):
            trial.killed_at(step)
        made.append(trial)
        found[trial.command.name] = {"steps": trial.steps, "killed_at_a_step": trial.kills}
        print(f"{trial.command.name}: {trial.kills} kills at {trial.steps} steps", flush=True)
    total = 0
    while total < kills:
        trial = min(made, key=lambda one: one.kills - found[one.command.name]["killed_at_a_step"])
        total += trial.killed_at_random(draw, min(10, kills - total))
        print(f"{total} kills at random", flush=True)
    for trial in made:
        one = found[trial.command.name]
        one["killed_at_random"] = trial.kills - one["killed_at_a_step"]
        one["temporary_files_left"] = trial.leftovers
    return {
        "killed_at_random": total,
        "killed_at_a_step": sum(one["killed_at_a_step"] for one in found.values()),
        "seed": seed,
        "commands": found,
    }


def main() -> None:
    parser = parser_of("kills", __doc__)
    parser.add_argument("--kills", type=int, default=500, help="at random moments")
    parser.add_argument("--stride", type=int, default=1, help="kill at every so-manyth step")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="*", help=", ".join(command.name for command in KILLED))
    asked = parser.parse_args()
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None) as name:
        found = measure(Path(name), asked.kills, asked.stride, asked.seed, asked.commands)
    report("kills", found, asked.json)


if __name__ == "__main__":
    main()
