"""Compare the results of two checkouts bit for bit on this machine.

    git worktree add ../before main
    python benchmarks/identity.py ../before . --methods ACOVA MoE

Every method, or those that are named, is fitted for a few epochs in both checkouts: on 300 samples of the digits with
half of the views hidden, and on a toy of two Gaussian views with four groups, each with seeds 0 and 1. Each checkout is
a process of its own that imports ``<checkout>/src``. Compared are labels, probabilities, the latent space, weights of
the views, all learned tensors (the parameters of every network), predictions for the same samples under another mask,
and the history. One line per recipe and variant of a method says "same", or what differs first. The program exits with
1 if anything differs.
"""

import argparse
import json
import os
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SEEDS = (0, 1)
RECIPES = ("shared", "robust", "paper")
SHORT: dict[str, Any] = {
    **{"pretrain_epochs": 3, "warmup_epochs": 3, "epochs": 4, "checkpoint_every": 2},
    **{"imputer_epochs": 3, "initial_epochs": 2, "iterations": 6},
    **{"hidden": (64, 32), "n_init": 2, "device": "cpu"},
}
"""Settings of every fit, as far as a method has them; all others keep their defaults, and recipes their widths."""
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "ACOVA": [
        {"recipe": "robust", "correlation_start": "similarity", "n_correlations": 2, "latent_dim": 4, "patience": 1},
        {"recipe": "robust", "cluster_start": "neighbors", "correlation": "identity", "missing": "marginal"},
        {"recipe": "robust", "view_weights": "agreement", "assignment": "exact", "likelihood": "laplace"},
        {"consensus": False, "precision": "bf16", "standardize": "unit", "likelihood": "bernoulli"},
    ],
    "DVIMC": [{"likelihood": "bernoulli", "standardize": "unit"}],
    "MVP": [{"consensus": True, "output": "sigmoid", "standardize": "unit"}],
    "DCP": [{"graph": "complete", "drop_last": True}],
    "DSIMVC": [{"refresh_every": 2, "drop_last": True}],
    "CPSPAN": [{"impute": "zero_code", "consensus": True}, {"oracle_leak": True, "drop_last": True}],
    "PMIMC": [{"impute": "zero_code", "consensus": True}, {"oracle_leak": True, "drop_last": True}],
}
"""Settings of more fits of some methods."""

# --- in a checkout ------------------------------------------------------------------------------


def cases_of(name: str, known: set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the settings of each fit of a method: its recipes, if it has any, and its variants."""
    settings = {option: value for option, value in SHORT.items() if option in known}
    if "recipe" in known:
        settings.pop("hidden")
        yield from ((f"{name} {recipe}", {**settings, "recipe": recipe}) for recipe in RECIPES)
    else:
        yield name, settings
    for variant in VARIANTS.get(name, []):
        words = " ".join(f"{option}={value}" for option, value in variant.items())
        yield f"{name} {words}", {**settings, **variant}


def data_sets() -> Iterator[tuple[str, Any, np.ndarray, np.ndarray, int]]:
    """Yield the name, the complete views, two masks and the number of clusters of each data set."""
    from acova import Views
    from acova.data import load_dataset, make_observed

    digits = load_dataset("digits").views.take(range(300))
    rng = np.random.default_rng(0)
    groups = np.arange(160) % 4
    gaussian = Views.of([3 * rng.normal(size=(4, width))[groups] + rng.normal(size=(160, width)) for width in (6, 9)])
    for name, views, count in (("digits", digits, 10), ("toy", gaussian, 4)):
        first, other = (make_observed(len(views), views.n_views, 0.5, random_state=seed) for seed in (0, 1))
        yield name, views, first, other, count


def results_of(model: Any, views: Any, other: np.ndarray) -> dict[str, np.ndarray]:
    """Return all that a fit found as arrays."""
    names = ("labels_", "probabilities_", "latent_", "view_weights_", "agreement_", "objectives_", "view_trust_")
    found = {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)}
    found |= {f"tensor {name}": value.numpy() for name, value in model._packed()[0].items()}
    for word in ("predict", "predict_proba", "transform"):
        if hasattr(model, word):
            found[word] = np.asarray(getattr(model, word)(views, observed=other))
    if hasattr(model, "network_"):
        found["score"] = np.array(model.score(views, observed=other))
    columns = getattr(model, "history_", {})
    return found | {f"history {name}": columns[name].to_numpy() for name in columns}


def fit_all(methods: list[str], folder: Path) -> None:
    """Fit the methods and write what each fit found, or its error, to files."""
    from acova.estimators import list_methods, make_method

    warnings.simplefilter("ignore")  # a few epochs converge nowhere
    for name in methods or list_methods():
        try:
            known = set(make_method(name).get_params()) | set(getattr(make_method(name), "get_settings", dict)())
            cases = list(cases_of(name, known))
        except Exception:
            write(folder, name, "", 0, error=traceback.format_exc())
            continue
        for case, settings in cases:
            for data_set, views, observed, other, count in data_sets():
                for seed in SEEDS:
                    try:
                        model = make_method(name, n_clusters=count, random_state=seed, **settings)
                        model.fit(views, observed=observed)
                        write(folder, case, data_set, seed, results_of(model, views, other))
                    except Exception:
                        write(folder, case, data_set, seed, error=traceback.format_exc())


def write(folder: Path, case: str, data_set: str, seed: int, found: Any = None, error: str = "") -> None:
    """Write what a fit found, in the order of the fits."""
    number = len(list(folder.glob("*.json")))
    np.savez(folder / f"{number:04d}.npz", **{key.replace("/", "|"): value for key, value in (found or {}).items()})
    head = {"case": case, "data": data_set, "seed": seed, "error": error}
    (folder / f"{number:04d}.json").write_text(json.dumps(head))


# --- between the checkouts ----------------------------------------------------------------------


def read(folder: Path) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Return what every fit found, by case, data set and seed."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        head = json.loads(path.read_text())
        with np.load(path.with_suffix(".npz"), allow_pickle=True) as arrays:
            found[head["case"], head["data"], head["seed"]] = {"error": head["error"], **arrays}
    return found


def difference(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    """Return in words what differs first between two fits; an empty text where nothing does."""
    errors = [("" if fit is None else fit["error"]).strip().splitlines()[-1:] for fit in (one, other)]
    if any(errors):
        which = "both" if all(errors) else "the first" if errors[0] else "the second"
        return f"fails in {which}: {(errors[0] or errors[1])[0]}"
    if one is None or other is None:
        return "is missing in " + ("the first" if one is None else "the second")
    if one.keys() != other.keys():
        return f"only one of them has {sorted(one.keys() ^ other.keys())[:4]}"
    names = [name for name in one if name != "error" and not same(one[name], other[name])]
    if any(name.startswith("history ") for name in names):
        return difference_of_histories(one, other)
    return f"the history is the same, but {', '.join(names[:4])} differ" if names else ""


def difference_of_histories(one: dict[str, Any], other: dict[str, Any]) -> str:
    """Return in words from which phase and epoch on two histories differ."""
    names = [name for name in one if name.startswith("history ")]
    rows = list(zip(*(zip(one[name], other[name], strict=False) for name in names), strict=True))
    for row in rows:
        for name, pair in zip(names, row, strict=True):
            if not same(*pair):
                phase, epoch = (dict(zip(names, row, strict=True))[f"history {word}"][0] for word in ("phase", "epoch"))
                what = name.removeprefix("history ")
                return f"{what} differs from phase {phase!r}, epoch {epoch} on: {pair[0]} and {pair[1]}"
    return f"one of them has more than {len(rows)} epochs"


def same(one: Any, other: Any) -> bool:
    """Return whether two arrays are the same, bit for bit; all NaN are alike."""
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return bool((one == other).all())
    signs = np.signbit(one) == np.signbit(other)
    return bool(np.array_equal(one, other, equal_nan=True) and (signs | np.isnan(one)).all())


def run(checkouts: list[Path], methods: list[str], folder: Path) -> list[dict[tuple[str, str, int], dict[str, Any]]]:
    """Fit in both checkouts at the same time, and return what they found."""
    folders, processes = [folder / str(number) for number in range(2)], []
    for checkout, place in zip(checkouts, folders, strict=True):
        source = checkout.resolve() / "src"
        place.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "ACOVA_JOBS": "1"}
        command = [sys.executable, __file__, "--fit", str(place), str(source), "--methods", *methods]
        processes.append(subprocess.Popen(command, env=environment))
    codes = [process.wait() for process in processes]
    if any(codes):
        msg = "identity.py: a process that fits failed; see above."
        raise SystemExit(msg)
    return [read(place) for place in folders]


def main() -> None:
    """Compare two checkouts, or fit in one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", type=Path, nargs=2, help="two folders with the library's code in src/")
    parser.add_argument("--methods", nargs="*", default=[], help="names; default: all")
    parser.add_argument("--fit", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        import acova

        place, source = arguments.checkouts
        assert Path(acova.__file__).is_relative_to(source), f"{acova.__file__} is not in {source}"
        fit_all(arguments.methods, place)
        return
    with TemporaryDirectory() as folder:
        first, second = run(arguments.checkouts, arguments.methods, Path(folder))
    texts: dict[str, dict[str, list[str]]] = {}
    for case, data_set, seed in dict.fromkeys([*first, *second]):
        text = difference(*(found.get((case, data_set, seed)) for found in (first, second)))
        texts.setdefault(case, {}).setdefault(text, []).append(f"{data_set} {seed}")
    for case, found in texts.items():
        differing = [f"{text} ({', '.join(where)})" for text, where in found.items() if text]
        print(f"{case:16s} {'; '.join(differing) or 'same'}")
    raise SystemExit(int(any(set(found) - {""} for found in texts.values())))


if __name__ == "__main__":
    main()
