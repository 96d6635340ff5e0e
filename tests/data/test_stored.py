import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib import format as npy_format

from acova.base import DataError, OptionError
from acova.data import StoredViews, Views, make_observed
from acova.data.stored import is_stored

N = 137
ROW_GROUPS = (50, 1, 36, 50)
NAN = np.nan
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def example(seed=0):
    """Two views in float32 and float64, each with missing rows, and a mask that hides junk as well."""
    rng = np.random.default_rng(seed)
    arrays = {"a": rng.normal(size=(N, 4)).astype(np.float32), "b": rng.gamma(2.0, size=(N, 3))}
    present = make_observed(N, 2, 0.5, random_state=seed)
    mask = present | ~make_observed(N, 2, 0.5, random_state=seed + 1)
    mask[present.all(axis=1)] = make_observed(int(present.all(axis=1).sum()), 2, 0.5, random_state=seed + 2)
    for array, seen in zip(arrays.values(), present.T, strict=True):
        array[~seen] = NAN
    junk = np.flatnonzero(~mask[:, 0])[:3]
    arrays["a"][junk, 1] = [NAN, np.inf, 1e30]
    return arrays, mask


ARRAYS, MASK = example()


def write_parquet(path, table):
    with pq.ParquetWriter(path, table.schema) as writer:
        for size, end in zip(ROW_GROUPS, np.cumsum(ROW_GROUPS), strict=True):
            writer.write_table(table.slice(end - size, size))
    return path


def as_table(array):
    return pa.table({f"f{c}": pa.array(array[:, c], from_pandas=True) for c in range(array.shape[1])})


def npy_path(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return str(folder / f"{name}.npy")


def memmap(folder, name, array):
    return np.load(npy_path(folder, name, array), mmap_mode="r")


def raw_memmap(folder, name, array):
    (folder / f"{name}.raw").write_bytes(b"seven b" + array.tobytes())
    return np.memmap(folder / f"{name}.raw", array.dtype, "r", offset=7, shape=array.shape)


def rows_of_memmap(folder, name, array):
    return memmap(folder, name, np.vstack([array[:7], array, array[:2]]))[2:][5:-2]


def columns_of_memmap(folder, name, array):
    return memmap(folder, name, np.hstack([array, array]))[:, array.shape[1] :]


def fortran_memmap(folder, name, array):
    return memmap(folder, name, np.asfortranarray(array))


def changed_memmap(folder, name, array):
    part = np.load(npy_path(folder, name, np.zeros_like(array)), mmap_mode="c")
    part[:] = array
    return part


def zarr_path(folder, name, array):
    return Path(zarr_array(folder, name, array).store_path.store.root)


def zarr_array(folder, name, array):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(str(folder / f"{name}.zarr"), shape=array.shape, chunks=(20, 2), dtype=array.dtype)
    stored[:] = array
    return stored


class Dataset:
    """What an HDF5 data set offers."""

    chunks = None

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, rows):
        return self._array[rows].copy()


def hdf5_like(folder, name, array):
    return Dataset(array)


def parquet_path(folder, name, array):
    return write_parquet(folder / f"{name}.parquet", as_table(array))


def parquet_file(folder, name, array):
    return pq.ParquetFile(parquet_path(folder, name, array))


def pandas_parquet(folder, name, array):
    frame = pd.DataFrame(array, index=[f"sample {i}" for i in range(N)]).rename(columns="f{}".format)
    frame.to_parquet(folder / f"{name}.parquet", row_group_size=30)
    return folder / f"{name}.parquet"


MAPPED = (memmap, raw_memmap, rows_of_memmap, columns_of_memmap, fortran_memmap, changed_memmap)
OTHERS = (npy_path, zarr_path, zarr_array, hdf5_like, parquet_path, parquet_file, pandas_parquet)
KINDS = {kind.__name__: kind for kind in (*MAPPED, *OTHERS)}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Source kind → parts, made once."""
    held = {}

    def make(kind):
        if kind not in held:
            folder = tmp_path_factory.mktemp(kind)
            held[kind] = {name: KINDS[kind](folder, name, array) for name, array in ARRAYS.items()}
        return held[kind]

    return make


def in_memory(parts):
    named = {
        name: tuple(f"f{c}" for c in range(ARRAYS[name].shape[1])) if "parquet" in str(part).lower() else None
        for name, part in parts.items()
    }
    views = Views.of(ARRAYS, MASK)
    return Views(views.arrays, views.observed, views.names, columns=tuple(named.values()))


def assert_same(views, expected):
    assert type(views) is Views
    np.testing.assert_array_equal(views.observed, expected.observed)
    for array, other in zip(views.arrays, expected.arrays, strict=True):
        np.testing.assert_array_equal(array, other)
        assert array.dtype == other.dtype
    assert (views.names, views.sizes, views.columns) == (expected.names, expected.sizes, expected.columns)
    assert views.index.tolist() == expected.index.tolist()


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(data=st.data())
def test_any_rows_of_any_source_are_those_in_memory(sources, kind, data):
    parts = sources(kind)
    assert is_stored(parts)
    assert is_stored(list(parts.values()))
    stored, expected = StoredViews.of(parts, MASK), in_memory(parts)
    assert (stored.names, stored.sizes, stored.columns) == (expected.names, expected.sizes, expected.columns)
    assert (stored.n_samples, len(stored), stored.n_views) == (N, N, 2)
    start = data.draw(st.integers(0, N))
    stop = data.draw(st.integers(start, N))
    views = stored.read(start, stop)
    assert views.index.equals(pd.RangeIndex(start, stop))
    assert_same(views, expected.take(slice(start, stop)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 20, 49, N - 1, N, 10**6])
def test_blocks_cover_every_sample_once_in_order(sources, kind, size):
    parts = sources(kind)
    blocks = list(StoredViews.of(parts, MASK).blocks(np.int64(size)))
    assert [len(block) for block in blocks] == [min(size, N - start) for start in range(0, N, size)]
    expected = in_memory(parts)
    for start, block in zip(range(0, N, size), blocks, strict=True):
        assert_same(block, expected.take(slice(start, start + size)))


def test_kinds_and_plain_arrays_mix_in_a_list(sources, tmp_path):
    plain = np.ma.array(np.arange(2.0 * N).reshape(N, 2), mask=np.arange(2 * N).reshape(N, 2) % 20 < 2)
    parts = [sources("npy_path")["a"], plain, None, sources("zarr_array")["b"], plain.filled(0).astype(int).tolist()]
    stored = StoredViews.of(parts)
    assert stored.names == ("view_0", "view_1", "view_3", "view_4")
    mask = np.column_stack([MASK[:, 0], np.ones(N), MASK[:, 1], np.ones(N)])
    expected = Views.of([ARRAYS["a"], plain, None, ARRAYS["b"], plain.filled(0).astype(int)], mask)
    assert_same(StoredViews.of(parts, mask).read(10, 90), expected.take(slice(10, 90)))


@pytest.mark.parametrize("kind", ["npy_path", "memmap", "parquet_path", "zarr_path", "hdf5_like"])
@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "i4", "i8", "f2", "f4", ">f4", "f8", ">i2"])
def test_numbers_of_any_type_become_floats_as_in_memory(tmp_path, kind, dtype):
    given = (np.arange(3 * N).reshape(N, 3) % 2).astype(dtype)
    given = given.astype(given.dtype.newbyteorder("=")) if kind == "parquet_path" else given
    array = StoredViews.of([KINDS[kind](tmp_path, "a", given)]).read(3, 60).arrays[0]
    expected = Views.of([given]).arrays[0]
    assert array.dtype == expected.dtype
    np.testing.assert_array_equal(array, expected[3:60])


def test_null_rows_of_parquet_are_missing_whatever_the_types_of_the_columns(tmp_path):
    table = pa.table(
        {
            "whole": pa.array([None if i % 3 == 0 else i for i in range(N)], pa.int64()),
            "truth": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(N)]),
            "half": pa.array([None if i % 3 == 0 else np.float16(0.5) for i in range(N)], pa.float16()),
        }
    )
    stored = StoredViews.of({"t": write_parquet(tmp_path / "t.parquet", table), "full": np.ones((N, 1))})
    assert stored.columns == (("whole", "truth", "half"), None)
    number = np.arange(N)
    expected = np.column_stack([number, number % 2 == 0, np.full(N, 0.5)])
    expected[::3] = NAN
    for block in stored.blocks(25):  # blocks with and without nulls have one type
        np.testing.assert_array_equal(block.arrays[0], expected[block.index])
        assert block.arrays[0].dtype == np.float64


def test_parquet_columns_of_one_name_are_all_features(tmp_path):
    table = pa.Table.from_arrays([pa.array(np.arange(N) * k) for k in (1.0, 2.0, 3.0)], names=["x", "x", "x.y"])
    array = StoredViews.of([write_parquet(tmp_path / "t.parquet", table)]).read(40, 60).arrays[0]
    np.testing.assert_array_equal(array, np.outer(np.arange(40, 60), [1, 2, 3]))


@pytest.mark.parametrize("kind", ["parquet_path", "parquet_file"])
def test_a_row_group_is_decoded_once_for_consecutive_blocks(sources, kind, monkeypatch):
    decoded = []
    read = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *a, **k: decoded.append(a[1]) or read(*a, **k))
    for _ in StoredViews.of([sources(kind)["b"], np.ones((N, 1))]).blocks(7):
        pass
    assert decoded == [0, 1, 2, 3]


def test_what_is_read_is_not_the_cache(sources):
    stored = StoredViews.of({"b": sources("parquet_path")["b"], "one": np.ones((N, 1))})
    before = stored.read(0, 20).arrays[0].copy()
    stored.read(0, 20).arrays[0][:] = 5.0
    np.testing.assert_array_equal(stored.read(0, 20).arrays[0], before)


def test_the_mask_may_be_an_array_a_mapping_a_path_or_a_frame(sources, tmp_path):
    parts, expected = sources("npy_path"), in_memory({"a": 0, "b": 0}).take(slice(30, 99))
    np.save(tmp_path / "mask.npy", MASK)
    np.save(tmp_path / "ones.npy", MASK.astype(np.uint8))
    frame = pd.DataFrame(MASK, columns=["a", "b"]).iloc[::-1, ::-1]
    mapped = np.load(tmp_path / "mask.npy", mmap_mode="r")
    for mask in (MASK, MASK.tolist(), frame, mapped, tmp_path / "mask.npy", str(tmp_path / "ones.npy")):
        assert_same(StoredViews.of(parts, mask).read(30, 99), expected)


def test_opened_views_pass_through_and_can_have_more_hidden(sources):
    stored = StoredViews.of(sources("npy_path"), MASK)
    assert is_stored(stored)
    assert StoredViews.of(stored) is stored
    more = make_observed(N, 2, 0.9, random_state=5)
    more[~stored.read(0, N).complete] = True
    expected = Views.of(ARRAYS, MASK).hide(more)
    assert_same(StoredViews.of(stored, more).read(0, N), expected)
    turned = stored.matched_to(("x", "b", "a"), (1, 3, 4), (None,) * 3)
    hidden = StoredViews.of(turned, np.column_stack([np.ones(N), more[:, ::-1]]))
    assert_same(hidden.read(5, 50), expected.matched_to(("x", "b", "a"), (1, 3, 4), (None,) * 3).take(slice(5, 50)))


def test_a_folder_is_its_entries(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "views").mkdir()
    folder = tmp_path / "views"
    np.save(folder / "b.npy", ARRAYS["b"])
    np.save(folder / "a.b.npy", np.ones((N, 1)))
    parquet_path(folder, "c", ARRAYS["a"])
    zarr_array(folder, "a", ARRAYS["a"])
    np.save(folder / "labels.npy", np.zeros(N))
    (folder / "labels.parquet").write_text("")
    (folder / ".b.npy").write_text("")
    (folder / "notes.txt").write_text("")
    mask = np.column_stack([MASK[:, 0], np.ones(N), MASK[:, 1], MASK[:, 0]]).astype(bool)
    np.save(folder / "observed.npy", mask)
    arrays = {"a": ARRAYS["a"], "a.b": np.ones((N, 1)), "b": ARRAYS["b"], "c": ARRAYS["a"]}
    expected = Views.of(arrays, mask)
    for X in (folder, str(folder)):
        assert is_stored(X)
        stored = StoredViews.of(X)
        assert stored.names == ("a", "a.b", "b", "c")
        assert stored.columns == (None, None, None, ("f0", "f1", "f2", "f3"))
        np.testing.assert_array_equal(stored.read(0, N).observed, expected.observed)
    more = np.ones((N, 4), dtype=bool)
    more[:, 0] = False
    np.testing.assert_array_equal(StoredViews.of(folder, more).read(0, N).observed, expected.observed & more)


def test_matched_to_follows_the_fitted_order_and_columns(sources):
    arrays, columns = (ARRAYS["a"], ARRAYS["b"]), (("f3", "f0", "f2", "f1"), None, ("f0", "f1", "f2"))
    frames = {n: pd.DataFrame(a).rename(columns="f{}".format) for n, a in zip("ab", arrays, strict=True)}
    names, sizes = ("a", "new", "b"), (4, 5, 3)
    stored = StoredViews.of(sources("parquet_path"), MASK).matched_to(names, sizes, columns)
    expected = Views.of(frames, MASK).matched_to(names, sizes, columns)
    assert (stored.names, stored.sizes, stored.columns, stored.n_views) == (names, sizes, columns, 3)
    for part in (stored.read(20, 100), stored.matched_to(names, sizes, columns).read(20, 100)):
        np.testing.assert_array_equal(part.observed, expected.observed[20:100])
        for array, other in zip(part.arrays, expected.arrays, strict=True):
            np.testing.assert_array_equal(array, other[20:100])
        assert (part.names, part.sizes, part.columns) == (names, sizes, columns)
    assert not part.observed[:, 1].any()


def test_columns_named_by_one_match_are_moved_by_the_next(sources):
    stored = StoredViews.of({"b": sources("npy_path")["b"], "one": np.ones((N, 1))})
    named = stored.matched_to(("b", "one"), (3, 1), (("p", "q", "r"), None))
    moved = named.matched_to(("one", "b"), (1, 3), (None, ("r", "p", "q")))
    np.testing.assert_array_equal(moved.read(9, 70).arrays[1], ARRAYS["b"][9:70, [2, 0, 1]])


@pytest.mark.parametrize(
    "layout",
    [
        (("a", "bb"), (4, 3), (None, None)),
        (("a", "b"), (4, 2), (None, None)),
        (("a", "b"), (4, 3), (("f0", "f1", "f2", "g"), None)),
    ],
)
def test_matched_to_refuses_what_views_refuse_in_the_same_words(sources, layout):
    frames = {name: pd.DataFrame(array).rename(columns="f{}".format) for name, array in ARRAYS.items()}
    with pytest.raises(DataError, match="fitted") as expected:
        Views.of(frames, MASK).matched_to(*layout)
    with pytest.raises(DataError) as found:
        StoredViews.of(sources("parquet_path"), MASK).matched_to(*layout)
    assert str(found.value) == str(expected.value)


def test_size_and_repr_tell_what_it_would_take(sources):
    stored = StoredViews.of(sources("npy_path"), MASK)
    assert stored.nbytes == sum(array.astype(np.float32).nbytes for array in ARRAYS.values())
    assert repr(stored) == "<StoredViews of 137 samples, 3.84e-06 GB as float32; a: 4, b: 3>"


def test_what_is_in_memory_is_not_stored(tmp_path):
    one = np.ones((3, 2))
    for X in (one, [one, one], {"a": one}, Views.of([one]), pd.DataFrame(one), [pd.DataFrame(one)], "words", ["words"]):
        assert not is_stored(X)
    for X in ([one, "a.npy"], ("a.zarr",), {"a": Path("a.parquet")}, "a.npy", tmp_path):
        assert is_stored(X)


def save(path, array):
    np.save(path, array)
    return path


def cut(path, by):
    np.save(path, np.ones((9, 2)))
    path.write_bytes(path.read_bytes()[:-by])
    return path


def text(path, words="not what the ending says"):
    path.write_text(words)
    return path


def names_first(path):
    pd.DataFrame({"patient": ["u", "v"], "x": [1.0, 2.0]}).to_parquet(path)
    return path


def broken_parquet(path):
    pd.DataFrame({"x": np.random.default_rng(0).normal(size=5000)}).to_parquet(path)
    whole = bytearray(path.read_bytes())
    whole[4:3000] = bytes(2996)
    path.write_bytes(whole)
    return path


def group(path):
    pytest.importorskip("zarr").open_group(str(path), mode="w")
    return path


def empty_folder(path):
    path.mkdir()
    return path


ONES = np.ones((3, 2))
UNUSABLE = {
    "rows": (
        lambda p: {"image": ONES, "text": save(p / "t.npy", np.ones((2, 2)))},
        r"View 'text' has 2 rows but view 'image' has 3; every stored view needs one row per sample, in the same order "
        r"\(there is no join on an index\)\. Mark an absent sample with an all-NaN row\.",
    ),
    "one axis": (lambda p: [save(p / "a.npy", np.ones(3))], r"View 'view_0' must be 2-D.*one column; got shape \(3,\)"),
    "no axis": (lambda p: [save(p / "a.npy", np.float32(3))], r"'view_0' must be 2-D.*got shape \(\)"),
    "three axes": (lambda p: [Dataset(np.ones((3, 2, 2)))], r"'view_0' must be 2-D.*got shape \(3, 2, 2\)"),
    "no columns": (lambda p: [save(p / "a.npy", np.ones((3, 0)))], r"at least one column; got shape \(3, 0\)"),
    "no rows": (lambda p: {"a": save(p / "a.npy", np.ones((0, 3)))}, "View 'a' has no rows.*at least one sample.*out"),
    "plain": (lambda p: ["a.npy", np.ones(3)][::-1], r"View 'view_0' must be a 2-D array.*got shape \(3,\)"),
    "missing": (lambda p: {"a": p / "a.npy"}, "View 'a': .*a.npy does not exist; give the path of a .npy, .zarr or"),
    "ending": (lambda p: {"a": text(p / "a.csv")}, "View 'a': .*a.csv has an ending that cannot be read; give the"),
    "cut": (
        lambda p: {"a": cut(p / "a.npy", 1)},
        r"'a': .*a.npy is cut off: its \(9, 2\) cells of float64 end at byte 272 but the file has 271\. Write or copy",
    ),
    "cut header": (lambda p: {"a": cut(p / "a.npy", 200)}, "View 'a': .*a.npy: not a readable .npy file .*write it"),
    "no npy": (lambda p: {"a": text(p / "a.npy")}, "View 'a': .*a.npy: not a readable .npy file .*magic"),
    "objects": (
        lambda p: {"a": save(p / "a.npy", np.array([[1, None]], dtype=object))},
        "View 'a': .*a.npy: .*holds Python objects, which are never unpickled; save numbers",
    ),
    "fortran": (
        lambda p: {"a": save(p / "a.npy", np.asfortranarray(ONES))},
        "View 'a': .*a.npy is in Fortran order.*scattered.*numpy.ascontiguousarray",
    ),
    "words": (lambda p: {"a": save(p / "a.npy", np.array([["u", "v"]]))}, "'a' holds values that are not numbers"),
    "records": (lambda p: {"a": save(p / "a.npy", np.zeros((2, 2), "f4,f4"))}, "'a' holds values that are not numbers"),
    "no parquet": (lambda p: {"a": text(p / "a.parquet")}, "View 'a': .*a.parquet: not a readable parquet file .*"),
    "damaged parquet": (lambda p: {"a": broken_parquet(p / "a.parquet")}, "'a': .*a.parquet: not a readable parquet"),
    "names": (
        lambda p: {"a": names_first(p / "a.parquet")},
        r"View 'a': column 'patient' is not numeric \(.*string\); every column is a feature and rows are matched by "
        r"position\. Drop it, encode it as numbers, or store it as the pandas index\.",
    ),
    "no zarr": (lambda p: {"a": text(p / "a.zarr")}, "View 'a': .*a.zarr: not a readable zarr array"),
    "zarr group": (lambda p: {"a": group(p / "a.zarr")}, r"View 'a': .*a.zarr is a zarr group; .*zarr.open\(path\)\["),
    "frame": (
        lambda p: {"a": save(p / "a.npy", ONES), "b": pd.DataFrame(ONES)},
        "View 'b' is a DataFrame beside stored views.*by position and not joined.*frame.to_numpy",
    ),
    "nothing": (lambda p: [], "StoredViews: no view was given; pass a list or dict with at least one part"),
    "number": (lambda p: 3, "StoredViews: expected a list or dict of parts, or the path of a folder; got int"),
    "one file": (lambda p: save(p / "a.npy", ONES), "a.npy is one view; give a folder with one file per view, or a li"),
    "no folder": (lambda p: p / "none", "StoredViews: .*none is not a folder; give a folder with one file per view"),
    "empty folder": (lambda p: empty_folder(p / "e"), "e: no .npy, .zarr or .parquet view in this folder.*read_views"),
    "same name": (
        lambda p: [save(p / "a.npy", ONES), text(p / "a.parquet")][0].parent,
        "two entries give the view 'a'; keep one of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_parts_are_refused_with_the_way_out(tmp_path, case):
    make, words = UNUSABLE[case]
    X = make(tmp_path)
    if "zarr" in case:
        pytest.importorskip("zarr")
    with pytest.raises(DataError, match=words):
        StoredViews.of(X)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (
            np.ones((3, 3), bool),
            r"observed must have one row per sample and one column per view, \(3, 2\); got \(3, 3\)",
        ),
        (np.ones((2, 2), bool), r"one column per view, \(3, 2\); got \(2, 2\)"),
        (np.ones(3, bool), r"one column per view, \(3, 2\); got \(3,\)"),
        (np.full((3, 2), 7), r"observed must hold True/False \(or 1/0\)"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_unusable_masks_are_refused(tmp_path, observed, words, stored):
    mask = save(tmp_path / "mask.npy", observed) if stored else observed
    with pytest.raises(DataError, match=words):
        StoredViews.of([Dataset(ONES), Dataset(ONES)], mask).read(0, 3)


@pytest.mark.parametrize(
    ("mask", "words"),
    [("none.npy", "observed: none.npy does not exist"), ("mask.csv", "observed: mask.csv has an end")],
)
def test_a_mask_that_cannot_be_opened_is_refused(mask, words):
    with pytest.raises(DataError, match=words):
        StoredViews.of([Dataset(ONES)], mask)


@pytest.mark.parametrize(("start", "stop"), [(-1, 5), (0, N + 1), (9, 8), (N + 1, N + 1)])
def test_rows_outside_are_refused(sources, start, stop):
    words = rf"rows {start} to {stop} are outside; start and stop must satisfy 0 <= start <= stop <= {N}\."
    with pytest.raises(DataError, match=words):
        StoredViews.of(sources("npy_path")).read(start, stop)


@pytest.mark.parametrize("size", [0, -3, 2.5])
def test_blocks_of_no_size_are_refused_at_once(sources, size):
    with pytest.raises(OptionError, match=r"StoredViews\.blocks: size must be an integer at least 1; got"):
        StoredViews.of(sources("npy_path")).blocks(size)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ((100, 2, -np.inf), "View 'a' has infinity in sample 100, column 2"),
        ((100, slice(None), NAN), "1 of 20 samples have no view at all, first: 100. .*drop it"),
    ],
)
def test_unusable_cells_are_named_by_the_number_of_the_sample(tmp_path, cell, words):
    array = np.ones((N, 4))
    row, column, value = cell
    array[row, column] = value
    stored = StoredViews.of({"a": save(tmp_path / "a.npy", array)})
    assert len(stored.read(0, 100)) == 100
    with pytest.raises(DataError, match=words):
        stored.read(90, 110)


def test_a_file_that_goes_away_or_shrinks_is_noticed(tmp_path):
    path = save(tmp_path / "a.npy", np.ones((9, 2)))
    stored = StoredViews.of({"a": path})
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(DataError, match=r"View 'a': .*is cut off"):
        stored.read(0, 2)
    path.unlink()
    with pytest.raises(DataError, match=r"View 'a': .*a.npy: not a readable file \(.*No such file"):
        stored.read(0, 2)


def test_damage_that_shows_later_is_told(tmp_path):
    path = tmp_path / "a.parquet"
    write_parquet(path, pa.table({"x": np.arange(N, dtype=float)}))
    stored = StoredViews.of({"a": path})
    start = pq.ParquetFile(path).metadata.row_group(3).column(0).dictionary_page_offset
    whole = bytearray(path.read_bytes())
    whole[start : start + 40] = bytes(40)
    before = path.stat()
    path.write_bytes(whole)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # a disk that fails leaves no date
    assert len(stored.read(0, 87)) == 87
    with pytest.raises(DataError, match=r"View 'a': .*a.parquet: not a readable parquet file"):
        stored.read(80, N)


@pytest.mark.parametrize(("module", "ending"), [("pyarrow.parquet", "parquet"), ("zarr", "zarr")])
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, module, ending):
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"a\.{ending}: reading {ending} needs {module}, .* install it with: pip install 'acova\[{ending}\]'"
    with pytest.raises(DataError, match=words):
        StoredViews.of([text(tmp_path / f"a.{ending}")])


def test_packages_for_files_are_not_imported_with_the_library():
    code = (
        "import sys, acova.data; print([m for m in ('torch', 'zarr', 'h5py', 'pyarrow.parquet') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@linux
@pytest.mark.parametrize("kind", ["npy_path", "memmap", "parquet_path"])
def test_no_file_stays_open(tmp_path, kind):
    parts = [KINDS[kind](tmp_path, name, np.nan_to_num(array)) for name, array in ARRAYS.items()]
    before = sorted(os.listdir("/proc/self/fd"))
    stored = StoredViews.of(parts)
    for block in stored.blocks(10):
        assert len(block)
    assert sorted(os.listdir("/proc/self/fd")) == before


MEASURE = """
import sys
import numpy as np
from acova.data import Scaling, StoredViews
from acova.data.stored import BLOCK

def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024

way, path = sys.argv[1:]
X = path if way in ("path", "statistics") else np.load(path, mmap_mode="r")
X = X[5:] if way == "rows" else X
stored = StoredViews.of([X])
Scaling.fit(StoredViews.of([np.ones((2 * BLOCK, 128), np.float32)]), ("zscore",))
start = peak()
if way == "mapping":
    total = sum(float(X[row : row + BLOCK].sum()) for row in range(0, len(X), BLOCK))
elif way == "statistics":
    total = float(Scaling.fit(stored, ("zscore",)).centers[0].sum()) * len(stored)
else:
    total = sum(float(block.arrays[0].sum()) for block in stored.blocks(BLOCK))
print(peak() - start, total)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "a.npy"
    header = {"descr": "<f4", "fortran_order": False, "shape": (400_000, 128)}
    with path.open("wb") as stream:
        npy_format.write_array_header_1_0(stream, header)
        for _ in range(100):
            stream.write(np.ones((4000, 128), np.float32).tobytes())
    yield path
    path.unlink()


@linux
@pytest.mark.parametrize("way", ["path", "memmap", "rows", "statistics", "mapping"])
def test_memory_does_not_grow_with_the_file(large, way):
    done = subprocess.run([sys.executable, "-c", MEASURE, way, large], capture_output=True, text=True, check=True)
    grown, total = done.stdout.split()
    assert float(total) == (400_000 - 5 * (way == "rows")) * 128
    if way == "mapping":  # the measure sees what a mapping would have cost
        assert int(grown) > 150
    else:
        assert int(grown) < 60
