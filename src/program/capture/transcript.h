// The instructions of a part of a recording, in order: as they came, and stretches (stretch.h) by
// their first period alone. Once the code has shown a period, an instruction that is what it was
// one period before is counted and let go of.
#pragma once
#include <deque>
#include <utility>

#include "program/capture/stretch.h"

namespace adjoint {

// Instructions from which on a period is looked for, and that a stretch has at least.
extern size_t follow_from;

class Transcript {
 public:
  struct Part {
    std::vector<Instruction> code;
    Stretch then;
  };

  void push(const std::vector<Register>& registers, Instruction i);
  size_t size() const { return closed_ + open_.size() + following_.count; }
  size_t followed() const;
  // Whether the code has begun to repeat itself, as far as a look at it can tell; asked once.
  bool has_begun_to_repeat() { return std::exchange(repeats_, false); }
  bool empty() const { return size() == 0; }
  // Only the first `size` instructions stay.
  void cut(size_t size);
  Instruction last() const;
  // What comes from here on repeats nothing that stands before it. Registers from `part` on are its own.
  void divide(int part);

  // Ends the stretch that goes on.
  void close();
  bool has_stretches() const { return !parts_.empty(); }
  // All instructions one after another: there are no stretches any more.
  std::vector<Instruction>& code();
  // With their stretches, and what stands after the last one.
  const std::deque<Part>& parts() const { return parts_; }
  const std::vector<Instruction>& rest() const { return open_; }
  int part() const { return part_; }

 private:
  void look_for_period(const std::vector<Register>& registers);
  bool follow(const std::vector<Register>& registers, size_t length);
  void open_again();

  std::deque<Part> parts_;         // with their stretches
  std::vector<Instruction> open_;  // after them
  Stretch following_;              // after that
  size_t closed_ = 0;              // instructions in parts_
  size_t floor_ = 0;               // of open_: those before it belong to another part
  size_t next_look_ = 0;           // at how many instructions in open_
  int part_ = 0;
  bool repeats_ = false;
  Moves now_;
};

}  // namespace adjoint
