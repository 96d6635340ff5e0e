"""``acova clusters``: how many clusters data have."""

from typing import Annotated

import typer

from acova.base import OptionError
from acova.cli.arguments import (
    Drop,
    DropSample,
    Holes,
    IdColumn,
    Layer,
    MatchIds,
    Missing,
    Transpose,
    data_names,
    load,
    reading_of,
)
from acova.cli.covariates import Covariates, with_covariates
from acova.cli.options import canonical
from acova.console import plain_table, say, show


def clusters(
    data: Annotated[str, typer.Argument(help="As for fit.", autocompletion=data_names)],
    candidates: Annotated[str, typer.Option(help="Numbers to compare: 2-15, or 2,4,8.")] = "2-15",
    missing: Annotated[float, Missing] = 0.0,
    pattern: Annotated[str, typer.Option(help="How views are hidden.")] = "uniform_size",
    seed: Annotated[int, typer.Option("--seed", "--random-state", help="Seed of the mask and of the comparison.")] = 0,
    drop: Drop = None,
    drop_sample: DropSample = None,
    id_column: IdColumn = None,
    transpose: Transpose = None,
    match_ids: MatchIds = "exactly",
    holes: Holes = "keep",
    layer: Layer = None,
    covariates: Covariates = None,
) -> None:
    """Show how many clusters data have, and whether they have any; nothing is trained."""
    from acova.data import make_observed
    from acova.data.masks import PATTERNS
    from acova.estimators.selection import CANDIDATES, select_n_clusters

    numbers = _numbers(candidates)
    reading = reading_of(
        "clusters", drop=drop, drop_sample=drop_sample, id_column=id_column, transpose=transpose,
        match_ids=match_ids, holes=holes, layer=layer,
    )  # fmt: skip
    views, _ = load(data, reading, stream=False)
    views = with_covariates("clusters", views, covariates)
    if missing:
        pattern = canonical(pattern, tuple(PATTERNS))
        views = views.hide(make_observed(views.n_samples, views.n_views, missing, pattern, seed))
    found = select_n_clusters(views, CANDIDATES if numbers == list(CANDIDATES) else numbers, random_state=seed)
    rows = [
        [f"{count} <" if count == found.n_clusters else count, *(f"{value:.3f}" for value in row)]
        for count, row in zip(found.candidates, found.table.to_numpy(), strict=True)
    ]
    show(plain_table(["clusters", *found.table.columns], rows, title="Numbers of clusters"))
    say(found.reason)


def _numbers(text: str) -> list[int]:
    """Return what ``2-15`` or ``2,4,8`` means."""
    try:
        if "-" in text:
            first, last = map(int, text.split("-"))
            return list(range(first, last + 1))
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"clusters: --candidates must be a range such as 2-15 or numbers such as 2,4,8; got {text!r}."
        raise OptionError(msg) from None
