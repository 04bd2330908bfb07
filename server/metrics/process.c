#include "server/metrics/print.h"

#include "base/clock.h"
#include "base/err.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

static void print_memory(Buffer *b) {
    size_t total, resident, page = (size_t)sysconf(_SC_PAGESIZE);
    FILE *f = fopen("/proc/self/statm", "re");
    bool known = f && fscanf(f, "%zu %zu", &total, &resident) == 2;
    if (f) fclose(f);
    if (!known) return;
    print_alone(b, "process_virtual_memory_bytes", "gauge", "Virtual memory size.", (double)(total * page));
    print_alone(b, "process_resident_memory_bytes", "gauge", "Resident memory size, pages of mapped files included.",
                (double)(resident * page));
}

static void print_descriptors(Buffer *b) {
    struct rlimit most;
    int n = -3; /* ".", ".." and the descriptor that reads them */
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) n++;
    if (dir) {
        closedir(dir);
        print_alone(b, "process_open_fds", "gauge", "Open file descriptors.", n);
    }
    if (getrlimit(RLIMIT_NOFILE, &most) == 0)
        print_alone(b, "process_max_fds", "gauge", "File descriptors that may be open.", (double)most.rlim_cur);
}

void print_process(Buffer *b, double started) {
    print_alone(b, "process_cpu_seconds_total", "counter", "Processor time, of all threads.", process_seconds());
    print_memory(b);
    print_descriptors(b);
    print_alone(b, "process_start_time_seconds", "gauge", "When the process started, in seconds since 1970.", started);
}
