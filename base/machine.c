#include "base/machine.h"

#include "base/text.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The numbers behind `key` at the start of a line, all `n` of them; false when they are not there. */
static bool read_numbers(const char *path, const char *key, size_t *out, int n) {
    char line[256];
    int found = 0;
    FILE *f = fopen(path, "re");
    while (f && found < n && fgets(line, sizeof line, f)) {
        if (!text_begins(line, key)) continue;
        for (char *at = line + strlen(key), *end; found < n; at = end) {
            unsigned long long v = strtoull(at, &end, 10);
            if (end == at) break; /* "max" is no number */
            out[found++] = (size_t)v;
        }
    }
    if (f) fclose(f);
    return found == n;
}

static bool numbers_in(const char *dir, const char *name, const char *key, size_t *out, int n) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", dir, name);
    return length > 0 && (size_t)length < sizeof path && read_numbers(path, key, out, n);
}

static bool number_in(const char *dir, const char *name, const char *key, size_t *out) {
    return numbers_in(dir, name, key, out, 1);
}

/* The cgroup of this process and all above it. `line` begins its line in /proc/self/cgroup, or with a colon follows the
 * number there; a container may see only its own at the mount, whatever its path is called outside. */
static void each_cgroup(const char *root, const char *line_key, const char *mount,
                        void (*look)(const char *dir, void *of), void *of) {
    char path[PATH_MAX], line[PATH_MAX], dir[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *at = strstr(line, line_key);
        if (!at || (*line_key == '0' && at != line)) continue;
        at += strlen(line_key);
        at[strcspn(at, "\n")] = 0;
        for (char *slash;; *slash = 0) {
            snprintf(dir, sizeof dir, "%s%s%s", root, mount, at);
            look(dir, of);
            if (!(slash = strrchr(at, '/'))) break;
        }
    }
    if (f) fclose(f);
}

/* ---- memory ---- */

/* What the two versions of cgroups call the same things. */
typedef struct CgroupNames {
    const char *line, *mount, *limit, *usage, *file_keys[2];
} CgroupNames;

static const CgroupNames versions[] = {
    {"0::", "/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file ", "active_file "}},
    {":memory:",
     "/sys/fs/cgroup/memory",
     "memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file ", "total_active_file "}},
};

static size_t minus(size_t a, size_t b) { return a > b ? a - b : 0; }

typedef struct Narrowing {
    MachineMemory *memory;
    const CgroupNames *names;
} Narrowing;

static void narrow_memory(const char *dir, void *of) {
    const Narrowing *by = of;
    MachineMemory *m = by->memory;
    const CgroupNames *names = by->names;
    size_t limit, usage = 0, files = 0, some;
    if (!number_in(dir, names->limit, "", &limit)) return;
    number_in(dir, names->usage, "", &usage);
    for (size_t i = 0; i < COUNTOF(names->file_keys); i++)
        if (number_in(dir, "memory.stat", names->file_keys[i], &some)) files += some;
    size_t available = minus(limit, minus(usage, files));
    m->total = MIN(m->total, limit);
    m->cgroup = m->cgroup || available < m->available;
    m->available = MIN(m->available, available);
}

MachineMemory machine_memory_at(const char *root) {
    char path[PATH_MAX];
    size_t total = 0, available = 0, swap = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    bool known = read_numbers(path, "MemTotal:", &total, 1) && read_numbers(path, "MemAvailable:", &available, 1);
    read_numbers(path, "SwapFree:", &swap, 1);
    MachineMemory m = {.total = known ? total << 10 : SIZE_MAX,
                       .available = known ? (available + swap) << 10 : SIZE_MAX};
    for (size_t i = 0; i < COUNTOF(versions); i++) {
        Narrowing by = {&m, &versions[i]};
        each_cgroup(root, versions[i].line, versions[i].mount, narrow_memory, &by);
    }
    return m;
}

MachineMemory machine_memory(void) { return machine_memory_at(""); }

const char *memory_text(size_t bytes, char out[MEMORY_TEXT]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes / 1024;
    size_t unit = 0;
    for (; x >= 1000 && unit + 1 < COUNTOF(units); unit++) x /= 1024;
    if (bytes < 1024)
        snprintf(out, MEMORY_TEXT, "%zu bytes", bytes);
    else
        snprintf(out, MEMORY_TEXT, x < 10 ? "%.1f %s" : "%.0f %s", x, units[unit]);
    return out;
}

int memory_check(size_t need, const char *what, const char *advice, Err *err) {
    char needed[MEMORY_TEXT], left[MEMORY_TEXT];
    MachineMemory m = machine_memory();
    if (need <= m.available) return 0;
    return err_set(err, "%s needs %s of memory, %s has %s left: %s", what, memory_text(need, needed),
                   m.cgroup ? "the cgroup" : "the machine", memory_text(m.available, left), advice);
}

/* ---- processors ---- */

/* Microseconds in a period of so many: both in one file (v2), or each in its own (v1, where -1, the largest number
 * there is, sets no limit). */
static void narrow_cpus(const char *dir, void *of) {
    size_t grant[2], *cpus = of;
    if (!numbers_in(dir, "cpu.max", "", grant, 2) &&
        (!number_in(dir, "cpu.cfs_quota_us", "", &grant[0]) || !number_in(dir, "cpu.cfs_period_us", "", &grant[1])))
        return;
    if (grant[1] > 0) *cpus = MIN(*cpus, MAX(1, grant[0] / grant[1] + (grant[0] % grant[1] > 0)));
}

int machine_cpus_at(const char *root) {
    cpu_set_t mask;
    size_t cpus = (size_t)(sched_getaffinity(0, sizeof mask, &mask) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&mask));
    each_cgroup(root, "0::", "/sys/fs/cgroup", narrow_cpus, &cpus);
    each_cgroup(root, ":cpu:", "/sys/fs/cgroup/cpu", narrow_cpus, &cpus);
    each_cgroup(root, ":cpu,cpuacct:", "/sys/fs/cgroup/cpu,cpuacct", narrow_cpus, &cpus);
    return (int)cpus;
}

int machine_cpus(void) { return machine_cpus_at(""); }
