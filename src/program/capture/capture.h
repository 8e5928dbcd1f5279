// Recording a program: while a Capture is the recorder of its thread, every op that runs is taken
// down with the registers of its operands.
//
// A tensor is known by its header, which the capture keeps alive. Another header on known memory is
// an alias. A tensor that is not known existed before: the function reached it by a closure or a
// module, and it becomes an input. One whose memory was made *during* the recording, but by no op,
// is something that a program could not repeat: the recording is refused, and so it is for values
// that leave (item(), numpy()), memory that is changed by other means, results that are not tensors.
// Refusing costs speed; a wrong program would be silent.
#pragma once
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "dispatch/program_recorder.h"
#include "program/capture/transcript.h"
#include "program/passes/roll.h"
#include "program/program.h"

namespace adjoint {

// Called when the function that is recorded repeats itself: its frames are in loops.
extern PyObject* on_repetition;

// The mark (tensor/storage.h) of memory that is made from now on: one of 255, used again in turn.
uint16_t next_generation();

inline size_t hash_of(const void* p) { return mix(0, reinterpret_cast<uintptr_t>(p) >> 4); }

class Capture final : public Recorder {
 public:
  explicit Capture(const Tensors& arguments);
  ~Capture() override;

  // From here on, and no longer, this thread's ops are taken down. Where another capture is under way,
  // and takes nothing down for the moment, it goes on after this one.
  // `until_inputs`: backward passes take the gradients of tensors from outside as they arrive, and
  // go no further: neither into what those were computed from, nor to their hooks.
  void start(bool until_inputs = false);
  void stop();
  bool running() const { return running_; }

  // More inputs, for a later part: placeholders of gradients.
  void add_inputs(const Tensors& ts);
  // A tensor made from numbers of the function's own.
  void constant(TensorObject* t) override;
  // Whether random numbers may be drawn: not while the generator is in a state of its own.
  bool allow_draws(bool on) { return std::exchange(draws_allowed_, on); }
  // An instruction that others have made and answer for; `results` are what it writes. Its reads are
  // added here.
  void append(Instruction i, const Tensors& reads, const Tensors& results);
  // What the last instruction has written; undefined where nobody wants it.
  Tensors last_results() const;
  // How many instructions there are.
  size_t size() const { return first_.size() + code_.size(); }
  // Of those, how many are known by an earlier period alone.
  size_t followed() const { return first_.followed() + code_.followed(); }

  Value forward(Call& c) override;
  void change(Call& c, const Tensor& self) override;
  bool accumulate(TensorObject* leaf, const Tensor& grad) override;
  void read_grad(TensorObject* t) override;
  void set_grad(TensorObject* t) override;
  Tensors host(PyObject* run, const Tensors& operands, const Tensors* like) override;
  void host_change(PyObject* run, const Tensors& operands) override;
  void changed_aside(const Tensor& t) override;
  void alias(TensorObject* from, TensorObject* made) override;
  bool pass(Node* node, bool executed) override;
  void look_at(TensorObject* t) override;
  // The function asks where a tensor is: hash(), id().
  void ask_address(TensorObject* t) {
    if (is_input(t))
      asked_.insert(t);
    else
      asked_for_own_ = true;
  }
  // Whether it asks where a tensor is that it has made.
  bool asked_for_own() const { return asked_for_own_; }
  void refuse_outside(TensorObject* t, const char* what) override;
  void refuse(std::string reason) override;

  const std::string& refused() const { return refused_; }
  const SourceLine& refused_at() const { return refused_at_; }

  // By tensor: 2 if it is one of the tensors from outside, 1 if it shares memory with one, or with
  // an earlier tensor of the list; else 0. One that is unknown is looked at as an operand would be.
  // A result that carries more than its value (hooks, a kept gradient) is refused.
  std::vector<int> outside(const Tensors& ts);
  // Which of these results others of them are computed from, by their history; and whether that
  // is still there and consists of ops alone, so that a backward pass through it calls no Python.
  struct History {
    std::vector<bool> inner;
    bool plain = true;
  };
  History history(const Tensors& results) const;
  bool knows(TensorObject* t) const { return register_of(t) >= 0; }
  // Whether ops that were taken down have made its memory.
  bool has_made_memory_of(TensorObject* t) const {
    return first_on(t->storage) >= 0 && !is_outside(t);
  }
  // Ops come from a file: their operands are compared with what their callers give (program/operand_rules.h).
  void distrust(bool on) { distrusts_ = on; }
  // The tensors that the function reached by itself so far.
  const Tensors& reached() const { return reached_; }
  // Instructions [from, to) as a program. Its inputs are `given`, then whatever else it reads,
  // which is left in `held`; outputs may be undefined. Once the first instructions are in a program
  // there can be no other, unless they are copied. `there`: values of earlier instructions that are
  // kept in any case.
  Program program(size_t from, size_t to, const Tensors& given, const Tensors& outputs,
                  bool copied = false, const Tensors& there = {});

  template <class Visit>
  int each_object(Visit&& visit) const;

 private:
  // The register of a header, or of the first one on a storage; -1 if it is not known.
  int register_of(const TensorObject* t) const;
  int first_on(const Storage* s) const;
  int read(TensorObject* t);  // the register of an operand, or -1 after a refusal
  // A register for a result; `fresh`: nothing is known of its memory yet.
  int define(TensorObject* t, bool fresh = false);
  int new_register(TensorObject* t, int root, bool first);
  void add_alias(int from, TensorObject* made);
  void refuse_carried(TensorObject* t);
  void take_code(Program& p, size_t from, size_t to, bool copied);
  bool take_short(Program& p, bool first);
  bool is_even(const Stretch& s) const;
  bool shorten(Program& p, const Transcript& transcript, bool first,
               std::vector<Instruction>& code);
  void name_registers(Program& p);
  void write_down(Instruction i);
  const std::vector<Instruction>& forward_code();
  void read_equal(Program& p);
  void stand_in(int reg);
  void find_inputs(Program& p, bool first);
  int truth(int reg) const { return named_ ? truth_[reg] : reg; }
  int number_of(Program& p, int reg);
  void add_stacks(Program& p) const;
  Loops loops(bool first);
  void describe_inputs(Program& p) const;
  void note_inputs();
  const Value* take_reads(Few<Read, 3>& reads, const Op& op, const Value* args);
  void take_results(Instruction& i, const Value& out, const Value& kept);
  void roll_back(size_t instructions, size_t registers);
  void let_go(size_t from);
  void grow_old(int reg);
  void let_go_sometimes();
  bool is_input(TensorObject* t) const { return inputs_.count(t) > 0; }
  bool is_outside(TensorObject* t) const;  // its memory
  // The tensor, or its memory, was made during the recording.
  bool made_here(const TensorObject* t) const {
    return t->storage->born >> 8 == generation_ || t->recording == generation_;
  }
  struct Seen;
  void take_call(Call& c, Seen seen, const Value& out);
  void check_draws(const Op& op);
  void check_draws(const char* what);
  bool known_outside(TensorObject* t);
  void watch_grad(TensorObject* leaf);
  void fail_if_placeholders(const std::string& what);
  Tensors take_host(PyObject* run, const Tensors& operands, const Tensors* like, bool changes);
  Tensors call_host(PyObject* run, const Tensors& operands);
  void refuse_changed_aside();

  std::vector<Register> registers_;
  Tensors headers_;  // of the registers, kept alive while somebody else has them (let_go)
  // Where they pointed at: a header may be given other memory.
  std::vector<std::pair<Storage*, char*>> places_;
  std::vector<bool> is_first_;  // on its memory
  std::vector<int> alive_;      // registers with a header
  // Registers for stacks of values that later parts read (program/passes/roll.h).
  struct Stacked {
    int first, step;
    int64_t count;
    int reg;
  };
  std::vector<Stacked> stacks_;
  size_t young_ = 0;        // from which on let_go() has not looked at them
  size_t fresh_bytes_ = 0;  // of those
  size_t old_bytes_ = 0;    // of the others, when it looked
  size_t kept_bytes_ = 0;   // of all, when it looked at all
  std::vector<Memory> roots_;
  // By header and by storage: registers of those that let_go() has found alive, and of younger ones.
  Lookup registers_at_{128}, storages_at_{128}, young_registers_at_{128}, young_storages_at_{128};
  std::shared_ptr<Descriptions> descriptions_ = std::make_shared<Descriptions>();
  // Those before the first backward pass on placeholders, once it has begun; and the others. Apart, so
  // that each may become a program without being copied: there may be millions.
  Transcript first_, code_;
  std::optional<std::vector<Instruction>> forward_;
  std::vector<int> equal_;  // by register: the first that has its value
  // Where a program has numbers of its own: those of the recording, and the other way round.
  bool named_ = false;
  std::vector<int> truth_;
  std::unordered_map<int, int> numbers_, root_numbers_;
  Tensors reached_;
  Tensors arguments_;
  // Inputs as they were when the function had run: a program may be made later.
  struct Input {
    bool requires_grad, leaf;
    uint8_t view;
    const Storage* storage;

    explicit Input(const TensorObject* t);
  };
  std::unordered_map<int, Input> described_;  // by register
  Identity identity_;
  DType default_dtype_ = DType::Float32;
  std::unordered_set<Storage*> placeholders_;   // memory of gradients that will arrive
  std::unordered_set<TensorObject*> inputs_;    // headers from outside: arguments and reached_
  std::unordered_set<TensorObject*> asked_;     // whose address was asked for
  std::unordered_set<Storage*> changed_aside_;  // memory that host calls have changed
  // Leaf register -> the gradient it had at the start.
  std::unordered_map<int, std::pair<std::optional<TensorGeometry>, Tensor>> grad_states_;
  std::string refused_;
  SourceLine refused_at_;
  bool running_ = false;
  bool distrusts_ = false;
  bool asked_for_own_ = false;
  bool in_host_ = false;  // Python runs that a program will call again
  bool draws_allowed_ = true;
  bool until_inputs_ = false;
  bool passed_ = false;  // the function has run a backward pass itself
  bool started_ = false;
  bool passes_ = false;         // a pass on placeholders has begun
  uint64_t newest_before_ = 0;  // node, when it was started first
  uint32_t modes_ = 0;          // of the thread, when it was started
  uint16_t generation_;
  Recorder* outer_ = nullptr;  // whose recording this one is inside of
  uint16_t outer_birth_ = 0;
};

template <class Visit>
int Capture::each_object(Visit&& visit) const {
  for (int reg : alive_) {
    if (int r = visit(reinterpret_cast<PyObject*>(headers_[reg].get()))) return r;
  }
  return 0;
}

}  // namespace adjoint
