"""Rows of a store: their schema, their checksum, and lines of JSON."""

import json
import zlib
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from acova.base import FileError
from acova.bench.checks import one_line

_START = b'{"key": "'
"""How lines of this package begin, in every version."""
_CHECKSUM = "crc"
_SCORES = ("acc", "nmi", "ari", "purity", "seconds")

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e10)]


class Correlation(msgspec.Struct):
    """R of a fit."""

    views: list[str]
    matrix: list[list[float]]

    def __post_init__(self) -> None:
        if [len(row) for row in self.matrix] != [len(self.views)] * len(self.views):
            msg = "matrix must have one row and one column per view"
            raise ValueError(msg)


class Calibration(msgspec.Struct):
    """How far the uncertainty of a fit can be believed; see `acova.bench.calibration`."""

    brier: Annotated[float, msgspec.Meta(ge=0, le=2)]
    ece: Share
    brier_drawn: Annotated[float, msgspec.Meta(ge=0, le=2)]
    ece_drawn: Share
    confidence: Share | None = None
    confidence_drawn: Share | None = None
    auroc: Share | None = None
    auroc_drawn: Share | None = None
    auroc_latent: Share | None = None
    coverage: Share | None = None
    surer: Share | None = None
    widening: float | None = None
    bins: list[tuple[float, Share, Share]] = []


class Embedding(msgspec.Struct):
    """A map of the samples."""

    points: list[tuple[float, float]]
    classes: list[int]

    def __post_init__(self) -> None:
        if len(self.points) != len(self.classes):
            msg = "points and classes must have the same length"
            raise ValueError(msg)


class Result(msgspec.Struct):
    """What a fit says of its own result; see `acova.bench.calibration.result_of`."""

    confidence: float
    overconfidence: float
    warned: int
    auroc_confidence: float | None = None
    auroc_agreement: float | None = None
    warnings: list[str] = []
    trust: list[float] | None = None
    support: list[float] | None = None
    influence: list[float] | None = None


class Records(msgspec.Struct):
    """What a row keeps besides scores."""

    correlation: Correlation | None = None
    history: dict[str, list[float]] | None = None
    embedding: Embedding | None = None
    calibration: Calibration | None = None
    result: Result | None = None


class Row(msgspec.Struct, kw_only=True):
    """One fit: scores and seconds, or the reason why it failed. Rows may have further fields."""

    key: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{12,64}$")]
    dataset: str
    method: str
    missing_percent: Annotated[float, msgspec.Meta(ge=0, le=100)]
    run: Annotated[int, msgspec.Meta(ge=0)]
    failed: str | msgspec.UnsetType = msgspec.UNSET
    acc: Share | msgspec.UnsetType = msgspec.UNSET
    nmi: Share | msgspec.UnsetType = msgspec.UNSET
    ari: Annotated[float, msgspec.Meta(ge=-1, le=1)] | msgspec.UnsetType = msgspec.UNSET
    purity: Share | msgspec.UnsetType = msgspec.UNSET
    seconds: Seconds | msgspec.UnsetType = msgspec.UNSET
    epochs: Annotated[int, msgspec.Meta(ge=0)] = 0
    together: Annotated[int, msgspec.Meta(ge=1)] = 1
    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}
    versions: dict[str, str] = {}
    guards: dict[str, float] = {}
    records: Records = msgspec.field(default_factory=Records)

    def __post_init__(self) -> None:
        absent = [name for name in _SCORES if getattr(self, name) is msgspec.UNSET]
        if absent and self.failed is msgspec.UNSET:
            msg = f"missing required field `{absent[0]}`"
            raise ValueError(msg)


def row_line(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line with a checksum; raise `FileError` for a row that could not be read again."""
    plain = json.loads(json.dumps(row, default=str))
    _check(plain, f"the row of job {one_line(row.get('key'))}")
    return json.dumps({**plain, _CHECKSUM: _checksum(plain)}).encode() + b"\n"


def row_of(line: bytes, place: str) -> dict[str, Any]:
    """Return the row of a line; raise `FileError`, which starts with `place`, if the line is not a whole, valid row."""
    try:
        row = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        msg = f"{place} is not a row of JSON: {reason}."
        raise FileError(msg) from error
    if not isinstance(row, dict):
        msg = f"{place} is not a row: expected an object with a key, got {one_line(repr(row))[:40]}."
        raise FileError(msg)
    # The checksum is one of the content, so that other programs may write the same row with other blanks. Rows of
    # earlier versions have none.
    checksum = row.pop(_CHECKSUM, None)
    if checksum is not None and checksum != _checksum(row):
        msg = f"{place} was changed after it was written: its checksum does not match."
        raise FileError(msg)
    _check(row, place)
    return row


def begins_like_row(line: bytes, *, cut: bool = False) -> bool:
    """Whether a line, however it goes on, starts like a row; one that was `cut` off may be shorter than that."""
    return line.startswith(_START) or (cut and _START.startswith(line))


def _check(row: dict[str, Any], place: str) -> None:
    try:
        msgspec.convert(row, Row)
    except (ValueError, RecursionError) as error:
        msg = f"{place} is not a valid row: {str(error).replace('$.', '').replace('`', '')}."
        raise FileError(msg) from error


def _checksum(row: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(row).encode()):08x}"
