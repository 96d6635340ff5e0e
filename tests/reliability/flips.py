"""Single flipped bits in the files of models, checkpoints and benchmarks: refused, or without any effect."""

import random
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

from acova import ACOVA
from acova.base import AcovaError
from acova.bench import Store
from acova.engine.state import Keeper
from acova.estimators import load_method
from conftest import SMALL, make_toy
from reliability.crowds import answers, tiny
from reliability.disks import ROWS
from reliability.tally import Tally, flip_a_bit, same_bits


def models(folder: Path, rounds: Iterable[int]) -> Tally:
    """Flip a bit of a run folder: it does not load, or the model is the same. ``labels.csv`` is never read back."""
    tally, rng, views = Tally(), random.Random(0), make_toy(n_samples=60)[0]
    runs = {}
    for name in ("ACOVA", "KNNImpute", "CPSPAN", "MVP"):
        model = tiny(name).fit(views)
        model.save(folder / name)
        runs[folder / name] = (model.get_settings(), [*answers(model, views), model.history_.to_numpy(), model.labels_])
    for number in rounds:
        run = list(runs)[number % len(runs)]
        file = rng.choice([path for path in sorted(run.iterdir()) if path.name != "labels.csv"])
        whole = file.read_bytes()
        file.write_bytes(flip_a_bit(whole, rng))
        tally.note(_loaded(run, views, *runs[run]), file)
        file.write_bytes(whole)
    return tally


def _loaded(run: Path, views: Any, params: dict[str, Any], expected: list[Any]) -> str:
    try:
        model = load_method(run)
        found = [*answers(model, views), model.history_.to_numpy(), model.labels_]
    except AcovaError:
        return "refused"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return "right" if same_bits(found, expected) and model.get_settings() == params else "another model"


def checkpoints(folder: Path, rounds: Iterable[int]) -> Tally:
    """Flip a bit of a checkpoint: the fit does not go on, or it ends as if nothing had happened."""
    tally, rng, views = Tally(), random.Random(0), make_toy(n_samples=60)[0]
    state, kept = folder / "state", folder / "kept"
    short = {**SMALL, "pretrain_epochs": 2, "warmup_epochs": 2, "epochs": 4, "n_init": 2, "checkpoint_every": 1}
    _interrupted(ACOVA.from_settings(3, **short, checkpoint=state), views, at=14)  # in the second run
    shutil.copytree(state, kept)
    whole = ACOVA.from_settings(3, **short, checkpoint=state).fit(views)
    for _ in rounds:
        shutil.rmtree(state, ignore_errors=True)
        shutil.copytree(kept, state)
        file = state / rng.choice(sorted(path.name for path in kept.iterdir()))
        file.write_bytes(flip_a_bit(file.read_bytes(), rng))
        try:
            model = ACOVA.from_settings(3, **short, checkpoint=state).fit(views)
            same = same_bits([model.probabilities_, model.objectives_], [whole.probabilities_, whole.objectives_])
            answer = "right" if same else "another model"
        except AcovaError:
            answer = "refused"
        except Exception as error:
            answer = f"raised {type(error).__name__}: {error}"
        tally.note(answer, file.name)
    return tally


def _interrupted(model: Any, views: Any, at: int) -> None:
    """Fit until the state was kept so many times."""

    class Killed(BaseException):
        pass

    keep, calls = Keeper.keep, []

    def kept(keeper: Keeper, state: Any) -> None:
        keep(keeper, state)
        calls.append(1)
        if len(calls) == at:
            raise Killed

    with mock.patch.object(Keeper, "keep", kept):
        try:
            model.fit(views)
        except Killed:
            return
    msg = f"the fit ended after it was kept {len(calls)} times"
    raise RuntimeError(msg)


def stores(folder: Path, rounds: Iterable[int]) -> Tally:
    """Flip a bit of a store: it is refused, or its rows are as they were; a last line without its end may go.

    A flip in the name of the checksum leaves a row without one, as stores of before have; its values are still right.
    """
    tally, rng = Tally(), random.Random(0)
    Store(folder / "rows.jsonl").append(ROWS)
    content, expected = (folder / "rows.jsonl").read_bytes(), Store(folder / "rows.jsonl").rows
    for number in rounds:
        path = folder / f"{number}.jsonl"
        path.write_bytes(flip_a_bit(content, rng))
        try:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                found = Store(path).rows
            same = all(expected[key].items() <= row.items() for key, row in found.items())
            answer = "right" if same and len(found) + bool(seen) >= len(expected) else "other rows"
        except AcovaError:
            answer = "refused"
        except Exception as error:
            answer = f"raised {type(error).__name__}: {error}"
        tally.note(answer, f"store {number}")
        path.unlink()
    return tally
