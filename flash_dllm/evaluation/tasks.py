"""The tasks by name: own sets in `assets/tasks`, public sets from `public_sets.py`."""

from __future__ import annotations

from pathlib import Path

from flash_dllm.evaluation.item import Item
from flash_dllm.evaluation.measurement import read_items
from flash_dllm.evaluation.public_sets import PUBLIC_SETS, read_public_set

OWN_TASKS = ("word", "algebra", "code", "story")
TASKS = (*OWN_TASKS, *PUBLIC_SETS)
ASSETS = Path(__file__).resolve().parents[2] / "assets" / "tasks"


def load_task(
    name: str, limit: int | None = None, tasks: Path = ASSETS, data: Path | None = None
) -> list[Item]:
    """The first `limit` items of a task.

    tasks   folder of the own sets
    data    file or folder of a public set; None: through `datasets`
    Raises  ValueError for an unknown task or more own items than there are, else as
            `read_public_set` and `read_items`.
    """
    if name not in TASKS:
        raise ValueError(f"task must be one of {', '.join(TASKS)}, got {name!r}")
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be a whole number from 1 on, got {limit}")
    if name in PUBLIC_SETS:
        return read_public_set(name, data)[:limit]
    items = read_items(tasks, name, limit)
    if limit is not None and len(items) < limit:
        raise ValueError(
            f"task {name} has {len(items)} items in {tasks}, {limit} were asked for; make more "
            f"from the same seed with python -m training.held_out --count {limit} --output DIR "
            "and name that folder (--tasks DIR; in a report, --tasks-folder DIR; in a sweep, "
            "data: DIR)"
        )
    return items
