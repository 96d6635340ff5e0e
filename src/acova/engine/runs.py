"""Several runs of one network shape as one computation.

The mathematics is written for one run. Here the parameters of R networks are stacked on a leading axis and the loss is
mapped over it (`torch.func.vmap`), so that R small matrix products become one batched product.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

Loss = Callable[[Any, Sequence[Tensor], Tensor, Tensor], Mapping[str, Tensor]]
"""``loss(network, views, observed, noise)`` of one run gives named scalars."""


class RunData:
    """The data of R runs: what differs between runs is stored per run, what is the same is stored once.

    Parameters
    ----------
    views : sequence of V tensors of shape (R, N, P_v), or (1, N, P_v) when all runs share the data
    observed : Tensor of bool, shape (R, N, V), or (1, N, V)
    """

    def __init__(self, views: Sequence[Tensor], observed: Tensor) -> None:
        self.views = list(views)
        self.observed = observed
        self.n_samples = observed.shape[1]
        self.device = observed.device

    def batch(self, rows: Tensor) -> tuple[list[Tensor], Tensor]:
        """Return each run's own rows: views (R, B, P_v) and observed (R, B, V) for row numbers (R, B)."""
        return [_pick(view, rows) for view in self.views], _pick(self.observed, rows)

    def of_run(self, run: int) -> tuple[list[Tensor], Tensor]:
        """Return one run's views (N, P_v) and observed (N, V)."""
        pick = [part[run if len(part) > 1 else 0] for part in (*self.views, self.observed)]
        return pick[:-1], pick[-1]


def _pick(table: Tensor, rows: Tensor) -> Tensor:
    if len(table) == 1:
        return table[0][rows]
    run = torch.arange(len(table), device=table.device).unsqueeze(-1)
    return table[run, rows]


class Runs:
    """R networks that train together.

    Parameters
    ----------
    networks : sequence of R modules with the same parameter names and shapes, on one device
        Stacked networks become windows on the stack: what training changes they show, and what is
        written to them in place training sees. While the loss is mapped over them, their attribute
        ``mapped`` is True: shapes must then not depend on data.
    stacked : bool, optional
        False keeps a single network as it is, which lets it skip hidden rows on a CPU. Several networks are
        always stacked.

    Attributes
    ----------
    parameters : dict of str to Tensor
        Trainable tensors, with a leading axis of R when stacked.
    """

    def __init__(self, networks: Sequence[nn.Module], *, stacked: bool | None = None) -> None:
        self.networks = list(networks)
        self.stacked = len(self.networks) > 1 if stacked is None else stacked
        if not self.stacked:
            self.parameters: dict[str, Tensor] = dict(self.networks[0].named_parameters())
            return
        self.parameters, self._buffers = stack_module_state(self.networks)
        template = copy.deepcopy(self.networks[0]).to("meta")
        template.mapped = True  # type: ignore[assignment]
        self._call = _Call(template)
        for run, network in enumerate(self.networks):
            for name, parameter in network.named_parameters():
                parameter.data = self.parameters[name].data[run]

    def release(self) -> None:
        """Give every network memory of its own again."""
        if self.stacked:
            for parameter in (p for network in self.networks for p in network.parameters()):
                parameter.data = parameter.data.clone()

    def __len__(self) -> int:
        return len(self.networks)

    def losses(self, loss: Loss, views: Sequence[Tensor], observed: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Return every run's named losses, each of shape (R,), for batches with a leading axis of R."""
        if not self.stacked:
            parts = loss(self.networks[0], [view[0] for view in views], observed[0], noise[0])
            return {name: value.unsqueeze(0) for name, value in parts.items()}

        def one(parameters: Any, buffers: Any, *batch: Any) -> Any:
            state = {f"network.{name}": value for name, value in {**parameters, **buffers}.items()}
            return functional_call(self._call, state, (loss, *batch))

        return dict(vmap(one)(self.parameters, self._buffers, list(views), observed, noise))

    def clip_gradients(self, names: Sequence[str], max_norm: float) -> None:
        """Shorten each run's gradient, over the named parameters, to a norm of at most `max_norm`."""
        gradients = [gradient for name in names if (gradient := self.parameters[name].grad) is not None]
        stacks = [gradient.unbind() if self.stacked else (gradient,) for gradient in gradients]
        # Each run's pieces go through a few kernels together; one kernel per parameter would cost more than Adam.
        for mine in zip(*stacks, strict=True):
            _clip(mine, max_norm)


class _Call(nn.Module):
    """Lets `functional_call` apply any function to a network with replaced parameters."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, function: Callable[..., Any], *inputs: Any) -> Any:
        return function(self.network, *inputs)


def _clip(gradients: Sequence[Tensor], max_norm: float) -> None:
    """Shorten a gradient given in pieces to a norm of at most `max_norm`, in place, the host not waiting."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))  # type: ignore[arg-type]
    torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))  # type: ignore[call-overload]
