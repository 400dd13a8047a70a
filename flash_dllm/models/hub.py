"""Hub names: the only file that imports huggingface_hub. No code is ever downloaded.

Files land in the hub library's own cache, which resumes broken downloads and shows progress;
`HF_HUB_OFFLINE=1` or `offline=True` reads that cache alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)

# configuration, tokenizer, chat template, index; weights follow when all of that is understood
SMALL_FILES = ["*.json", "*.txt", "*.jinja"]
WEIGHTS = ["*.safetensors"]


def is_hub_name(name: str) -> bool:
    """Whether this reads as owner/model and is no folder here."""
    return bool(re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name)) and not Path(name).is_dir()


def fetch(name: str, revision: str | None, offline: bool, has_weights: bool) -> Path:
    """The local folder of a model's small files, or of these and the weights.

    Raises FileNotFoundError (unknown name or revision, or not in the cache while offline),
    PermissionError (a licence gate or a private model) or ConnectionError, in one sentence.
    """
    from huggingface_hub import snapshot_download

    patterns = [*SMALL_FILES, *WEIGHTS] if has_weights else SMALL_FILES
    with _in_a_sentence(name, revision):
        folder = snapshot_download(
            name, revision=revision, allow_patterns=patterns, local_files_only=offline
        )
    return Path(folder)


def remote_shapes(name: str, revision: str | None) -> dict[str, tuple[int, ...]] | None:
    """Tensor name → shape, from the heads of the weight files without downloading them; None if
    they can't be asked (offline, or no safetensors)."""
    from huggingface_hub import get_safetensors_metadata

    try:
        metadata = get_safetensors_metadata(name, revision=revision)
    except Exception as error:
        # only an estimate hangs on it; whatever is wrong comes up again with the download
        log.info("no estimate before the download: %s", error)
        return None
    return {
        tensor: tuple(info.shape)
        for file in metadata.files_metadata.values()
        for tensor, info in file.tensors.items()
    }


@contextmanager
def _in_a_sentence(name: str, revision: str | None) -> Iterator[None]:
    """Turn the hub library's errors into one sentence that says what to do."""
    from huggingface_hub import errors

    what = f"the model {name}" + (f" (revision {revision})" if revision else "")
    try:
        yield
    except errors.GatedRepoError:
        raise PermissionError(
            f"the model {name} has a licence gate: accept it on https://huggingface.co/{name}, "
            "then log in with `hf auth login`"
        ) from None
    except errors.RevisionNotFoundError:
        raise FileNotFoundError(
            f"the model {name} has no revision {revision}; leave it out"
        ) from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"the hub has no model {name}, or it is private: check the name, or log in with "
            "`hf auth login`"
        ) from None
    except errors.HFValidationError:
        raise ValueError(
            f"the name {name!r} is no hub name; give owner/model or a folder"
        ) from None
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        raise FileNotFoundError(
            f"{what} is not in the local cache, and the hub could not be asked (no network, or "
            "offline mode); download it once with a network, or give a folder"
        ) from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in (401, 403):
            raise PermissionError(
                f"the hub refuses {what} to this account; log in with `hf auth login`"
            ) from None
        raise ConnectionError(
            f"the hub answered {status} for {what}; try again later, it resumes where it stopped"
        ) from None
    except Exception as error:
        # the HTTP library below the client raises its own kinds, and another library's by version
        reason = " ".join(str(error).split())
        raise ConnectionError(
            f"{what} could not be downloaded ({reason}); run it again, it resumes where it stopped"
        ) from None
