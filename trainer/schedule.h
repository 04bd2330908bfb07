/* schedule: the learning rate of every step, a pure function. */
#ifndef NOISED_SCHEDULE_H
#define NOISED_SCHEDULE_H

#include <stdint.h>

typedef enum ScheduleKind { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT } ScheduleKind;

typedef struct Schedule {
    ScheduleKind kind;
    double lr, min_lr;
    int64_t warmup, decay; /* steps of the rise; of rise and fall together */
} Schedule;

/* Step s counts from 0: lr (s + 1) / warmup while s < warmup, then from lr down to min_lr, which step decay - 1
 * and those behind it use; where it is step warmup, that has lr. Constant stays at lr. */
double schedule_lr(const Schedule *c, int64_t step);

#endif
