/* checkpoints: folders on disk for tests. */
#ifndef NOISED_TEST_CHECKPOINTS_H
#define NOISED_TEST_CHECKPOINTS_H

#include "../weights/checkpoint.h"

/* A small model with every kind of parameter: gated, biases, noise, SAS convolutions (three dimensions), NOBLE. */
Config test_checkpoint_config(void);
void test_path(char path[256], const char *dir, const char *name); /* dir/name */
/* Random weights of c, at step 7. */
void test_checkpoint_save(const char *dir, const Config *c, Dtype dtype);
/* Opening dir must fail with a message that holds `why`, or succeed when that is NULL; `what` is for the report. */
void test_checkpoint_open(const char *dir, const char *why, const char *what);

#endif
