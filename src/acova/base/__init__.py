"""What every layer may use: errors with a way out, and named random streams."""

from acova.base.errors import (
    AcovaError,
    DataError,
    DataWarning,
    FileError,
    MissingExtraError,
    OptionError,
    ProcessError,
    RunFolderError,
    TrainingError,
)
from acova.base.seeds import Streams

__all__ = [
    "AcovaError",
    "DataError",
    "DataWarning",
    "FileError",
    "MissingExtraError",
    "OptionError",
    "ProcessError",
    "RunFolderError",
    "Streams",
    "TrainingError",
]
