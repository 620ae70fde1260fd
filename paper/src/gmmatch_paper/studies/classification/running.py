"""Running a study on images: its cells through the runner, its figures, and how fast it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import cpu_count  # type: ignore[import-untyped]

from gmmatch_paper.studies.classification.image_study import ImageStudy
from gmmatch_paper.studies.image_cells.cell import Places
from gmmatch_paper.studies.image_cells.downstream import device_name, pick_device
from gmmatch_paper.studies.image_cells.plan import Plan
from gmmatch_paper.studies.image_cells.proxies import HIDDEN
from gmmatch_paper.studies.records import part_code, read_record
from gmmatch_paper.studies.results import Results
from gmmatch_paper.studies.runner import LongRun, Progress, run_study
from gmmatch_paper.studies.study import Described, Draw, SizeName, Study

# On a GPU: more processes than this wait for each other with networks of the paper's sizes.
_GPU_JOBS = 4


def default_jobs(device: str) -> int:
    """Return how many processes suit a device: a few that share a GPU, or one per core."""
    cores = int(cpu_count())
    return min(_GPU_JOBS, cores) if pick_device(device).startswith("cuda") else cores


@dataclass(frozen=True)
class ImageRun:
    """How studies on images are run.

    ``choices`` is what the user chose of the studies' own options, ``output`` the folder of ``NAME.json`` and of the
    journal: cells that are there are not measured again unless ``fresh``, and those of other plans stay. ``cache`` is
    ``output/cache`` by default, ``jobs`` what suits the device; after ``seconds`` no further cell is begun.
    """

    choices: Mapping[str, Any]
    size: SizeName
    output: Path
    cache: Path | None
    device: str
    jobs: int | None
    fresh: bool
    seconds: float | None


def run_image_study(study: ImageStudy, plan: Plan, run: ImageRun, jobs: int, progress: Progress) -> Results:
    """Measure the cells of a plan that are not measured yet; each worker has a CUDA context of its own."""
    # Threads that wait for each other cost more than they bring where a step takes milliseconds.
    threads = 1 if run.size == "quick" else max(1, cpu_count() // jobs)
    places = Places(plan, str(run.cache or run.output / "cache"), run.device, threads)
    notes = {"device": device_name(pick_device(run.device))}
    return run_study(
        study.as_study(places, plan.load()),
        output=run.output,
        size=run.size,
        jobs=jobs,
        fresh=run.fresh,
        progress=progress,
        long_run=LongRun(typed_command(study.name, run.size, run.choices), run.seconds, notes),
    )


def pictures_of(study: Described, results: Results) -> dict[str, Draw]:
    """Return the figures of a study by file name; none where nothing was measured."""
    measured = any("error" not in cell for cells in results.parts.values() for cell in cells)
    return study.named_pictures() if measured else {}


def finished_keys(study: Study, output: Path) -> list[dict[str, Any]]:
    """Return the cells of a study that a folder has already, with what was measured."""
    target = output / f"{study.name}.json"
    if not target.exists():
        return []
    found = []
    record = read_record(target)
    for part in study.parts:
        stored = record["parts"].get(part.name)
        if stored is not None and stored["code"] == part_code(part):
            found += [cell for cell in stored["cells"] if "error" not in cell]
    return found


def typed_command(name: str, size: SizeName, choices: Mapping[str, Any]) -> str:
    """Return the command of a run, without the folders of this machine."""
    words = [f"gmmatch reproduce {name} --{size}"]
    for option, value in choices.items():
        values = value if isinstance(value, tuple) else (str(value),)
        words.append(f"--{option.replace('_', '-')} {','.join(map(_without_folder, values))}")
    return " ".join(words)


def _without_folder(word: str) -> str:
    """Return the name of a file or folder of this machine, and any other word as it is: a hub's has a slash too."""
    if word.startswith(f"{HIDDEN}:"):
        return f"{HIDDEN}:{_without_folder(word.partition(':')[2])}"
    path = Path(word)
    return path.name if path.is_absolute() or path.exists() else word
