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
from torch.nn.parallel import DistributedDataParallel

from acova.engine.distributed import ALONE, Processes
from acova.functional import Batch

Loss = Callable[[Any, Batch, Tensor], Mapping[str, Tensor]]
"""``loss(network, batch, noise)`` of one run gives named values, each of shape (N,)."""


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
    processes : Processes
        With several, the gradients of a single network are averaged over them.

    Attributes
    ----------
    parameters : dict of str to Tensor
        Trainable tensors, with a leading axis of R when stacked.
    rounded : dict of str to Tensor
        Parameters, by name, as products take them; empty before `keep_rounded`.
    """

    def __init__(
        self, networks: Sequence[nn.Module], *, stacked: bool | None = None, processes: Processes = ALONE
    ) -> None:
        self.networks = list(networks)
        self.processes = processes
        self.rounded: dict[str, Tensor] = {}
        self.stacked = len(self.networks) > 1 if stacked is None else stacked
        if not self.stacked:
            self.parameters: dict[str, Tensor] = dict(self.networks[0].named_parameters())
            self._call: nn.Module = _Call(self.networks[0])
            return
        self.parameters, self._buffers = stack_module_state(self.networks)
        self._template = copy.deepcopy(self.networks[0]).to("meta")
        self._template.mapped = True  # type: ignore[assignment]
        self._call = _Call(self._template)
        for run, network in enumerate(self.networks):
            for name, parameter in network.named_parameters():
                parameter.data = self.parameters[name].data[run]

    def release(self) -> None:
        """Give every network memory of its own again, and none to rounded parameters."""
        if self.stacked:
            for parameter in (p for network in self.networks for p in network.parameters()):
                parameter.data = parameter.data.clone()
        for module in self._called.modules():
            if "rounded" in module._buffers:
                module.rounded = None  # type: ignore[assignment]
        self.rounded = {}

    def keep_rounded(self) -> None:
        """Hold rounded parameters beside the others, for an optimiser that writes both.

        A module asks for it by a buffer ``rounded``, which is None else, beside its ``weight``, and says what it is
        rounded to by ``round_to``. Processes that exchange gradients, and buffers, do without.
        """
        if self.rounded or self.processes.size > 1:
            return
        for name, module in self._called.named_modules():
            weight = self.parameters.get(f"{name}.weight")
            if weight is None or "rounded" not in module._buffers or module.round_to == weight.dtype:
                continue
            self.rounded[f"{name}.weight"] = rounded = weight.detach().to(module.round_to)
            if self.stacked:
                self._buffers[f"{name}.rounded"] = rounded
                module.rounded = torch.empty_like(module.weight, dtype=rounded.dtype)
            else:
                module.rounded = rounded

    @torch.no_grad()
    def round_again(self) -> None:
        """Round all parameters anew: others than the optimiser may have written to them."""
        for name, rounded in self.rounded.items():
            rounded.copy_(self.parameters[name])

    @property
    def _called(self) -> nn.Module:
        """The network that losses are taken of: the parameters of a stack are put into it."""
        return self._template if self.stacked else self.networks[0]

    def __len__(self) -> int:
        return len(self.networks)

    def train_only(self, names: Sequence[str]) -> None:
        """Let these parameters have gradients and no others; from here on processes exchange them."""
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(name in names)
            parameter.grad = None
        if self.processes.size > 1:
            self._call = DistributedDataParallel(_Call(self.networks[0]))

    def of_run(self, name: str, run: int) -> Tensor:
        """Return one run's parameter, a window on the stack."""
        return self.networks[run].get_parameter(name)

    def losses(self, loss: Loss, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
        """Return every run's named values, each of shape (R, B), for a batch with a leading axis of R."""
        if not self.stacked:
            kinds = (batch.views, batch.targets, batch.labels)
            views, targets, labels = ([part[0] for part in parts] for parts in kinds)
            values = self._call(loss, Batch(views, batch.observed[0], targets, labels), noise[0])
            return {name: value.unsqueeze(0) for name, value in values.items()}
        return self._map(loss, batch, noise)

    @torch.no_grad()
    def measure(self, function: Callable[[Any], Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return every run's named numbers, each of shape (R,), that a function of its network gives."""
        if not self.stacked:
            return {name: value.unsqueeze(0) for name, value in function(self.networks[0]).items()}
        return self._map(function)

    def _map(self, function: Callable[..., Any], *inputs: Any) -> dict[str, Tensor]:
        def one(parameters: Any, buffers: Any, *of_run: Any) -> Any:
            state = {f"network.{name}": value for name, value in {**parameters, **buffers}.items()}
            return functional_call(self._call, state, (function, *of_run))

        return dict(vmap(one)(self.parameters, self._buffers, *inputs))

    @torch.no_grad()
    def finite(self) -> Tensor:
        """Tell which runs have finite parameters alone, (R,)."""
        count = len(self)
        each = [
            parameter.isfinite().reshape(count, parameter.numel() // count).all(1)
            for parameter in self.parameters.values()
        ]
        return torch.stack(each).all(0)

    def clip_gradients(self, names: Sequence[str], max_norm: float) -> Tensor:
        """Shorten each run's gradient, over the named parameters, to a norm of at most `max_norm`; tell whose, (R,)."""
        gradients = [gradient for name in names if (gradient := self.parameters[name].grad) is not None]
        stacks = [gradient.unbind() if self.stacked else (gradient,) for gradient in gradients]
        # Each run's pieces go through a few kernels together; one kernel per parameter would cost more than Adam.
        return torch.stack([_clip(pieces, max_norm) for pieces in zip(*stacks, strict=True)])


class _Call(nn.Module):
    """Lets `functional_call` apply any function to a network with replaced parameters."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, function: Callable[..., Any], *inputs: Any) -> Any:
        return function(self.network, *inputs)


def _clip(gradients: Sequence[Tensor], max_norm: float) -> Tensor:
    """Shorten a gradient given in pieces to a norm of at most `max_norm`, in place, a GPU's host not waiting."""
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))  # type: ignore[arg-type]
    if norm.is_cuda or norm > max_norm:
        torch._foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp(max=1.0))  # type: ignore[call-overload]
    exceeded: Tensor = norm > max_norm
    return exceeded
