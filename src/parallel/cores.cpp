// Counting the cores this process may use: its affinity mask, without hyper-thread siblings (two
// threads of one core share its vector units and gain nothing), within a container's quota.
#include "parallel/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

namespace adjoint::parallel {
namespace {

// The positive number that the variable holds, or that it starts with ("4,2" is legal OpenMP); else
// 0.
int from_environment(const char* name) noexcept {
  const char* text = std::getenv(name);
  if (!text) return 0;
  char* end;
  const long n = std::strtol(text, &end, 10);
  const bool complete = end != text && (*end == '\0' || *end == ',' || *end == ' ');
  return complete && n > 0 ? static_cast<int>(std::min(n, 1L << 20)) : 0;
}

// The siblings of one core have the same list ("0,64"); without the file each counts as a core.
std::string siblings(int cpu) {
  const std::string path =
      "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list";
  std::string list = "cpu" + std::to_string(cpu);
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    char line[128];
    if (std::fgets(line, sizeof line, file)) list = line;
    std::fclose(file);
  }
  return list;
}

int affinity_cores() {
  constexpr int kMaxCpus = 8192;
  cpu_set_t* mask = CPU_ALLOC(kMaxCpus);
  if (!mask) return 1;
  const size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  std::set<std::string> cores;
  if (sched_getaffinity(0, size, mask) == 0)
    for (int cpu = 0; cpu < kMaxCpus; ++cpu)
      if (CPU_ISSET_S(cpu, size, mask)) cores.insert(siblings(cpu));
  CPU_FREE(mask);
  return std::max<int>(1, static_cast<int>(cores.size()));
}

// cgroup v2: "quota period" in microseconds, or "max period".
int quota_cores(int at_most) {
  FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r");
  if (!file) return at_most;
  long quota, period;
  const bool limited = std::fscanf(file, "%ld %ld", &quota, &period) == 2 && period > 0;
  std::fclose(file);
  return limited ? static_cast<int>(std::clamp<long>((quota + period - 1) / period, 1, at_most))
                 : at_most;
}

}  // namespace

int default_threads(int at_most) noexcept {
  for (const char* name : {"ADJOINT_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const int n = from_environment(name)) return std::min(n, at_most);
  try {
    return std::min(quota_cores(affinity_cores()), at_most);
  } catch (...) {  // no memory for a few strings
    return 1;
  }
}

}  // namespace adjoint::parallel
