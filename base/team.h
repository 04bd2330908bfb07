/* team: the OpenMP team as plain functions, so that code also builds without OpenMP (thread sanitizer builds). */
#ifndef NOISED_TEAM_H
#define NOISED_TEAM_H

#ifdef _OPENMP
#include <omp.h>
static inline int team_member(void) { return omp_get_thread_num(); }
static inline int team_size(void) { return omp_get_max_threads(); }
/* 0: as it is, all cores that this process may use (its affinity mask), or OMP_NUM_THREADS. */
static inline void team_resize(int n) {
    if (n > 0) omp_set_num_threads(n);
}
#else
static inline int team_member(void) { return 0; }
static inline int team_size(void) { return 1; }
static inline void team_resize(int n) { (void)n; }
#endif

#endif
