"""One op, one block: what is true of an op stands in its block, and nowhere else by its name.

A table of names outside the blocks works until an op is added; then it is silently incomplete, and
costs a loop under vmap, a dense pattern or a fusion. So no source outside the catalogue may compare
an op's name or list it as a fact: facts are stated in blocks (src/dispatch/facts.h), and read
through the `Op`, or through `op_table()` in Python.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import adjoint as ad
from adjoint._core import op_table

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python" / "adjoint"
# `adjoint` is the package far more often than the op.
NAMES = {n for op in op_table() for n in (op["name"], op["full_name"])} - {"adjoint"}

# Words that are names of ops and mean something else: by file, with what they mean there.
OTHER_MEANINGS = {
    "src/program/native/assembled_row.cpp": ("select", "an instruction of LLVM's"),
    "src/ops/nn/resampling.cpp": ("linear", "a mode of resizing"),
    # --- C++
    "src/bindings/tensor/casts.cpp": (
        "copy real imag",
        "an argument of to(), attributes of Tensor",
    ),
    "src/bindings/tensor/convert_values.cpp": ("complex", "the Python type"),
    "src/bindings/function/function_outputs.cpp": ("view_as", "a method of Tensor that is called"),
    "src/bindings/tensor/indexing.cpp": ("index", "part of a message"),
    "src/bindings/tensor/number_slots.cpp": (
        "add sub mul div floor_divide remainder pow matmul bitwise_and bitwise_or bitwise_xor "
        "bitwise_left_shift bitwise_right_shift neg abs bitwise_not lt le eq ne gt ge positive",
        "which op each operator of Python is: the language's own table",
    ),
    "src/bindings/program/program_node.cpp": ("inner", "a method of recordings"),
    "src/bindings/settings.cpp": ("view linear outer", "keys and values of op_table()"),
    "src/bindings/tensor/composite_arithmetic.cpp": ("add sub mul neg", "methods of composites"),
    "src/dispatch/anomaly.cpp": ("min zero", "parts of a message"),
    "src/ops/index/offsets.cpp": ("index", "part of a message"),
    "src/dispatch/schema.cpp": ("any", "a type of arguments"),
    "src/program/passes/listing.cpp": ("alias", "a kind of instruction"),
    "src/program/fuse/chains.cpp": ("add sub mul", "names of kernels"),
    "src/program/fuse/row_loops.cpp": ("add sub mul", "names of kernels"),
    "src/program/native/lanes.h": ("add ceil floor select sqrt trunc", "instructions of LLVM"),
}

# What programs from files are asked: an op that is in none of these stands in no file, and whoever
# saves one is told so. Nothing that is missing here is missed silently.
RULES_OF_OPERANDS = tuple(
    f"src/program/{name}_rules.cpp" for name in ("operand", "layer", "matrix")
)


def names_in(text: str) -> list[str]:
    """The names of ops in a literal that is one, or a row of words most of which are."""
    words = text.split()
    names = [w for w in words if w in NAMES]
    return names if len(names) == len(words) or len(names) > max(2, len(words) // 2) else []


# --- C++ ------------------------------------------------------------------------------------------
def without_comments(text: str) -> str:
    return re.sub(r'//[^\n]*|("(?:[^"\\\n]|\\.)*")', lambda m: m[1] or "", text)


def listed(text: str) -> list[str]:
    """Names of ops that stand in string literals by themselves, or as a list of words.

    A literal that is a template argument calls an op: op<"cos">(x). One that is given to
    kernel_named() names a kernel.
    """
    literals = re.finditer(r'(<|kernel_named\()?"((?:[^"\\\n]|\\.)*)"', without_comments(text))
    return [name for m in literals if not m[1] for name in names_in(m[2])]


COMPARES = re.compile(
    r"\bop(\.|->)(full_)?name\s*(==|!=|\.(starts_with|ends_with|find|rfind|compare)\()"
    r'|[=!]=\s*&\s*(op_named<"|find_op\()'
)


def is_catalogue(path: Path, text: str) -> bool:
    return (ROOT / "src" / "ops") in path.parents and re.search(
        r"\bdef(_random)?\(\s*\"", text
    ) is not None


def cpp_sources() -> Iterator[tuple[str, Path, str]]:
    for path in sorted((ROOT / "src").rglob("*")):
        if path.suffix in (".cpp", ".h"):
            yield path.relative_to(ROOT).as_posix(), path, path.read_text()


def test_no_op_is_known_by_name_in_cpp() -> None:
    found = {}
    for name, path, text in cpp_sources():
        # Kernels and generators lie below the ops and know none; they have names of their own.
        if is_catalogue(path, text) or name.startswith(("src/kernels/", "src/random/")):
            continue
        if name in RULES_OF_OPERANDS:
            continue
        words = set(listed(text)) - set(OTHER_MEANINGS.get(name, ("", ""))[0].split())
        if words:
            found[name] = sorted(words)
    assert not found, f"state what is true of these ops in their blocks (dispatch/facts.h): {found}"


def test_no_name_of_an_op_is_compared_in_cpp() -> None:
    found = [name for name, _, text in cpp_sources() if COMPARES.search(without_comments(text))]
    assert not found, f"a fact of the op says more than its name: see src/dispatch/facts.h; {found}"


# Nodes are known by their ops, which several may share a name of: a product of batches is a
# ViewBackward0 to PyTorch.
NODE_NAME = r"\w+Backward\d+"


def node_names(text: str) -> list[str]:
    return re.findall(f'"({NODE_NAME})"', without_comments(text))


def test_no_node_is_known_by_name_in_cpp() -> None:
    found = {
        name: names
        for name, _, text in cpp_sources()
        if not name.startswith("src/ops/") and (names := node_names(text))
    }
    assert not found, f"ask node->op->facts, and state it in the blocks of the ops: {found}"


# --- Python ---------------------------------------------------------------------------------------
OTHER_MEANINGS_IN_PYTHON = {
    "_array_api.py": ("outer trace", "names of the array API standard"),
    "__init__.py": ("repeat", "a name of the array API"),
    "_tensor/meta.py": (
        "empty full ones rand randint randn zeros",
        "functions as users call them, which take a shape",
    ),
    "_missing_text.py": ("lu_solve", "a name that PyTorch had at its top level"),
    "cli/scan.py": ("dist", "a folder"),
    "distributed/_stores.py": ("add", "a method of stores"),
    "external/_raw_memory.py": ("as_strided view", "names of NumPy's"),
    "graph/stepping/_terminal.py": ("norm zero", "commands of the prompt"),
    "integrate/_gradients.py": ("all", "a value of `memory`"),
    "integrate/_sde.py": ("diagonal", "a kind of noise"),
    "interpolate/_grids.py": ("linear", "a way to interpolate"),
    "interpolate/_linear.py": ("linear", "a way to interpolate"),
    "loops/_memory.py": ("all sqrt", "values of `memory`"),
    "optimize/_constraints.py": ("eq", "a kind of SciPy's constraints"),
    "optimize/_least_squares.py": ("cauchy linear", "losses of SciPy's"),
    "profiler/_traces.py": ("cat", "a field of Chrome's traces"),
    "nn/_reduction.py": ("mean sum", "values of `reduction`"),
    "_tensor/printing.py": ("full threshold", "a profile and a setting of set_printoptions"),
    "_tensor/segments.py": ("max mean min prod sum", "values of `reduce`"),
    "_tensor/typeinfo.py": ("max min", "attributes of finfo"),
    "autograd/graph.py": ("all any", "when a hook of several tensors runs"),
    "compiler/_pure.py": (
        "all any argmax argmin argsort conj copy cumprod cumsum diagonal dot fill flatten max "
        "mean min nonzero prod put ravel repeat reshape round searchsorted sort squeeze std sum "
        "take trace transpose var view",
        "functions of NumPy and methods of its arrays",
    ),
    "numeric/_complex_step.py": ("complex", "a way to differentiate"),
    "external/_ctypes.py": ("complex", "a type of C"),
    "external/_external.py": ("linear", "an option of externals"),
    "numeric/_plan.py": ("linear", "the method of linear functions"),
    "numeric/_verification.py": ("linear", "the method of linear functions"),
    "external/_evaluate.py": ("t", "a kind of leaf"),
    "external/_workers.py": ("t", "a kind of leaf"),
    "nn/_embedding.py": ("max mean sum", "values of `mode`"),
    "nn/_grids.py": ("zeros", "a value of `padding_mode`"),
    "nn/_likelihoods.py": ("mean", "a value of `reduction`"),
    "nn/_resizing.py": ("linear", "a value of `mode`"),
    "nn/_losses.py": ("mean sum", "values of `reduction`"),
    "nn/_linear_cross_entropy.py": ("mean sum", "values of `reduction`"),
    "nn/_recurrent.py": ("dropout", "an argument of PyTorch's functions"),
    "nn/init.py": (
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d leaky_relu linear "
        "relu selu sigmoid tanh",
        "values of `nonlinearity`",
    ),
    "nn/modules/rnn.py": (
        "dropout mode relu tanh",
        "attributes of recurrent layers, and values of `nonlinearity`",
    ),
    "nn/modules/conv.py": ("zeros", "a value of `padding_mode`"),
    "optim/adagrad.py": ("sum", "the name of its state"),
    "optim/lr_scheduler/_one_cycle.py": ("cos linear", "values of `anneal_strategy`"),
    "optim/lr_scheduler/_plateau.py": (
        "abs max min mode threshold",
        "values of `mode`, and its name in a message",
    ),
    "optim/swa_utils.py": ("cos linear", "values of `anneal_strategy`"),
    "signal/_convolution.py": (
        "conv1d conv2d conv3d full",
        "names of functions by axes, and a value of SciPy's `mode`",
    ),
    "signal/_smoothing.py": ("linear", "a value of SciPy's `type`"),
    "signal/_spectra.py": ("ones zeros", "a window, and a value of SciPy's `boundary`"),
    "sparse/__init__.py": ("amax amin mean sum", "values of `reduce`"),
    "serialization/_decode.py": ("complex slice", "Python types in files"),
    "serialization/_encode.py": ("complex slice", "Python types in files"),
    "serialization/_rebuild.py": ("conj neg", "bits of PyTorch's tensors"),
    "serialization/_torch_names.py": (
        "aminmax cummax cummin kthvalue max median min mode nanmedian sort topk",
        "classes of results in PyTorch's files",
    ),
}


class Facts(ast.NodeVisitor):
    """Collects literals that are compared, or stand in a set, tuple, list, dict or row of words."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def _take(self, node: ast.AST | None) -> None:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                self.found += names_in(part.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in ("__all__", "__slots__"):
            return
        if isinstance(node.value, ast.Tuple | ast.List):
            for item in node.value.elts:
                if isinstance(item, ast.Constant):
                    self._take(item)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value.split()) > 1:
            self._take(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for part in (node.left, *node.comparators):
            if isinstance(part, ast.Constant | ast.Tuple | ast.List | ast.Set):
                self._take(part)
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._take(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            self._take(key)
        self.generic_visit(node)

    def visit_MatchValue(self, node: ast.MatchValue) -> None:
        self._take(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr == "split":
                self._take(function.value)
            if function.attr in ("startswith", "endswith", "fromkeys"):
                for argument in node.args:
                    self._take(argument)
        if isinstance(function, ast.Name) and function.id in ("frozenset", "set"):
            for argument in node.args:
                self._take(argument)
        self.generic_visit(node)


def facts_in(text: str) -> set[str]:
    visitor = Facts()
    visitor.visit(ast.parse(text))
    return set(visitor.found)


def test_no_op_is_known_by_name_in_python() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        allowed = OTHER_MEANINGS_IN_PYTHON.get(name, ("", ""))[0].split()
        words = facts_in(path.read_text()) - set(allowed)
        if words:
            found[name] = sorted(words)
    assert not found, f"ask op_table(), and state it in the blocks of the ops: {found}"


def nodes_named_in(text: str) -> list[str]:
    constants = [n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)]
    return [c for c in constants if isinstance(c, str) and re.fullmatch(NODE_NAME, c)]


def test_no_node_is_known_by_name_in_python() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): names
        for path in sorted(PACKAGE.rglob("*.py"))
        if (names := nodes_named_in(path.read_text()))
    }
    assert not found, f"ask facts_of(node), and state it in the blocks of the ops: {found}"


# --- the tests themselves -------------------------------------------------------------------------
def test_exceptions_are_needed() -> None:
    for name, (words, _) in OTHER_MEANINGS.items():
        assert set(words.split()) <= set(listed((ROOT / name).read_text())), name
    for name, (words, _) in OTHER_MEANINGS_IN_PYTHON.items():
        assert set(words.split()) <= facts_in((PACKAGE / name).read_text()), name


@pytest.mark.parametrize(
    "table",
    [
        'static constexpr std::string_view names[] = {"mm", "bmm"};',
        'const char* const kReaders = "allclose equal bincount";',
        '{"sum.all", whole_sample},',
    ],
)
def test_tables_in_cpp_are_seen(table: str) -> None:
    assert listed(table)
    assert not listed(f"// {table}")


@pytest.mark.parametrize(
    "test",
    [
        'op.name == "abs"',
        "c.op.full_name != n",
        'i.op->name.find("x")',
        '&op == &op_named<"copy">()',
    ],
)
def test_comparisons_in_cpp_are_seen(test: str) -> None:
    assert COMPARES.search(f"if ({test})")


def test_names_of_nodes_are_seen() -> None:
    assert node_names('{"CatBackward0", "ViewBackward0"};') == ["CatBackward0", "ViewBackward0"]
    assert not node_names('// "MulBackward0"\nnew_node("CompiledFunctionBackward")')
    assert nodes_named_in('if node.name() in ("CatBackward0",): pass')
    assert not nodes_named_in('"""What PyTorch calls ``MulBackward0``."""')


def test_calls_of_ops_in_cpp_are_no_facts() -> None:
    calls = 'op<"cos">(x); op_named<"mm">(); kernel_named("add"); runtime_error("mm: no sum");'
    assert not listed(calls) and not COMPARES.search("Call c{op, args}; op.name.c_str()")


@pytest.mark.parametrize(
    "table",
    [
        'FLAT = frozenset({"sign", "floor"})',
        'FLAT = frozenset(["sign", "floor"])',
        'ALONG = "softmax sort topk"\nkinds = dict.fromkeys(ALONG.split())',
        'ALONG = "softmax sort topk".split()',
        'ALONG = _names("softmax sort topk and_others")',
        'RULES = {"layer_norm": rule}',
        'PRODUCTS = ("mm", "bmm")',
        'if step.op in ("addmm", "baddbmm"): pass',
        'if step.op == "relu": pass',
        'if op.startswith("clamp"): pass',
        'match op:\n    case "mul":\n        pass',
    ],
)
def test_tables_in_python_are_seen(table: str) -> None:
    assert facts_in(table)


def test_other_words_in_python_are_no_facts() -> None:
    assert not facts_in('"""sum"""\n__all__ = ["sum"]\nraise TypeError("sum")\nf("sum", x="mean")')


# --- what blocks say ------------------------------------------------------------------------------
def test_every_kind_of_dependence_has_a_rule() -> None:
    from adjoint.func._dependencies import DEPENDENCE_RULES, RULES

    assert {op["depends"] for op in op_table()} == RULES.keys() | DEPENDENCE_RULES.keys()
    kinds = {op["full_name"]: op["depends"] for op in op_table()}
    assert (kinds["sum"], kinds["sin"], kinds["mm"]) == ("moved", "pointwise", "product")
    assert (kinds["max"], kinds["max.dim"]) == ("everything", "along")


def test_what_takes_a_generator_draws() -> None:
    for op in op_table():
        takes = any(a["name"] == "generator" for a in op["arguments"])
        assert op["draws"] or not takes, op["full_name"]
        assert takes or not op["draws"] or op["name"] == "dropout", op["full_name"]


# Ops that vmap calls once per sample: what there is to write down. An op that forgot its rule would
# be one more.
LOOPED = {
    "_euclid_grads",  # never of a batch
    "_cross_entropy_backward",
    "_ctc_loss",
    "_cumprod_grad",
    "_embedding_backward",
    "_embedding_bag",
    "_gru_sequence_backward",
    "_layer_norm_backward",
    "_lstm_sequence_backward",
    "_nll_loss_backward",
    "_add_entries",
    "_prod_grad",
    "_sparse_matmul",
    "_sparse_sample",
    "addbmm",
    "addr",
    "allclose",
    "bincount",
    "block_diag",
    "bucketize",
    "corrcoef",
    "cov",
    "equal",
    "histc",
    "isin",
    "masked_scatter",
    "masked_select",
    "nanquantile",
    "put",
    "quantile",
    "renorm",
    "repeat_interleave.each",
    "repeat_interleave.positions",
    "scatter.reduce",
    "scatter.value_reduce",
    "searchsorted",
    "take",
    "tensor_split.tensor_indices_or_sections",
    "unravel_index",
    "vander",
}


def test_no_other_op_is_called_once_per_sample() -> None:
    looped = {op["full_name"] for op in op_table() if op["batch"] == "each sample"}
    assert looped - {op["full_name"] for op in op_table() if op["draws"]} == LOOPED


# Differentiable ops whose results depend on every element: most have one result only.
DENSE = {
    "_add_entries",
    "_sparse_compressed",
    "_sparse_coo",
    "_sparse_entries",
    "_sparse_matmul",
    "_sparse_product",
    "_sparse_sample",
    "_sparse_with_values",
    "_ctc_loss",
    "_embedding_bag",
    "_grid_sample",
    "_attention",  # of a query on all keys and values of its head: most of them
    "_fractional_max_pool",  # the samples place its windows anywhere
    "_gru_sequence",
    "_lstm_sequence",
    "_rnn_sequence",
    "addbmm",
    "addr",
    "bincount",
    "dot",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "prod",
    "unique",
    "unique_consecutive",
}


def test_no_other_op_has_a_dense_pattern() -> None:
    dense = {op["full_name"] for op in op_table() if op["depends"] == "everything"}
    plain = {op["full_name"] for op in op_table() if op["differentiable"] and not op["draws"]}
    assert dense & plain == DENSE


def test_a_node_knows_the_overload_that_made_it() -> None:
    x = ad.ones(2, 3).requires_grad_()
    assert ad._core._node_op(x.max().grad_fn) == "max"
    assert ad._core._node_op(x.max(0).values.grad_fn) == "max.dim"
    assert ad._core._node_op(x.clone().grad_fn.next_functions[0][0]) is None
    with pytest.raises(TypeError, match="expected a graph node, got int"):
        ad._core._node_op(3)  # type: ignore[arg-type]
