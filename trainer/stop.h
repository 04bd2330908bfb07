/* stop: SIGINT, SIGTERM and a terminal that closes (SIGHUP, unless it is ignored) as a request to finish. The second
 * signal of a kind ends the process at once, which is safe: every file is written so that a kill at any moment leaves a
 * run that can be resumed. */
#ifndef NOISED_STOP_H
#define NOISED_STOP_H

void stop_install(void);
int stop_signal(void); /* 0, or the signal that came */

#endif
