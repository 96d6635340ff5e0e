import numpy as np
import torch

from acova.functional import cross_view_lenders, same_view_lenders
from acova.functional import neighbours as donors


def drawn(n, seed):
    generator = torch.Generator().manual_seed(seed)
    observed = torch.rand(n, 3, generator=generator) < 0.6
    return torch.randn(n, 3, 4, generator=generator, dtype=torch.float64), observed


def cosine(a, b):
    return float(a @ b / a.norm() / b.norm())


def test_lenders_are_those_of_a_loop_in_any_blocks(monkeypatch):
    (codes, observed), (others, theirs) = drawn(12, 0), drawn(30, 1)
    whole = cross_view_lenders(codes, observed, others, theirs, 2)
    monkeypatch.setattr(donors, "_BLOCK_CELLS", 70)
    for v, (lenders, again) in enumerate(
        zip(whole, cross_view_lenders(codes, observed, others, theirs, 2), strict=True)
    ):
        assert torch.equal(lenders.row, again.row)
        assert not lenders.found[observed[:, v]].any()
        for i in np.flatnonzero(~observed[:, v]):
            scores = {}
            for n in range(len(others)):
                common = [w for w in range(3) if observed[i, w] and theirs[n, w]]
                if theirs[n, v] and common:
                    scores[n] = np.mean([cosine(codes[i, w], others[n, w]) for w in common])
            best = sorted(scores, key=scores.get, reverse=True)[:2]
            assert lenders.row[i][lenders.found[i]].tolist() == best


def test_hidden_codes_are_not_read():
    (codes, observed), (others, theirs) = drawn(12, 0), drawn(30, 1)
    dirty = torch.where(observed.unsqueeze(-1), codes, torch.nan)
    dirty_others = torch.where(theirs.unsqueeze(-1), others, torch.nan)
    plain = cross_view_lenders(codes, observed, others, theirs, 3)
    for one, other in zip(plain, cross_view_lenders(dirty, observed, dirty_others, theirs, 3), strict=True):
        assert torch.equal(one.row[one.found], other.row[other.found])


def test_the_most_similar_code_of_the_same_view(monkeypatch):
    (codes, _), (others, theirs) = drawn(12, 0), drawn(30, 1)
    monkeypatch.setattr(donors, "_BLOCK_CELLS", 70)
    lenders = same_view_lenders(codes[:, 0], others[:, 0], theirs[:, 0])
    for i in range(len(codes)):
        scores = {n: cosine(codes[i, 0], others[n, 0]) for n in range(30) if theirs[n, 0]}
        assert int(lenders.row[i, 0]) == max(scores, key=scores.get)
    assert not same_view_lenders(codes[:, 0], others[:, 0], torch.zeros(30, dtype=torch.bool)).found.any()
