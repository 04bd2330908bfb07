/* test_tools: a daemon whose model has room for tools. */
#ifndef NOISED_TEST_TOOLS_H
#define NOISED_TEST_TOOLS_H

#include "tests/support/daemon.h"

bool tools_start(Daemon *d, const char *template); /* daemon_stop ends it */

#endif
