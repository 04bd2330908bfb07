/* runtime: what libgomp reads from the environment before main runs, set to what these programs want. */
#ifndef NOISED_RUNTIME_H
#define NOISED_RUNTIME_H

/* Call first in main. Where the user has not said otherwise, makes idle team members sleep (OMP_WAIT_POLICY=passive):
 * by default they burn whole cores between steps and starve every other thread. libgomp has read its environment by
 * now, so the program is started again, once. */
void runtime_tune(char **argv);

#endif
