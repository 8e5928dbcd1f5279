"""Structures as ``torch.utils._pytree`` sees them: flatten, map, rebuild, by PyTorch's rules.

Not the rules of composites (``adjoint._tree``): here dicts keep the order of their keys, a
dataclass is a leaf until it is registered, and a `TreeSpec` shows its type, context and parts.
Programs written against ``torch.utils._pytree`` rely on all three.
"""

from ._paths import GetAttrKey as GetAttrKey
from ._paths import KeyPath as KeyPath
from ._paths import MappingKey as MappingKey
from ._paths import SequenceKey as SequenceKey
from ._paths import key_get as key_get
from ._paths import keystr as keystr
from ._paths import tree_flatten_with_path as tree_flatten_with_path
from ._paths import tree_leaves_with_path as tree_leaves_with_path
from ._paths import tree_map_with_path as tree_map_with_path
from ._trees import SUPPORTED_NODES as SUPPORTED_NODES
from ._trees import Context as Context
from ._trees import LeafSpec as LeafSpec
from ._trees import NodeDef as NodeDef
from ._trees import PyTree as PyTree
from ._trees import TreeSpec as TreeSpec
from ._trees import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from ._trees import _is_leaf as _is_leaf
from ._trees import _register_pytree_node as _register_pytree_node
from ._trees import arg_tree_leaves as arg_tree_leaves
from ._trees import is_namedtuple as is_namedtuple
from ._trees import is_namedtuple_class as is_namedtuple_class
from ._trees import map_only as map_only
from ._trees import register_constant as register_constant
from ._trees import register_dataclass as register_dataclass
from ._trees import register_pytree_node as register_pytree_node
from ._trees import tree_all as tree_all
from ._trees import tree_all_only as tree_all_only
from ._trees import tree_any as tree_any
from ._trees import tree_any_only as tree_any_only
from ._trees import tree_flatten as tree_flatten
from ._trees import tree_is_leaf as tree_is_leaf
from ._trees import tree_iter as tree_iter
from ._trees import tree_leaves as tree_leaves
from ._trees import tree_map as tree_map
from ._trees import tree_map_ as tree_map_
from ._trees import tree_map_only as tree_map_only
from ._trees import tree_map_only_ as tree_map_only_
from ._trees import tree_structure as tree_structure
from ._trees import tree_unflatten as tree_unflatten
from ._trees import treespec_leaf as treespec_leaf
