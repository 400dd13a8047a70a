"""Runs the tests as `make test` does; without Chromium the last line says what did not run."""

import os
import shutil
import subprocess
import sys

NO_BROWSER = (
    "The browser tests did not run: Chromium is missing (Debian: apt install chromium, then run "
    "make test again)."
)


def main() -> int:
    """pytest's exit code."""
    has_browser = shutil.which("chromium") is not None
    command = [sys.executable, "-m", "pytest", "-q", *sys.argv[1:]]
    if not has_browser:
        command += ["-m", "not browser"]
    # small tensors: a second thread gains little, and on two cores it loses much as soon as
    # anything else runs
    code = subprocess.call(command, env={"OMP_NUM_THREADS": "1", **os.environ})
    if not has_browser:
        print(NO_BROWSER)
    return code


if __name__ == "__main__":
    sys.exit(main())
