"""Peak memory of the methods that compare samples with each other, on 70,000 samples of two views.

    ACOVA_DATA=… python benchmarks/memory.py
    ACOVA_DATA=… python benchmarks/memory.py --device cuda

noisymnist, half of the samples incomplete, one epoch or five steps of every phase with a small network; what is large
is the search for neighbours, of all samples among all. A matrix of all pairs would take 19.6 GB. Each method has
a process of its own.
"""

import argparse
import resource
import subprocess
import sys
import time

METHODS = ("DCP", "DSIMVC", "CPSPAN", "PMIMC")
SHORT = {
    "hidden": (64,),
    "latent_dim": 10,
    "batch_size": 512,
    "iterations": 5,
    **dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs", "imputer_epochs", "initial_epochs"), 1),
}


def measure(name: str, device: str) -> None:
    """Fit and predict, and print seconds and the largest memory of this process and of the GPU."""
    import torch

    from acova.data import load_dataset, make_observed
    from acova.estimators.registry import METHODS as known_methods

    dataset = load_dataset("noisymnist")
    observed = make_observed(len(dataset.views), 2, 0.5, "uniform_size", 0)
    loaded = _peak()
    known = known_methods[name].setting_names()
    settings = {option: value for option, value in SHORT.items() if option in known}
    model = known_methods[name].from_settings(dataset.n_classes, **settings, random_state=0, device=device)
    start = time.perf_counter()
    model.fit(dataset.views, observed=observed)
    fitted = time.perf_counter()
    model.predict(dataset.views, observed=observed)
    predicted = time.perf_counter()
    gpu = f", on the GPU {torch.cuda.max_memory_allocated() / 1e6:.0f} MB" if device == "cuda" else ""
    print(
        f"{name}: fit {fitted - start:.0f} s, predict {predicted - fitted:.0f} s, "
        f"peak {_peak():.0f} MB, of which {loaded:.0f} MB before the fit{gpu}",
        flush=True,
    )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--here", action="store_true", help="measure in this process")
    arguments = parser.parse_args()
    for name in arguments.methods:
        if arguments.here:
            measure(name, arguments.device)
        else:
            subprocess.run([sys.executable, __file__, name, "--here", "--device", arguments.device], check=True)


if __name__ == "__main__":
    main()
