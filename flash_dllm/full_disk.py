"""A full disk in one sentence."""

from __future__ import annotations

import errno
from pathlib import Path

# no room, a quota that is used up, a file larger than it may be
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def in_words(error: BaseException, folder: Path) -> BaseException:
    """The error as people are told it: what the system says of a full disk names no folder.

    >>> str(in_words(OSError(errno.ENOSPC, "No space left on device"), Path("results")))
    'there is no room left for results; make room, and the same command goes on'
    """
    if isinstance(error, OSError) and error.errno in FULL:
        return OSError(
            f"there is no room left for {folder}; make room, and the same command goes on"
        )
    return error
