/* Shared by tests/model/test_config*.c. */
#ifndef NOISED_TEST_CONFIG_H
#define NOISED_TEST_CONFIG_H

#include "tests/support/test.h"

/* text with its one occurrence of `from` replaced. */
char *config_with(const char *text, const char *from, const char *to);

typedef struct Change {
    const char *from, *to, *why; /* why: what the message must hold; NULL: must be accepted */
} Change;

void check_changes(const char *text, const Change *changes, size_t n);

#endif
