"""What every layer may use: errors with a way out, and named random streams."""

from acova.base.errors import (
    AcovaError,
    DataError,
    FileError,
    MissingExtraError,
    OptionError,
    ProcessError,
    RunFolderError,
    TrainingError,
    check_choice,
    check_number,
    near_miss,
    require,
)
from acova.base.seeds import Streams

__all__ = [
    "AcovaError",
    "DataError",
    "FileError",
    "MissingExtraError",
    "OptionError",
    "ProcessError",
    "RunFolderError",
    "Streams",
    "TrainingError",
    "check_choice",
    "check_number",
    "near_miss",
    "require",
]
