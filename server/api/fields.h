/* api_fields: a JSON object read by a table of its legal fields, one row each. What the table does not name, has the
 * wrong type or lies outside the range is an error that names the field; null means absent. */
#ifndef NOISED_API_FIELDS_H
#define NOISED_API_FIELDS_H

#include "base/json.h"
#include "server/api/error.h"

typedef struct OptionalSeed {
    bool given;
    uint64_t value;
} OptionalSeed;

typedef enum FieldKind { FIELD_INT, FIELD_FLOAT, FIELD_BOOL, FIELD_SEED, FIELD_TEXT, FIELD_OTHER } FieldKind;

typedef struct FieldReader {
    const char *name;    /* of the field being read */
    void *out;           /* the struct being filled */
    const void *context; /* whatever the FIELD_OTHER readers need */
    ApiError *error;
} FieldReader;

typedef struct Field {
    const char *name;
    FieldKind kind;
    size_t offset;    /* in out: int, float, bool, OptionalSeed, const char * (borrowed from the JSON) */
    double low, high; /* FIELD_INT and FIELD_FLOAT, both inclusive */
    int (*read)(const FieldReader *r, const cJSON *item); /* FIELD_OTHER */
} Field;

int fields_read(FieldReader *r, const cJSON *object, const Field *fields, size_t n_fields);

/* "stop must be <what>, not <the value>". */
int field_fail(const FieldReader *r, const cJSON *item, const char *what);

/* The body of a request as a JSON object; NULL with e filled otherwise. The caller frees. */
cJSON *fields_parse_body(const char *body, size_t n, int max_depth, int max_values, ApiError *e);

#endif
