"""Every reader meets damaged files: it returns the data or an error of this package, soon and in bounded memory.

Reading happens in a process of its own, since a hang or a crash inside a package would otherwise end the tests.
``ACOVA_FUZZ`` is the number of damaged files per reader; ``soak`` is what a longer run calls.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.io

CASES = int(os.environ.get("ACOVA_FUZZ", "16"))
SECONDS = 30
MEMORY = 4 * 2**30
"""Bytes of address space that a reader may take beyond what the packages take."""
RNG = np.random.default_rng(0)
WIDE, SLIM = RNG.normal(size=(40, 6)), RNG.normal(size=(40, 3)).astype(np.float32)
LABELS = np.arange(40) % 4
NAMES = [f"sample {i:02d}" for i in range(40)]
FRAME = pd.DataFrame(WIDE, index=pd.Index(NAMES, name="id"), columns=[f"gene {c}" for c in "abcdef"])


def write_xlsx(path):
    with pd.ExcelWriter(path) as book:
        FRAME.to_excel(book, sheet_name="left")
        FRAME.iloc[:, :2].to_excel(book, sheet_name="right")


def write_mat(path):
    cells = np.empty((1, 2), dtype=object)
    cells[0, :] = [WIDE, SLIM]
    scipy.io.savemat(path, {"X": cells, "Y": LABELS[:, None]}, do_compression=True)


def write_mat_73(path):
    import h5py

    with h5py.File(path, "w", userblock_size=512) as file:
        file["X1"], file["X2"], file["Y"] = WIDE.T, SLIM.T, LABELS[None]
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")


def write_h5(path):
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("omics/rna", data=WIDE, chunks=(20, 3), compression="gzip", fletcher32=True)
        file["omics/protein"], file["labels"], file["index"] = SLIM, LABELS, NAMES


def write_h5ad(path):
    import anndata
    import scipy.sparse

    anndata.AnnData(scipy.sparse.csr_matrix(WIDE), obs=pd.DataFrame(index=NAMES), obsm={"space": SLIM}).write(path)


def write_h5mu(path):
    import anndata
    import mudata

    obs = pd.DataFrame(index=NAMES)
    mudata.MuData({"rna": anndata.AnnData(WIDE, obs=obs), "adt": anndata.AnnData(SLIM, obs=obs)}).write(path)


def write_npy(path):
    path.mkdir()
    np.save(path / "left.npy", WIDE)
    np.save(path / "right.npy", SLIM)
    np.save(path / "observed.npy", np.ones((40, 2), dtype=bool))


def write_zarr(path):
    import zarr

    path.mkdir()
    for name, array in (("left", WIDE), ("right", SLIM)):
        zarr.create_array(str(path / f"{name}.zarr"), shape=array.shape, chunks=(20, 3), dtype=array.dtype)[:] = array


def write_zip(path):
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("left.csv", FRAME.to_csv())
        archive.writestr("right.tsv", FRAME.iloc[:, :2].to_csv(sep="\t"))


def write_mtx(path):
    import scipy.sparse

    path.mkdir()
    scipy.io.mmwrite(path / "matrix.mtx", scipy.sparse.coo_matrix(np.round(WIDE).T), field="integer")
    (path / "barcodes.tsv").write_text("\n".join(NAMES))
    (path / "features.tsv").write_text("".join(f"id{c}\tgene {c}\t{'ab'[c > 'c']}\n" for c in "abcdef"))


def write_tenx(path):
    import h5py
    import scipy.sparse

    counts = scipy.sparse.csr_matrix(np.round(WIDE).astype(np.int32))
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        group["data"], group["indices"], group["indptr"] = counts.data, counts.indices, counts.indptr
        group["shape"], group["barcodes"] = np.array([6, 40]), np.array(NAMES, dtype="S")
        group["features/id"] = group["features/name"] = np.array(list("abcdef"), dtype="S")
        group["features/feature_type"] = np.array(list("aaabbb"), dtype="S")


def write_parquet_folder(path):
    path.mkdir()
    pd.DataFrame(SLIM, columns=list("abc")).to_parquet(path / "left.parquet", row_group_size=15)


READERS = {
    "csv": ("a.csv", FRAME.to_csv, False),
    "csv.gz": ("a.csv.gz", FRAME.to_csv, True),
    "csv.zip": ("a.csv.zip", FRAME.to_csv, True),
    "zip": ("a.zip", write_zip, False),
    "mtx": ("mtx", write_mtx, False),
    "10x h5": ("tenx.h5", write_tenx, False),
    "tsv": ("a.tsv", lambda path: FRAME.to_csv(path, sep="\t"), False),
    "xlsx": ("a.xlsx", write_xlsx, True),
    "parquet": ("a.parquet", FRAME.to_parquet, False),
    "feather": ("a.feather", lambda path: FRAME.reset_index().to_feather(path), False),
    "npz": (
        "a.npz",
        lambda path: np.savez_compressed(path, view_0=WIDE, view_1=SLIM, labels=LABELS, index=np.array(NAMES)),
        True,
    ),
    "npy": ("npy", write_npy, False),
    "mat 5": ("five.mat", write_mat, False),
    "mat 7.3": ("seven.mat", write_mat_73, False),
    "h5": ("a.h5", write_h5, False),
    "h5ad": ("a.h5ad", write_h5ad, False),
    "h5mu": ("a.h5mu", write_h5mu, False),
    "zarr": ("zarr", write_zarr, False),
    "streamed npy": ("npy", write_npy, False),
    "streamed zarr": ("zarr", write_zarr, False),
    "streamed parquet": ("parquet", write_parquet_folder, False),
}
"""Reader → name of its file or folder, how it is written, and whether its checksums cover all that is read."""


def read(reader, path):
    """Return everything that is read from a file, in a form that can be compared."""
    from acova.data import StoredViews, read_views

    if reader.startswith("streamed"):
        blocks = list(StoredViews.of(path).blocks(13))
        names, columns = blocks[0].names, blocks[0].columns
        return names, columns, [np.vstack([block.arrays[v] for block in blocks]) for v in range(len(names))]
    dataset = read_views(path)
    views = dataset.views
    return views.names, views.columns, [*views.arrays, views.observed, views.index.to_numpy(), dataset.labels]


def equal(one, other):
    return one[:2] == other[:2] and all(
        np.array_equal(a, b, equal_nan=a is not None and a.dtype.kind == "f") and type(a) is type(b)
        for a, b in zip(one[2], other[2], strict=True)
    )


def damaged(content, rng, case):
    """Return content that was cut off, with one flipped bit, with a block of zeros or noise, or noise alone."""
    content = bytearray(content)
    place = int(rng.integers(max(len(content), 1)))
    kind = ("bit", "cut", "bit", "block", "bit", "zeros", "noise", "bit")[case % 8]
    if kind == "cut":
        return bytes(content[:place])
    if kind == "noise":
        return rng.bytes(int(rng.integers(2000)))
    if kind == "bit" and content:
        content[place] ^= 1 << int(rng.integers(8))
    else:
        width = min(len(content) - place, int(rng.integers(1, 64)))
        content[place : place + width] = bytes(width) if kind == "zeros" else rng.bytes(width)
    return bytes(content)


def damage(path, rng, case):
    """Damage a file, or one file of a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    file = files[int(rng.integers(len(files)))]
    file.write_bytes(damaged(file.read_bytes(), rng, case))


def outcome(reader, path, expected):
    from acova.base import AcovaError

    signal.alarm(SECONDS)  # no handler: what hangs is ended, also inside a package
    try:
        return "same" if equal(read(reader, path), expected) else "different"
    except AcovaError:
        return "refused"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.alarm(0)


def work(folder, first, cases, begin=0):
    """Read damaged files from the job `first` on, and print what became of each."""
    warnings.simplefilter("ignore")
    whole, scratch = Path(folder) / "whole", Path(folder) / "damaged"
    expected = {name: read(name, whole / READERS[name][0]) for name in READERS if name != "csv.gz" or reads_gzip()}
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    jobs = [(name, case) for name in expected for case in range(begin, begin + cases)]
    for number, (name, case) in enumerate(jobs[first:], start=first):
        say(number, name, case, None)
        path = scratch / READERS[name][0]
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        source = whole / READERS[name][0]
        shutil.copytree(source, path) if source.is_dir() else shutil.copy(source, path)
        damage(path, np.random.default_rng([len(name), *name.encode(), case]), case)
        say(number, name, case, outcome(name, path, expected[name]))


def say(*words):
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def reads_gzip():
    from acova.data.files import tables

    return hasattr(tables, "table_ending")


def write_all(whole):
    whole.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for file, write, _ in READERS.values():
            if not (whole / file).exists():
                write(whole / file)


def soak(folder, cases, begin=0):
    """Read `cases` damaged files with every reader; return Counters, reader → outcome → number, and what went wrong.

    The files are damaged at random, by the number of the case, of which `begin` is the first.
    """
    if not (Path(folder) / "whole").exists():
        write_all(Path(folder) / "whole")
    counts, wrong, first = {}, [], 0
    while True:
        command = [sys.executable, __file__, str(folder), str(first), str(cases), str(begin)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        for _, name, case, result in lines:
            if result is not None:
                note(counts, wrong, name, case, result)
        if done.returncode == 0:
            return counts, wrong
        if not lines or lines[-1][3] is not None:
            raise RuntimeError(done.stderr)
        number, name, case, _ = lines[-1]
        end = "hung" if done.returncode == -signal.SIGALRM else f"crashed ({done.returncode})"
        note(counts, wrong, name, case, end)
        first = number + 1


def note(counts, wrong, name, case, result):
    usual = ("same", "refused", "different")
    counts.setdefault(name, Counter())[result if result in usual else result.split("(")[0].split(":")[0].strip()] += 1
    if result not in usual or (result == "different" and READERS[name][2]):
        wrong.append(f"{name}, case {case}: {result}")


def markdown(counts):
    """Return the counts as a table in Markdown."""
    extra = sorted({result for count in counts.values() for result in count} - {"same", "refused", "different"})
    heads = ["same", "refused", "different", *extra]
    rows = ["| reader | files | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
    for name, count in counts.items():
        rows.append(f"| {name} | {count.total()} | " + " | ".join(str(count[head]) for head in heads) + " |")
    return "\n".join(rows)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory and time as on Linux")
def test_damaged_files_are_read_right_or_refused(tmp_path):
    for package in ("anndata", "h5py", "mudata", "openpyxl", "pyarrow", "zarr"):
        pytest.importorskip(package)
    counts, wrong = soak(tmp_path, CASES)
    assert markdown(counts).count("\n") == len(counts) + 1
    assert all(count.total() == CASES for count in counts.values())
    assert not wrong


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
