"""Files that are meant to hang, to fill the memory, to run code or to be taken for something else."""

import gzip
import os
import pickle
import signal
import socket
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse
from numpy.lib import format as npy_format

from acova.base import AcovaError, DataError, DataWarning, FileError
from acova.data import StoredViews, read_views, write_omics
from acova.data.files import limits, packed
from acova.data.files.limits import FLOOR, check_expansion, memory
from acova.data.files.packed import check_gzip

h5py = pytest.importorskip("h5py")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")
zarr = pytest.importorskip("zarr")
ARRAY = np.random.default_rng(0).normal(size=(6, 3))
ENDINGS = ("csv", "tsv", "xlsx", "parquet", "feather", "npz", "mat", "h5", "h5ad", "h5mu")


@pytest.fixture(autouse=True)
def _soon():
    """End the test when a reader waits for a pipe or walks in circles."""

    def stop(*_):
        raise TimeoutError("still reading")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


# Kinds of files


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path, ending):
    os.mkfifo(tmp_path / f"a.{ending}")
    with pytest.raises(FileError, match=rf"a\.{ending}: is a named pipe, not a regular file; copy its content"):
        read_views(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("ending", ["npy", "parquet", "zarr"])
def test_a_named_pipe_is_no_stored_view(tmp_path, ending):
    os.mkfifo(tmp_path / f"a.{ending}")
    with pytest.raises(FileError, match="is a named pipe"):
        StoredViews.of({"a": tmp_path / f"a.{ending}"})
    with pytest.raises(FileError, match="is a named pipe"):
        read_views(tmp_path)


def test_other_things_that_are_no_files_are_named(tmp_path, monkeypatch):
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(FileError, match="is a device"):
        read_views(tmp_path / "zero.csv")
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("a.csv")
        with pytest.raises(FileError, match="is a socket"):
            read_views("a.csv")
    for place, target in (("b.csv", "c.csv"), ("c.csv", "b.csv")):
        (tmp_path / place).symlink_to(target)
    with pytest.raises(FileError, match=r"b\.csv: cannot be opened: Too many levels of symbolic links"):
        read_views("b.csv")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.npy").mkdir()
    with pytest.raises(FileError, match="is a folder, not a regular file"):
        StoredViews.of(tmp_path / "folder")


def test_a_chunk_that_is_a_pipe_is_refused(tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(6, 3), chunks=(3, 3), dtype="f8")[:] = ARRAY
    chunk = tmp_path / "a.zarr" / "c" / "0" / "0"
    chunk.unlink()
    os.mkfifo(chunk)
    with pytest.raises(FileError, match="is a named pipe"):
        StoredViews.of({"a": tmp_path / "a.zarr"})


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "x" * 300])
def test_a_name_that_is_too_long_is_an_error_of_the_library(name):
    with pytest.raises(AcovaError, match=r"no such file|File name too long"):
        read_views(name)


def test_folders_that_may_not_be_listed_are_errors_of_the_library(tmp_path, monkeypatch):
    def iterdir(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", iterdir)
    for read in (read_views, StoredViews.of):
        with pytest.raises(FileError, match=r"reading .* failed: Permission denied\. Check the path"):
            read(tmp_path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_files_are_refused(tmp_path, ending):
    (tmp_path / f"a.{ending}").touch()
    with pytest.raises(DataError, match=rf"a\.{ending}: not a readable"):
        read_views(tmp_path / f"a.{ending}")


@pytest.mark.parametrize("ending", ENDINGS[2:])
def test_text_under_another_ending_is_refused(tmp_path, ending):
    (tmp_path / f"a.{ending}").write_text("id,x\na,1\nb,2\n" * 99)
    with pytest.raises(DataError, match=rf"a\.{ending}: not a readable"):
        read_views(tmp_path / f"a.{ending}")


# Names and encodings


def test_a_name_that_is_not_unicode_is_refused_before_anything_is_trained(tmp_path):
    frame = pd.DataFrame(ARRAY, index=list("abcdef"))
    for file in ("gène.csv", b"g\xe8ne.csv".decode("utf-8", "surrogateescape")):
        (tmp_path / "d").mkdir(exist_ok=True)
        frame.to_csv(tmp_path / "d" / file)
        if file.isprintable():
            assert read_views(tmp_path / "d").views.names == ("gène",)
            (tmp_path / "d" / file).unlink()
    for path in (tmp_path / "d", tmp_path / "d" / file):
        with pytest.raises(DataError, match=r"g\\udce8ne\.csv: the name is not valid UTF-8.*rename it") as caught:
            read_views(path)
        str(caught.value).encode()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252", "shift-jis"])
def test_text_is_read_right_or_refused_with_the_way_out(tmp_path, encoding):
    frame = pd.DataFrame(ARRAY, index=["é", "b", "c", "d", "e", "f"], columns=["ü", "x", "y"])
    text = frame.to_csv().replace("é", "ﾃ").replace("ü", "ﾃ2") if encoding == "shift-jis" else frame.to_csv()
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    if encoding in ("utf-8", "utf-8-sig", "utf-16"):
        views = read_views(tmp_path / "a.csv").views
        assert (views.columns[0][0], views.index[0]) == ("ü", "é")
        np.testing.assert_allclose(views.arrays[0], ARRAY)
        return
    with pytest.raises(
        DataError, match=r"a\.csv: not a readable table \((its text is not in UTF-8|it holds char).*UTF-8"
    ):
        read_views(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["../../a", "a\nb", "<script>alert(1)</script>", "/etc/passwd", "{0}", "é"])
def test_odd_names_of_arrays_are_only_names(tmp_path, name):
    np.savez(tmp_path / "a.npz", **{name: ARRAY, "b": ARRAY})
    assert read_views(tmp_path / "a.npz").views.names == (name, "b")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.npz"]


@pytest.mark.parametrize("name", ["view_²", "view_" + "9" * 5000])
def test_names_that_look_like_numbers_are_names(tmp_path, name):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open(f"{name}.npy", "w") as stream:
        np.save(stream, ARRAY)
    assert read_views(tmp_path / "a.npz").views.names == (name,)


# Types and shapes


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", ">i4", "u8", "f2", ">f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_type_and_order_are_read(tmp_path, dtype, order):
    array = np.asarray(np.arange(18).reshape(6, 3) % 2 * (2**53 + 2 if dtype == "u8" else 1), dtype, order=order)
    np.savez(tmp_path / "a.npz", a=array)
    np.testing.assert_array_equal(read_views(tmp_path / "a.npz").views.arrays[0], array.astype(float))


@pytest.mark.parametrize(
    "array",
    [ARRAY + 1j, ARRAY.astype("M8[s]"), np.zeros((6, 3), "f4,f4"), np.full((6, 3), "word"), np.full((6, 3), b"x")],
)
def test_values_that_are_no_numbers_are_refused(tmp_path, array):
    np.savez(tmp_path / "a.npz", a=array)
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "a.npy", array)
    for path in ("a.npz", "d"):
        with pytest.raises(DataError, match="'a' holds values that are not numbers"):
            read_views(tmp_path / path)


def test_arrays_of_other_dimensions_are_said_to_be_left_out(tmp_path):
    np.savez(tmp_path / "a.npz", a=ARRAY, version=3, images=np.zeros((6, 2, 2)))
    with pytest.warns(DataWarning, match=r"left out: \{'images': \(6, 2, 2\)\}; a view is 2-D"):
        assert read_views(tmp_path / "a.npz").views.names == ("a",)


def test_a_member_that_is_no_array_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", a=ARRAY)
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(DataError, match=r"a\.npz: not a readable \.npz file"):
        read_views(tmp_path / "a.npz")


def test_two_members_of_one_name_are_refused(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
            for shift in (0, 1):
                with archive.open("a.npy", "w") as stream:
                    np.save(stream, ARRAY + shift)
    with pytest.raises(DataError, match=r"holds 'a\.npy' twice"):
        read_views(tmp_path / "a.npz")


def test_a_directory_that_lists_too_few_members_is_refused(tmp_path):
    """A comment that became longer swallows the entries behind it, and nobody misses the arrays."""
    np.savez(tmp_path / "a.npz", a=ARRAY, b=ARRAY + 1)
    content = bytearray((tmp_path / "a.npz").read_bytes())
    first, second = content.index(b"PK\x01\x02"), content.rindex(b"PK\x01\x02")
    end = content.rindex(b"PK\x05\x06")
    content[first + 32 : first + 34] = (end - second).to_bytes(2, "little")
    (tmp_path / "a.npz").write_bytes(content)
    assert zipfile.ZipFile(tmp_path / "a.npz").namelist() == ["a.npy"]
    with pytest.raises(DataError, match=r"a\.npz: damaged: it should hold 2 files, but its directory lists 1"):
        read_views(tmp_path / "a.npz")


def test_a_directory_with_another_name_than_the_member_is_refused(tmp_path):
    """Otherwise a sheet whose name was damaged would be missing from the views."""
    frame = pd.DataFrame(ARRAY, index=list("abcdef"), columns=list("xyz"))
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        frame.to_excel(book, sheet_name="left")
        frame.to_excel(book, sheet_name="right")
    content = bytearray((tmp_path / "a.xlsx").read_bytes())
    content[content.rindex(b"sheet2.xml") + 8] ^= 1
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.xlsx: not a readable table \(File name in directory"):
        read_views(tmp_path / "a.xlsx")


@pytest.mark.parametrize("value", [np.array(3.0), np.zeros((6, 2, 2)), np.array([["word"]])])
def test_matlab_entries_that_are_no_matrices_are_refused(tmp_path, value):
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        file["X1"] = value if value.dtype.kind != "U" else np.uint16([[119], [100]])
        if value.dtype.kind == "U":
            file["X1"].attrs["MATLAB_class"] = np.bytes_("char")
    with pytest.raises(DataError, match=r"a\.mat: 'X1' must be a matrix of numbers; got"):
        read_views(tmp_path / "a.mat")


def test_matlab_objects_are_refused(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"X1": {"field": ARRAY}, "X2": ARRAY})
    with pytest.raises(DataError, match=r"a\.mat: 'X1' must be a matrix of numbers"):
        read_views(tmp_path / "a.mat")


# Pickles


class Malicious:
    def __init__(self, place):
        self._place = place

    def __reduce__(self):
        return os.mkdir, (str(self._place),)


def pickled_npy(path, content):
    with path.open("wb") as stream:
        npy_format.write_array_header_1_0(stream, {"descr": "|O", "fortran_order": False, "shape": (6, 3)})
        stream.write(content)


def pickled_npz(path, content):
    with zipfile.ZipFile(path, "w") as archive:
        pickled_npy(path.with_suffix(".npy"), content)
        archive.write(path.with_suffix(".npy"), "a.npy")
        path.with_suffix(".npy").unlink()


def pickled_mat(path, content):
    scipy.io.savemat(path, {"X1": np.frombuffer(content, np.uint8)[None], "X2": np.array([[content]], dtype=object)})


def pickled_h5(path, content):
    with h5py.File(path, "w") as file:
        file["a"] = np.void(content)
        file["b"] = np.array([[np.void(content)]])
        file["labels"] = np.array([content.hex()] * 6, dtype=object)
        file["c"] = ARRAY


def pickled_zarr(path, content):
    path.mkdir()
    (path / "0.0").write_bytes(content)
    (path / ".zarray").write_text(
        '{"zarr_format": 2, "shape": [6, 3], "chunks": [6, 3], "dtype": "|O", "compressor": null, "fill_value": null, '
        '"order": "C", "filters": [{"id": "pickle", "protocol": 5}]}'
    )


@pytest.mark.parametrize("write", [pickled_npy, pickled_npz, pickled_mat, pickled_h5, pickled_zarr])
def test_nothing_is_unpickled(tmp_path, write):
    content = pickle.dumps(Malicious(tmp_path / "attacked"))
    path = tmp_path / f"a.{write.__name__.removeprefix('pickled_')}"
    write(path, content)
    with pytest.raises(AcovaError):
        StoredViews.of({"a": path}) if path.suffix in (".npy", ".zarr") else read_views(path)
    assert not (tmp_path / "attacked").exists()
    pickle.loads(content)  # the attack works
    assert (tmp_path / "attacked").exists()


# Bombs


BOMB = 2**25


@pytest.fixture
def low_floor(monkeypatch):
    """Lower the size from which on the ratio counts, since packing gigabytes takes long."""
    for module in (limits, packed):
        monkeypatch.setattr(module, "FLOOR", BOMB // 2)


def zeros(stream, count=BOMB):
    for _ in range(0, count, 2**24):
        stream.write(bytes(2**24))


def bomb_npz(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as stream,
    ):
        npy_format.write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": (2, BOMB // 2)})
        zeros(stream)


def bomb_xlsx(path):
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.xml", "w", force_zip64=True) as stream,
    ):
        zeros(stream)


def bomb_h5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("a", shape=(BOMB // 8, 1), dtype="f8", chunks=(2**20, 1), compression="gzip")


def bomb_parquet(path):
    row = pa.array(np.zeros(1)).take(pa.array(np.zeros(2**20, int)))
    schema = pa.schema([("x", pa.float64()), ("y", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(2):
            writer.write_table(pa.Table.from_arrays([row, row], schema=schema), row_group_size=2**20)


def bomb_text_parquet(path):
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int32)), pa.array(["x" * 2**18]))
    pq.write_table(pa.table({"id": np.arange(200), "word": words}), path, store_schema=False)


@pytest.mark.parametrize("write", [bomb_npz, bomb_xlsx, bomb_h5, bomb_parquet, bomb_text_parquet])
def test_small_files_that_unpack_to_gigabytes_are_refused(tmp_path, low_floor, write):
    path = tmp_path / f"a.{write.__name__.rsplit('_', 1)[-1]}"
    write(path)
    assert path.stat().st_size < BOMB // 100
    words = rf"{path.name}.*: \d+ bytes would unpack to .* GiB; the limit is 100 times .* GiB where.*pass the arrays"
    with pytest.raises(DataError, match=words):
        read_views(path)


def test_a_gzip_bomb_is_refused(tmp_path, low_floor):
    with gzip.open(tmp_path / "a.csv.gz", "wb") as stream:
        zeros(stream)
    with pytest.raises(DataError, match="bytes would unpack to"):
        check_gzip(tmp_path / "a.csv.gz")


def test_a_matlab_bomb_is_refused(tmp_path, low_floor):
    import zlib

    pack = zlib.compressobj(9)
    body = b"".join([*(pack.compress(bytes(2**24)) for _ in range(BOMB // 2**24)), pack.flush()])
    header = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    (tmp_path / "a.mat").write_bytes(header + (15).to_bytes(4, "little") + len(body).to_bytes(4, "little") + body)
    with pytest.raises(DataError, match="bytes would unpack to"):
        read_views(tmp_path / "a.mat")


def test_sparse_matrices_that_are_too_large_when_dense_are_refused(tmp_path):
    side = int(memory() ** 0.5)
    scipy.io.savemat(tmp_path / "a.mat", {"X1": scipy.sparse.csc_matrix((side, side))})
    with pytest.raises(DataError, match=r"would take .* GiB of memory, and the limit is .* \(80% of this machine's\)"):
        read_views(tmp_path / "a.mat")


@pytest.mark.parametrize("cells", ['<row r="1"><c r="XFD1"><v>1</v></c></row><row r="999999"><c r="A999999"/></row>',
                                   '<row r="999999999999"><c><v>1</v></c></row>'])  # fmt: skip
def test_a_workbook_of_few_cells_far_apart_is_refused(tmp_path, cells):
    rewrite_sheet(
        tmp_path / "a.xlsx", lambda text: text.split("<sheetData>")[0] + f"<sheetData>{cells}</sheetData></worksheet>"
    )
    with pytest.raises(DataError, match=r"worksheets/sheet1\.xml: its content would take|sheet1\.xml: \d+ bytes would"):
        read_views(tmp_path / "a.xlsx")


def test_entities_in_a_workbook_are_refused(tmp_path):
    bomb = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    rewrite_sheet(tmp_path / "a.xlsx", lambda text: text.replace("<worksheet", bomb + "<worksheet", 1))
    with pytest.raises(DataError, match=r"a\.xlsx: its XML has a document type definition"):
        read_views(tmp_path / "a.xlsx")


def rewrite_sheet(path, change):
    pd.DataFrame(ARRAY, index=list("abcdef")).to_excel(path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["xl/worksheets/sheet1.xml"] = change(members["xl/worksheets/sheet1.xml"].decode()).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_an_array_whose_header_lies_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("a.npy", "w") as stream:
        npy_format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 100)})
        stream.write(bytes(100))
    with pytest.raises(DataError, match=r"is to have \(1000000000, 100\) cells of float64, \d+ bytes, but has 228"):
        read_views(tmp_path / "a.npz")


def test_the_limits_are_the_stated_ones():
    check_expansion("a", FLOOR, 1)
    check_expansion("a", 100 * 2**25, 2**25)
    with pytest.raises(DataError, match="a: 1 bytes would unpack to 1 GiB"):
        check_expansion("a", FLOOR + 1, 1)
    with pytest.raises(
        DataError, match=r"80% of this machine's\)\. Choose fewer features, or store the views as \.npy"
    ):
        check_expansion("a", memory(), memory())


# HDF5


def link_outside(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = ARRAY
    file["a"] = h5py.ExternalLink("other.h5", "/secret")


def link_outside_by_a_soft_link(file, folder):
    link_outside(file, folder)
    file["0"] = h5py.SoftLink("/a")


def cells_outside(file, folder):
    (folder / "cells").write_bytes(bytes(144))
    file.create_dataset("a", (6, 3), "f8", external=[(str(folder / "cells"), 0, 144)])


def virtual(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["secret"] = ARRAY
    layout = h5py.VirtualLayout((6, 3), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "secret", (6, 3))
    file.create_virtual_dataset("a", layout)


@pytest.mark.parametrize("ending", ["h5", "mat", "h5ad", "h5mu"])
@pytest.mark.parametrize("write", [link_outside, link_outside_by_a_soft_link, cells_outside, virtual])
def test_other_files_are_never_opened(tmp_path, ending, write):
    with h5py.File(tmp_path / f"a.{ending}", "w", userblock_size=512 if ending == "mat" else 0) as file:
        write(file, tmp_path)
    with pytest.raises(DataError, match=rf"a\.{ending}: 'a' (is a link to another file|has its cells in other files)"):
        read_views(tmp_path / f"a.{ending}")


def test_links_in_circles_and_many_paths_are_walked_once(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = ARRAY
        file["up"] = h5py.SoftLink("/left/left")
        group = file
        for _ in range(40):  # 2 ** 40 paths
            below = group.create_group("left")
            group["right"] = below
            group = below
        group["up"], group["z"] = file, ARRAY + 1
    views = read_views(tmp_path / "a.h5").views
    assert sorted(views.names) == ["x", "z"]


@pytest.mark.parametrize("target", ["/nowhere", "/a"])
def test_links_to_nothing_are_refused(tmp_path, target):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["a"] = ARRAY, h5py.SoftLink(target)
    with pytest.raises(DataError, match=r"a\.h5: ('a' is a link that leads nowhere|not a readable HDF5.*many links)"):
        read_views(tmp_path / "a.h5")


def test_a_container_with_a_group_of_two_names_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        file.create_group("uns")["up"] = file
    with pytest.raises(DataError, match=r"a\.h5ad: 'uns/up' is a group that has another name, too"):
        read_views(tmp_path / "a.h5ad")


def test_a_cell_array_that_holds_itself_is_refused(tmp_path):
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        entry = file.create_dataset("X", (2, 1), h5py.ref_dtype)
        entry[:, 0] = [entry.ref, entry.ref]
    with pytest.raises(DataError, match=r"a\.mat: 'view_0' must be a matrix of numbers"):
        read_views(tmp_path / "a.mat")


def test_sparse_indices_outside_the_matrix_do_not_end_the_process(tmp_path):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(scipy.sparse.csr_matrix(ARRAY)).write(tmp_path / "a.h5ad")
    with h5py.File(tmp_path / "a.h5ad", "r+") as file:
        file["X/indices"][3] = 2**30
    with pytest.raises(DataError, match=r"X: not a readable sparse matrix \(indices must be < 3\)"):
        read_views(tmp_path / "a.h5ad")


def test_a_heap_that_has_an_entry_of_no_length_does_not_hang(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"], file["index"] = ARRAY, ["one", "two", "three", "four", "five", "six"]
    content = bytearray((tmp_path / "a.h5").read_bytes())
    heap = content.index(b"GCOL")
    content[heap + 16 : heap + 32] = bytes(16)
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.h5: damaged at byte {heap + 16}, in the texts that it holds"):
        read_views(tmp_path / "a.h5")


def test_a_chunk_of_no_bytes_does_not_end_the_process(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        entry = file.create_dataset("a", data=ARRAY, chunks=(3, 3), compression="gzip", fletcher32=True)
        chunk = entry.id.get_chunk_info(1)
    content = bytearray((tmp_path / "a.h5").read_bytes())
    place = content.index(chunk.byte_offset.to_bytes(8, "little")) - 32  # size and mask, an offset per axis, and cells
    assert int.from_bytes(content[place : place + 4], "little") == chunk.size
    content[place : place + 4] = bytes(4)
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(DataError, match=rf"'a' is damaged: its chunk at byte {chunk.byte_offset} is empty"):
        read_views(tmp_path / "a.h5")


# Chunks


def zarr_view(folder, **options):
    array = zarr.create_array(str(folder / "a.zarr"), shape=(6, 3), chunks=(2, 3), dtype="f8", **options)
    array[:] = ARRAY
    return folder / "a.zarr"


def test_an_absent_chunk_is_told(tmp_path):
    (zarr_view(tmp_path) / "c" / "1" / "0").unlink()
    with pytest.warns(
        DataWarning, match=r"View 'a': 1 of 3 chunks of .*a\.zarr are absent, and zarr reads their cells as 0"
    ):
        views = StoredViews.of(tmp_path)
    np.testing.assert_array_equal(views.read(2, 4).arrays[0], 0)


def test_an_absent_chunk_of_nan_is_a_missing_view(tmp_path):
    (zarr_view(tmp_path, fill_value=np.nan) / "c" / "1" / "0").unlink()
    np.save(tmp_path / "b.npy", ARRAY)
    np.testing.assert_array_equal(StoredViews.of(tmp_path).read(0, 6).observed[:, 0], [1, 1, 0, 0, 1, 1])


def test_an_array_without_any_chunk_is_refused(tmp_path):
    zarr.create_array(str(tmp_path / "a.zarr"), shape=(6, 3), chunks=(2, 3), dtype="f8")
    with pytest.raises(DataError, match=r"has the shape \(6, 3\) but no chunk is stored; copy the whole folder"):
        StoredViews.of(tmp_path)


def test_a_damaged_chunk_is_named(tmp_path):
    chunk = zarr_view(tmp_path) / "c" / "1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    stored = StoredViews.of(tmp_path)
    stored.read(0, 2)
    with pytest.raises(DataError, match=r"View 'a'.*: not a readable .* in rows 1 to 4"):
        stored.read(1, 4)


def test_a_chunk_of_gigabytes_is_refused_before_it_is_decoded(tmp_path, low_floor):
    array = zarr.create_array(str(tmp_path / "a.zarr"), shape=(BOMB // 8, 1), chunks=(2**18, 1), dtype="f8")
    array[: 2**18] = 1.0
    text = (tmp_path / "a.zarr" / "zarr.json").read_text()
    (tmp_path / "a.zarr" / "zarr.json").write_text(text.replace(str(2**18), str(BOMB // 8)))
    with pytest.raises(DataError, match=r"View 'a': one chunk: \d+ bytes would unpack to 0.0312 GiB"):
        StoredViews.of(tmp_path)


# Files that change


@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_a_file_that_is_replaced_between_windows_is_noticed(tmp_path, ending):
    def write(name, array):
        frame = pd.DataFrame(array, columns=list("abc"))
        np.save(tmp_path / name, array) if ending == "npy" else frame.to_parquet(tmp_path / name, row_group_size=3)

    write(f"a.{ending}", ARRAY)
    stored = StoredViews.of({"a": tmp_path / f"a.{ending}"})
    stored.read(0, 3)
    write(f"b.{ending}", ARRAY + 1)
    (tmp_path / f"b.{ending}").replace(tmp_path / f"a.{ending}")
    with pytest.raises(DataError, match=rf"View 'a': .*a\.{ending} has changed since it was opened"):
        stored.read(3, 6)


def test_a_mapping_of_a_file_that_shrank_does_not_end_the_process(tmp_path):
    code = """
import sys, os, numpy as np
from acova.base import DataError
from acova.data import StoredViews
np.save(sys.argv[1], np.ones((4000, 8)))
stored = StoredViews.of([np.load(sys.argv[1], mmap_mode="r")[:, ::2]])
os.truncate(sys.argv[1], 1000)
try:
    stored.read(3000, 4000)
except DataError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "a.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "is cut off: its cells end at byte 256128 but the file has 1000" in done.stdout


# Writing


def test_results_are_written_whole_to_regular_files_only(tmp_path):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(ARRAY)
    os.mkfifo(tmp_path / "pipe.h5ad")
    with pytest.raises(FileError, match=r"pipe\.h5ad is a pipe, and only regular files are written or replaced"):
        write_omics(data, tmp_path / "pipe.h5ad")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"writing .*file/a\.h5ad failed"):
        write_omics(data, tmp_path / "file" / "a.h5ad")
    write_omics(data, tmp_path / "a.h5ad")
    before = (tmp_path / "a.h5ad").read_bytes()
    data.uns["odd"] = object()
    with pytest.raises(FileError, match=r"AnnData cannot be written: .*Remove or convert what is named there"):
        write_omics(data, tmp_path / "a.h5ad")
    assert (tmp_path / "a.h5ad").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.h5ad", "file", "pipe.h5ad"]
