#include "trainer/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MIN_BAR = 8, MAX_BAR = 24, USUAL_WIDTH = 80, FIELD = 48 };
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

/* Of the terminal now: windows change. One column stays free, for a line that fills the last one wraps on some. */
static size_t room(void) {
    struct winsize w;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0;
    return (known ? w.ws_col : USUAL_WIDTH) - 1;
}

typedef enum Field { FIELD_STEP, FIELD_LOSS, FIELD_LR, FIELD_SPEED, FIELD_LEFT, FIELDS } Field;

/* The fields in a row, without the blanks in front. */
static size_t join(char line[FIELDS * FIELD], char fields[FIELDS][FIELD]) {
    size_t n = 0;
    for (int i = 0; i < FIELDS; i++) {
        const char *text = fields[i] + (n ? 0 : strspn(fields[i], " "));
        n += (size_t)sprintf(line + n, "%s", text);
    }
    return n;
}

/* One line whatever the width: what matters least goes first, the time left last. */
static void draw(char fields[FIELDS][FIELD], double done) {
    static const Field dispensable[] = {FIELD_SPEED, FIELD_LR, FIELD_LOSS, FIELD_STEP};
    char line[FIELDS * FIELD];
    size_t width = room(), used;
    for (size_t i = 0; (used = join(line, fields)) > width && i < COUNTOF(dispensable); i++)
        *fields[dispensable[i]] = 0;
    size_t bar = MIN(width - MIN(width, used + 3), (size_t)MAX_BAR), filled = (size_t)((double)bar * done);
    fputs("\r\033[K", stdout);
    if (bar >= MIN_BAR) {
        putchar('[');
        for (size_t i = 0; i < bar; i++) putchar(i < filled ? '#' : '.');
        fputs("] ", stdout);
    }
    printf("%.*s", (int)width, line);
}

void progress_step(Progress *p, int64_t step, double loss, double lr) {
    double now = now_seconds(), elapsed = now - p->started, done = (double)(step - p->first_step);
    bool edge = step == p->first_step + 1 || step == p->steps;
    if (!edge && now - p->shown < (p->terminal ? terminal_interval : plain_interval)) return;
    p->shown = now;
    double per_step = elapsed / done;
    char duration[32], fields[FIELDS][FIELD];
    print_duration(per_step * (double)(p->steps - step), duration);
    snprintf(fields[FIELD_STEP], FIELD, "step %lld/%lld", (long long)step, (long long)p->steps);
    snprintf(fields[FIELD_LOSS], FIELD, "  loss %.4f", loss);
    snprintf(fields[FIELD_LR], FIELD, "  lr %.2e", lr);
    snprintf(fields[FIELD_SPEED], FIELD, "  %.0f tokens/s", p->tokens_per_step / per_step);
    snprintf(fields[FIELD_LEFT], FIELD, "  %s left", duration);
    if (p->terminal)
        draw(fields, (double)step / (double)p->steps);
    else
        printf("%s%s%s%s%s\n", fields[FIELD_STEP], fields[FIELD_LOSS], fields[FIELD_LR], fields[FIELD_SPEED],
               fields[FIELD_LEFT]);
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
