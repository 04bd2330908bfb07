#include "trainer/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24 };
static const double terminal_interval = 0.2, plain_interval = 10; /* seconds */

void progress_start(Progress *p, int64_t first_step, int64_t steps, double tokens_per_step) {
    *p = (Progress){.terminal = isatty(STDOUT_FILENO) == 1,
                    .first_step = first_step,
                    .steps = steps,
                    .tokens_per_step = tokens_per_step,
                    .started = now_seconds()};
}

static void print_duration(double seconds, char out[32]) {
    long s = (long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(out, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 32, "%ld:%02ld", s / 60, s % 60);
}

void progress_step(Progress *p, int64_t step, double loss, double lr) {
    double now = now_seconds(), elapsed = now - p->started, done = (double)(step - p->first_step);
    bool edge = step == p->first_step + 1 || step == p->steps;
    if (!edge && now - p->shown < (p->terminal ? terminal_interval : plain_interval)) return;
    p->shown = now;
    double per_step = elapsed / done;
    char left[32], bar[BAR + 1];
    print_duration(per_step * (double)(p->steps - step), left);
    int filled = (int)(BAR * step / p->steps);
    memset(bar, '#', (size_t)filled);
    memset(bar + filled, '.', (size_t)(BAR - filled));
    bar[BAR] = 0;
    if (p->terminal) printf("\r\033[K[%s] ", bar);
    printf("step %lld/%lld  loss %.4f  lr %.2e  %.0f tokens/s  %s left%s", (long long)step, (long long)p->steps, loss,
           lr, p->tokens_per_step / per_step, left, p->terminal ? "" : "\n");
    fflush(stdout);
}

void progress_note(const Progress *p, const char *fmt, ...) {
    va_list ap;
    if (p->terminal) fputs("\r\033[K", stdout);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    fflush(stdout);
}

void progress_end(const Progress *p) {
    if (p->terminal) putchar('\n');
    fflush(stdout);
}
