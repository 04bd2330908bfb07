/* omp_env: what these programs want of libgomp and of the kernel, most of it before anything else happens.
 *
 * A loop of one thread, be it that team_pays says no or that the team is one, is a plain call here. libgomp would make
 * a team for it and, where the last one had another size, forget that: 1.4 us, ten times in a layer of a token, where
 * the loop itself takes less. */
#ifndef NOISED_RUNTIME_H
#define NOISED_RUNTIME_H

/* Call first in main. Where the user has not said otherwise, team members look for work for 20 to 80 us before they
 * sleep (GOMP_SPINCOUNT=2000). With no wait, waking them for each of the many short loops of a decode step costs 40% of
 * it. By default they burn whole cores for milliseconds and starve every other thread; on cores that other programs use
 * too, any long wait is for somebody who is not running. A cgroup's quota of processor time, which libgomp does not
 * know, bounds the team (OMP_NUM_THREADS): a larger one is stopped in the middle of every period. libgomp has read its
 * environment by now, so the program is started again, once.
 * SIGUSR1 and SIGUSR2, which mean nothing to us, are ignored: their default is to kill. */
void runtime_tune(char **argv);

#endif
