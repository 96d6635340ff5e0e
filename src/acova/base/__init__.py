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
from acova.base.files import (
    check_seal,
    file_digest,
    file_errors,
    parse_json,
    read_json,
    read_toml,
    sealed_json,
    write_whole,
)
from acova.base.locks import folder_lock, lock_byte, unlock_byte
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
    "check_seal",
    "check_seed",
    "draw_seed",
    "file_digest",
    "file_errors",
    "folder_lock",
    "lock_byte",
    "near_miss",
    "new_file",
    "parse_json",
    "read_json",
    "read_toml",
    "require",
    "sealed_json",
    "unlock_byte",
    "write_whole",
]
