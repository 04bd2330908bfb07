/* How much memory and how many processors there are, by made-up machines. */
#include "base/err.h"
#include "base/machine.h"
#include "tests/support/test.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char meminfo[] = "MemTotal:       8388608 kB\nMemFree:         100000 kB\nMemAvailable:   4194304 kB\n"
                              "SwapTotal:      1048576 kB\nSwapFree:       1048576 kB\n";

/* Writes a file below root, its folders too. */
static void put(const char *root, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    test_write_file(path, text, strlen(text));
}

static void expect(const char *root, size_t total_mib, size_t available_mib, bool cgroup) {
    MachineMemory m = machine_memory_at(root);
    CHECK_MSG(m.total >> 20 == total_mib && m.available >> 20 == available_mib && m.cgroup == cgroup,
              "%zu MiB, %zu MiB left, %d", m.total >> 20, m.available >> 20, m.cgroup);
}

TEST(machine_memory_of_cgroups) {
    const char *root = test_dir();
    put(root, "proc/meminfo", meminfo);
    expect(root, 8192, 5120, false);

    /* v2: the cgroup itself has no limit, the one above leaves 1024 - (900 - 200 of files) MiB */
    put(root, "proc/self/cgroup", "0::/system.slice/noised.service\n");
    put(root, "sys/fs/cgroup/system.slice/noised.service/memory.max", "max\n");
    expect(root, 8192, 5120, false);
    put(root, "sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
    put(root, "sys/fs/cgroup/system.slice/memory.current", "943718400\n");
    put(root, "sys/fs/cgroup/system.slice/memory.stat", "anon 1\ninactive_file 104857600\nactive_file 104857600\n");
    expect(root, 1024, 324, true);

    /* v1, in a container that does not see the path it has outside */
    put(root, "proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    put(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put(root, "sys/fs/cgroup/memory/memory.stat", "inactive_file 5\ntotal_inactive_file 0\ntotal_active_file 0\n");
    expect(root, 2048, 1024, true);
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* how v1 says none */
    expect(root, 8192, 5120, false);

    /* one that uses more than it may, and tells of no files */
    put(root, "proc/self/cgroup", "0::/over\n");
    put(root, "sys/fs/cgroup/over/memory.max", "1073741824\n");
    put(root, "sys/fs/cgroup/over/memory.current", "2147483648\n");
    expect(root, 1024, 0, true);
}

/* What cannot be read sets no limit. */
TEST(machine_of_which_nothing_is_told) {
    const char *root = test_dir();
    char deep[9000] = "0::";
    cpu_set_t mask;
    REQUIRE(sched_getaffinity(0, sizeof mask, &mask) == 0);
    MachineMemory m = machine_memory_at(root);
    CHECK(m.total == SIZE_MAX && m.available == SIZE_MAX && !m.cgroup);
    put(root, "proc/meminfo", "MemTotal:       8388608 kB\n"); /* before Linux 3.14 */
    m = machine_memory_at(root);
    CHECK(m.total == SIZE_MAX && m.available == SIZE_MAX);
    put(root, "proc/meminfo", meminfo);
    put(root, "proc/self/cgroup", "1:name=systemd:/x 0::/a\n"); /* the number belongs to the beginning of a line */
    put(root, "sys/fs/cgroup/a/memory.max", "1\n");
    expect(root, 8192, 5120, false);
    while (strlen(deep) < 4090) strcat(deep, "/a");
    put(root, "proc/self/cgroup", deep); /* longer than the path of a file */
    expect(root, 0, 0, true);
    put(root, "proc/self/cgroup", "1:cpu:/a\n");
    put(root, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "1000\n"); /* without its period */
    CHECK(machine_cpus_at(root) == CPU_COUNT(&mask));
    put(root, "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "0\n");
    CHECK(machine_cpus_at(root) == CPU_COUNT(&mask));
}

TEST(machine_refuses_what_has_no_room) {
    Err err;
    CHECK(memory_check(1, "a byte", "none", &err) == 0);
    if (memory_check(SIZE_MAX, "all there is", "ask for less", &err) == 0) SKIP("the machine does not tell");
    CHECK_MSG(strstr(err.msg, "all there is needs ") && strstr(err.msg, " has ") && strstr(err.msg, ": ask for less"),
              "%s", err.msg);
}

TEST(machine_cpus_of_cgroups) {
    const char *root = test_dir();
    cpu_set_t old;
    REQUIRE(sched_getaffinity(0, sizeof old, &old) == 0);
    if (CPU_COUNT(&old) < 2) SKIP("needs two processors");
    int all = CPU_COUNT(&old);
    CHECK(machine_cpus_at(root) == all);

    put(root, "proc/self/cgroup", "0::/kubepods/pod\n");
    put(root, "sys/fs/cgroup/kubepods/pod/cpu.max", "max 100000\n");
    CHECK(machine_cpus_at(root) == all);
    put(root, "sys/fs/cgroup/kubepods/cpu.max", "50000 100000\n");
    CHECK(machine_cpus_at(root) == 1);
    put(root, "sys/fs/cgroup/kubepods/cpu.max", "100001 100000\n"); /* a little more than one: the second is worth it */
    CHECK(machine_cpus_at(root) == 2);
    put(root, "sys/fs/cgroup/kubepods/cpu.max", "6400000 100000\n");
    CHECK(machine_cpus_at(root) == MIN(all, 64));

    put(root, "proc/self/cgroup", "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    CHECK(machine_cpus_at(root) == all);
    put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "20000\n");
    put(root, "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "50000\n");
    CHECK(machine_cpus_at(root) == 1);
}

TEST(machine_memory_text) {
    char text[MEMORY_TEXT];
    CHECK(!strcmp(memory_text(1000, text), "1000 bytes"));
    CHECK(!strcmp(memory_text(1536, text), "1.5 KiB"));
    CHECK(!strcmp(memory_text((size_t)300 << 20, text), "300 MiB"));
    CHECK(!strcmp(memory_text((size_t)1 << 40, text), "1.0 TiB"));
}
