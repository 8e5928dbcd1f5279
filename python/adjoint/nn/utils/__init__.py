"""Working on all parameters at once: limiting gradients, joining into one vector."""

from adjoint.nn.utils import stateless as stateless
from adjoint.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, get_total_norm
from adjoint.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "stateless",
    "vector_to_parameters",
]
