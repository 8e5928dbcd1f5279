// all_reduce of long rows between processes of one machine, through memory that all of them see.
//
// A chunk at a time, small enough to stay in the cache: each process lays its values out in its
// place of the board, reduces the part of the chunk that is its own, and takes the other parts from
// those who reduced them. So a row passes through memory once. MPI makes the board and adds up; its
// own all_reduce would send messages. Read next: python/adjoint/distributed/_board.py.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "bindings/interop/patience.h"
#include "bindings/python.h"

namespace adjoint {
namespace {

using Word = uintptr_t;

constexpr Word kDiffer = static_cast<Word>(-1);  // no code of MPI's: those are positive
constexpr size_t kBlock = 32 * 1024;             // bytes that are added and copied while in L1
constexpr size_t kLine = 64;
constexpr size_t kBuffers = 64;  // the most that a place has

using Count = std::atomic<uint64_t>;
static_assert(Count::is_always_lock_free);

// What a process shows to the others: of how many chunks, of all calls so far, it has put its
// values in its place, has put its reduced part there, has taken all parts. On lines of its own,
// since the others ask all the time.
struct alignas(2 * kLine) Sign {
  Count laid, reduced, taken;
  uint64_t bytes, what;                  // of its call
  std::array<uint8_t, kBuffers> buffer;  // where in its place a chunk is, by its number
};

// As Python has it: words in memory that it keeps.
struct Board {
  Word base, rank, ranks;
  Word chunk;         // bytes of a chunk
  Word buffers;       // chunks in the place of a process
  Word reduce_local;  // MPI_Reduce_local
  Word done;          // chunks of all calls so far

  Sign& sign(size_t r) const { return reinterpret_cast<Sign*>(base)[r]; }
  char* place(size_t r, uint64_t number) const {
    return reinterpret_cast<char*>(base) + ranks * sizeof(Sign) +
           (r * buffers + sign(r).buffer[number % kBuffers]) * chunk;
  }
  // Of how many chunks all processes have shown it.
  uint64_t least(Count Sign::* what) const {
    uint64_t found = UINT64_MAX;
    for (size_t r = 0; r < ranks; ++r)
      found = std::min(found, (sign(r).*what).load(std::memory_order_acquire));
    return found;
  }
};

// One call.
class Reduction {
 public:
  Reduction(Board& board, char* row, size_t bytes, size_t item, Word type, Word op)
      : board_(board), row_(row), bytes_(bytes), item_(item), type_(type), op_(op) {}

  // Always the furthest step that can be made, so that few chunks are between those laid out and
  // those taken, and they are in the cache; but who is alone on a busy machine lays out as many as
  // there are buffers rather than wait for the others.
  Word run(uint64_t what) {
    Sign& own = board_.sign(board_.rank);
    own.bytes = bytes_;
    own.what = what;
    const uint64_t end = board_.done + (bytes_ + board_.chunk - 1) / board_.chunk;
    uint64_t laid = board_.done, reduced = laid, taken = laid;
    Patience patience;
    while (taken < end) {
      if (taken < reduced && taken < board_.least(&Sign::reduced)) {
        take(taken);
        own.taken.store(++taken, std::memory_order_release);
      } else if (reduced < laid && reduced < board_.least(&Sign::laid)) {
        if (reduced == board_.done && differ(own)) return kDiffer;
        if (Word code = reduce(reduced)) return code;
        own.reduced.store(++reduced, std::memory_order_release);
      } else if (laid < end && find_buffer(laid)) {
        lay_out(laid);
        own.laid.store(++laid, std::memory_order_release);
      } else {
        std::this_thread::yield();  // to one of the others, if it is on this core
        patience.wait();
        continue;
      }
      patience.restart();
    }
    board_.done = end;
    return 0;
  }

 private:
  struct Span {
    size_t begin, end;  // bytes
  };
  size_t begin(uint64_t k) const { return (k - board_.done) * board_.chunk; }
  char* row(uint64_t k) const { return row_ + begin(k); }

  // The part of a chunk that process r reduces.
  Span part(size_t r, uint64_t k) const {
    const size_t size = std::min<size_t>(board_.chunk, bytes_ - begin(k));
    const size_t lines = (size / board_.ranks + kLine - 1) / kLine * kLine;
    return {std::min(r * lines, size),
            r + 1 == board_.ranks ? size : std::min((r + 1) * lines, size)};
  }
  bool differ(const Sign& own) const {
    for (size_t r = 0; r < board_.ranks; ++r)
      if (board_.sign(r).bytes != own.bytes || board_.sign(r).what != own.what) return true;
    return false;
  }

  // The first buffer that nobody needs, for a chunk to be laid out: so the same few serve, and stay
  // in the cache, as long as nobody lags behind.
  bool find_buffer(uint64_t k) const {
    const uint64_t taken = board_.least(&Sign::taken);
    std::array<bool, kBuffers> used{};
    auto& buffer = board_.sign(board_.rank).buffer;
    for (uint64_t i = taken; i < k; ++i) used[buffer[i % kBuffers]] = true;
    for (size_t b = 0; b < board_.buffers; ++b) {
      if (used[b]) continue;
      buffer[k % kBuffers] = static_cast<uint8_t>(b);
      return true;
    }
    return false;
  }

  void lay_out(uint64_t k) const {
    for (size_t r = 0; r < board_.ranks; ++r) {
      const Span s = part(r, k);
      if (r != board_.rank)
        std::memcpy(board_.place(board_.rank, k) + s.begin, row(k) + s.begin, s.end - s.begin);
    }
  }
  // In one order wherever the part is, so that the bits do not depend on who was first.
  Word reduce(uint64_t k) const {
    const Span s = part(board_.rank, k);
    for (size_t at = s.begin; at < s.end; at += kBlock) {
      const size_t bytes = std::min(kBlock, s.end - at);
      for (size_t r = 0; r < board_.ranks; ++r)
        if (r != board_.rank)
          if (Word code = add(board_.place(r, k) + at, row(k) + at, bytes / item_)) return code;
      std::memcpy(board_.place(board_.rank, k) + at, row(k) + at, bytes);
    }
    return 0;
  }
  Word add(const char* from, char* to, size_t count) const {
    using Function = int (*)(const void*, void*, int, Word, Word);
    int code = reinterpret_cast<Function>(board_.reduce_local)(from, to, static_cast<int>(count),
                                                               type_, op_);
    return static_cast<Word>(code);
  }
  void take(uint64_t k) const {
    for (size_t r = 0; r < board_.ranks; ++r) {
      const Span s = part(r, k);
      if (r != board_.rank)
        std::memcpy(row(k) + s.begin, board_.place(r, k) + s.begin, s.end - s.begin);
    }
  }

  Board& board_;
  char* const row_;
  const size_t bytes_, item_;
  const Word type_, op_;
};

// The function that a queue calls: its result is 0, MPI's code, or -1 if the ranks' calls differ.
int all_reduce_shared(Word board, Word row, Word count, Word item, Word type, Word op, Word what) {
  Reduction reduction(*reinterpret_cast<Board*>(board), reinterpret_cast<char*>(row), count * item,
                      item, type, op);
  return static_cast<int>(reduction.run(what));
}

PyObject* shared_all_reduce(PyObject*, PyObject*) {
  return Py_BuildValue("Kn", reinterpret_cast<unsigned long long>(&all_reduce_shared),
                       static_cast<Py_ssize_t>(sizeof(Sign)));
}

PyMethodDef functions[] = {
    {"_shared_all_reduce", shared_all_reduce, METH_NOARGS,
     "The function's address, and the bytes that each rank needs, zero, at the board's begin."},
    {nullptr}};

}  // namespace

void add_shared_reduction(PyObject* module) { add_functions(module, functions); }

}  // namespace adjoint
