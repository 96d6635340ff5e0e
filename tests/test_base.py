import numpy as np
import pytest

from acova.base import FileError, OptionError, Streams
from acova.base.errors import check_choice, check_number
from acova.base.files import replaced_file, write_whole
from acova.base.outputs import new_file


def test_a_stream_depends_on_its_name_and_seed_alone():
    streams = Streams(3)
    first = streams.numpy("noise", 1).random(4)
    streams.numpy("order").random(100)
    np.testing.assert_array_equal(streams.numpy("noise", 1).random(4), first)
    np.testing.assert_array_equal(Streams(3).child("noise").numpy(1).random(4), first)
    assert streams.integer("noise", 1) != Streams(4).integer("noise", 1)


def test_streams_do_not_collide():
    names = [("a",), ("b",), ("a", 1), ("a", 11), ("a", 1, 1), ("a1", 1), ()]
    assert len({Streams(seed).integer(*name) for name in names for seed in (0, 1, 10)}) == 3 * len(names)
    assert all(0 <= Streams(0).integer(i) < 2**63 for i in range(100))


def test_streams_look_independent():
    draws = np.stack([Streams(0).numpy("run", i).standard_normal(2000) for i in range(20)])
    correlations = np.corrcoef(draws)[np.triu_indices(20, 1)]
    assert np.abs(correlations).max() < 0.1


def test_a_wrong_word_gets_the_words_and_a_hint():
    with pytest.raises(
        OptionError, match=r"ACOVA: missing must be 'precision', 'marginal'; got 'precison'. Did you mean"
    ):
        check_choice("ACOVA", "missing", "precison", ("precision", "marginal"))


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None, True, float("nan")])
def test_a_wrong_count_is_refused(value):
    with pytest.raises(OptionError, match="n must be an integer at least 1; got"):
        check_number("x", "n", value, minimum=1, integer=True)


@pytest.mark.parametrize("value", [1, np.int64(5)])
def test_numpy_integers_are_integers(value):
    check_number("x", "n", value, minimum=1, integer=True)


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan"), "a"])
def test_a_wrong_rate_is_refused(value):
    with pytest.raises(OptionError, match="rate must be a number above 0; got"):
        check_number("x", "rate", value, minimum=0, strict=True)


# --- files --------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "table.csv"
    write_whole(path, b"old")

    def fail():
        with replaced_file(path) as part:
            part.write_text("half")
            assert (part.parent, part.suffix, path.read_text()) == (tmp_path, ".csv", "old")
            raise ValueError("no number")

    with pytest.raises(ValueError, match="no number"):
        fail()
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])
    with replaced_file(path) as part:
        part.write_text("new")
    assert (path.read_text(), list(tmp_path.iterdir())) == ("new", [path])


def test_a_link_keeps_pointing_to_the_file_whose_content_is_replaced(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "file.json")
    write_whole(tmp_path / "link.json", b"{}")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "file.json").read_bytes() == b"{}"


def test_only_outputs_of_a_users_choice_get_a_folder(tmp_path):
    with pytest.raises(FileError, match=r"writing .*state.json failed: No such file or directory"):
        write_whole(tmp_path / "gone" / "state.json", b"{}")
    with new_file(tmp_path / "new" / "labels.csv") as part:
        part.write_text("label")
    assert (tmp_path / "new" / "labels.csv").read_text() == "label"
