/* json_reader: how a tree of cJSON is read, item by item or an object key by key. Messages name the key with its path,
 * and the value. */
#ifndef NOISED_JSON_READER_H
#define NOISED_JSON_READER_H

#include "base/err.h"
#include "base/json/json.h"

#include <limits.h>

/* ---- items ---- */

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

/* ---- objects ---- */

enum { JSON_REQUIRED = INT_MIN }; /* as a fallback: the key must be there */

/* The first failure sticks: later calls return their fallback, so a caller reads straight through and asks `failed`
 * once. Keys that are taken are marked in the tree, so that those which nobody took can be named at the end. */
typedef struct JsonReader {
    const cJSON *object; /* borrowed */
    const char *path;    /* its own, in messages; "": the whole file */
    bool foreign;        /* another program's file: null means absent, unknown keys are its own business */
    bool failed;
    Err *err;
} JsonReader;

void json_reader_fail(JsonReader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* False, and a failure, unless it is an object whose keys are among `known` (separated by spaces). */
bool json_reader_knows(JsonReader *r, const char *known);

const cJSON *json_take(JsonReader *r, const char *key); /* NULL when absent */
bool json_is_taken(const cJSON *item);
int json_take_int(JsonReader *r, const char *key, int fallback);
int json_take_positive(JsonReader *r, const char *key, int fallback); /* 1 or more when it is there */
double json_take_number(JsonReader *r, const char *key, double fallback);
bool json_take_bool(JsonReader *r, const char *key, int fallback); /* false, true or JSON_REQUIRED */
/* Index into names[n]; the message lists them. */
int json_take_name(JsonReader *r, const char *key, const char *const *names, int n, int fallback);
/* out[size], NUL-terminated; a longer string is a failure. */
void json_take_string(JsonReader *r, const char *key, char *out, size_t size, const char *fallback);

/* Opens the object under key as `sub`: false when it is absent, null in a foreign file, or no object (a failure). */
bool json_reader_enter(JsonReader *r, JsonReader *sub, const char *key);
void json_reader_leave(JsonReader *r, JsonReader *sub); /* ends sub; its failure becomes r's */
void json_reader_end(JsonReader *r);                    /* fails when keys are left that nobody took */

#endif
