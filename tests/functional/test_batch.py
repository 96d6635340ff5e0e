import torch

from acova.functional import Batch


def batch(targets=()):
    views = [torch.arange(14.0).view(7, 2), torch.arange(7.0).view(7, 1)]
    return Batch(views, torch.arange(14).view(7, 2) % 3 > 0, targets)


def test_latent_vectors_are_decoded_to_the_views_unless_there_are_targets():
    plain = batch()
    assert plain.decoded is plain.views
    targets = [view + 1 for view in plain.views]
    assert batch(targets).decoded is targets


def test_rows_and_pieces_are_those_of_every_part():
    targets = [torch.arange(14.0).view(7, 2) + 100, torch.arange(7.0).view(7, 1) + 100]
    for whole in (batch(), batch(targets)):
        assert len(whole.rows(slice(2, 4)).targets) == len(whole.targets)
        for pieces in (whole.split(3), [whole.rows(slice(start, start + 3)) for start in (0, 3, 6)]):
            assert [len(piece.observed) for piece in pieces] == [3, 3, 1]
            assert torch.equal(torch.cat([piece.observed for piece in pieces]), whole.observed)
            for kind in ("views", "targets", "decoded"):
                for v, part in enumerate(getattr(whole, kind)):
                    assert torch.equal(torch.cat([getattr(piece, kind)[v] for piece in pieces]), part)
    assert batch().split(100)[0].observed.shape == (7, 2)
