/* config_check: which configs are those of a network. */
#ifndef NOISED_CONFIG_CHECK_H
#define NOISED_CONFIG_CHECK_H

#include "base/err.h"
#include "model/config.h"

/* Every range and every combination rule of docs/spec.md 2.1; the message names the key and both values. Sizes are
 * bounded so that no product of two dimensions overflows an int. */
int config_check(const Config *c, Err *err);

#endif
