/* json_reader: reads one JSON object key by key. Every key that is taken leaves the object, so that what remains at
 * the end is unknown and can be named. The first failure sticks: later calls return their fallback and change nothing,
 * so a caller reads straight through and asks `failed` once. Messages name the key with its path and the value. */
#ifndef NOISED_JSON_READER_H
#define NOISED_JSON_READER_H

#include "base/err.h"
#include "base/json/json.h"

#include <limits.h>

enum { JSON_REQUIRED = INT_MIN }; /* as a fallback: the key must be there */

typedef struct JsonReader {
    cJSON *object;    /* borrowed or, after json_reader_enter, owned */
    const char *path; /* prepended to keys in messages: "" or "noise." */
    bool foreign;     /* another program's file: null means absent, unknown keys are its own business */
    bool failed;
    Err *err;
} JsonReader;

void json_reader_fail(JsonReader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The item, detached: the caller's to cJSON_Delete. NULL when absent. */
cJSON *json_take(JsonReader *r, const char *key);
int json_take_int(JsonReader *r, const char *key, int fallback);
int json_take_positive(JsonReader *r, const char *key, int fallback); /* 1 or more when it is there */
double json_take_number(JsonReader *r, const char *key, double fallback);
bool json_take_bool(JsonReader *r, const char *key, bool fallback);
/* Index into names[n]; the message lists them. */
int json_take_name(JsonReader *r, const char *key, const char *const *names, int n, int fallback);
/* out[size], NUL-terminated; a longer string is a failure. */
void json_take_string(JsonReader *r, const char *key, char *out, size_t size, const char *fallback);

/* Opens the object under key as `sub`: false when it is absent, null in a foreign file, or no object (a failure). */
bool json_reader_enter(JsonReader *r, JsonReader *sub, const char *key, const char *path);
void json_reader_leave(JsonReader *r, JsonReader *sub); /* ends and frees sub; its failure becomes r's */
void json_reader_end(JsonReader *r);                    /* fails when unknown keys are left */

#endif
