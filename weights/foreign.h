/* foreign: what lies where a checkpoint was expected, for a message that helps. */
#ifndef NOISED_FOREIGN_H
#define NOISED_FOREIGN_H

#include "base/err.h"

/* When `path` is no folder with config.json and safetensors, but something that is known, err says what, what is read
 * and how to get there; -1 then. 0, and err as it was, when there is nothing to say. */
int foreign_explain(const char *path, Err *err);

#endif
