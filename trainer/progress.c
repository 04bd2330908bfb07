#include "trainer/progress.h"

#include "base/bar.h"
#include "base/clock.h"

#include <math.h>
#include <stdarg.h>
#include <unistd.h>

static const double terminal_interval = 0.2, plain_interval = 10; /* seconds */

void progress_start(Progress *p, int64_t first_step, int64_t steps, double tokens_per_step) {
    *p = (Progress){.terminal = isatty(STDOUT_FILENO) == 1,
                    .first_step = first_step,
                    .steps = steps,
                    .tokens_per_step = tokens_per_step,
                    .started = now_seconds()};
}

/* Whether nothing was shown for a while before `now`, since `since` at the earliest. */
static bool is_time(const Progress *p, double since, double now) {
    return now - fmax(p->shown, since) >= (p->terminal ? terminal_interval : plain_interval);
}

/* done: of 0..1 */
static void show(Progress *p, double now, BarText *fields, int n, double done) {
    p->shown = now;
    if (p->terminal) bar_draw(stdout, fields, n, done);
    for (int i = 0; i < n && !p->terminal; i++) printf("%s%s", fields[i], i + 1 < n ? "" : "\n");
    fflush(stdout);
}

typedef enum Field { FIELD_STEP, FIELD_LOSS, FIELD_LR, FIELD_SPEED, FIELD_LEFT, FIELDS } Field;

void progress_step(Progress *p, int64_t step, double loss, double lr) {
    double now = now_seconds(), elapsed = now - p->started, done = (double)(step - p->first_step);
    bool edge = step == p->first_step + 1 || step == p->steps;
    if (!edge && !is_time(p, 0, now)) return;
    double per_step = elapsed / done;
    char duration[32];
    BarText fields[FIELDS];
    bar_duration(per_step * (double)(p->steps - step), duration);
    snprintf(fields[FIELD_STEP], BAR_TEXT, "step %lld/%lld", (long long)step, (long long)p->steps);
    snprintf(fields[FIELD_LOSS], BAR_TEXT, "  loss %.4f", loss);
    snprintf(fields[FIELD_LR], BAR_TEXT, "  lr %.2e", lr);
    snprintf(fields[FIELD_SPEED], BAR_TEXT, "  %.0f tokens/s", p->tokens_per_step / per_step);
    snprintf(fields[FIELD_LEFT], BAR_TEXT, "  %s left", duration);
    show(p, now, fields, FIELDS, (double)step / (double)p->steps);
}

void progress_evaluation(Progress *p, int64_t done, int64_t parts) {
    double now = now_seconds(), share = (double)done / (double)parts;
    if (done == 0) p->evaluating = now;
    if (!is_time(p, p->evaluating, now)) return;
    char duration[32];
    BarText fields[2];
    bar_duration((now - p->evaluating) / share * (1 - share), duration);
    snprintf(fields[0], BAR_TEXT, "evaluating %.0f%%", 100 * share);
    snprintf(fields[1], BAR_TEXT, "  %s left", duration);
    show(p, now, fields, COUNTOF(fields), share);
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
