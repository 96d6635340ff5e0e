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
    check_choice,
    check_number,
    near_miss,
    require,
)
from acova.base.files import file_errors, parse_json, read_json, read_toml, write_whole
from acova.base.outputs import check_output, new_file
from acova.base.seeds import Streams, check_seed, draw_seed

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
    "check_choice",
    "check_number",
    "check_output",
    "check_seed",
    "draw_seed",
    "file_errors",
    "near_miss",
    "new_file",
    "parse_json",
    "read_json",
    "read_toml",
    "require",
    "write_whole",
]
