"""Where data are stored. It imports little, because it is needed before anything else."""

from __future__ import annotations

from collections.abc import Mapping

VARIABLE = "DISCOVERY_DATA_DIR"


def data_folder(data_dir: str | None, environ: Mapping[str, str]) -> str:
    """`data_dir`, `$DISCOVERY_DATA_DIR`, or the user's data folder."""
    if folder := data_dir or environ.get(VARIABLE):
        return folder
    # Only needed without a folder of one's own, and loading it takes a sixth of a start.
    from platformdirs import user_data_dir  # noqa: PLC0415

    return user_data_dir("discovery", appauthor=False)
