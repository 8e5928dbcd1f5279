"""``torch.utils._pytree``: PyTorch's names for the one tree, `adjoint._tree`, which is optree's.

A class registered here is a structure everywhere: in composites, ``func``, ``compile``, checkpoints
and files. PyTorch's rules hold for what these functions do: dicts keep the order of their keys, a
dataclass is a leaf until it is registered, a `TreeSpec` shows its type, context and parts.
"""

from ._dumps import treespec_dumps as treespec_dumps
from ._dumps import treespec_loads as treespec_loads
from ._nodes import BUILTIN_TYPES as BUILTIN_TYPES
from ._nodes import STANDARD_DICT_TYPES as STANDARD_DICT_TYPES
from ._nodes import SUPPORTED_NODES as SUPPORTED_NODES
from ._nodes import ConstantNode as ConstantNode
from ._nodes import Context as Context
from ._nodes import FlattenFn as FlattenFn
from ._nodes import FlattenWithKeysFn as FlattenWithKeysFn
from ._nodes import NodeDef as NodeDef
from ._nodes import UnflattenFn as UnflattenFn
from ._nodes import _deregister_pytree_node as _deregister_pytree_node
from ._nodes import _register_namedtuple as _register_namedtuple
from ._nodes import _register_pytree_node as _register_pytree_node
from ._nodes import is_constant_class as is_constant_class
from ._nodes import is_namedtuple as is_namedtuple
from ._nodes import is_namedtuple_class as is_namedtuple_class
from ._nodes import is_namedtuple_instance as is_namedtuple_instance
from ._nodes import is_structseq as is_structseq
from ._nodes import is_structseq_class as is_structseq_class
from ._nodes import is_structseq_instance as is_structseq_instance
from ._nodes import register_constant as register_constant
from ._nodes import register_dataclass as register_dataclass
from ._nodes import register_pytree_node as register_pytree_node
from ._paths import GetAttrKey as GetAttrKey
from ._paths import KeyPath as KeyPath
from ._paths import MappingKey as MappingKey
from ._paths import SequenceKey as SequenceKey
from ._paths import key_get as key_get
from ._paths import keystr as keystr
from ._paths import tree_flatten_with_path as tree_flatten_with_path
from ._paths import tree_leaves_with_path as tree_leaves_with_path
from ._paths import tree_map_with_path as tree_map_with_path
from ._spec import LeafSpec as LeafSpec
from ._spec import PyTreeSpec as PyTreeSpec
from ._spec import TreeSpec as TreeSpec
from ._spec import treespec_dict as treespec_dict
from ._spec import treespec_leaf as treespec_leaf
from ._spec import treespec_pprint as treespec_pprint
from ._spec import treespec_tuple as treespec_tuple
from ._trees import PyTree as PyTree
from ._trees import _broadcast_to_and_flatten as _broadcast_to_and_flatten
from ._trees import _is_leaf as _is_leaf
from ._trees import arg_tree_leaves as arg_tree_leaves
from ._trees import map_only as map_only
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
