"""From unconstrained numbers into a region: `biject_to` one to one, `transform_to` maybe not.

Both are registries by the class of a constraint; `register` adds one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.distributions import constraints, transforms
from adjoint.distributions.constraints import Constraint
from adjoint.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """For each class of constraints, a function from a constraint to a transform into it.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import constraints, transform_to
    >>> transform_to(constraints.positive)(ad.tensor([-1.0, 0.0, 1.0]))
    tensor([0.3679, 1.0000, 2.7183])
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Factory] = {}

    def register(self, constraint: Constraint | type[Constraint], factory: Any = None) -> Any:
        """Register a factory for the class of a constraint; without a factory, a decorator."""
        cls = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(cls, type) and issubclass(cls, Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        if factory is None:
            return lambda given: self.register(cls, given)
        self._registry[cls] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform from unconstrained numbers into the region of `constraint`."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _shifted_exp(bound: Any, direction: int) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(bound, direction)]
    )


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    unit = all(isinstance(bound, int | float) for bound in (low, high)) and (low, high) == (0, 1)
    if unit:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform(
        [transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)]
    )


# What both registries know of numbers and of vectors.
_COMMON: dict[type[Constraint], Factory] = {
    constraints._Real: lambda c: transforms.identity_transform,
    constraints._GreaterThan: lambda c: _shifted_exp(c.lower_bound, 1),
    constraints._GreaterThanEq: lambda c: _shifted_exp(c.lower_bound, 1),
    constraints._LessThan: lambda c: _shifted_exp(c.upper_bound, -1),
    constraints._Interval: _between,
    constraints._HalfOpenInterval: _between,
    constraints._CorrCholesky: lambda c: transforms.CorrCholeskyTransform(),
}


def _made_of_parts(registry: ConstraintRegistry) -> dict[type[Constraint], Factory]:
    """Constraints made of others lead to transforms made of theirs."""
    return {
        constraints.independent: lambda c: transforms.IndependentTransform(
            registry(c.base_constraint), c.reinterpreted_batch_ndims
        ),
        constraints.cat: lambda c: transforms.CatTransform(
            [registry(part) for part in c.cseq], c.dim, c.lengths
        ),
        constraints.stack: lambda c: transforms.StackTransform(
            [registry(part) for part in c.cseq], c.dim
        ),
    }


for _registry in (biject_to, transform_to):
    for _cls, _factory in (_COMMON | _made_of_parts(_registry)).items():
        _registry.register(_cls, _factory)

biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _matrix in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrix, lambda c: transforms.PositiveDefiniteTransform())
