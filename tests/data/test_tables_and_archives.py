import datetime
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from acova.base import DataError, DataWarning, MissingExtraError, OptionError
from acova.data import read_views

h5py = pytest.importorskip("h5py")
pytest.importorskip("openpyxl")
RNG = np.random.default_rng(0)
WIDE, SLIM = RNG.normal(size=(6, 4)), RNG.normal(size=(6, 2))
CLASSES = np.array([3, 1, 1, 7, 3, 7])
ENCODED = [1, 0, 0, 2, 1, 2]
LEFT = pd.DataFrame(WIDE[:5], index=["p3", "p1", "p5", "p2", "p4"], columns=list("abcd"))
RIGHT = pd.DataFrame(SLIM[:3], index=["p2", "p9", "p3"], columns=["u", "v"])
ORDER = ["p3", "p1", "p5", "p2", "p4", "p9"]
CLASS = pd.DataFrame({"class": list("xyzxyz")}, index=sorted(ORDER))


def assert_joined(dataset):
    assert dataset.views.names == ("left", "right")
    assert dataset.views.index.tolist() == ORDER
    np.testing.assert_allclose(dataset.views.arrays[0], LEFT.reindex(ORDER), rtol=1e-12)
    np.testing.assert_allclose(dataset.views.arrays[1], RIGHT.reindex(ORDER), rtol=1e-12)


def test_feather_and_excel_files_in_a_folder(tmp_path):
    LEFT.reset_index().to_feather(tmp_path / "left.feather")
    RIGHT.to_excel(tmp_path / "right.xlsx")
    assert_joined(read_views(tmp_path))


def test_the_sheets_of_a_workbook_are_views(tmp_path):
    with pd.ExcelWriter(tmp_path / "book.xlsx") as book:
        for name, table in {"left": LEFT, "right": RIGHT, "labels": CLASS, "notes": pd.DataFrame()}.items():
            table.to_excel(book, sheet_name=name)
    dataset = read_views(tmp_path / "book.xlsx")
    assert_joined(dataset)
    np.testing.assert_array_equal(dataset.labels, ["xyz".index(CLASS["class"][label]) for label in ORDER])
    (tmp_path / "folder").mkdir()
    (tmp_path / "book.xlsx").rename(tmp_path / "folder" / "book.xlsx")
    assert_joined(read_views(tmp_path / "folder"))
    LEFT.to_csv(tmp_path / "folder" / "left.csv")
    with pytest.raises(DataError, match="two files give the view 'left'; keep one of them"):
        read_views(tmp_path / "folder")


def test_a_workbook_without_tables_is_refused(tmp_path):
    pd.DataFrame().to_excel(tmp_path / "book.xlsx")
    with pytest.raises(DataError, match="no sheet holds a table"):
        read_views(tmp_path / "book.xlsx")


@pytest.mark.parametrize(
    "options", [{"sep": ";"}, {"sep": ";", "decimal": ","}, {"sep": "\t"}, {"encoding": "utf-8-sig"}]
)
def test_csv_as_other_programs_write_it(tmp_path, options):
    LEFT.to_csv(tmp_path / "left.csv", **options)
    RIGHT.to_csv(tmp_path / "right.csv")
    assert_joined(read_views(tmp_path))


def test_one_table_is_one_view(tmp_path):
    LEFT.to_csv(tmp_path / "left.csv")
    dataset = read_views(tmp_path / "left.csv")
    assert (dataset.name, dataset.views.names, dataset.views.columns) == ("left", ("left",), (tuple("abcd"),))


def test_a_folder_of_arrays_needs_no_stream(tmp_path):
    np.save(tmp_path / "image.npy", WIDE)
    np.save(tmp_path / "text.npy", SLIM)
    observed = np.array([[1, 1], [0, 1], [1, 0], [1, 1], [1, 1], [1, 1]], dtype=bool)
    np.save(tmp_path / "observed.npy", observed)
    views = read_views(tmp_path).views
    assert views.names == ("image", "text")
    np.testing.assert_array_equal(views.observed, observed)
    np.testing.assert_allclose(views.rows(1), SLIM[observed[:, 1]])


def test_columns_are_dropped_and_rows_with_holes_are_hidden(tmp_path):
    holes = LEFT.assign(d=[1.0, np.nan, 2.0, 3.0, np.nan], note=[f"text {i}" for i in range(5)], kind=list("xyxyx"))
    holes.to_csv(tmp_path / "left.csv")
    RIGHT.assign(a=1.0).to_csv(tmp_path / "right.csv")
    RIGHT.reindex(ORDER).fillna(0.0).to_csv(tmp_path / "all.csv")
    with pytest.raises(DataError, match=r"'left' has an empty cell in sample 'p1', column 'd' \(2 such.*--holes hide"):
        read_views(tmp_path, drop=["note"], holes="refuse")
    kept = read_views(tmp_path, drop=["note"]).views
    assert kept.empty[1].sum() == 2
    assert kept.observed[:, 1].sum() == 5
    views = read_views(tmp_path, drop=["note", "right:a"], holes="hide").views
    assert views.columns[1:] == (("a", "b", "c", "d", "kind=x", "kind=y"), ("u", "v"))
    by_name = pd.Series(views.observed[:, 1], views.index)
    assert by_name[by_name].index.tolist() == ["p3", "p5", "p2"]
    rows = views.index.get_indexer(["p3", "p5", "p2"])
    np.testing.assert_allclose(views.arrays[1][rows, :3], holes.loc[["p3", "p5", "p2"], ["a", "b", "c"]])
    np.testing.assert_array_equal(views.arrays[1][rows, 4], [1, 1, 0])
    assert read_views(tmp_path, drop=["note", "a"], holes="hide").views.sizes == (2, 5, 2)
    with pytest.raises(DataError, match=r"no view has the column 'left:noted' to drop\. Did you mean 'note'"):
        read_views(tmp_path, drop=["left:noted"])
    with pytest.raises(OptionError, match="holes must be 'keep', 'hide', 'refuse'"):
        read_views(tmp_path, holes="hid")


def write_hdf5(path):
    with h5py.File(path, "w") as file:
        file["omics/rna"] = WIDE
        file["omics/protein"] = SLIM
        file["labels"] = CLASSES
        file["observed"] = np.array([[1, 1]] * 5 + [[1, 0]])
        file["index"] = [f"s{i}" for i in range(6)]
        file["version"] = 3


def test_hdf5_arrays_are_views(tmp_path):
    write_hdf5(tmp_path / "a.h5")
    dataset = read_views(tmp_path / "a.h5")
    assert dataset.views.names == ("protein", "rna")
    assert dataset.views.index.tolist() == [f"s{i}" for i in range(6)]
    np.testing.assert_array_equal(dataset.views.arrays[1][:5], WIDE[:5])
    np.testing.assert_array_equal(dataset.views.observed[:, 1], [1, 1, 1, 1, 1, 0])
    np.testing.assert_array_equal(dataset.labels, ENCODED)


def test_hdf5_names_that_occur_twice_are_paths(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["one/X"], file["two/X"] = WIDE, SLIM
    assert read_views(tmp_path / "a.hdf5").views.names == ("one/X", "two/X")


@pytest.mark.parametrize(("content", "words"), [(b"", "not a readable HDF5"), (b"text" * 200, "not a readable HDF5")])
def test_damaged_hdf5_is_refused(tmp_path, content, words):
    (tmp_path / "a.h5").write_bytes(content)
    with pytest.raises(DataError, match=words):
        read_views(tmp_path / "a.h5")


def test_tables_of_pandas_in_hdf5_are_refused_with_a_way_out(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_group("table").attrs["pandas_type"] = "frame"
    with pytest.raises(DataError, match=r"written by pandas\.to_hdf.*to_parquet or to_csv"):
        read_views(tmp_path / "a.h5")


def write_matlab_73(path, entries):
    """Write what MATLAB's ``save -v7.3`` writes: HDF5 behind a header, columns first, cells by reference."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in entries.items():
            _matlab_entry(file, name, value)
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + bytes(8) + b"\x00\x02IM")


def _matlab_entry(file, name, value):
    if isinstance(value, list):
        refs = [_matlab_entry(file, f"#refs#/{name}{place}", one).ref for place, one in enumerate(value)]
        entry = file.create_dataset(name, data=np.array(refs, dtype=object)[:, None], dtype=h5py.ref_dtype)
        entry.attrs["MATLAB_class"] = np.bytes_("cell")
        return entry
    if scipy.sparse.issparse(value):
        entry = file.create_group(name)
        entry.attrs["MATLAB_sparse"] = np.uint64(value.shape[0])
        entry["data"], entry["ir"], entry["jc"] = value.data, value.indices, value.indptr
        return entry
    entry = file.create_dataset(name, data=np.asarray(value).T)
    entry.attrs["MATLAB_class"] = np.bytes_("double")
    return entry


SPARSE = scipy.sparse.csc_matrix(np.where(SLIM > 0, SLIM, 0))


@pytest.mark.parametrize(
    "entries",
    [
        {"X": [WIDE, SPARSE], "Y": CLASSES[:, None]},
        {"X": [WIDE.T, SPARSE.T.tocsc()], "gt": CLASSES[:, None]},
        {"X1": WIDE, "X2": SPARSE, "Y": CLASSES[None]},
    ],
)
def test_mat_7_3_gives_what_version_5_gives(tmp_path, entries):
    write_matlab_73(tmp_path / "new.mat", entries)
    old = dict(entries)
    if "X" in old:
        old["X"] = np.empty((1, 2), dtype=object)
        old["X"][0, :] = entries["X"]
    scipy.io.savemat(tmp_path / "old.mat", old)
    with pytest.raises(NotImplementedError, match="HDF reader"):  # scipy takes it for version 7.3 too
        scipy.io.loadmat(tmp_path / "new.mat")
    one, other = read_views(tmp_path / "old.mat"), read_views(tmp_path / "new.mat")
    assert one.views.names == other.views.names
    for left, right, given in zip(one.views.arrays, other.views.arrays, (WIDE, SPARSE.toarray()), strict=True):
        np.testing.assert_array_equal(left, right)
        np.testing.assert_array_equal(left, given)
    np.testing.assert_array_equal(one.labels, ENCODED)
    np.testing.assert_array_equal(other.labels, ENCODED)


def test_truncated_mat_7_3_is_refused(tmp_path):
    write_matlab_73(tmp_path / "a.mat", {"X": [WIDE, SLIM], "Y": CLASSES})
    whole = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(whole[:1000])
    with pytest.raises(DataError, match=r"a\.mat: not a readable \.mat file"):
        read_views(tmp_path / "a.mat")


WRITERS = {
    "a.parquet": LEFT.to_parquet,
    "a.feather": lambda path: LEFT.reset_index().to_feather(path),
    "a.xlsx": LEFT.to_excel,
    "a.h5": write_hdf5,
    "a.mat": lambda path: write_matlab_73(path, {"X1": WIDE}),
    "a.h5mu": lambda path: path.touch(),
    "a.h5ad": lambda path: path.touch(),
}


@pytest.mark.parametrize(
    ("file", "module", "extra"),
    [
        ("a.parquet", "pyarrow", "parquet"),
        ("a.feather", "pyarrow", "parquet"),
        ("a.xlsx", "openpyxl", "excel"),
        ("a.h5", "h5py", "hdf5"),
        ("a.mat", "h5py", "hdf5"),
        ("a.h5mu", "mudata", "omics"),
        ("a.h5ad", "anndata", "omics"),
    ],
)
def test_a_format_whose_package_is_absent_names_the_extra(tmp_path, monkeypatch, file, module, extra):
    WRITERS[file](tmp_path / file)
    monkeypatch.setitem(sys.modules, module, None)
    words = rf"{file}: reading .* needs {module}, which cannot be imported.*pip install 'acova\[{extra}\]'"
    with pytest.raises(MissingExtraError, match=words) as caught:
        read_views(tmp_path / file)
    assert isinstance(caught.value, DataError)
    assert isinstance(caught.value, ImportError)


def test_names_in_excel_become_text_and_join_with_csv(tmp_path):
    cells = [7, 8.0, 1.5, "007", "NA", datetime.datetime(2020, 1, 2)]
    names = ["7", "8", "1.5", "007", "NA", "2020-01-02"]
    table = pd.DataFrame({"x": np.arange(6.0)}, index=pd.Index(cells, dtype=object, name="id"))
    table.to_excel(tmp_path / "a.xlsx")
    table.set_axis(names, axis=0).to_csv(tmp_path / "b.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        views = read_views(tmp_path).views
    assert views.index.tolist() == names
    assert views.complete.all()
    np.testing.assert_array_equal(views.arrays[0], views.arrays[1])


def test_columns_with_one_name_in_a_sheet_are_refused(tmp_path):
    frame = pd.DataFrame(np.ones((2, 3)), index=["p", "q"], columns=["x", "y", "x"])
    frame.to_excel(tmp_path / "a.xlsx")
    with pytest.raises(DataError, match=r"a\.xlsx, sheet 'Sheet1' has several columns called 'x'"):
        read_views(tmp_path / "a.xlsx")
