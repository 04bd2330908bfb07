#include "trainer/schedule.h"

#include "base/fixed_math.h"

#include <math.h>

double schedule_lr(const Schedule *c, int64_t step) {
    if (step < c->warmup) return c->lr * (double)(step + 1) / (double)c->warmup;
    int64_t span = c->decay - 1 - c->warmup;
    double done = span > 0 ? fmin(1, (double)(step - c->warmup) / (double)span) : step >= c->decay;
    switch (c->kind) {
    case SCHEDULE_COSINE:
        return c->min_lr + (c->lr - c->min_lr) * 0.5 * (1 + fixed_cos(3.141592653589793 * done));
    case SCHEDULE_LINEAR:
        return c->min_lr + (c->lr - c->min_lr) * (1 - done);
    case SCHEDULE_CONSTANT:
        break;
    }
    return c->lr;
}
