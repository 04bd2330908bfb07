/* json_look: looks into a JSON tree without taking it apart, where json_reader would copy too much; messages name the
 * value that was found. */
#ifndef NOISED_JSON_LOOK_H
#define NOISED_JSON_LOOK_H

#include "base/err.h"

#include <cjson/cJSON.h>

/* A value as it stands in a message: clipped text of a scalar, printable, else its kind. */
typedef struct Shown {
    char text[96];
} Shown;
Shown show_json(const cJSON *v); /* NULL: "missing" */
Shown show_text(const char *data, size_t n);

/* o[name]; NULL when absent. o may be no object. */
const cJSON *json_field(const cJSON *o, const char *name);
bool json_is_text(const cJSON *v, const char *text);
bool json_is_null(const cJSON *v); /* null or absent */

/* o is an object whose keys are among `known` (separated by spaces). */
int json_check_keys(const cJSON *o, const char *where, const char *known, Err *err);
/* o[name] is a boolean; absent is `absent` (0, 1), or refused when that is -1. */
int json_get_bool(const cJSON *o, const char *where, const char *name, int absent, bool *out, Err *err);

#endif
