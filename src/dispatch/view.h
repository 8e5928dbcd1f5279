// Views and in-place changes.
//
// A view holds its base (never itself a view) and shares its storage, hence its version. When a
// view is changed in place, the change is recorded on the base as a CopySlices node; other views
// notice by the version that their history is old and rebuild it from the base. Note [Rebased
// history] in view.cpp has the argument.
#pragma once
#include "graph/node.h"

namespace adjoint {

// Where a view came from decides whether it may be changed in place while gradients are recorded.
// A view of such a view inherits this. kMultiView, kNoGradView and kFunctionView are others.
inline constexpr Flag kInferenceView = static_cast<Flag>(512);  // made in inference mode
inline constexpr uint16_t kCreation = kMultiView | kNoGradView | kFunctionView | kInferenceView;
// An argument of a function that is differentiated by others: the function may change it in place.
inline constexpr Flag kArgument = static_cast<Flag>(1024);

// A view of `t` with the given geometry (offset in elements from the start of the storage).
Tensor make_view(const Tensor& t, Span shape, Span strides, int64_t offset);
// The same memory seen as elements of another dtype; the geometry counts elements of that dtype.
Tensor make_view_as(const Tensor& t, Span shape, Span strides, int64_t offset, DType dtype);

// The pending signs that stand between what the base of a view shows and what the view shows, and
// `t` seen with such signs turned: by views.
uint16_t turned_in(const Tensor& view, const Tensor& base);
Tensor as_turned(Tensor t, uint16_t which);

// A view of an intermediate value that nobody else holds, as the result it is: not a view.
Tensor unshared(Tensor view);

// Refuses, before anything is changed, what must not be changed in place. `recording` says whether
// the change will have a history.
void check_inplace(const Tensor& t, bool recording, const char* what);
// The same for a change of shape and strides alone (transpose_, unsqueeze_): no element is written.
void check_new_geometry(const Tensor& t, bool recording, const char* what);
// Refuses to write what depends on the variables of a transform (grad, vjp, jvp) into memory that
// is older than the transform.
void refuse_captured(const Tensor& t, const char* what);
// Counts the change and remembers the line; Note [Changes past the version] in tensor/tensor.h.
void bump_version(const Tensor& t);
// `node` computed the new value of `t`, in place: makes it the history of t, and of its base.
void rebase_history(const Tensor& t, Node* node);

}  // namespace adjoint
