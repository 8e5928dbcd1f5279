// The modes of a thread: whether ops record, whether a transform is under way, and so on.
#pragma once
#include <cstdint>

namespace adjoint {

// What is unusual in this thread: one word, so that the short way through an op asks once.
enum Mode : uint32_t {
  kGradOff = 1,              // no_grad: ops do not record
  kInferenceOn = 2,          // inference_mode: results can never be part of a graph
  kSavedHooks = 4,           // saved values pass through saved_tensors_hooks
  kAnomaly = 8,              // results are looked at for NaN
  kTransforms = 16,          // a dual level or a vmap is under way
  kStrongZeros = 32,         // a zero gradient stays zero (read by the engine alone)
  kNoCuts = 64,              // in a backward pass: nobody asks why its results have no history
  kCaptured = 128,           // ops are taken down for a program (dispatch/program_recorder.h)
  kAutocast = 256,           // ops choose the precision of their operands (dispatch/autocast.h)
  kAutocastHalf = 512,       // the lower precision is float16, not bfloat16
  kAutocastUncached = 1024,  // weights are cast anew for each op
  kNoValues = 2048,  // operands stand for tensors without values (python/adjoint/_tensor/meta.py)
  kProfiled = 4096,  // calls are timed (dispatch/profile.h)
  kTallied = 8192,   // some calls are timed, which closes no short way (dispatch/tally.h)
  kTalliedWhole = 16384,  // inside of a call that stands for several: all that it does is timed
};
inline constexpr uint32_t kSlowModes = kInferenceOn | kSavedHooks | kAnomaly | kTransforms |
                                       kCaptured | kAutocast | kNoValues | kProfiled;
inline constexpr uint32_t kWatched = kProfiled | kTallied;
inline constexpr uint32_t kAutocastModes = kAutocast | kAutocastHalf | kAutocastUncached;
extern constinit thread_local uint32_t t_modes;
inline bool mode_on(Mode m) { return t_modes & m; }
inline void set_mode(Mode m, bool on) { t_modes = on ? (t_modes | m) : (t_modes & ~m); }
// Whether ops record.
inline bool grad_enabled() { return !mode_on(kGradOff); }
inline void set_grad_enabled(bool on) { set_mode(kGradOff, !on); }
class ModeGuard {
 public:
  ModeGuard(Mode m, bool on) : before_(t_modes) { set_mode(m, on); }
  ~ModeGuard() { t_modes = before_; }
  ModeGuard(const ModeGuard&) = delete;

 private:
  uint32_t before_;
};
struct GradMode {
  explicit GradMode(bool on) : before_(grad_enabled()) { set_grad_enabled(on); }
  ~GradMode() { set_grad_enabled(before_); }
  GradMode(const GradMode&) = delete;

 private:
  bool before_;
};

}  // namespace adjoint
