/* test_finetune: what tests of finetune share: a small text with labels, and the program on it. */
#ifndef NOISED_TEST_FINETUNE_H
#define NOISED_TEST_FINETUNE_H

#include "tests/trainer/test_trainer.h"

/* A fresh folder with train.jsonl, train.conll and dev.jsonl: a text is about stones or books, which the label says. */
const char *finetune_data(void);

/* noised-train, where %D is the folder and %M a small model. */
ChildResult finetune_child(const char *dir, const char *args);
/* The same; the test fails unless it ends so and says that. */
void finetune_check(const char *dir, const char *args, int status, const char *says);

#endif
