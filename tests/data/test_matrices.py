"""Matrix Market files, 10x folders and 10x files, also damaged and hostile ones."""

import gzip
import io
import signal

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse

from acova.base import DataError
from acova.data import StoredViews, inspect_data, read_views
from acova.data.files import limits, packed

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(0)
COUNTS = (RNG.poisson(1.0, size=(9, 5)) * (RNG.random((9, 5)) < 0.6)).astype(float)  # cells x features
CELLS = [f"AAC{i}-1" for i in range(9)]
IDS = [f"ENSG{i}" for i in range(5)]
SYMBOLS = ["CD3", "CD8", "TWIN", "TWIN", "CD19"]
SHOWN = ("CD3", "CD8", "TWIN (ENSG2)", "TWIN (ENSG3)", "CD19")
TYPES = ["Gene Expression"] * 3 + ["Antibody Capture"] * 2
BOMB = 2**25


@pytest.fixture(autouse=True)
def _soon():
    """End a test whose reader goes on for ever."""

    def stop(*_):
        raise TimeoutError("still reading")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def low_floor(monkeypatch):
    for module in (limits, packed):
        monkeypatch.setattr(module, "FLOOR", BOMB // 2)


def text_of(matrix, **options):
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix, **options)
    return buffer.getvalue()


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    content = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_folder(folder, *, version=3, types=TYPES, head="", packed=True, counts=COUNTS):
    """Write a folder as 10x programs do."""
    gz = ".gz" if packed else ""
    write(folder / f"{head}matrix.mtx{gz}", text_of(sparse.coo_matrix(counts.T), field="integer"))
    write(folder / f"{head}barcodes.tsv{gz}", "".join(f"{cell}\n" for cell in CELLS))
    rows = zip(IDS, SYMBOLS, types, strict=True)
    lines = ["\t".join(row if version == 3 else row[:2]) for row in rows]
    write(folder / f"{head}{'features' if version == 3 else 'genes'}.tsv{gz}", "\n".join(lines) + "\n")
    return folder


def write_h5(path, counts=COUNTS, version=3, **changes):
    """Write a file as 10x programs do; changes replace data sets."""
    matrix = sparse.csr_matrix(counts)  # columns of features x cells
    group = "matrix" if version == 3 else "GRCh38"
    names = {"features/id": IDS, "features/name": SYMBOLS, "features/feature_type": TYPES}
    if version == 2:
        names = {"genes": IDS, "gene_names": SYMBOLS}
    held = {
        "data": matrix.data.astype(np.int32),
        "indices": matrix.indices.astype(np.int64),
        "indptr": matrix.indptr.astype(np.int64),
        "shape": np.array(counts.shape[::-1], dtype=np.int32),
        "barcodes": np.array(CELLS, dtype="S"),
        **{name: np.array(values, dtype="S") for name, values in names.items()},
        **changes,
    }
    with h5py.File(path, "w") as file:
        for name, values in held.items():
            file[f"{group}/{name}"] = values
    return path


def assert_typed(views):
    assert views.names == ("Gene Expression", "Antibody Capture")
    assert views.index.tolist() == CELLS
    assert views.columns == (SHOWN[:3], SHOWN[3:])
    np.testing.assert_array_equal(views.arrays[0], COUNTS[:, :3])
    np.testing.assert_array_equal(views.arrays[1], COUNTS[:, 3:])


# What is read


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("head", ["", "GSM1_"])
def test_a_10x_folder_has_a_view_for_each_type_of_features(tmp_path, packed, head):
    assert_typed(read_views(write_folder(tmp_path / "sample", packed=packed, head=head)).views)


def test_an_old_10x_folder_has_genes(tmp_path):
    views = read_views(write_folder(tmp_path / "sample", version=2, packed=False)).views
    assert (views.names, views.columns) == (("Gene Expression",), (SHOWN,))
    np.testing.assert_array_equal(views.arrays[0], COUNTS)


def test_a_10x_file_has_a_view_for_each_type_of_features(tmp_path):
    assert_typed(read_views(write_h5(tmp_path / "filtered.h5")).views)
    views = read_views(write_h5(tmp_path / "old.h5", version=2)).views
    assert (views.names, views.columns, views.index.tolist()) == (("Gene Expression",), (SHOWN,), CELLS)
    np.testing.assert_array_equal(views.arrays[0], COUNTS)


@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
@pytest.mark.parametrize("ending", ["mtx", "mtx.gz", "MTX"])
def test_a_matrix_without_names_has_samples_in_rows(tmp_path, field, ending):
    matrix = sparse.coo_matrix(COUNTS if field != "pattern" else COUNTS > 0)
    write(tmp_path / f"rna.{ending}", text_of(matrix, field=field))
    views = read_views(tmp_path / f"rna.{ending}").views
    assert (views.names, views.columns) == (("rna",), (None,))
    np.testing.assert_array_equal(views.arrays[0], matrix.toarray())
    turned = read_views(tmp_path / f"rna.{ending}", transpose="rna").views
    np.testing.assert_array_equal(turned.arrays[0], matrix.toarray().T)


def test_a_dense_matrix_market_file_is_read(tmp_path):
    write(tmp_path / "rna.mtx", text_of(COUNTS))
    np.testing.assert_array_equal(read_views(tmp_path / "rna.mtx").views.arrays[0], COUNTS)


@pytest.mark.parametrize("turned", [False, True])
def test_the_number_of_names_says_where_the_cells_are(tmp_path, turned):
    write(tmp_path / "rna.mtx", text_of(sparse.coo_matrix(COUNTS.T if turned else COUNTS)))
    write(tmp_path / "rna_features.tsv", "\n".join(IDS))
    write(tmp_path / "rna_barcodes.tsv", "\n".join(CELLS))
    views = read_views(tmp_path / "rna.mtx").views
    assert (views.names, views.columns, views.index.tolist()) == (("rna",), (tuple(IDS),), CELLS)
    np.testing.assert_array_equal(views.arrays[0], COUNTS)


def test_matrices_stand_beside_tables(tmp_path):
    write_folder(tmp_path, types=["Gene Expression"] * 5, head="rna_")
    clinic = pd.DataFrame({"age": range(8), "site": list("abababab")}, [name.lower() for name in CELLS[1:]])
    clinic.to_csv(tmp_path / "clinic.csv")
    pd.DataFrame({"class": list("xyxyxyxyx")}, CELLS).to_csv(tmp_path / "labels.csv")
    dataset = read_views(tmp_path, match_ids="loosely", drop_sample="AAC8-1", drop="rna:CD8")
    views = dataset.views
    assert set(views.names) == {"rna", "clinic"}
    rows = views.index.str.upper().get_indexer(CELLS[:8])
    np.testing.assert_array_equal(views.arrays[views.names.index("rna")][rows], np.delete(COUNTS[:8], 1, axis=1))
    np.testing.assert_array_equal(views.observed[rows, views.names.index("clinic")], [False] + [True] * 7)
    np.testing.assert_array_equal(dataset.labels[rows], [0, 1] * 4)


def test_large_matrices_stay_sparse(tmp_path, monkeypatch):
    monkeypatch.setattr("acova.data.files.formats.IN_MEMORY", 0)
    write_folder(tmp_path / "a", head="rna_", types=["Gene Expression"] * 5)
    clinic = pd.DataFrame({"age": np.arange(9.0)}, [name.lower() for name in CELLS])
    clinic.to_csv(tmp_path / "a" / "clinic.csv")
    words = {"match_ids": "loosely", "drop_sample": CELLS[3], "drop": "rna:CD8"}
    stored = read_views(tmp_path / "a", **words).views
    monkeypatch.undo()
    dense = read_views(tmp_path / "a", **words).views
    assert isinstance(stored, StoredViews)
    block = stored.read(0, len(stored))
    assert (block.names, block.columns, block.index.tolist()) == (dense.names, dense.columns, dense.index.tolist())
    for ours, theirs in zip(block.arrays, dense.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_large_matrices_are_not_inspected(tmp_path, monkeypatch):
    for module in ("acova.data.files.formats", "acova.data.inspection"):
        monkeypatch.setattr(f"{module}.IN_MEMORY", 0)
    folder = write_folder(tmp_path / "a")
    with pytest.raises(DataError, match=r"inspect_data: view 'Gene Expression' would take .* GB when dense"):
        inspect_data(folder)


# Damaged and hostile files


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "its first line must be '%%MatrixMarket"),
        (b"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1 1\n", "its first line must be"),
        (b"%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 1 1\n", "its first line must be"),
        (b"%%MatrixMarket matrix coordinate real general\n", "the line of its sizes is ''"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2\n1 1 1\n", "the line of its sizes is '2 2'"),
        (b"%%MatrixMarket matrix coordinate real general\n-2 2 1\n1 1 1\n", "the line of its sizes is '-2 2 1'"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 5\n1 1 1\n", "says that 5 of 2 x 2 cells are filled"),
        (
            b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n",
            "it has 1 lines of numbers",
        ),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 2\n", "more numbers than its header says"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1 7\n", "more numbers than its header says"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1\n", "not a readable Matrix Market file"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1.5 1 1\n", "not a readable Matrix Market file"),
        (b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1 1\n", "more numbers than its header says"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n", "a cell is in row 3 of 2"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 0 1\n", "a cell is in column 0 of 2"),
        (
            b"%%MatrixMarket matrix coordinate real general\n2 2 1\n4294967297 1 1\n",
            "a cell is in row or column 4294967297",
        ),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 x\n", "not a readable Matrix Market file"),
        (b"%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n", "not a readable Matrix Market file"),
        (b"%%MatrixMarket matrix coordinate real general\n2 0 0\n", "must be a 2-D matrix with at least one column"),
    ],
)
def test_matrix_market_files_that_are_none_are_refused(tmp_path, content, error):
    (tmp_path / "a.mtx").write_bytes(content)
    with pytest.raises(DataError, match=error):
        read_views(tmp_path / "a.mtx")


@pytest.mark.parametrize(
    "sizes",
    [
        "99999999999999 3 1",  # an array of row ends alone would fill the memory
        "3 99999999999999 1",
        "1000000 1000000 99999999999",
        "999999999999999999999999 2 1",
    ],
)
@pytest.mark.parametrize("kind", ["coordinate", "array"])
def test_headers_that_promise_too_much_are_refused_before_anything_is_read(tmp_path, sizes, kind):
    sizes = sizes if kind == "coordinate" else sizes.rsplit(" ", 1)[0]
    (tmp_path / "a.mtx").write_text(f"%%MatrixMarket matrix {kind} real general\n{sizes}\n1 1 1\n")
    with pytest.raises(DataError, match=r"would take|would unpack|line of its sizes|there may be as many"):
        read_views(tmp_path / "a.mtx")


def test_a_matrix_market_bomb_is_refused(tmp_path, low_floor):
    head = b"%%MatrixMarket matrix coordinate real general\n2 2 1\n"
    with gzip.open(tmp_path / "a.mtx.gz", "wb") as stream:
        stream.write(head + b"%" * BOMB)
    with pytest.raises(DataError, match="bytes would unpack to"):
        read_views(tmp_path / "a.mtx.gz")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("name", ["matrix.mtx.gz", "features.tsv.gz", "barcodes.tsv.gz"])
def test_cut_off_files_of_a_10x_folder_are_refused(tmp_path, name, share):
    folder = write_folder(tmp_path / "a")
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: round(share * len(content))])
    with pytest.raises(DataError, match=rf"{name}: not a readable"):
        read_views(folder)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    folder = write_folder(tmp_path / "a")
    write(folder / "barcodes.tsv.gz", "one\ntwo\n")
    with pytest.raises(DataError, match=r"has 5 rows and 9 columns, but .* names 5 features and .* 2 cells"):
        read_views(folder)
    (folder / "barcodes.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"has features\.tsv\.gz beside it but no file of its barcodes; put it there"):
        read_views(folder)
    write(folder / "barcodes.tsv", "\n".join(CELLS))
    write(folder / "barcodes.tsv.gz", "\n".join(CELLS))
    with pytest.raises(DataError, match=r"barcodes\.tsv and barcodes\.tsv\.gz beside it, which both name its barcodes"):
        read_views(folder)


def test_cells_with_one_name_are_refused(tmp_path):
    folder = write_folder(tmp_path / "a")
    write(folder / "barcodes.tsv.gz", "\n".join([*CELLS[:-1], CELLS[0]]))
    with pytest.raises(DataError, match="has the index label 'AAC0-1' more than once"):
        read_views(folder)
    write(folder / "barcodes.tsv.gz", "\n".join([*CELLS[:3], "", *CELLS[4:]]) + "\n")
    with pytest.raises(DataError, match=r"barcodes\.tsv\.gz: line 4 is empty"):
        read_views(folder)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"shape": np.array([5, 2**31 - 1])}, r"the shape \(5, 2147483647\) .* names 5 features and 9 cells"),
        ({"shape": np.array([5])}, "not a readable 10x file"),
        ({"barcodes": np.array(CELLS[:-1], dtype="S")}, "names 5 features and 8 cells and has 9 columns"),
        ({"features/id": np.array(IDS[:-1], dtype="S")}, "names 4 features and 9 cells"),
        ({"features/feature_type": np.array(TYPES[:-1], dtype="S")}, "has 5 features but 4 types of them"),
        ({"data": np.ones(3, np.int32)}, "has 3 values and .* places for .* filled cells"),
        ({"indices": np.full(sparse.csr_matrix(COUNTS).nnz, 2**20)}, "not a readable"),
        ({"indices": np.full(sparse.csr_matrix(COUNTS).nnz, -1)}, "not a readable"),
        ({"indptr": np.array([0, 5, 3, 9, 9, 9, 9, 9, 9, sparse.csr_matrix(COUNTS).nnz])}, "not a readable"),
        ({"indptr": np.arange(10) * 2**40}, "values and .* places for .* filled cells"),
    ],
)
def test_10x_files_that_contradict_themselves_are_refused(tmp_path, changes, error):
    with pytest.raises(DataError, match=error):
        read_views(write_h5(tmp_path / "a.h5", **changes))


def test_a_10x_bomb_is_refused(tmp_path, low_floor):
    path = write_h5(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        del file["matrix/data"]
        file.create_dataset("matrix/data", shape=(BOMB,), dtype="f8", chunks=(2**20,), compression="gzip")
    with pytest.raises(DataError, match="bytes would unpack to"):
        read_views(path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_cut_off_10x_files_are_refused(tmp_path, share):
    path = write_h5(tmp_path / "a.h5")
    content = path.read_bytes()
    path.write_bytes(content[: round(share * len(content))])
    with pytest.raises(DataError, match="not a readable"):
        read_views(path)


def test_a_layer_is_for_containers_of_cells(tmp_path):
    write_folder(tmp_path / "a")
    with pytest.raises(DataError, match=r"layer='counts' is for \.h5mu and \.h5ad files; leave it out"):
        read_views(tmp_path / "a", layer="counts")
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(sparse.csr_matrix(COUNTS), obs=pd.DataFrame(index=CELLS), var=pd.DataFrame(index=IDS))
    data.layers["twice"] = sparse.csr_matrix(2 * COUNTS)
    data.write(tmp_path / "a.h5ad")
    views = read_views(tmp_path / "a.h5ad", layer="twice").views
    np.testing.assert_array_equal(views.arrays[0], 2 * COUNTS)
