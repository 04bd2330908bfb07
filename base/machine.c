#include "base/machine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `key` at the start of a line; false when there is none. */
static bool read_number(const char *path, const char *key, size_t *out) {
    char line[256], *end;
    bool found = false;
    FILE *f = fopen(path, "re");
    while (f && !found && fgets(line, sizeof line, f)) {
        size_t n = strlen(key);
        if (strncmp(line, key, n)) continue;
        unsigned long long v = strtoull(line + n, &end, 10);
        found = end != line + n; /* "max" is no number */
        if (found) *out = (size_t)v;
    }
    if (f) fclose(f);
    return found;
}

static bool number_in(const char *dir, const char *name, const char *key, size_t *out) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && (size_t)n < sizeof path && read_number(path, key, out);
}

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

static void narrow(MachineMemory *m, const CgroupNames *names, const char *dir) {
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

/* The cgroup and all above it. A container may see only its own at the mount, whatever its path is called outside. */
static void look_at_cgroups(MachineMemory *m, const char *root, const CgroupNames *names) {
    char path[PATH_MAX], line[PATH_MAX], dir[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *at = strstr(line, names->line);
        if (!at || (*names->line == '0' && at != line)) continue;
        at += strlen(names->line);
        at[strcspn(at, "\n")] = 0;
        for (char *slash;; *slash = 0) {
            snprintf(dir, sizeof dir, "%s%s%s", root, names->mount, at);
            narrow(m, names, dir);
            if (!(slash = strrchr(at, '/'))) break;
        }
    }
    if (f) fclose(f);
}

MachineMemory machine_memory_at(const char *root) {
    char path[PATH_MAX];
    size_t total = 0, available = 0, swap = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    bool known = read_number(path, "MemTotal:", &total) && read_number(path, "MemAvailable:", &available);
    read_number(path, "SwapFree:", &swap);
    MachineMemory m = {.total = known ? total << 10 : SIZE_MAX,
                       .available = known ? (available + swap) << 10 : SIZE_MAX};
    for (size_t i = 0; i < COUNTOF(versions); i++) look_at_cgroups(&m, root, &versions[i]);
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
