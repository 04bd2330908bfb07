/* runtime: what libgomp reads from the environment before main runs, set to what these programs want. */
#ifndef NOISED_RUNTIME_H
#define NOISED_RUNTIME_H

/* Call first in main. Where the user has not said otherwise, team members look for work for 0.1 to 0.5 ms before they
 * sleep (GOMP_SPINCOUNT=10000). By default they burn whole cores for milliseconds and starve every other thread; with
 * no wait at all, waking them for each of the many short loops of a decode step costs 40% of it. libgomp has read its
 * environment by now, so the program is started again, once. */
void runtime_tune(char **argv);

#endif
