/* clock: monotonic time, and what waits by it. */
#ifndef NOISED_CLOCK_H
#define NOISED_CLOCK_H

#include <pthread.h>
#include <time.h>

double now_seconds(void);     /* monotonic */
double unix_seconds(void);    /* since 1970; may jump */
double process_seconds(void); /* of processors, all threads of the process together */
double thread_seconds(void);  /* of the processor, this thread alone */

void clock_sleep(double seconds); /* whatever signals come meanwhile */

struct timespec clock_timespec(double seconds); /* not below 0 */

/* A condition that is waited for until a time of now_seconds. clock_wait returns 0, or ETIMEDOUT once that is past. */
void clock_cond_init(pthread_cond_t *c);
int clock_wait(pthread_cond_t *c, pthread_mutex_t *held, double until);

#endif
