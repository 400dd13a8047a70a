"""lm-evaluation-harness with the model `flash_dllm`: python -m flash_dllm.harness --tasks gsm8k …

All options are the harness's own (`--help` shows them); `--model flash_dllm` and the tasks of
`evaluation/harness_tasks` are there already.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from flash_dllm.cli_options import complain

OFFLINE = (
    "the harness downloads its sets: run it once with a network, and what is kept then is read "
    "with HF_HUB_OFFLINE=1; or name a task of your own that reads a file, with --include_path"
)
TASKS = Path(__file__).parent / "evaluation" / "harness_tasks"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0; 2 with one sentence on standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        from lm_eval.__main__ import cli_evaluate
    except ImportError as error:
        complain(
            ImportError(
                f"lm-evaluation-harness could not be imported ({error}); run pip install -r "
                "requirements-harness.txt"
            )
        )
        return 2
    from flash_dllm.evaluation import harness_model  # noqa: F401  registers the model

    sys.argv = ["lm-eval", *with_defaults(given)]
    # one sentence in the end instead of one a retry
    logging.getLogger("huggingface_hub.utils._http").setLevel(logging.ERROR)
    try:
        cli_evaluate()
    except ConnectionError as error:
        complain(ConnectionError(f"{str(error).rstrip('.')}; {OFFLINE}"), {})
        return 2
    except (ValueError, OSError, RuntimeError, NotImplementedError) as error:
        complain(error, {})
        return 2
    return 0


def with_defaults(given: list[str]) -> list[str]:
    """The harness's command line with our model and our tasks where nothing else is asked for.

    >>> with_defaults(["--tasks", "gsm8k"])[:6]
    ['run', '--model', 'flash_dllm', '--device', 'auto', '--include_path']
    >>> with_defaults(["ls", "tasks"])
    ['ls', 'tasks']
    """
    if given[:1] in (["ls"], ["validate"]):
        return given
    given = given[1:] if given[:1] == ["run"] else given
    defaults = ["run"]
    names = {argument.split("=")[0] for argument in given}
    if not names & {"--model", "-M"}:
        defaults += ["--model", "flash_dllm"]
    is_ours = not names & {"--model", "-M"} or {"flash_dllm", "--model=flash_dllm"} & {*given}
    if is_ours and "--device" not in names:
        # the harness's own default is CUDA, also where there is none
        defaults += ["--device", "auto"]
    if "--include_path" not in names:
        defaults += ["--include_path", str(TASKS)]
    return defaults + given


if __name__ == "__main__":
    sys.exit(main())
