"""Count what the architecture is made of, and what a fit goes through.

    python benchmarks/architecture.py
    python benchmarks/architecture.py ../before

The counts are of the checkout that is named, by default of this one: files and lines of each room of the package,
comments that silence the type checker, what a method may say to the training (hooks), keywords of constructors, and how
deep classes are derived. The last lines are of one small fit of `ACOVA` in memory on a CPU, after another one that
loaded all modules: how many frames of the package, and of all packages, lie on the stack from `fit_predict` to the
first product of a network's layers, and how many files of the package were entered until then; and CPU seconds of the
import and of that fit in processes of their own, the least of three.
"""

import argparse
import inspect
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

PRODUCTS = {"linear", "addmm", "bmm", "baddbmm", "mm", "matmul", "__matmul__", "__rmatmul__", "einsum"}
"""Functions of torch that multiply matrices."""


class Way(NamedTuple):
    """What lies between `fit_predict` and the first product of a network."""

    package_frames: int
    frames: int
    files: int


# --- counted in the text ------------------------------------------------------------------------


def rooms(package: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the name of each folder of a package, its number of Python files, and their lines."""
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        files = sorted(folder.glob("*.py"))
        yield folder.relative_to(package).as_posix(), len(files), sum(map(count_lines, files))


def count_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def count_matches(package: Path, pattern: str) -> int:
    """Return how often a regular expression matches in the Python files of a package."""
    return sum(len(re.findall(pattern, path.read_text(encoding="utf-8"))) for path in package.rglob("*.py"))


# --- counted in the classes ---------------------------------------------------------------------


def hooks() -> tuple[list[str], list[str]]:
    """Return the functions and the attributes of `Method` that some registered method replaces or may set."""
    from acova.estimators._deep import DeepClusterer
    from acova.estimators.registry import METHODS
    from acova.training.method import Method

    classes = [METHODS[name] for name in METHODS]
    used = [type(cls.method) for cls in classes if issubclass(cls, DeepClusterer)]
    replaced = {name for kind in used for base in kind.__mro__ if base not in (Method, object) for name in vars(base)}
    functions = [name for name, value in vars(Method).items() if inspect.isfunction(value) and name in replaced]
    return functions, list(Method.__annotations__)


def keywords(cls: type) -> list[str]:
    """Return the keywords of a constructor."""
    return list(inspect.signature(cls).parameters)


def depth(cls: type) -> int:
    """Return the number of classes of this package in the longest chain from a class to its bases, mixins counted."""
    own = cls.__module__.startswith("acova")
    return own + max((depth(base) for base in cls.__bases__), default=0)


# --- counted in a fit ---------------------------------------------------------------------------


class _Reached(Exception):
    """A network multiplies matrices for the first time."""


def way_to_the_first_product(package: Path) -> Way:
    """Return what `ACOVA.fit_predict` goes through until the first product of a network."""
    from torch.overrides import TorchFunctionMode

    from acova import ACOVA

    rng = np.random.default_rng(0)
    views = [rng.normal(size=(60, width)) + np.arange(60)[:, None] % 3 for width in (5, 4)]
    settings = {"n_clusters": 3, "hidden": (8,), "n_init": 1, "epochs": 1, "device": "cpu", "random_state": 0}
    ACOVA.from_settings(**settings, pretrain_epochs=1, warmup_epochs=1).fit(views)
    model = ACOVA.from_settings(**settings, pretrain_epochs=1, warmup_epochs=1)
    stack: list[FrameType] = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            frames = list(stack_of(sys._getframe(1)))
            if getattr(func, "__name__", "") in PRODUCTS and any(of_network(frame, package) for frame in frames):
                stack.extend(frames)
                raise _Reached
            return func(*args, **(kwargs or {}))

    entered = set()

    def enter(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and is_within(frame, package):
            entered.add(frame.f_code.co_filename)

    sys.setprofile(enter)
    try:
        with Watch():
            model.fit_predict(views)
    except _Reached:
        pass
    finally:
        sys.setprofile(None)
    names = [frame.f_code.co_name for frame in stack]
    stack = stack[: names.index("fit_predict") + 1]
    return Way(sum(is_within(frame, package) for frame in stack), len(stack), len(entered))


SECONDS = """
from time import process_time
start = process_time()
from acova import ACOVA
imported = process_time()
import numpy as np
views = [np.random.default_rng(v).normal(size=(300, 40)) + np.arange(300)[:, None] % 3 for v in range(2)]
settings = {"hidden": (64,), "n_init": 1, "epochs": 20, "device": "cpu", "random_state": 0}
model = ACOVA.from_settings(3, **settings, pretrain_epochs=20, warmup_epochs=10)
begun = process_time()
model.fit(views)
print(imported - start, process_time() - begun)
"""


def cpu_seconds(package: Path) -> tuple[float, float]:
    """Return the least CPU seconds, of three processes each, of importing `ACOVA` and of a small fit on one thread."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SECONDS]
    runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(3)]
    imports, fits = zip(*(map(float, done.stdout.split()) for done in runs), strict=True)
    return min(imports), min(fits)


def stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that called it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_within(frame: FrameType, folder: Path) -> bool:
    """Tell whether a frame runs code of a folder."""
    return Path(frame.f_code.co_filename).is_relative_to(folder)


def of_network(frame: FrameType, package: Path) -> bool:
    """Tell whether a frame runs code of a network."""
    return is_within(frame, package / "networks")


def main() -> None:
    """Print all counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, nargs="?", default=Path(__file__).parents[1], help="a checkout")
    source = parser.parse_args().checkout.resolve() / "src"
    package = source / "acova"
    sys.path.insert(0, str(source))
    warnings.simplefilter("ignore")  # one epoch converges nowhere
    counts = list(rooms(package))
    for room, files, lines in counts:
        print(f"{room:20s} {files:4d} files {lines:7,d} lines")
    print(f"{'all':20s} {sum(f for _, f, _ in counts):4d} files {sum(n for *_, n in counts):7,d} lines")
    longest = max(package.rglob("*.py"), key=count_lines)
    print(f"longest file: {longest.relative_to(package)}, {count_lines(longest)} lines")
    print(f"type: ignore: {count_matches(package, '# type: ignore')}")

    from acova import ACOVA, Training
    from acova.estimators.registry import METHODS

    assert Path(inspect.getfile(ACOVA)).is_relative_to(package), f"acova is not that of {package}"
    functions, attributes = hooks()
    print(f"hooks of a method: {len(functions)} functions ({', '.join(functions)})")
    print(f"                   {len(attributes)} attributes ({', '.join(attributes)})")
    print(f"keywords: ACOVA {len(keywords(ACOVA))}, Training {len(keywords(Training))}")
    print(f"depth of classes: {max(depth(METHODS[name]) for name in METHODS)}")
    way = way_to_the_first_product(package)
    print(f"frames from fit_predict to the first product: {way.package_frames} of the package, {way.frames} of all")
    print(f"files of the package entered until then: {way.files}")
    print("CPU seconds: import {:.2f}, small fit {:.2f}".format(*cpu_seconds(package)))


if __name__ == "__main__":
    main()
