import os

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse

from acova.base import DataError, DataWarning
from acova.data import Dataset, Views, inspect_data, read_views
from acova.data.files.formats import has_class
from acova.estimators import KNNImpute

RNG = np.random.default_rng(0)
WIDE = RNG.normal(size=(6, 4))
SLIM = RNG.normal(size=(6, 2))
CLASSES = np.array([3, 1, 1, 7, 3, 7])
ENCODED = [1, 0, 0, 2, 1, 2]


def cells(*matrices):
    out = np.empty((1, len(matrices)), dtype=object)
    out[0, :] = matrices
    return out


def assert_holds(dataset, *arrays):
    assert dataset.views.n_views == len(arrays)
    for held, given in zip(dataset.views.arrays, arrays, strict=True):
        np.testing.assert_array_equal(held, given)


def test_npz_views_are_ordered_by_number(tmp_path):
    arrays = {f"view_{v}": np.full((3, 1), float(v)) for v in (11, 2, 10, 0, 1, 3, 4, 5, 6, 7, 8, 9)}
    np.savez(tmp_path / "many.npz", **arrays)
    dataset = read_views(str(tmp_path / "many.npz"))
    assert dataset.name == "many"
    assert dataset.views.names == tuple(f"view_{v}" for v in range(12))
    np.testing.assert_array_equal(np.hstack(dataset.views.arrays)[0], np.arange(12))
    assert dataset.labels is None
    assert dataset.n_classes is None


def test_npz_views_with_names_keep_the_order_of_the_file(tmp_path):
    np.savez(tmp_path / "a.npz", text=WIDE, image=SLIM, note=np.arange(6), n_views=2)
    dataset = read_views(tmp_path / "a.npz")
    assert dataset.views.names == ("text", "image")
    assert_holds(dataset, WIDE, SLIM)


@pytest.mark.parametrize("key", ["labels", "label", "y", "Y", "gt", "truth", "target"])
@pytest.mark.parametrize(
    "classes", [CLASSES, CLASSES - 5, CLASSES.astype(float), np.array(["b", "a", "a", "c", "b", "c"])]
)
def test_npz_labels_become_classes_from_zero(tmp_path, key, classes):
    np.savez(tmp_path / "a.npz", view_0=WIDE, **{key: classes})
    dataset = read_views(tmp_path / "a.npz")
    np.testing.assert_array_equal(dataset.labels, ENCODED)
    assert dataset.labels.dtype == np.int64
    assert dataset.n_classes == 3


def test_npz_observed_hides_views(tmp_path):
    observed = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 1], [1, 1]], dtype=bool)
    np.savez(tmp_path / "a.npz", view_0=WIDE, view_1=SLIM, observed=observed)
    np.testing.assert_array_equal(read_views(tmp_path / "a.npz").views.observed, observed)


class Trap:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_npz_never_unpickles(tmp_path):
    traps = np.array([Trap(tmp_path / "sprung")], dtype=object)
    np.savez(tmp_path / "a.npz", view_0=WIDE, extra=traps)
    with pytest.raises(DataError, match=r"a\.npz: not a readable \.npz file of plain arrays.*numpy\.savez"):
        read_views(tmp_path / "a.npz")
    assert not (tmp_path / "sprung").exists()
    with np.load(tmp_path / "a.npz", allow_pickle=True) as file:
        file["extra"]
    assert (tmp_path / "sprung").exists()  # the trap works


def damaged(path, how):
    np.savez_compressed(path, view_0=RNG.normal(size=(60, 60)))
    whole = path.read_bytes()
    if how == "plain array":
        with path.open("wb") as file:
            np.save(file, WIDE)
        return
    inside = bytearray(whole)
    inside[200:210] = bytes(255 - byte for byte in inside[200:210])
    path.write_bytes(
        {"truncated": whole[:500], "empty": b"", "text": b"hello, world\n", "overwritten": bytes(inside)}[how]
    )


@pytest.mark.parametrize("how", ["truncated", "empty", "text", "overwritten", "plain array"])
def test_damaged_npz_files_are_refused(tmp_path, how):
    damaged(tmp_path / "a.npz", how)
    with pytest.raises(DataError, match=r"a\.npz: not a readable \.npz file"):
        read_views(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"labels": CLASSES}, "no view was given"),
        ({"view_0": WIDE, "labels": CLASSES[:4]}, r"a\.npz: labels have shape \(4,\) but there are 6 samples"),
        ({"view_0": WIDE, "labels": CLASSES[:, None]}, r"labels have shape \(6, 1\)"),
        ({"view_0": WIDE, "observed": np.ones((6, 2))}, r"\(6, 1\); got \(6, 2\)"),
        ({"view_0": WIDE, "view_1": SLIM[:3]}, "'view_1' has 3 rows but view 'view_0' has 6"),
    ],
)
def test_npz_files_that_do_not_fit_together_are_refused(tmp_path, held, words):
    np.savez(tmp_path / "a.npz", **held)
    with pytest.raises(DataError, match=words):
        read_views(tmp_path / "a.npz")


@pytest.mark.parametrize("turned", [(False, False), (True, True), (False, True)])
@pytest.mark.parametrize("key", ["Y", "gt", "labels", "truth"])
def test_mat_cells_hold_samples_in_rows_or_columns(tmp_path, turned, key):
    matrices = [array.T if turn else array for array, turn in zip((WIDE, SLIM), turned, strict=True)]
    scipy.io.savemat(tmp_path / "a.mat", {"X": cells(*matrices), key: CLASSES[:, None]})
    dataset = read_views(tmp_path / "a.mat")
    assert dataset.views.names == ("view_0", "view_1")
    assert_holds(dataset, WIDE, SLIM)
    np.testing.assert_array_equal(dataset.labels, ENCODED)


def test_mat_square_matrices_are_not_turned(tmp_path):
    square = RNG.normal(size=(6, 6))
    scipy.io.savemat(tmp_path / "a.mat", {"X": cells(square, SLIM.T), "Y": CLASSES})
    assert_holds(read_views(tmp_path / "a.mat"), square, SLIM)


def test_mat_without_labels_takes_rows_as_samples(tmp_path):
    scipy.io.savemat(tmp_path / "a.mat", {"X": cells(WIDE, SLIM)})
    dataset = read_views(tmp_path / "a.mat")
    assert_holds(dataset, WIDE, SLIM)
    assert dataset.labels is None


def test_mat_matrices_are_ordered_by_number(tmp_path):
    matrices = {f"X{v}": np.full((6, v), float(v)) for v in (10, 2, 1, 11, 3)}
    scipy.io.savemat(tmp_path / "Caltech-5V.mat", matrices | {"Y": CLASSES[:, None], "Xtra": WIDE})
    dataset = read_views(tmp_path / "Caltech-5V.mat")
    assert dataset.name == "Caltech-5V"
    assert dataset.views.names == ("X1", "X2", "X3", "X10", "X11")
    assert dataset.views.sizes == (1, 2, 3, 10, 11)
    np.testing.assert_array_equal(dataset.labels, ENCODED)


@pytest.mark.parametrize("layout", ["cells", "numbered"])
def test_mat_sparse_matrices_are_filled_in(tmp_path, layout):
    sparse = scipy.sparse.csc_matrix(SLIM)
    held = {"X": cells(WIDE, sparse)} if layout == "cells" else {"X1": WIDE, "X2": sparse}
    scipy.io.savemat(tmp_path / "a.mat", held | {"Y": CLASSES})
    assert_holds(read_views(tmp_path / "a.mat"), WIDE, SLIM)


@pytest.mark.parametrize("kept", [0, 1, 50, 150, -100])
def test_truncated_mat_files_are_refused(tmp_path, kept):
    scipy.io.savemat(tmp_path / "a.mat", {"X1": WIDE, "Y": CLASSES})
    whole = (tmp_path / "a.mat").read_bytes()
    (tmp_path / "a.mat").write_bytes(whole[:kept])
    with pytest.raises(DataError, match=r"a\.mat: not a readable \.mat file"):
        read_views(tmp_path / "a.mat")


def test_garbage_is_no_mat_file(tmp_path):
    (tmp_path / "a.mat").write_bytes(b"this was never a matrix " * 20)
    with pytest.raises(DataError, match=r"a\.mat: not a readable \.mat file"):
        read_views(tmp_path / "a.mat")


@pytest.mark.parametrize("held", [{"Z": WIDE, "Y": CLASSES}, {"X": WIDE, "Y": CLASSES}])
def test_mat_without_views_names_what_it_found(tmp_path, held):
    scipy.io.savemat(tmp_path / "a.mat", held)
    with pytest.raises(
        DataError, match=rf"expected a cell array X or matrices X1, X2, …; found \['{next(iter(held))}', 'Y'\]"
    ):
        read_views(tmp_path / "a.mat")


LEFT = pd.DataFrame(WIDE[:5], index=pd.Index(["p3", "p1", "p5", "p2", "p4"], name="id"), columns=list("abcd"))
RIGHT = pd.DataFrame(SLIM[:3], index=pd.Index(["p2", "p9", "p3"], name="id"), columns=["u", "v"])
GROUPS = pd.DataFrame({"group": list("xyzxyz"), "age": 1}, index=["p1", "p2", "p3", "p4", "p5", "p9"])
ORDER = ["p3", "p1", "p5", "p2", "p4", "p9"]
WRITERS = {
    "csv": lambda table, path: table.to_csv(path),
    "tsv": lambda table, path: table.to_csv(path, sep="\t"),
    "parquet": lambda table, path: table.to_parquet(path),
    "parquet by column": lambda table, path: table.rename_axis("id").reset_index().to_parquet(path),
}


def write(folder, **tables):
    """Write tables given as name=(kind, table)."""
    for name, (kind, table) in tables.items():
        WRITERS[kind](table, folder / f"{name}.{kind.split()[0]}")


@pytest.mark.parametrize("kinds", [(kind,) * 3 for kind in WRITERS] + [("csv", "parquet", "tsv")])
def test_a_folder_of_tables_is_joined_on_the_samples(tmp_path, kinds):
    write(tmp_path, left=(kinds[0], LEFT), right=(kinds[1], RIGHT), labels=(kinds[2], GROUPS))
    (tmp_path / "README.md").write_text("not a table")
    (tmp_path / ".hidden.csv").write_text("left over by an editor")
    dataset = read_views(tmp_path)
    assert dataset.name == tmp_path.name
    assert dataset.views.names == ("left", "right")
    assert dataset.views.columns == (("a", "b", "c", "d"), ("u", "v"))
    assert dataset.views.index.tolist() == ORDER
    np.testing.assert_allclose(dataset.views.arrays[0], LEFT.reindex(ORDER), rtol=1e-12)
    np.testing.assert_allclose(dataset.views.arrays[1], RIGHT.reindex(ORDER), rtol=1e-12)
    np.testing.assert_array_equal(dataset.labels, ["xyz".index(GROUPS.group[label]) for label in ORDER])


def test_a_folder_needs_no_labels(tmp_path):
    write(tmp_path, left=("csv", LEFT))
    assert read_views(tmp_path).labels is None


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"labels": ("csv", GROUPS.drop(index=["p5", "p9"]))}, r"labels: no class for 2 samples, first 'p5'; complete"),
        ({"labels": ("csv", GROUPS.assign(group=[None, *"yzxyz"]))}, "labels: no class for 1 samples, first 'p1'"),
        ({"labels": ("csv", pd.concat([GROUPS, GROUPS[:1]]))}, "labels: needs each sample once in its first column"),
        ({"labels": ("csv", GROUPS[[]])}, "labels: needs each sample once.*and the class in the second"),
        ({"twice": ("csv", pd.concat([RIGHT, RIGHT[:1]]))}, "View 'twice' has the index label 'p2' more than once"),
        ({"words": ("csv", LEFT.assign(group=["1", "2", "<3", "4", "5"]))}, "'words': column 'group' is text and most"),
        ({"bare": ("parquet", RIGHT[[]])}, "View 'bare' has no columns"),
        ({"bare": ("parquet", pd.DataFrame(index=range(3)))}, "View 'bare' has no columns"),
    ],
)
def test_folders_that_do_not_fit_together_are_refused(tmp_path, tables, words):
    write(tmp_path, left=("csv", LEFT), right=("csv", RIGHT), **tables)
    with pytest.raises(DataError, match=words):
        read_views(tmp_path)


def test_two_files_for_one_view_are_refused(tmp_path):
    write(tmp_path, left=("csv", LEFT))
    write(tmp_path, left=("tsv", LEFT))
    with pytest.raises(DataError, match="two files give the view 'left'; keep one"):
        read_views(tmp_path)


@pytest.mark.parametrize("tables", [{}, {"labels": ("csv", GROUPS)}])
def test_a_folder_without_views_is_refused(tmp_path, tables):
    write(tmp_path, **tables)
    with pytest.raises(DataError, match=r"no \.csv, \.tsv, .* file with a view.*one file per view"):
        read_views(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("a.csv", b""),
        ("a.csv", b"id,x\n1,2\n1,2,3,4\n"),
        ("a.csv", b"id,x\n1,\xff\xfe\n"),
        ("a.parquet", b"not a table"),
    ],
)
def test_files_that_hold_no_table_are_refused(tmp_path, file, content):
    (tmp_path / file).write_bytes(content)
    with pytest.raises(DataError, match=rf"{file}: not a readable table.*the first column names the samples") as caught:
        read_views(tmp_path)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("nowhere.npz", r"nowhere\.npz: no such file or folder; give a \.npz, .* or a folder with one table per view"),
        ("a.h6", r"a\.h6: cannot read '\.h6'; use a \.npz, \.mat.* or a folder"),
        ("a", "cannot read 'a file without ending'"),
    ],
)
def test_paths_that_cannot_be_read_are_refused(tmp_path, file, words):
    if not file.startswith("nowhere"):
        (tmp_path / file).touch()
    with pytest.raises(DataError, match=words):
        read_views(tmp_path / file)


def test_a_dataset_counts_its_classes():
    views = Views.of([WIDE])
    assert Dataset("a", views).n_classes is None
    assert Dataset("a", views, np.array(ENCODED)).n_classes == 3


def write_text(folder, **texts):
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text)


IDS = ["007", "1.10", "1e5", "NA", "null", "True", "-0", " ctrl ", "0x1F", "2020-01-01"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "tsv.gz", "CSV"])
@pytest.mark.filterwarnings("ignore:View 'a'. names of samples begin or end with blanks")
def test_names_of_samples_are_text_as_written(tmp_path, ending):
    table = pd.DataFrame({"x": np.arange(10.0), "y": 1.5}, index=pd.Index(IDS, name="id"))
    table.to_csv(tmp_path / f"a.{ending}", sep="\t" if ending.startswith("tsv") else ",")
    for path in (tmp_path, tmp_path / f"a.{ending}"):
        views = read_views(path).views
        assert views.names == ("a",)
        assert views.index.tolist() == IDS
        np.testing.assert_array_equal(views.arrays[0], table)


def test_blanks_around_names_are_kept_and_said(tmp_path):
    write_text(tmp_path, a="id,x\n one,1\ntwo,2\n")
    with pytest.warns(DataWarning, match="View 'a': names of samples begin or end with blanks, first ' one'"):
        assert read_views(tmp_path).views.index.tolist() == [" one", "two"]


def test_a_name_of_text_in_one_file_does_not_break_the_join(tmp_path):
    numbers = pd.DataFrame({"x": np.arange(30.0)}, index=range(30))
    numbers.to_csv(tmp_path / "a.csv")
    numbers.set_axis([*range(29), "ctrl"], axis=0).to_csv(tmp_path / "b.csv")
    views = read_views(tmp_path).views
    assert views.n_samples == 31
    assert views.complete.sum() == 29


def test_whole_numbers_beside_text_join(tmp_path):
    numbers = pd.DataFrame({"x": np.arange(6.0)}, index=list("012345")).rename(int)
    numbers.to_csv(tmp_path / "a.csv")
    numbers.to_parquet(tmp_path / "b.parquet")
    numbers.astype(int).to_csv(tmp_path / "labels.csv")
    dataset = read_views(tmp_path)
    assert dataset.views.complete.all()
    assert dataset.views.index.tolist() == list("012345")
    np.testing.assert_array_equal(dataset.labels, range(6))


def test_names_in_parquet_keep_their_type(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=[7, 8]).to_parquet(tmp_path / "a.parquet")
    assert read_views(tmp_path).views.index.tolist() == [7, 8]


def test_a_row_without_a_name_is_refused(tmp_path):
    write_text(tmp_path, a="id,x\np,1\n,2\n")
    with pytest.raises(DataError, match="View 'a' has 1 row without a name"):
        read_views(tmp_path)


def test_tables_of_r_lack_the_name_of_the_first_column(tmp_path):
    write_text(tmp_path, a='"x","y"\n"007",1,2\n"008",3,4\n')
    views = read_views(tmp_path).views
    assert views.columns == (("x", "y"),)
    assert views.index.tolist() == ["007", "008"]
    np.testing.assert_array_equal(views.arrays[0], [[1, 2], [3, 4]])


@pytest.mark.parametrize("header", ["id,x,y,x", "x,y,x"])
def test_columns_with_one_name_in_a_file_are_refused(tmp_path, header):
    write_text(tmp_path, a=f"{header}\np,1,2,3\n")
    with pytest.raises(DataError, match=r"a\.csv has several columns called 'x'; .*rename or drop"):
        read_views(tmp_path)


def test_files_that_are_not_read_are_said_by_reading_and_by_inspect(tmp_path):
    write(tmp_path, left=("csv", LEFT))
    for name in ("methylation.txt", "more.npz", "b.zip", "README.txt", "notes.md", "about.json", "labels.txt"):
        (tmp_path / name).write_text("1")
    words = "files that are not read: 'b.zip', 'methylation.txt', 'more.npz'; convert them"
    with pytest.warns(DataWarning, match=words) as caught:
        read_views(tmp_path)
    assert len(caught) == 1
    assert [one.text[: len(words)] for one in inspect_data(tmp_path).findings if one.kind == "ignored"] == [words]


@pytest.mark.parametrize("other", ["left.csv.gz", "left.parquet", "left.CSV"])
def test_two_files_of_one_name_are_refused(tmp_path, other):
    write(tmp_path, left=("csv", LEFT))
    (tmp_path / other).write_bytes((tmp_path / "left.csv").read_bytes())
    if other == "left.csv.gz":
        LEFT.to_csv(tmp_path / other)
    if other == "left.parquet":
        LEFT.to_parquet(tmp_path / other)
    with pytest.raises(DataError, match="two files give the view 'left'; keep one"):
        read_views(tmp_path)


def test_a_table_called_observed_is_the_mask(tmp_path):
    write(tmp_path, left=("csv", LEFT), right=("csv", RIGHT))
    mask = pd.DataFrame(True, index=ORDER[::-1], columns=["right", "left"])
    mask.loc["p2", "right"] = False
    mask.to_csv(tmp_path / "observed.csv")
    views = read_views(tmp_path).views
    assert views.names == ("left", "right")
    seen = pd.DataFrame(views.observed, views.index, list(views.names))["right"]
    assert seen[seen].index.tolist() == ["p3", "p9"]
    mask.drop(columns="right").to_csv(tmp_path / "observed.csv")
    with pytest.raises(DataError, match=r"observed: .*missing columns \['right'\]"):
        read_views(tmp_path)


def test_results_show_the_names_as_written(tmp_path):
    names = [f"{i:03d}" for i in range(8)] + ["NA", "1.10"]
    (tmp_path / "data").mkdir()
    for view in ("a", "b"):
        pd.DataFrame(RNG.normal(size=(10, 2)), index=names, columns=["x", "y"]).to_csv(
            tmp_path / "data" / f"{view}.csv"
        )
    views = read_views(tmp_path / "data").views
    model = KNNImpute(2, random_state=0).fit(views)
    model.save(tmp_path / "run")
    again = KNNImpute.load(tmp_path / "run")
    for index in (model.index_, again.index_, again.assignments(views).index):
        assert index.tolist() == names
    rows = (tmp_path / "run" / "labels.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == names


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, -1, 5, 3, 9, -1], [0, -1, 1, 0, 2, -1]),
        ([3.0, -1.0, 5.0, 3.0, 9.0, -1.0], [0, -1, 1, 0, 2, -1]),
        ([-1, 1, 1, -1, 1, -1], [0, 1, 1, 0, 1, 0]),  # two classes, one of which is called -1
        (["-1", "a", "b", "a", "b", "a"], [0, 1, 2, 1, 2, 1]),
    ],
)
def test_a_class_of_minus_one_is_none(tmp_path, labels, classes):
    np.savez(tmp_path / "a.npz", view_0=WIDE, labels=np.array(labels))
    dataset = read_views(tmp_path / "a.npz")
    assert dataset.labels.tolist() == classes
    assert dataset.n_classes == len({one for one in classes if one >= 0})
    np.testing.assert_array_equal(has_class(dataset.labels), dataset.labels >= 0)
