/* clock: monotonic time. */
#ifndef NOISED_CLOCK_H
#define NOISED_CLOCK_H

double now_seconds(void); /* monotonic */

#endif
