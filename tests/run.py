"""Runs the tests as `make test` does; without Chromium the last line says what did not run.

The browser tests run alone: they wait for a page, and a machine that is busy with other tests would
let them wait too long. All others run on two cores, a file at a time.
"""

import os
import shutil
import subprocess
import sys

NO_BROWSER = (
    "The browser tests did not run: Chromium is missing (Debian: apt install chromium, then run "
    "make test again)."
)
NO_TESTS = 5  # pytest's code for a choice of arguments that leaves no test of this part


def main() -> int:
    """The first code of pytest that is not 0."""
    has_browser = shutil.which("chromium") is not None
    parts = [["-n", "2", "--dist", "loadfile", "-m", "not browser"]]
    if has_browser:
        parts.append(["-m", "browser"])
    # small tensors: a second thread gains little, and on two cores it loses much as soon as
    # anything else runs
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    codes = []
    for part in parts:
        command = [sys.executable, "-m", "pytest", "-q", *part, *sys.argv[1:]]
        codes.append(subprocess.call(command, env=environment))
    if not has_browser:
        print(NO_BROWSER)
    return next((code for code in codes if code not in (0, NO_TESTS)), min(codes))


if __name__ == "__main__":
    sys.exit(main())
