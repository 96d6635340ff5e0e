"""Tables that are not as the library expects them: other id columns, turned tables, loose names, packed files."""

import gzip
import io
import zipfile

import numpy as np
import pandas as pd
import pytest

from acova.base import DataError, OptionError
from acova.data import inspect_data, read_views
from acova.data.files import limits, packed

NAMES = [f"P{i}" for i in range(6)]
RNG = np.random.default_rng(0)
RNA = pd.DataFrame(RNG.normal(size=(6, 4)).round(3), NAMES, list("abcd"))
PROTEIN = pd.DataFrame(RNG.normal(size=(5, 3)).round(3), NAMES[::-1][:5], ["u", "v", "w"])
CLASS = pd.DataFrame({"class": list("xyxyxy")}, NAMES)
BOMB = 2**25


@pytest.fixture
def clean(tmp_path):
    """Views of the two tables as they should be."""
    folder = tmp_path / "clean"
    folder.mkdir()
    RNA.to_csv(folder / "rna.csv")
    PROTEIN.to_csv(folder / "protein.csv")
    CLASS.to_csv(folder / "labels.csv")
    return read_views(folder)


@pytest.fixture
def low_floor(monkeypatch):
    for module in (limits, packed):
        monkeypatch.setattr(module, "FLOOR", BOMB // 2)


def assert_same(dataset, clean):
    """Compare everything but the order of samples and views."""
    views, due = dataset.views, clean.views
    assert set(views.names) == set(due.names)
    rows = views.index.get_indexer(due.index)
    assert (rows >= 0).all()
    assert len(views) == len(due)
    for v, name in enumerate(due.names):
        here = views.names.index(name)
        assert views.columns[here] == due.columns[v]
        np.testing.assert_array_equal(views.arrays[here][rows], due.arrays[v])
    if dataset.labels is not None:
        np.testing.assert_array_equal(dataset.labels[rows], clean.labels)


# The column of names


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "feather"])
@pytest.mark.parametrize("word", ["patient", "rna:patient"])
def test_the_column_of_names_may_be_any(tmp_path, clean, ending, word):
    table = RNA.copy()
    table.insert(2, "patient", RNA.index)
    write = {"csv": table.to_csv, "xlsx": table.to_excel, "parquet": table.to_parquet, "feather": table.to_feather}
    (tmp_path / "data").mkdir()
    write[ending](tmp_path / "data" / f"rna.{ending}", **({} if ending in ("parquet", "feather") else {"index": False}))
    PROTEIN.to_csv(tmp_path / "data" / "protein.csv", index_label="who")
    assert_same(read_views(tmp_path / "data", id_column=word), clean)


def test_a_nameless_column_of_row_numbers_is_no_feature(tmp_path, clean):
    folder = tmp_path / "data"
    folder.mkdir()
    RNA.reset_index(names="patient").to_csv(folder / "rna.csv")
    PROTEIN.reset_index(names="patient").to_excel(folder / "protein.xlsx")
    CLASS.to_csv(folder / "labels.csv")
    assert_same(read_views(folder, id_column=["patient"]), clean)


def test_names_in_a_column_are_text_as_written(tmp_path):
    (tmp_path / "a.csv").write_text("x,id\n1,007\n2,NA\n3,1.10\n")
    views = read_views(tmp_path / "a.csv", id_column="id").views
    assert (views.index.tolist(), views.columns) == (["007", "NA", "1.10"], (("x",),))


@pytest.mark.parametrize(
    ("header", "words", "error"),
    [
        ("x,y,z", "patient", r"id_column must be a column of a table, or VIEW:COLUMN; no table has 'patient'\."),
        ("x,patient,z", "pateint", "no table has 'pateint'. Did you mean 'patient'"),
        ("x,patient,z", "protein:patient", "no table has 'protein:patient'"),
        ("x,patient,id", ["patient", "id"], r"View 'a' has the columns 'patient', 'id', .* give id_column='a:COLUMN'"),
        ("id,patient,patient", "patient", "View 'a' has twice the column 'patient'"),
    ],
)
def test_a_column_of_names_that_is_not_there_is_an_error(tmp_path, header, words, error):
    (tmp_path / "a.csv").write_text(f"{header}\n1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match=error):
        read_views(tmp_path, id_column=words)


def test_the_columns_word_for_one_view_comes_first(tmp_path):
    (tmp_path / "a.csv").write_text("x,patient,id\n1,2,3\n4,5,6\n")
    views = read_views(tmp_path, id_column=["patient", "a:id"]).views
    assert (views.index.tolist(), views.columns) == (["3", "6"], (("x", "patient"),))


def test_words_for_tables_are_refused_for_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", view_0=RNA.to_numpy())
    with pytest.raises(DataError, match=r"no table has 'patient'.*Other files than tables name samples in their own"):
        read_views(tmp_path / "a.npz", id_column="patient")


# Turned tables


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet"])
def test_a_turned_table_is_read_the_other_way_round(tmp_path, clean, ending):
    folder = tmp_path / "data"
    folder.mkdir()
    {"csv": RNA.T.to_csv, "xlsx": RNA.T.to_excel, "parquet": RNA.T.to_parquet}[ending](folder / f"rna.{ending}")
    PROTEIN.to_csv(folder / "protein.csv")
    assert_same(read_views(folder, transpose="rna"), clean)


def test_a_turned_table_keeps_numbers_and_categories_apart(tmp_path):
    table = RNA.assign(sex=list("fmfmfm"))
    table.to_csv(tmp_path / "a.csv")
    table.T.to_csv(tmp_path / "b.csv")
    views = read_views(tmp_path, transpose=["b"]).views
    np.testing.assert_array_equal(views.arrays[0], views.arrays[1])
    assert views.columns[0] == views.columns[1]
    assert views.categories[1] == {"sex": ("f", "m")} or views.categories[1] == {"sex": ["f", "m"]}


def test_arrays_are_turned_before_they_are_named(tmp_path):
    np.savez(tmp_path / "a.npz", view_0=RNA.to_numpy().T, view_1=RNA.to_numpy(), index=np.array(NAMES))
    views = read_views(tmp_path / "a.npz", transpose="view_0").views
    assert views.index.tolist() == NAMES
    np.testing.assert_array_equal(views.arrays[0], views.arrays[1])


def test_a_view_to_transpose_must_be_there(tmp_path):
    RNA.to_csv(tmp_path / "rna.csv")
    with pytest.raises(DataError, match=r"transpose must name views, which are 'rna'; got 'rnb'\. Did you mean 'rna'"):
        read_views(tmp_path, transpose="rnb")


def test_a_turned_table_with_a_nameless_sample_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("gene,s1,\nx,1,2\ny,3,4\n")
    with pytest.raises(DataError, match="View 'a' has 1 row without a name"):
        read_views(tmp_path, transpose="a")


# Names that differ in blanks and capitals


def test_names_are_matched_loosely_and_it_is_said(tmp_path, clean):
    folder = tmp_path / "data"
    folder.mkdir()
    RNA.to_csv(folder / "a_rna.csv")
    PROTEIN.set_axis([f" {name.lower()} " for name in PROTEIN.index]).to_csv(folder / "b_protein.csv")
    CLASS.set_axis([name.lower() for name in NAMES]).to_csv(folder / "labels.csv")
    dataset = read_views(folder, match_ids="loosely")
    assert dataset.views.index.tolist() == NAMES
    np.testing.assert_array_equal(dataset.labels, [0, 1, 0, 1, 0, 1])
    due = pd.DataFrame(clean.views.arrays[0], clean.views.index).loc[NAMES]
    np.testing.assert_array_equal(dataset.views.arrays[1], due)
    assert dataset.matches["b_protein"] == {f" p{i} ": f"P{i}" for i in (5, 4, 3, 2, 1)}
    assert set(dataset.matches) == {"b_protein", "labels"}
    found = inspect_data(folder, match_ids="loosely").findings
    texts = {one.view: one.text for one in found if one.kind == "matched"}
    assert texts["b_protein"] == "5 names were matched loosely, first ' p5 ' as 'P5'"


def test_names_that_cannot_be_told_apart_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,x\nP1,1\np 1,2\n")
    with pytest.raises(DataError, match="View 'a' has the samples 'P1' and 'p 1', which match_ids='loosely' cannot"):
        read_views(tmp_path, match_ids="loosely")
    assert len(read_views(tmp_path / "a.csv").views) == 2


def test_numbers_as_names_stay_as_they_are(tmp_path):
    RNA.set_axis([7, 5, 3, 1, 9, 2]).to_parquet(tmp_path / "a.parquet")
    dataset = read_views(tmp_path, match_ids="loosely")
    assert (dataset.views.index.tolist(), dataset.matches) == ([7, 5, 3, 1, 9, 2], {})


# Samples that are left out


def test_samples_are_left_out_of_views_classes_and_mask(tmp_path, clean):
    pd.DataFrame({"rna": True, "protein": [True] * 5 + [False]}, NAMES).to_csv(tmp_path / "clean" / "observed.csv")
    dataset = read_views(tmp_path / "clean", drop_sample=["P1", "P4"])
    assert sorted(dataset.views.index) == ["P0", "P2", "P3", "P5"]
    rows = clean.views.index.get_indexer(dataset.views.index)
    np.testing.assert_array_equal(dataset.labels, clean.labels[rows])
    np.testing.assert_array_equal(dataset.views.arrays[1], clean.views.arrays[1][rows])
    lacks = dict(zip(dataset.views.index, dataset.views.observed[:, dataset.views.names.index("protein")], strict=True))
    assert lacks == {"P0": False, "P2": True, "P3": True, "P5": False}


def test_rows_without_names_are_left_out_by_their_numbers(tmp_path):
    observed = np.array([[1, 1], [1, 0], [1, 1], [0, 1], [1, 1], [1, 1]], dtype=bool)
    arrays = {"view_0": RNA.to_numpy(), "view_1": PROTEIN.reindex(NAMES).fillna(0).to_numpy()}
    np.savez(tmp_path / "a.npz", **arrays, labels=[0, 1, 2, 0, 1, 2], observed=observed)
    dataset = read_views(tmp_path / "a.npz", drop_sample="2")
    assert dataset.views.index.tolist() == [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(dataset.labels, [0, 1, 0, 1, 2])
    np.testing.assert_array_equal(dataset.views.observed, np.delete(observed, 2, axis=0))
    np.testing.assert_array_equal(dataset.views.rows(0), np.delete(arrays["view_0"], [2, 3], axis=0))


def test_loosely_named_samples_are_left_out_everywhere(tmp_path):
    RNA.to_csv(tmp_path / "a.csv")
    PROTEIN.set_axis(PROTEIN.index.str.lower()).to_csv(tmp_path / "b.csv")
    assert "P2" not in read_views(tmp_path, drop_sample="p2", match_ids="loosely").views.index


def test_a_sample_that_nobody_has_is_an_error(clean, tmp_path):
    with pytest.raises(DataError, match=r"drop_sample must name samples; no view has 'P11'\. Did you mean 'P1'"):
        read_views(tmp_path / "clean", drop_sample=["P2", "P11"])


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"match_ids": "loose"}, "read_views: match_ids must be 'exactly', 'loosely'; got 'loose'"),
        ({"transpose": True}, "transpose must be a word or a list of words, such as .*; got True"),
        ({"drop_sample": [3]}, r"drop_sample must be a word or a list of words, such as .*; got \[3\]"),
    ],
)
def test_words_that_mean_nothing_are_refused(clean, tmp_path, words, error):
    with pytest.raises(OptionError, match=error):
        read_views(tmp_path / "clean", **words)


def test_words_for_files_are_refused_for_frames():
    with pytest.raises(OptionError, match="id_column and transpose are for files; set the index of a frame"):
        inspect_data({"rna": RNA}, transpose=["rna"])
    assert inspect_data({"rna": RNA}, drop_sample="P1", drop="a").n_samples == 5


# Packed files


@pytest.mark.parametrize("place", ["", "study/"])
def test_an_archive_is_read_as_the_folder_that_it_holds(tmp_path, clean, place):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr(f"{place}rna.csv", RNA.to_csv())
        archive.writestr(f"{place}protein.csv.gz", gzip.compress(PROTEIN.to_csv().encode()))
        archive.writestr(f"{place}labels.csv", CLASS.to_csv())
        archive.writestr(f"{place}.hidden.csv", "no table")
        archive.writestr(f"__MACOSX/{place}rna.csv", "no table")
    dataset = read_views(tmp_path / "data.zip")
    assert_same(dataset, clean)
    assert dataset.labels is not None


def test_a_zipped_table_is_a_view(tmp_path, clean):
    folder = tmp_path / "data"
    folder.mkdir()
    RNA.to_csv(folder / "rna.csv.zip")
    PROTEIN.to_csv(folder / "protein.tsv.zip", sep="\t")
    assert_same(read_views(folder), clean)
    assert read_views(folder / "rna.csv.zip").views.names == ("rna",)


def test_an_archive_of_one_file_is_that_file(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, view_0=RNA.to_numpy(), labels=np.arange(6))
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("data.npz", buffer.getvalue())
    np.testing.assert_array_equal(read_views(tmp_path / "data.zip").views.arrays[0], RNA.to_numpy())


def test_an_error_names_the_archive_and_not_where_it_was_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("a.csv", "id,x\n1,2\n1,2,3,4\n")
        archive.writestr("b.csv", "id,x\n1,2\n")
    with pytest.raises(DataError, match=r"data\.zip: a\.csv: not a readable table") as caught:
        read_views(tmp_path / "data.zip")
    assert "acova-" not in str(caught.value)


def written(path, *members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ([("../../a.csv", "id,x\n1,2\n")], r"holds '\.\./\.\./a\.csv', a name that leads out of the archive"),
        ([("/etc/a.csv", "id,x\n1,2\n")], "a name that leads out of the archive"),
        ([("..\\a.csv", "id,x\n1,2\n")], "a name that leads out of the archive"),
        ([("a/x.csv", "id,x\n1,2\n"), ("b/y.csv", "id,x\n1,2\n")], r"its files are in several folders, \['a', 'b'\]"),
        ([("x.csv", "id,x\n1,2\n"), ("inner.zip", b"PK")], r"holds another archive, 'inner\.zip'; unpack it"),
        ([], "no .csv"),
    ],
)
def test_archives_that_are_no_folder_of_tables_are_refused(tmp_path, members, error):
    path = written(tmp_path / "data.zip", *members)
    with pytest.raises(DataError, match=error):
        read_views(path)
    assert [file.name for file in tmp_path.parent.glob("*.csv")] == []


def test_a_zipped_view_must_be_one_table(tmp_path):
    written(tmp_path / "a.csv.zip", ("x.csv", "id,x\n1,2\n"), ("y.csv", "id,x\n1,2\n"))
    with pytest.raises(DataError, match=r"a\.csv\.zip: must hold one table, .* it holds 'x\.csv', 'y\.csv'"):
        read_views(tmp_path / "a.csv.zip")


@pytest.mark.parametrize("name", ["a.csv.zip", "a.zip"])
def test_archives_that_unpack_to_too_much_are_refused(tmp_path, low_floor, name):
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.csv", "w") as stream:
        for _ in range(BOMB // 2**20):
            stream.write(bytes(2**20))
    with pytest.raises(DataError, match=r"bytes would unpack to .* GiB; the limit is 100 times"):
        read_views(tmp_path / name)


def test_a_bomb_within_an_archive_is_refused(tmp_path, low_floor):
    written(tmp_path / "a.zip", ("a.csv.gz", gzip.compress(bytes(BOMB))))
    with pytest.raises(DataError, match=r"a\.zip: a\.csv\.gz: \d+ bytes would unpack to"):
        read_views(tmp_path / "a.zip")


@pytest.mark.parametrize("cut", [30, 200])
def test_cut_off_archives_are_refused(tmp_path, cut):
    path = written(tmp_path / "a.zip", ("a.csv", RNA.to_csv()))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match="not a readable zip archive"):
        read_views(path)


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path):
    path = written(tmp_path / "a.csv.zip", ("a.csv", RNA.to_csv()))
    content = bytearray(path.read_bytes())
    content[60] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a readable table"):
        read_views(path)
