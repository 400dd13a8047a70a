"""A PostgreSQL server of one's own for a test: a fresh cluster on a free port of this machine."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER, PASSWORD = "tester", "a-word_to.hide"


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; Debian keeps it out of PATH."""
    found = shutil.which("pg_ctl")
    if found:
        return Path(found).resolve().parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


@contextmanager
def server() -> Iterator[str]:
    """SQLAlchemy's address of an empty database; the server ends with the block."""
    folder = programs()
    assert folder is not None, "ask programs() first"
    # PostgreSQL refuses to run as root
    is_root = os.geteuid() == 0
    user = pwd.getpwnam("nobody") if is_root else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        data, secret = Path(place) / "data", Path(place) / "password"
        secret.write_text(PASSWORD)
        data.mkdir()
        for path in (Path(place), data, secret):
            os.chown(path, user.pw_uid, user.pw_gid)
        port = _free_port()
        rights = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if is_root else {}

        def run(program: str, *arguments: str) -> None:
            subprocess.run(
                [folder / program, "-D", str(data), *arguments],
                check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=place,
                **rights,
            )  # fmt: skip

        run("initdb", "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c fsync=off -k {place}"
        run("pg_ctl", "-w", "-l", f"{place}/log", "-o", options, "start")
        try:
            yield f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
