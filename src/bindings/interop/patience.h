// How a thread waits for another process, on cores that others want, too.
#pragma once
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace adjoint {

// How a thread waits for what another process does. An answer under way is worth asking for at once;
// who goes on asking uses up the time that the kernel has for this process, and is off the core when
// the answer comes. Who sleeps is put back on a core when it wakes, also on a busy machine, if the
// kernel does not round the sleep up (timer slack, 50 us by default). Each sleep costs about as much
// as ten questions, so it is a part of the wait so far: the answer is late by that part at most.
class Patience {
  using Clock = std::chrono::steady_clock;

 public:
  Patience() = default;
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience() {
    if (slack_ > 0) prctl(PR_SET_TIMERSLACK, slack_);
  }
  void wait() {
    if (++in_vain_ == 1) begin_ = Clock::now();
    if (in_vain_ <= kSpins) return;
    if (slack_ == 0) {
      slack_ = std::max(prctl(PR_GET_TIMERSLACK), 1);
      prctl(PR_SET_TIMERSLACK, 1);
    }
    std::this_thread::sleep_for(
        std::clamp<Clock::duration>((Clock::now() - begin_) / kPart, kShortestNap, kLongestNap));
  }
  void restart() { in_vain_ = 0; }

 private:
  static constexpr int kSpins = 100;  // tens of microseconds
  static constexpr int kPart = 8;
  static constexpr std::chrono::microseconds kShortestNap{1}, kLongestNap{500};
  int in_vain_ = 0;
  Clock::time_point begin_;
  int slack_ = 0;  // before the first nap, in nanoseconds
};

}  // namespace adjoint
